"""A batch made ready for counting: what is the same for every container that it touches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, repeat

from headgate.events import Outcome, RequestPart, UpdateBatch, UpdateKind

SERVER_TIME = -1
_LATEST = 2**63 - 1  # HBase's HConstants.LATEST_TIMESTAMP, which clients may send to mean "now"


class Arrivals:
    """Consecutive requests of a batch that one writer sent: an action of this dataflow or not."""

    def __init__(
        self,
        writer: str | None,
        requests: Sequence[RequestPart],
        kinds: bytes,
        rows: Sequence[bytes],
        columns: Sequence[bytes],
        timestamps: Sequence[int],
        values: Sequence[bytes | None],
    ) -> None:
        self.writer = writer
        self.requests = requests
        self.kinds = kinds
        self.rows = rows
        self.columns = columns
        self.timestamps = timestamps
        self.values = values
        self.distinct_columns = set(columns)

    @cached_property
    def plain(self) -> bool:
        """Whether all cells are puts that certainly happened in this order at the server's time."""
        cells = len(self.rows)
        return (
            self.kinds.count(UpdateKind.PUT) == cells
            and self.timestamps.count(SERVER_TIME) == cells
            and None not in self.values
            and all(r.outcome is Outcome.APPLIED and not r.ambiguous for r in self.requests)
        )

    @cached_property
    def cell_level(self) -> bool:
        """Whether every update names its one column, so that columns decide what it touches."""
        return not any(kind in self.kinds for kind in _WIDE)

    @cached_property
    def owners(self) -> list[int]:
        """For each cell the position of its request."""
        spans = (repeat(i, request.cells) for i, request in enumerate(self.requests))
        return list(chain.from_iterable(spans))

    @cached_property
    def uncertain(self) -> frozenset[int]:
        """Positions of the cells that must be read to be known, whatever their kind."""
        found: set[int] = set()
        start = 0
        for request in self.requests:
            if request.outcome is not Outcome.APPLIED:
                found.update(range(start, start + request.cells))
            found.update(start + position for position in request.ambiguous)
            start += request.cells
        return frozenset(found)

    def timestamp(self, position: int) -> int:
        """Return the cell's explicit timestamp in milliseconds, or ``SERVER_TIME``."""
        timestamp = self.timestamps[position]
        return SERVER_TIME if timestamp == _LATEST else timestamp

    def received(self, position: int) -> float:
        """Return when the cell's request was received, in Unix milliseconds."""
        return self.requests[self.owners[position]].received * 1000

    def updates(self, positions: Sequence[int], elements: Sequence[object]) -> int:
        """Return the number of updates at these positions: elements, each once per request."""
        if len(self.requests) == len(self.rows):
            return len(positions)
        if len(self.requests) == 1:
            return len(set(elements))
        owners = self.owners
        return len(set(zip((owners[i] for i in positions), elements, strict=True)))


_WIDE = (UpdateKind.DELETE_FAMILY, UpdateKind.DELETE_FAMILY_VERSION, UpdateKind.DELETE_ROW)


def arrivals_of(batch: UpdateBatch, dataflow: str) -> Iterator[Arrivals]:
    """Yield the batch in stretches of one writer; most batches are one stretch."""
    requests = batch.requests
    writers = [
        r.origin.action if r.origin is not None and r.origin.dataflow == dataflow else None
        for r in requests
    ]
    if len(set(writers)) == 1:
        yield Arrivals(
            writers[0],
            requests,
            batch.kinds,
            batch.rows,
            batch.columns,
            batch.timestamps,
            batch.values,
        )
        return
    start = first = 0
    for i, writer in enumerate(writers):
        if i + 1 < len(writers) and writers[i + 1] == writer:
            continue
        stop = start + sum(request.cells for request in requests[first : i + 1])
        part = slice(start, stop)
        yield Arrivals(
            writer,
            requests[first : i + 1],
            batch.kinds[part],
            batch.rows[part],
            batch.columns[part],
            batch.timestamps[part],
            batch.values[part],
        )
        start, first = stop, i + 1
