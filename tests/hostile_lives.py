"""Random lives of rows: everything that makes HBase show something else than what came last.

Explicit timestamps in the past and ahead, deletes of every kind with and without one, increments,
also by 0, and appends, unknown outcomes, requests that overlap, and clocks that disagree. A life
does each request to a simulated table and returns what an observer publishes of it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.simulated_hbase import SimulatedTable

from headgate.events import VERSION, Outcome, RequestPart, UpdateBatch, UpdateKind

TABLE = "t"
START = 1_800_000_000_000
"""Start of the region server's clock, in Unix milliseconds."""
_GAPS = (3, 20, 400, 3_000, 20_000, 70_000)
_FAR = (1, 30, 1_000, 8_000, 45_000, 400_000, 10**9)
"""Milliseconds between a client's timestamp and the server's time, and between requests."""


@dataclass
class Request:
    """A request of one cell, or of a delete that covers several."""

    kind: UpdateKind
    row: bytes
    column: bytes
    timestamp: int
    value: bytes | None
    ttl: int | None = None


@dataclass
class Life:
    """Makes requests, does them to its table, and returns the batches that are published."""

    chance: random.Random
    rows: tuple[bytes, ...] = (b"r1", b"r2")
    columns: tuple[bytes, ...] = (b"f:a", b"f:b", b"g:a")
    table: SimulatedTable = field(default_factory=lambda: SimulatedTable(now=START))
    observer: str = "one"
    values: bool = True
    """True if values are published."""
    cell_ttls: bool = False
    thrift2: bool = False
    """True if replies to increments and appends say when these are dated."""
    _sequence: int = 0

    def __post_init__(self) -> None:
        self.offset = self.chance.choice((0, 0, -200, 4_000, -20_000, 20_000))
        """Milliseconds that the observer's clock is ahead of the server's."""

    @property
    def clock(self) -> float:
        """The observer's clock: Unix time in seconds."""
        return (self.table.now + self.offset) / 1000

    def go_on(self) -> Iterator[UpdateBatch]:
        """Do one request, or two at a time; yield what is published of them."""
        self.table.now += self.chance.choice(_GAPS)
        if self.chance.random() < 0.15:
            yield from self._overlapping()
            return
        request = self._request()
        if self.chance.random() < 0.15:
            if self.chance.random() < 0.5:
                self._do(request)
            yield self._published(request, Outcome.UNKNOWN)
        else:
            value = self._do(request)
            yield self._published(request, Outcome.APPLIED, value)

    def _overlapping(self) -> Iterator[UpdateBatch]:
        row = self.chance.choice(self.rows)
        both = [self._request(row), self._request(row)]
        order = [0, 1] if self.chance.random() < 0.5 else [1, 0]
        replies = dict.fromkeys(order)
        for place in order:
            replies[place] = self._do(both[place])
            self.table.now += self.chance.choice((0, 1, 50))
        for place, request in enumerate(both):
            yield self._published(request, Outcome.APPLIED, replies[place], ambiguous=(0,))

    def _request(self, row: bytes | None = None) -> Request:
        chance = self.chance
        kind = chance.choice(_KINDS)
        row = chance.choice(self.rows) if row is None else row
        column = chance.choice(self.columns)
        timestamp = -1
        if kind is UpdateKind.DELETE_FAMILY_VERSION or (
            kind in _STAMPED and chance.random() < 0.45
        ):
            timestamp = self._timestamp(row, column)
        value = b"%d" % chance.randrange(1000) if kind is UpdateKind.PUT else None
        if kind in (UpdateKind.APPEND, UpdateKind.APPEND_DELTA):
            value = b"%d" % chance.randrange(10)
        if kind in (UpdateKind.INCREMENT, UpdateKind.INCREMENT_DELTA):
            value = chance.randrange(5).to_bytes(8, "big")
        if kind is UpdateKind.DELETE_ROW:
            column = b""
        elif kind in (UpdateKind.DELETE_FAMILY, UpdateKind.DELETE_FAMILY_VERSION):
            column = column.partition(b":")[0] + b":"
        ttl = None
        if self.cell_ttls and kind is UpdateKind.PUT and chance.random() < 0.3:
            ttl = chance.choice((5_000, 60_000))
        return Request(kind, row, column, timestamp, value, ttl)

    def _timestamp(self, row: bytes, column: bytes) -> int:
        chance = self.chance
        known = self.table.versions.get((row, column))
        if known and chance.random() < 0.3:
            return chance.choice(known).timestamp + chance.choice((-1, 0, 1))
        return self.table.now + chance.choice((-1, 1)) * chance.choice(_FAR)

    def _do(self, request: Request) -> bytes | None:
        place = request.row, request.column
        match request.kind:
            case UpdateKind.PUT:
                assert request.value is not None
                self.table.put(*place, request.value, request.timestamp, request.ttl)
                return request.value
            case UpdateKind.INCREMENT | UpdateKind.INCREMENT_DELTA:
                found = self.table.newest(*place)
                if found is not None and len(found.value) != len(_ZERO):
                    request.value = b"1".rjust(8, b"\0")  # HBase refuses, and does not read it so
                amount = int.from_bytes(request.value or b"", "big")
                return self.table.increment(*place, amount)
            case UpdateKind.APPEND | UpdateKind.APPEND_DELTA:
                return self.table.append(*place, request.value or b"")
            case kind:
                self.table.delete(kind, *place, request.timestamp)
                return None

    def _published(
        self,
        request: Request,
        outcome: Outcome,
        reply: bytes | None = None,
        ambiguous: tuple[int, ...] = (),
    ) -> UpdateBatch:
        kind, value, timestamp = request.kind, request.value, request.timestamp
        if kind in (UpdateKind.INCREMENT, UpdateKind.APPEND):
            # Without a reply there is nothing but what was added; one of Thrift2 has a timestamp.
            kind = _DELTA[kind] if reply is None else kind
            value = value if reply is None else reply
            if reply is not None and not ambiguous and self.thrift2:
                timestamp = self.table.versions[request.row, request.column][-1].timestamp
        if not self.values and kind is UpdateKind.PUT:
            value = None
        latency = self.chance.choice((1, 5, 900))
        received = self.clock - latency / 1000
        self._sequence += 1
        ttls = () if request.ttl is None else (request.ttl,)
        zeros = (0,) if request.kind in _INCREMENTS and request.value == _ZERO else ()
        if zeros and reply == _ZERO:
            ambiguous = (0,)  # there may have been no cell before
        part = RequestPart(
            self._sequence, "m", outcome, received, 1,
            ambiguous=ambiguous, ttls=ttls, zero_increments=zeros,
        )  # fmt: skip
        return UpdateBatch(
            VERSION, self.observer, 1, self._sequence, self._sequence, TABLE, (part,),
            bytes([kind]), (request.row,), (request.column,), (timestamp,), (value,),
        )  # fmt: skip


_KINDS = (
    UpdateKind.PUT,
    UpdateKind.PUT,
    UpdateKind.PUT,
    UpdateKind.PUT,
    UpdateKind.DELETE_CELL,
    UpdateKind.DELETE_COLUMN,
    UpdateKind.DELETE_FAMILY,
    UpdateKind.DELETE_FAMILY_VERSION,
    UpdateKind.DELETE_ROW,
    UpdateKind.DELETE_ROW,
    UpdateKind.INCREMENT,
    UpdateKind.INCREMENT_DELTA,
    UpdateKind.APPEND,
    UpdateKind.APPEND_DELTA,
)
_INCREMENTS = (UpdateKind.INCREMENT, UpdateKind.INCREMENT_DELTA)
_ZERO = bytes(8)
_STAMPED = frozenset(
    {
        UpdateKind.PUT,
        UpdateKind.DELETE_CELL,
        UpdateKind.DELETE_COLUMN,
        UpdateKind.DELETE_FAMILY,
        UpdateKind.DELETE_ROW,
    }
)
_DELTA = {
    UpdateKind.INCREMENT: UpdateKind.INCREMENT_DELTA,
    UpdateKind.APPEND: UpdateKind.APPEND_DELTA,
}
