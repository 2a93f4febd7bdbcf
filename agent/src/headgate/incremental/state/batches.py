"""Arrow files that say what they are: of which stage, under which name, in which format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType

import pyarrow as pa
import pyarrow.ipc as ipc

from headgate.incremental.state.errors import DamagedState, NewerState
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.rows import HASH, hash_array

BATCH_ROWS = 1 << 20
"""Rows of a batch: a look-up of many keys pays for each batch, so there should be few."""
BATCH_BYTES = 1 << 26
"""Bytes of a batch of wide rows: merging has at most one of each run in memory."""
PLAIN_BYTES = 1 << 24
"""Bytes of a batch of rows without hashes: nothing is looked up in it, and there may be hundreds of
files that are written at a time, one for each framing key."""
PORTION_ROWS = 1 << 16
"""Rows of a portion, in which a group is read that may be larger than memory."""
PORTION_BYTES = 1 << 23
"""Bytes of a portion: several are in memory at a time, of each flow and of each run."""
_SMALL_BYTES = 1 << 22
"""Bytes of a file that is had whole at once: those of the runs of most epochs."""
_FORMAT = 1
_STAGE_KEY = b"headgate.stage"
_FILE_KEY = b"headgate.file"
_FORMAT_KEY = b"headgate.format"


def write_batches(
    store: FileStore, name: str, stage: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> FileRef:
    """Write rows to a new file, uncompressed, batch by batch, and return what to know it by.

    Args:
        store: where it goes.
        name: of the file, which no file has yet.
        stage: whose it is.
        schema: of the rows. If they have hashes, they are sorted by them.
        batches: of any size; written in batches of at most ``BATCH_ROWS`` and about
            ``BATCH_BYTES``.

    Raises:
        UnwrittenFile: the file could not be written, or there is one of that name.
    """
    with BatchWriter(store, name, stage, schema) as writer:
        for batch in batches:
            writer.write(batch)
    return writer.ref


class BatchWriter:
    """A new file that rows are written to as they come, uncompressed, within a ``with`` block.

    If the block fails, nothing is left of the file.

    Args:
        store: where it goes.
        name: of the file, which no file has yet.
        stage: whose it is.
        schema: of the rows. If they have hashes, they come sorted by them.
    """

    def __init__(self, store: FileStore, name: str, stage: str, schema: pa.Schema) -> None:
        labels = {_STAGE_KEY: stage, _FILE_KEY: name, _FORMAT_KEY: str(_FORMAT)}
        self._store = store
        self._name = name
        self._schema = schema.with_metadata(labels)
        self._hashed = schema.get_field_index(HASH) >= 0
        self._waiting: list[pa.RecordBatch] = []
        self._size = 0
        self._rows = 0
        self._marks: list[int] = []
        self._last = -1
        self._ref: FileRef | None = None

    def __enter__(self) -> BatchWriter:
        with ExitStack() as opening:
            self._sink = opening.enter_context(self._store.writing(self._name))
            self._file = ipc.new_file(self._sink, self._schema)
            self._open = opening.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._open.__exit__(kind, error, trace)
            return
        with self._open:
            self._write_waiting()
            self._file.close()
            first = self._marks[0] if self._marks else 0
            self._ref = FileRef(
                self._name,
                self._sink.length,
                self._sink.checksum,
                self._rows,
                first,
                self._last,
                tuple(self._marks),
            )

    @property
    def ref(self) -> FileRef:
        """What to know the file by, once the block has ended."""
        assert self._ref is not None  # noqa: S101 - the caller's order
        return self._ref

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; batches in the file are neither too large nor, but for the last, small."""
        most = BATCH_BYTES if self._hashed else PLAIN_BYTES
        for piece in _pieces((batch,), BATCH_ROWS, most):
            rows = sum(part.num_rows for part in self._waiting) + piece.num_rows
            if rows > BATCH_ROWS or self._size + piece.nbytes > most:
                self._write_waiting()
            self._waiting.append(piece)
            self._size += piece.nbytes

    def _write_waiting(self) -> None:
        if not self._waiting:
            return
        batch = one_batch(self._waiting)
        self._waiting, self._size = [], 0
        self._file.write_batch(batch)
        self._rows += batch.num_rows
        if self._hashed:
            hashes = hash_array(batch)
            self._marks.append(int(hashes[0]))
            self._last = int(hashes[-1])


def portions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows in batches of ``PORTION_ROWS`` and about ``PORTION_BYTES`` at most, uncopied."""
    return _pieces(batches, PORTION_ROWS, PORTION_BYTES)


def _pieces(batches: Iterable[pa.RecordBatch], rows: int, size: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows > 1 and (batch.num_rows > rows or batch.nbytes > size):
            half = batch.num_rows // 2
            yield from _pieces((batch.slice(0, half), batch.slice(half)), rows, size)
        elif batch.num_rows:
            yield batch


def one_batch(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of one or more batches as one batch."""
    if len(batches) == 1:
        return batches[0]
    [whole] = pa.Table.from_batches(batches).combine_chunks().to_batches() or [batches[0]]
    return whole


def with_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the columns of a schema: null where they have none of that name."""
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def only_adds(before: pa.Schema, now: pa.Schema) -> bool:
    """Return whether a schema has all columns of an earlier one, and others that may be null."""
    new = [field for field in now if field.name not in before.names]
    old = pa.schema([field for field in now if field.name in before.names])
    return old.equals(before) and all(field.nullable for field in new)


class BatchFile:
    """An Arrow file that was opened and is what it should be.

    Args:
        store: where it is.
        ref: what the manifest says of it.
        stage: whose it should be.

    Raises:
        DamagedState: it is missing, cut short, no Arrow file, or of something else.
        NewerState: a newer program wrote it.
    """

    def __init__(self, store: FileStore, ref: FileRef, stage: str) -> None:
        self._store = store
        self.ref = ref
        self._path = store.path(ref.name)
        file = store.open(ref)
        self.is_mapped = isinstance(file, pa.MemoryMappedFile)
        """Whether what is read of it is the kernel's, which takes it back when it needs room."""
        self._mapped: dict[int, pa.RecordBatch] = {}
        try:
            # Out of memory it is opened in a twentieth of the time; to ask for all of a large file
            # would have the kernel read it.
            small = self.is_mapped and ref.length <= _SMALL_BYTES
            self._reader = ipc.open_file(file.read_buffer() if small else file)
        except (pa.ArrowException, OSError) as error:
            raise DamagedState(self._path, f"is no Arrow file ({error})") from error
        self._check(self._reader.schema.metadata or {}, stage)
        self.schema: pa.Schema = self._reader.schema.remove_metadata()
        """Of the rows."""

    def _check(self, labels: dict[bytes, bytes], stage: str) -> None:
        version = labels.get(_FORMAT_KEY, b"")
        if not version.isdigit():
            raise DamagedState(self._path, "is no file of a stage")
        if int(version) > _FORMAT:
            message = (
                f"{self._path} is of format {int(version)} and this program reads {_FORMAT} at "
                "most; upgrade it, or rebuild the stage"
            )
            raise NewerState(message)
        if labels.get(_STAGE_KEY) != stage.encode():
            whose = labels.get(_STAGE_KEY, b"").decode(errors="backslashreplace")
            raise DamagedState(self._path, f"is of the stage {whose!r} instead of {stage!r}")
        if labels.get(_FILE_KEY) != self.ref.name.encode():
            which = labels.get(_FILE_KEY, b"").decode(errors="backslashreplace")
            raise DamagedState(self._path, f"has the content of {which!r}")
        if self.ref.marks and self.count != len(self.ref.marks):
            wrong = f"has {self.count} batches instead of "
            raise DamagedState(self._path, f"{wrong}the manifest's {len(self.ref.marks)}")

    @property
    def count(self) -> int:
        """How many batches it has."""
        return int(self._reader.num_record_batches)

    def batch(self, number: int) -> pa.RecordBatch:
        """Return a batch, by its number from 0; mapped where the file is.

        Raises:
            DamagedState: what is in its place is no batch.
        """
        known = self._mapped.get(number)
        if known is not None:
            return known
        try:
            batch = self._reader.get_batch(number).replace_schema_metadata(None)
            batch.validate()
        except (pa.ArrowException, OSError) as error:
            raise DamagedState(self._path, f"cannot be read ({error})") from error
        if self.is_mapped:
            self._mapped[number] = batch
        return batch

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all batches, after the whole content was checked.

        Raises:
            DamagedState: the file was altered.
        """
        self.verify()
        for number in range(self.count):
            yield self.batch(number)

    def verify(self) -> None:
        """Check the whole content.

        Raises:
            DamagedState: the file was altered.
        """
        self._store.verify(self.ref)
