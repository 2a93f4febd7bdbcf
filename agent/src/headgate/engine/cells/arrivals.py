"""A batch made ready for counting: what is the same for every container that it touches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, repeat
from operator import attrgetter, itemgetter
from typing import TypeVar

from headgate.events import Outcome, RequestPart, UpdateBatch, UpdateKind

SERVER_TIME = -1
_TTLS = attrgetter("ttls")
_NONE: frozenset[int] = frozenset()
_LATEST = 2**63 - 1  # HBase's HConstants.LATEST_TIMESTAMP, which clients may send to mean "now"

DELETES_ONE_VERSION = frozenset({UpdateKind.DELETE_CELL, UpdateKind.DELETE_FAMILY_VERSION})
WIDE = frozenset(
    {UpdateKind.DELETE_FAMILY, UpdateKind.DELETE_FAMILY_VERSION, UpdateKind.DELETE_ROW}
)
"""Deletes of more than one column."""
DELETES = WIDE | {UpdateKind.DELETE_CELL, UpdateKind.DELETE_COLUMN}


class Arrivals:
    """Consecutive requests of a batch that one writer sent: an action of this dataflow or not."""

    __slots__ = (
        "_gives_ttls",
        "_owners",
        "_starts",
        "_uncertain",
        "_zero_increments",
        "cell_level",
        "columns",
        "distinct_columns",
        "kinds",
        "plain",
        "requests",
        "rows",
        "timestamps",
        "values",
        "writer",
    )

    def __init__(
        self,
        writer: str | None,
        requests: Sequence[RequestPart],
        kinds: bytes,
        rows: Sequence[bytes],
        columns: Sequence[bytes],
        timestamps: Sequence[int],
        values: Sequence[bytes | None],
        *,
        plain: bool | None = None,
    ) -> None:
        self.writer = writer
        self.requests = requests
        self.kinds = kinds
        self.rows = rows
        self.columns = columns
        self.timestamps = timestamps
        self.values = values
        self.distinct_columns = set(columns)
        cells = len(rows)
        puts = kinds.count(UpdateKind.PUT) == cells
        self.cell_level = puts or not any(kind in kinds for kind in WIDE)
        """Whether every update names its one column, so that columns decide what it touches."""
        self.plain = puts and certain(requests, timestamps, values) if plain is None else plain
        """Whether all cells are puts that certainly happened in this order at the server's time."""
        self._gives_ttls: bool | None = None
        self._owners: list[int] | None = None
        self._starts: list[int] | None = None
        self._uncertain: frozenset[int] | None = None
        self._zero_increments: frozenset[int] | None = None

    @property
    def apart(self) -> bool:
        """Whether each update is a request of its own, in plain arrivals."""
        return self.plain and len(self.requests) == len(self.rows)

    @property
    def owners(self) -> list[int]:
        """For each cell the position of its request."""
        if self._owners is None:
            spans = (repeat(i, request.cells) for i, request in enumerate(self.requests))
            self._owners = list(chain.from_iterable(spans))
        return self._owners

    @property
    def gives_ttls(self) -> bool:
        """True if a request gives cells a time to live of their own."""
        if self._gives_ttls is None:
            requests = self.requests
            one = len(requests) == 1
            self._gives_ttls = bool(requests[0].ttls) if one else any(map(_TTLS, requests))
        return self._gives_ttls

    def ttl(self, position: int) -> int:
        """Return the time to live in milliseconds that a cell was given, or ``NO_TTL``."""
        if self._starts is None:
            self._starts = [0, *accumulate(request.cells for request in self.requests)]
        owner = self.owners[position]
        return self.requests[owner].ttl(position - self._starts[owner])

    @property
    def uncertain(self) -> frozenset[int]:
        """Positions of the cells that must be read to be known, whatever their kind."""
        if self._uncertain is None:
            found: set[int] = set()
            start = 0
            for request in self.requests:
                if request.outcome is not Outcome.APPLIED:
                    found.update(range(start, start + request.cells))
                found.update(start + position for position in request.ambiguous)
                start += request.cells
            self._uncertain = frozenset(found)
        return self._uncertain

    @property
    def zero_increments(self) -> frozenset[int]:
        """Positions of increments by 0, which change the value of no cell that is there."""
        if self.plain:
            return _NONE
        if self._zero_increments is None:
            found: set[int] = set()
            start = 0
            for request in self.requests:
                found.update(start + position for position in request.zero_increments)
                start += request.cells
            self._zero_increments = frozenset(found)
        return self._zero_increments

    @property
    def idle(self) -> frozenset[int]:
        """Positions of updates that certainly changed no value and made no cell."""
        zeros = self.zero_increments
        return zeros - self.uncertain if zeros else zeros

    def cells_at(self, positions: Sequence[int]) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Return rows and columns of the cells at these positions."""
        if len(self.distinct_columns) == 1:
            return _at(self.rows, positions), (self.columns[0],) * len(positions)
        return _at(self.rows, positions), _at(self.columns, positions)

    def values_at(self, positions: Sequence[int]) -> Sequence[bytes]:
        """Return the values at these positions, of puts in plain arrivals."""
        values: Sequence[bytes] = self.values  # type: ignore[assignment]  # none is None in those
        return _at(values, positions)

    def timestamp(self, position: int) -> int:
        """Return the cell's explicit timestamp in milliseconds, or ``SERVER_TIME``."""
        timestamp = self.timestamps[position]
        return SERVER_TIME if timestamp == _LATEST else timestamp

    def received(self, position: int) -> float:
        """Return when the cell's request was received, in Unix milliseconds."""
        return self.requests[self.owners[position]].received * 1000

    def updates(self, positions: Sequence[int], elements: Sequence[object]) -> int:
        """Return the number of updates at these positions: elements, each once per request."""
        if self.apart:
            return len(positions)
        if len(self.requests) == 1:
            return len(set(elements))
        owners = self.owners
        return len(set(zip((owners[i] for i in positions), elements, strict=True)))


_OUTCOME = attrgetter("outcome")
_AMBIGUOUS = attrgetter("ambiguous")
_CELLS = attrgetter("cells")
_ORIGIN = attrgetter("origin")
_REQUESTS = attrgetter("requests")
_KINDS = attrgetter("kinds")
_ROWS = attrgetter("rows")
_COLUMNS = attrgetter("columns")
_TIMESTAMPS = attrgetter("timestamps")
_VALUES = attrgetter("values")

T = TypeVar("T")


def _at(column: Sequence[T], positions: Sequence[int]) -> Sequence[T]:
    if len(positions) == len(column):
        return column
    if len(positions) < 2:
        return tuple(column[at] for at in positions)
    chosen: tuple[T, ...] = itemgetter(*positions)(column)
    return chosen


def certain(
    requests: Sequence[RequestPart], timestamps: Sequence[int], values: Sequence[bytes | None]
) -> bool:
    """Return whether puts certainly happened in this order, at the server's time."""
    if len(requests) == len(values) == 1:
        request = requests[0]
        certainly = request.outcome is Outcome.APPLIED and not request.ambiguous
        return certainly and timestamps[0] == SERVER_TIME and values[0] is not None
    return (
        timestamps.count(SERVER_TIME) == len(timestamps)
        and None not in values
        and list(map(_OUTCOME, requests)).count(Outcome.APPLIED) == len(requests)
        and not any(map(_AMBIGUOUS, requests))
        and all(map(_CELLS, requests))
    )


def writers_of(batch: UpdateBatch, dataflow: str) -> set[str | None]:
    """Return who sent the batch's requests: actions of the dataflow; None for everybody else."""
    if not any(map(_ORIGIN, batch.requests)):
        return {None}
    return {_writer(request, dataflow) for request in batch.requests}


def _writer(request: RequestPart, dataflow: str) -> str | None:
    origin = request.origin
    return None if origin is None or origin.dataflow != dataflow else origin.action


def joined(writer: str | None, batches: Sequence[UpdateBatch]) -> Arrivals:
    """Return batches of one table as if they were one: of puts, certain, that one writer sent."""
    return Arrivals(
        writer,
        tuple(chain.from_iterable(map(_REQUESTS, batches))),
        b"".join(map(_KINDS, batches)),
        tuple(chain.from_iterable(map(_ROWS, batches))),
        tuple(chain.from_iterable(map(_COLUMNS, batches))),
        tuple(chain.from_iterable(map(_TIMESTAMPS, batches))),
        tuple(chain.from_iterable(map(_VALUES, batches))),
        plain=True,
    )


def arrivals_of(batch: UpdateBatch, dataflow: str) -> list[Arrivals]:
    """Return the batch in stretches of one writer; most batches are one stretch."""
    requests = batch.requests
    if not any(map(_ORIGIN, requests)):
        return [_whole(None, batch)]
    writers = [_writer(request, dataflow) for request in requests]
    if len(writers) == 1 or len(set(writers)) == 1:
        return [_whole(writers[0], batch)]
    stretches = []
    start = first = 0
    for last, writer in enumerate(writers, 1):
        if last < len(writers) and writers[last] == writer:
            continue
        stop = start + sum(request.cells for request in requests[first:last])
        stretches.append(_stretch(batch, writer, first, last, start, stop))
        start, first = stop, last
    return stretches


def _whole(writer: str | None, batch: UpdateBatch) -> Arrivals:
    return Arrivals(
        writer,
        batch.requests,
        batch.kinds,
        batch.rows,
        batch.columns,
        batch.timestamps,
        batch.values,
    )


def _stretch(
    batch: UpdateBatch, writer: str | None, first: int, last: int, start: int, stop: int
) -> Arrivals:
    return Arrivals(
        writer,
        batch.requests[first:last],
        batch.kinds[start:stop],
        batch.rows[start:stop],
        batch.columns[start:stop],
        batch.timestamps[start:stop],
        batch.values[start:stop],
    )


def family_deleted(kind: int, column: bytes) -> bytes:
    """Return ``family:`` of a wide delete; empty for a whole row."""
    return b"" if kind == UpdateKind.DELETE_ROW else family_of(column)


def family_of(column: bytes) -> bytes:
    """Return ``family:`` of a column."""
    return column.partition(b":")[0] + b":"
