"""What changed in a container between two cuts, from the messages of its table's topic."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from headgate.engine import Rivals
from headgate.events import (
    CLOCKS_APART,
    LATEST,
    NO_TTL,
    NOTHING_DATED,
    REST_OF_ROW,
    SERVER_TIME,
    Dated,
    DatedState,
    Gap,
    KeyForm,
    Outcome,
    RequestPart,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
    UpdateMessage,
    key_bytes,
)
from headgate.spark.source.keys import name_array
from headgate.spark.source.tables import ROW
from headgate.spark.source.undecodable import Decoding, UndecodedValues
from headgate.spark.views import ContainerView


class _Mark(Enum):
    READ = "read"


READ: Final = _Mark.READ
"""Stands for a value that the messages do not have: the cell must be read."""

Latest = bytes | None | _Mark
"""A cell's newest value, None where it was deleted."""

LatestCells = dict[tuple[bytes, bytes], bytes | None]
"""Newest values by row and ``family:qualifier``, None where deleted."""

_WIDE: Final = {
    UpdateKind.DELETE_ROW,
    UpdateKind.DELETE_FAMILY,
    UpdateKind.DELETE_FAMILY_VERSION,
}
_VALUE: Final = {UpdateKind.PUT, UpdateKind.INCREMENT, UpdateKind.APPEND}
_ENDS_MORTALITY: Final = {UpdateKind.PUT, UpdateKind.DELETE_COLUMN}
_DESTROYS: Final = {
    TableChangeKind.DROPPED,
    TableChangeKind.TRUNCATED,
    TableChangeKind.FAMILY_DROPPED,
}


class ChangedCells:
    """The changed cells of a container, each with its newest value where messages settle it.

    They do not for a row that two observers wrote at about one time, nor for one whose updates lie
    in two partitions, since the topic was given more; nor where something that is dated ahead may
    hide what was written; nor where what was written may have expired.

    ``everything`` is set where messages cannot name what changed (a table was emptied, or writes
    passed without events): then the whole container counts as changed.

    Args:
        view: of the container.
        dated: what was dated ahead in its table before the first message, or is now.
        ttls: milliseconds after which cells of a family expire, by family.
        now: Unix milliseconds, for these.
    """

    def __init__(
        self,
        view: ContainerView,
        dated: DatedState = NOTHING_DATED,
        *,
        ttls: Mapping[bytes, int] = MappingProxyType({}),
        now: float = 0.0,
    ) -> None:
        self._view = view
        self._ttls = ttls
        self._now = now
        self.mortal: set[tuple[bytes, bytes]] = set()
        """Cells that were written with a time to live of their own."""
        self._dated = Dated(dated)
        self._seen: set[tuple[int, str, int, int, int]] = set()
        self._sequences: dict[tuple[int, str, int], int] = {}
        """Of the last message of an observer's epoch in a partition."""
        self._rivals: dict[int, Rivals] = {}
        self._rows: dict[bytes, dict[bytes, Latest]] = {}
        self._partitions: dict[bytes, int] = {}
        self._astray: set[bytes] = set()
        """Rows with updates in two partitions, in whatever order these are read."""
        self.everything = False

    @property
    def cells(self) -> dict[tuple[bytes, bytes], Latest]:
        """The newest values by row and ``family:qualifier``."""
        return {
            (row, column): READ if row in self._astray else latest
            for row, columns in self._rows.items()
            for column, latest in columns.items()
        }

    def add(self, message: UpdateMessage, partition: int) -> None:
        """Take in the next message of a partition; a request that came there before is skipped.

        One that makes no sense, which agents set aside, names nothing: then everything changed.
        """
        try:
            self._add(message, partition)
        except Exception:  # noqa: BLE001 whatever it is, no one record may keep a step from running
            self.everything = True

    def _add(self, message: UpdateMessage, partition: int) -> None:
        match message:
            case UpdateBatch():
                self._batch(message, partition)
            case TableChange(kind=kind):
                self.everything = self.everything or kind in _DESTROYS
            case Gap():
                self.everything = True

    def _batch(self, batch: UpdateBatch, partition: int) -> None:
        source = partition, batch.observer, batch.epoch
        # What comes again, and came first before the last cut, may be older than what is known.
        again = batch.sequence <= self._sequences.get(source, -1)
        self._sequences[source] = max(batch.sequence, self._sequences.get(source, -1))
        doubtful: Collection[int] = ()
        if batch.requests:
            rivals = self._rivals.setdefault(partition, Rivals())
            hidden = self._dated.doubtful(batch)
            disordered = rivals.doubtful(batch)
            doubtful = range(len(batch.rows)) if again else {*hidden, *disordered}
        first = 0
        for part in batch.requests:
            identity = *source, part.intent, part.piece
            if identity not in self._seen:
                self._seen.add(identity)
                self._request(batch, part, first, doubtful)
            first += part.cells
        for row in dict.fromkeys(batch.rows):
            if row in self._rows and self._partitions.setdefault(row, partition) != partition:
                self._astray.add(row)

    def _request(
        self, batch: UpdateBatch, part: RequestPart, first: int, doubtful: Collection[int]
    ) -> None:
        sure = part.outcome is Outcome.APPLIED
        ambiguous, zeros = set(part.ambiguous), set(part.zero_increments)
        for offset in range(part.cells):
            at = first + offset
            kind, row, column = UpdateKind(batch.kinds[at]), batch.rows[at], batch.columns[at]
            if kind in _WIDE:
                self._wide(row, column)
            elif self._view.has(row, column):
                # A client's own timestamp may lie below that of a cell which is there already.
                dated = batch.timestamps[at] not in (SERVER_TIME, LATEST)
                certain = sure and offset not in ambiguous and at not in doubtful
                if certain and offset in zeros:
                    continue  # an increment by 0 has changed nothing
                settled = certain and not dated
                if self._may_expire(part, offset, kind, (row, column), settled=settled):
                    settled = False
                self._put(row, column, _latest(kind, batch.values[at]) if settled else READ)

    def _may_expire(
        self,
        part: RequestPart,
        offset: int,
        kind: UpdateKind,
        cell: tuple[bytes, bytes],
        *,
        settled: bool,
    ) -> bool:
        """Return whether a cell, or a delete of it, may have expired when it is looked at."""
        if part.ttl(offset) != NO_TTL:
            self.mortal.add(cell)
        elif settled and kind in _ENDS_MORTALITY:
            self.mortal.discard(cell)  # increments and appends keep the cell's time to live
        if not self._ttls:
            return cell in self.mortal
        ttl = self._ttls.get(cell[1].partition(b":")[0])
        late = ttl is not None and part.received * 1000 + ttl <= self._now + CLOCKS_APART
        return late or cell in self.mortal

    def _put(self, row: bytes, column: bytes, latest: Latest) -> None:
        self._rows.setdefault(row, {})[column] = latest

    def _wide(self, row: bytes, family: bytes) -> None:
        known = dict.fromkeys((*self._view.declared, *self._rows.get(row, ())))
        touched = [
            column for column in known if column.startswith(family) and self._view.has(row, column)
        ]
        for column in touched:
            self._put(row, column, READ)
        if self._view.is_open(row, family):
            self._put(row, REST_OF_ROW, READ)

    def unread(self) -> list[bytes]:
        """Return the rows with cells that must be read, in order."""
        return sorted(
            row
            for row, columns in self._rows.items()
            if row in self._astray or READ in columns.values()
        )

    def settle(self, rows: Iterable[bytes], found: dict[bytes, dict[bytes, bytes]]) -> None:
        """Put in what was read: the values by row and column; what is not there is deleted."""
        for row in rows:
            there = found.get(row, {})
            known = self._rows.get(row, {})
            if REST_OF_ROW in known:
                # A marker with a timestamp leaves newer cells: those that stand are named.
                standing = (column for column in there if self._view.has(row, column))
                known |= dict.fromkeys((c for c in standing if c not in known), READ)
            for column, latest in known.items():
                if latest is READ or row in self._astray:
                    known[column] = there.get(column)
            self._astray.discard(row)

    def with_deleted(self, found: LatestCells) -> LatestCells:
        """Return all cells of a container, and as deleted the changed ones that are not there."""
        rows = {row for row, _ in found}
        gone: LatestCells = {
            (row, column): None
            for row, column in self.cells
            # Of a row that stands, the cells that do not are gone: all of them are in `found`.
            if column != REST_OF_ROW or row not in rows
        }
        return gone | found


def _latest(kind: UpdateKind, value: bytes | None) -> Latest:
    if kind in _VALUE:
        return READ if value is None else value
    return None if kind is UpdateKind.DELETE_COLUMN else READ


def cell_by_cell(
    batches: Iterable[pa.RecordBatch],
    columns: Mapping[str, bytes],
    decoding: Decoding,
    keys: KeyForm = KeyForm.TEXT,
) -> Iterator[pa.RecordBatch]:
    """Yield rows of raw values as ``changes`` returns them: one row for each cell that is there.

    Args:
        batches: ``row``, and a binary column for each column of the container.
        columns: ``family:qualifier`` of each of these.
        decoding: of the values.
        keys: the form of the rows, and of the names of columns.

    Raises:
        UndecodableValue: a value does not decode, and that is to fail the step.
    """
    undecoded = UndecodedValues()
    for batch in batches:
        # The columns come in their order, behind the row.
        for at, (name, column) in enumerate(columns.items(), start=1):
            there = batch.filter(batch.column(at).is_valid())
            rows = there.column(0)
            place = partial(_place, rows, column)
            value, without = decoding.decode(there.column(at).to_pylist(), undecoded, place)
            count = there.num_rows
            cells = pa.RecordBatch.from_pydict(
                {
                    ROW: rows,
                    "column": name_array([name] * count, keys),
                    "value": value,
                    "deleted": pa.array([False] * count, pa.bool_()),
                }
            )
            yield cells.take([i for i in range(count) if i not in without]) if without else cells


def _place(rows: pa.Array, column: bytes, at: int) -> tuple[bytes, bytes]:
    row = rows[at].as_py()
    return key_bytes(row) if isinstance(row, str) else row, column
