"""Arrow files that say what they are: of which stage, under which name, in which format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.ipc as ipc

from headgate.incremental.state.errors import DamagedState, NewerState
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.rows import HASH, hash_array

BATCH_ROWS = 1 << 20
"""Rows of a batch: a look-up of many keys pays for each batch, so there should be few."""
BATCH_BYTES = 1 << 25
"""Bytes of a batch of wide rows: merging has one of each run in memory."""
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
    labels = {_STAGE_KEY: stage, _FILE_KEY: name, _FORMAT_KEY: str(_FORMAT)}
    hashed = schema.get_field_index(HASH) >= 0
    rows, marks, last = 0, [], -1
    with store.writing(name) as sink:
        with ipc.new_file(sink, schema.with_metadata(labels)) as writer:
            for batch in bounded(batches):
                writer.write_batch(batch)
                rows += batch.num_rows
                if hashed:
                    hashes = hash_array(batch)
                    marks.append(int(hashes[0]))
                    last = int(hashes[-1])
        first = marks[0] if marks else 0
        return FileRef(name, sink.length, sink.checksum, rows, first, last, tuple(marks))


def bounded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches that are neither too large nor, but for the last, small."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in _pieces(batches):
        if waiting and (rows + batch.num_rows > BATCH_ROWS or size + batch.nbytes > BATCH_BYTES):
            yield one_batch(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if waiting:
        yield one_batch(waiting)


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows > 1 and (batch.num_rows > BATCH_ROWS or batch.nbytes > BATCH_BYTES):
            half = batch.num_rows // 2
            yield from _pieces((batch.slice(0, half), batch.slice(half)))
        elif batch.num_rows:
            yield batch


def one_batch(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of one or more batches as one batch."""
    if len(batches) == 1:
        return batches[0]
    [whole] = pa.Table.from_batches(batches).combine_chunks().to_batches() or [batches[0]]
    return whole


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
        try:
            self._reader = ipc.open_file(store.open(ref))
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
            whose = labels.get(_STAGE_KEY, b"").decode(errors="replace")
            raise DamagedState(self._path, f"is of the stage {whose!r} instead of {stage!r}")
        if labels.get(_FILE_KEY) != self.ref.name.encode():
            which = labels.get(_FILE_KEY, b"").decode(errors="replace")
            raise DamagedState(self._path, f"has the content of {which!r}")
        if self.ref.marks and self._reader.num_record_batches != len(self.ref.marks):
            wrong = f"has {self._reader.num_record_batches} batches instead of "
            raise DamagedState(self._path, f"{wrong}the manifest's {len(self.ref.marks)}")

    def batch(self, number: int) -> pa.RecordBatch:
        """Return a batch; mapped where the file is.

        Raises:
            DamagedState: what is in its place is no batch.
        """
        try:
            batch = self._reader.get_batch(number).replace_schema_metadata(None)
            batch.validate()
        except (pa.ArrowException, OSError) as error:
            raise DamagedState(self._path, f"cannot be read ({error})") from error
        return batch

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all batches, after the whole content was checked.

        Raises:
            DamagedState: the file was altered.
        """
        self.verify()
        for number in range(self._reader.num_record_batches):
            yield self.batch(number)

    def verify(self) -> None:
        """Check the whole content.

        Raises:
            DamagedState: the file was altered.
        """
        self._store.verify(self.ref)
