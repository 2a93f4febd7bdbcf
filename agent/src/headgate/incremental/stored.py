"""The state of a stage as people read it: rows with their keys, and whether its files are whole.

It is read where it is, without an agent; nothing is ever written. What is read belongs together,
as one manifest names all of it, and no file of it changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

from headgate.incremental.state.batches import BatchFile
from headgate.incremental.state.buckets import bucket_numbers
from headgate.incremental.state.errors import DamagedState, StateError
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.hashing import hashes
from headgate.incremental.state.keys import Key, key_bytes, key_type, key_value
from headgate.incremental.state.manifest import BucketState, Manifest, read_manifest
from headgate.incremental.state.names import folder, is_manifest
from headgate.incremental.state.readers import BucketReader
from headgate.incremental.state.rows import (
    DELETED,
    HASH,
    KEY,
    ORDER,
    check_sorted,
    hash_array,
    state_schema,
)
from headgate.incremental.state.runs import Run

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from headgate.incremental.stages.carried import Task

GROUP_KEY: Final = "_key"
"""The column of a state's rows that says of which group they are."""
_STATE: Final = "state"
_PIECE: Final = 50_000
"""Rows: some tens of megabytes as values of Python, which keys and JSON have to be."""


class NoState(StateError):
    """A place in which a stage has no state."""


class DamagedFile(Struct, frozen=True):
    """A file of a state that is not what its manifest says."""

    file: str
    wrong: str


def stage_name(dataflow: str, action: str) -> str:
    """Return the name by which the files of a stage are known."""
    return f"{dataflow}/{action}"


class StoredState:
    """The state of a stage after one epoch.

    Args:
        location: where the stages of its dataflow keep their files: a path, or a URI.
        dataflow: its name.
        action: the stage's.
        manifest: which epoch: the name that the run's commit has, as ``headgate stage show`` shows
            it. Where it is not given, the newest that is there, which an attempt may have written
            that never committed: the ledger alone knows.

    Raises:
        NoState: there is no manifest of the stage.
        DamagedState: the manifest is missing, cut short, altered, or of something else.
        NewerState: a newer program wrote it.

    Attributes:
        manifest: what it says.
        name: that of its file.
    """

    def __init__(self, location: str, dataflow: str, action: str, manifest: str = "") -> None:
        self._store = FileStore.at(location)
        self._stage = stage_name(dataflow, action)
        self._place = (location, dataflow, action)
        self.name = manifest or self._newest()
        self.manifest: Manifest = read_manifest(self._store, self.name)
        if self.manifest.stage != self._stage:
            wrong = f"is of the stage {self.manifest.stage!r} instead of {self._stage!r}"
            raise DamagedState(self._store.path(self.name), wrong)

    def _newest(self) -> str:
        names = self._store.names(folder(self._stage))
        times = {name: self._store.modified(name) for name in names if is_manifest(name)}
        if not times:
            message = f"{self._store.path(folder(self._stage))} has no state of `{self._stage}`"
            raise NoState(message)
        return max(times, key=lambda name: (times[name], name))

    def at(self, manifest: str) -> StoredState:
        """Return another state of the stage.

        Raises:
            DamagedState: the manifest is missing, cut short, altered, or of something else.
            NewerState: a newer program wrote it.
        """
        return StoredState(*self._place, manifest)

    @property
    def written(self) -> float:
        """When its manifest was written, in Unix seconds."""
        return self._store.modified(self.name) / 1e9

    @property
    def columns(self) -> pa.Schema:
        """The stage's own columns; none where it has no state."""
        serialised = self.manifest.schemas.get(_STATE)
        if serialised is None:
            return pa.schema([])
        stored = pa.ipc.read_schema(pa.py_buffer(serialised))
        own = [field for field in stored if field.name not in (HASH, KEY, ORDER, DELETED)]
        return pa.schema(own)

    # -- rows

    def arrow(self, keys: Iterable[Key] = (), limit: int | None = None) -> pa.Table:
        """Return rows, those of a group together, in no order that means anything.

        Args:
            keys: the groups; all where none is given.
            limit: rows at most; all, which have to be in memory then, where None.

        Returns:
            ``_key`` and the stage's own columns. ``_key`` is of the keys' type; where they are of
            several, or are tuples, text as Python writes it.

        Raises:
            DamagedState: a file is not what it was.
            UnusableKey: a key is none.
        """
        wanted = list(keys)
        if not wanted:
            return pa.concat_tables(_first(self.pieces(), limit))
        found = list(self._found({key_bytes(key) for key in wanted}))
        kind = key_type(batch.column(KEY) for batch in found)
        rows = self._piece(found, kind)
        return rows if limit is None else rows.slice(0, limit)

    def pieces(self) -> Iterator[pa.Table]:
        """Yield the same rows as ``arrow`` without keys, at most ``_PIECE`` at once.

        So a state that is larger than memory is read. All have one schema; to know it, the keys of
        all files are looked at first. The first has no rows.
        """
        kind = key_type(self._file_keys())
        yield self._piece([], kind)
        schema = state_schema(self.columns)
        for bucket in self.manifest.buckets:
            for batch in self._reader(bucket).everything():
                rows = batch.select(schema.names).cast(schema)
                for first in range(0, rows.num_rows, _PIECE):
                    yield self._piece([rows.slice(first, _PIECE)], kind)

    def _file_keys(self) -> Iterator[pa.Array]:
        for bucket in self.manifest.buckets:
            for ref in bucket.files:
                file = BatchFile(self._store, ref, self._stage)
                for number in range(file.count):
                    yield file.batch(number).column(KEY)

    def _piece(self, batches: Sequence[pa.RecordBatch], kind: pa.DataType | None) -> pa.Table:
        rows = pa.Table.from_batches(batches, state_schema(self.columns))
        return _with_keys(rows, _key_column(rows.column(KEY).to_pylist(), kind))

    def pandas(self, keys: Iterable[Key] = (), limit: int | None = None) -> pd.DataFrame:
        """Return the same as ``arrow`` as a frame of pandas."""
        return self.arrow(keys, limit).to_pandas()

    def spark(self, spark: SparkSession) -> DataFrame:
        """Return all rows as a frame of Spark, whose tasks read a bucket each.

        ``_key`` is text as Python writes it, for nobody has looked at all keys. Executors have to
        reach the location, and to have headgate.
        """
        from headgate.incremental.stages.carried import in_spark_types

        schema = pa.schema([pa.field(GROUP_KEY, pa.string()), *self.columns])
        count = len(self.manifest.buckets)
        numbers = spark.range(0, count, 1, count)
        read = partial(_rows_of_buckets, state=self)
        cast, columns = in_spark_types(schema)
        return numbers.mapInArrow(partial(_cast_rows, read=read, cast=cast), columns)

    def _reader(self, bucket: BucketState) -> BucketReader:
        runs = [Run(self._store, ref, self._stage) for ref in bucket.files]
        return BucketReader(
            runs, self.manifest.match, bucket.bucket, None if runs else state_schema(self.columns)
        )

    def rows_of(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a bucket, by its number, with ``_key`` as text."""
        for batch in self._reader(self.manifest.buckets[number]).everything():
            rows = pa.Table.from_batches([batch])
            yield from _with_keys(rows, _key_column(rows.column(KEY).to_pylist())).to_batches()

    def drawn_keys(self, count: int, random: np.random.Generator) -> set[bytes]:
        """Return the canonical keys of rows drawn from all files; of all where these are fewer.

        What was drawn may be gone: rows that newer ones hide are drawn, too.
        """
        refs = [ref for bucket in self.manifest.buckets for ref in bucket.files]
        ends = np.cumsum([0, *(ref.rows for ref in refs)])
        every = int(ends[-1])
        places = np.arange(every)
        if every > count:
            places = np.unique(random.integers(every, size=count))
        found: set[bytes] = set()
        for ref, first, end in zip(refs, ends[:-1], ends[1:], strict=True):
            mine = places[(places >= first) & (places < end)] - first
            if not len(mine):
                continue
            file = BatchFile(self._store, ref, self._stage)
            for number in range(file.count):
                keys = file.batch(number).column(KEY)
                here = mine[mine < len(keys)]
                found |= set(keys.take(pa.array(here)).to_pylist())
                mine = mine[len(here) :] - len(keys)
        return found

    def groups(self, keys: Collection[bytes]) -> dict[bytes, list[dict[str, Any]]]:
        """Return the rows of groups by their canonical keys, in the stage's own columns.

        Raises:
            DamagedState: a file is not what it was.
        """
        found: dict[bytes, list[dict[str, Any]]] = {key: [] for key in keys}
        own = self.columns.names
        for batch in self._found(keys):
            for key, row in zip(
                batch.column(KEY).to_pylist(), batch.select(own).to_pylist(), strict=True
            ):
                found[key].append(row)
        return found

    def _found(self, keys: Collection[bytes]) -> Iterator[pa.RecordBatch]:
        asked = pa.array(sorted(keys), pa.binary())
        places = hashes(asked)
        order = np.lexsort((np.arange(len(places)), places))
        asked, places = asked.take(pa.array(order)), places[order]
        numbers = bucket_numbers(places, [each.bucket for each in self.manifest.buckets])
        schema = state_schema(self.columns)
        for number in sorted(set(numbers.tolist())):
            mine = numbers == number
            reader = self._reader(self.manifest.buckets[number])
            found = reader.find(places[mine], asked.filter(pa.array(mine)).cast(pa.binary()))
            yield found.rows.select(schema.names).cast(schema)

    # -- whether it is whole

    def damaged(self) -> Iterator[DamagedFile]:
        """Yield what of its files is not as it was written, with the reason, each file once.

        All of each file is read: its length, its checksum, whose it is, how many rows it has, and
        whether its hashes are those of its keys, in order, and where the manifest says they are.
        """
        for bucket in self.manifest.buckets:
            for ref in bucket.files:
                yield from self._checked(ref, sorted_rows=True)
        manifest = self.manifest
        others = [*manifest.outputs.values(), *(each.files for each in manifest.sendings)]
        others += [units.files for flow in manifest.waiting.values() for units in flow]
        others += [each.cells.files for each in manifest.written.values()]
        for ref in {ref.name: ref for refs in others for ref in refs}.values():
            yield from self._checked(ref, sorted_rows=False)

    @property
    def files(self) -> int:
        """How many files ``damaged`` looks at."""
        return len(self.manifest.names)

    def _checked(self, ref: FileRef, *, sorted_rows: bool) -> Iterator[DamagedFile]:
        path = self._store.path(ref.name)
        try:
            file = BatchFile(self._store, ref, self._stage)
            batches = list(_checked_order(file, self.manifest)) if sorted_rows else file.batches()
            rows = sum(b if isinstance(b, int) else b.num_rows for b in batches)
        except DamagedState as error:
            yield DamagedFile(path, error.wrong)
            return
        except (StateError, ValueError) as error:
            yield DamagedFile(path, str(error))
            return
        if rows != ref.rows:
            yield DamagedFile(path, f"has {rows} rows instead of the manifest's {ref.rows}")


def _checked_order(file: BatchFile, manifest: Manifest) -> Iterator[int]:
    """Yield the numbers of rows of a file's batches, which are in order.

    Raises:
        ValueError: they are not.
    """
    last: pa.RecordBatch | None = None
    for batch in file.batches():
        if not (hash_array(batch) == hashes(batch.column(KEY))).all():
            message = "has hashes that are not those of its keys"
            raise ValueError(message)
        ordering = batch.select([HASH, KEY, ORDER])
        check_sorted(ordering, manifest.match)
        if last is not None:
            ends = pa.Table.from_batches([last, ordering.slice(0, 1)]).combine_chunks()
            check_sorted(ends.to_batches()[0], manifest.match)
        last = ordering.slice(batch.num_rows - 1)
        yield batch.num_rows


def _rows_of_buckets(
    batches: Iterable[pa.RecordBatch], *, state: StoredState
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from state.rows_of(number)


def _cast_rows(
    batches: Iterable[pa.RecordBatch], *, read: Task, cast: Task
) -> Iterator[pa.RecordBatch]:
    return cast(read(batches))


def _with_keys(rows: pa.Table, keys: pa.Array) -> pa.Table:
    own = rows.drop_columns([HASH, KEY, ORDER, DELETED])
    return own.add_column(0, GROUP_KEY, keys)


def _key_column(keys: Sequence[bytes], kind: pa.DataType | None = None) -> pa.Array:
    """Return keys as a column of their type, or as text as Python writes them."""
    values: list[Key] = []
    for before, key in zip((b"", *keys), keys, strict=False):
        # Rows of a group are neighbours; a key is decoded once for them.
        values.append(values[-1] if key == before else key_value(key))
    if kind is None:
        return pa.array([repr(value) for value in values], pa.string())
    return pa.array(values, kind)


def _first(pieces: Iterable[pa.Table], limit: int | None) -> Iterator[pa.Table]:
    left = limit
    for piece in pieces:
        yield piece if left is None else piece.slice(0, left)
        left = None if left is None else left - len(piece)
        if left is not None and left <= 0:
            return
