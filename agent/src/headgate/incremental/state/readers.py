"""What a bucket holds: its runs as one, the newest in force (paper, sections 2.3 and 4.5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headgate.incremental.state.batches import portions
from headgate.incremental.state.buckets import WHOLE, Bucket
from headgate.incremental.state.errors import DifferentColumns, UnsortedRows
from headgate.incremental.state.merging import alive, merged, resolved
from headgate.incremental.state.open_runs import RunIndex
from headgate.incremental.state.rows import DELETED, HASH, KEY, ORDER, Match, index_array
from headgate.incremental.state.runs import Asked, Hit, Positions, Run, Searched, newest

_GROUP = "\x00group"  # no column of a stage is named so
_PLACE = [HASH, KEY, ORDER, DELETED]


class FoundRows(Struct, frozen=True, eq=False):
    """Rows of state that were asked for, in order."""

    rows: pa.RecordBatch
    """None of them is deleted."""
    group: npt.NDArray[np.int64]
    """For each row, which of the keys that were asked for it is of."""


class BucketReader:
    """The rows of a bucket that are in force.

    Args:
        runs: of one stage, the newest last; the base is the first. There may be none.
        match: what of a newer run replaces what of an older one.
        bucket: what ``everything`` yields of the runs; those of a bucket that was split may still
            have the rows of both halves.
        schema: of the rows; has to be given where there are no runs.
        index: of the newest runs, which are searched by it.

    Raises:
        DifferentColumns: the runs differ in their columns.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        match: Match,
        bucket: Bucket = WHOLE,
        schema: pa.Schema | None = None,
        index: RunIndex | None = None,
    ) -> None:
        self.schema = one_schema(runs, schema)
        self._runs = tuple(runs)
        self._searched: tuple[Searched, ...] = self._runs
        if index is not None:
            self._searched = (*self._runs[: len(runs) - len(index.runs)], index)
        self._match = match
        self._bucket = bucket

    def find(
        self,
        hashes: npt.NDArray[np.int64],
        keys: pa.Array,
        orders: pa.Array | None = None,
    ) -> FoundRows:
        """Return the rows of exactly these groups or, with orders, exactly these rows.

        What is found is in memory: whoever asks for groups that are large asks for few at a time.

        Args:
            hashes: of the keys.
            keys: sorted by hash and key, each once; with orders by hash, key and order, each
                triple once.
            orders: under ``Match.ROW`` only.

        Raises:
            UnsortedRows: keys are not sorted, or come twice.
            ValueError: there are orders, and groups are matched.
        """
        if orders is not None and self._match is Match.GROUP:
            message = "groups are replaced as a whole, so there is no row of an order to be found"
            raise ValueError(message)
        _check_asked(hashes, keys, orders)
        asked = Asked(hashes, keys, orders)
        if self._match is Match.ROW and orders is None:
            return self._every_version(asked)
        return self._newest(asked)

    def _newest(self, asked: Asked) -> FoundRows:
        """Return rows of the newest run that has any of what is asked for."""
        every = np.arange(len(asked.hashes))
        hits = list(newest(reversed(self._searched), asked, every))
        return _alive(*self._gathered(asked, hits))

    def _every_version(self, asked: Asked) -> FoundRows:
        """Return rows of any run, of each (hash, key, order) the newest."""
        wanted = np.arange(len(asked.hashes))
        parts = []
        for run in self._runs:
            rows, group = self._gathered(asked, list(run.find(asked, wanted)))
            if len(group):
                parts.append(rows.append_column(_GROUP, index_array(group)))
        if not parts:
            return FoundRows(self._nothing(), np.zeros(0, np.int64))
        rows = resolved(parts, Match.ROW)
        last = rows.num_columns - 1
        return _alive(rows.remove_column(last), rows.column(last).to_numpy())

    def _gathered(self, asked: Asked, hits: list[Hit]) -> tuple[pa.RecordBatch, Positions]:
        """Return what was found, copied out of the files, and what was asked for by each row.

        Hashes and keys are those that were asked for: to read them again from all over the files
        would cost as much as all the rest.
        """
        if not hits:
            return self._nothing(), np.zeros(0, np.int64)
        group = np.concatenate([hit.asked for hit in hits])
        order: pa.Array | None = None
        if (group[1:] < group[:-1]).any():
            places = np.argsort(group, kind="stable")
            group, order = group[places], index_array(places)
        every = len(group) == len(asked.keys) and bool((group == np.arange(len(group))).all())
        keys = asked.keys if every else asked.keys.take(index_array(group))
        found = {
            HASH: index_array(asked.hashes if every else asked.hashes[group]),
            KEY: keys.cast(pa.binary()),
        }
        rows = [index_array(hit.rows) for hit in hits]
        for name in self.schema.names:
            if name not in found:
                found[name] = _taken(name, hits, rows, order)
        columns = [found[name] for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), group

    def group(self, hash_: int, key: bytes) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one group that are in force, in order, in portions, however many."""
        parts = [portions(run.group(hash_, key)) for run in self._runs]
        if self._match is Match.ROW:
            yield from _left(merged(parts, self._match))
            return
        for part in reversed(parts):
            first = next(part, None)
            if first is not None:
                yield from _left(chain((first,), part))
                return

    def counts(self, hashes: npt.NDArray[np.int64]) -> Positions:
        """Return how many rows there are of each hash at most.

        Args:
            hashes: rising; each may come several times.
        """
        found = np.zeros(len(hashes), np.int64)
        for run in self._runs:
            found += run.counts(hashes)
        return found

    @property
    def row_bytes(self) -> int:
        """How many bytes a row has, on the average, in the run where they have most."""
        sizes = [run.ref.length // max(run.ref.rows, 1) for run in self._runs]
        return max(sizes, default=1)

    def keys(self) -> Iterator[pa.RecordBatch]:
        """Yield hash and key of all rows that are in force, in order.

        Raises:
            DamagedState: a run was altered.
        """
        for run in self._runs:
            run.verify()
        parts = [
            (rows.select(_PLACE) for rows in portions(run.batches(self._bucket)))
            for run in self._runs
        ]
        for rows in _left(merged(parts, self._match)):
            yield rows.select([HASH, KEY])

    def _nothing(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], schema=self.schema)

    def everything(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows of the bucket that are in force, in order, however many.

        Raises:
            DamagedState: a run was altered.
        """
        for run in self._runs:
            run.verify()
        yield from _left(merged([run.batches(self._bucket) for run in self._runs], self._match))


def _left(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that are not deleted."""
    for rows in batches:
        left = alive(rows)
        if left.num_rows:
            yield left


def one_schema(runs: Sequence[Run], schema: pa.Schema | None = None) -> pa.Schema:
    """Return the schema that runs have in common.

    Raises:
        DifferentColumns: they have none.
        ValueError: there are no runs, and no schema is given.
    """
    for run in runs:
        schema = schema or run.schema
        if not run.schema.equals(schema):
            message = (
                f"{run.ref.name} has the columns {run.schema.names} where {schema.names} are "
                "expected, or these of other types: rebuild the stage"
            )
            raise DifferentColumns(message)
    if schema is None:
        message = "a bucket without runs needs a schema"
        raise ValueError(message)
    return schema


def _taken(name: str, hits: list[Hit], rows: list[pa.Array], order: pa.Array | None) -> pa.Array:
    """Return a column of what was found, in an order.

    Where a stage orders by nothing its orders are empty, and are not read: each would be a page.
    """
    columns = [hit.batch.column(name) for hit in hits]
    if name == ORDER and not any(map(_has_bytes, columns)):
        return pa.repeat(pa.scalar(b"", columns[0].type), sum(map(len, rows)))
    parts = [column.take(places) for column, places in zip(columns, rows, strict=True)]
    whole = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    return whole if order is None else whole.take(order)


def _has_bytes(column: pa.Array) -> bool:
    data = column.buffers()[-1]
    return data is not None and data.size > 0


def _check_asked(hashes: npt.NDArray[np.int64], keys: pa.Array, orders: pa.Array | None) -> None:
    steps = hashes[1:] > hashes[:-1]
    if steps.all():
        return
    tied = np.nonzero(~steps)[0]
    right = hashes[tied + 1] == hashes[tied]
    one, other = index_array(tied), index_array(tied + 1)
    before = pc.less(keys.take(one), keys.take(other))
    if orders is not None:
        same = pc.equal(keys.take(one), keys.take(other))
        by_order = pc.less(orders.take(one), orders.take(other))
        before = pc.or_(before, pc.and_(same, by_order))
    if not (right & before.to_numpy(zero_copy_only=False)).all():
        message = "what is looked for has to be sorted by hash, key and order, and each come once"
        raise UnsortedRows(message)


def _alive(rows: pa.RecordBatch, group: Positions) -> FoundRows:
    deleted = rows.column(DELETED)
    if deleted.true_count == 0:
        return FoundRows(rows, group)
    kept = pc.invert(deleted)
    return FoundRows(rows.filter(kept), group[kept.to_numpy(zero_copy_only=False)])
