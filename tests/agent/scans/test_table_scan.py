"""Scans of one table find what went round the observer, and nothing that went through it."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import pytest

from headgate.agent.kafka.feed import Deliver, FeedRecord
from headgate.agent.kafka.observers import ObserverTable
from headgate.agent.ports import Extent, Found, TimeRange
from headgate.agent.scans.found_cells import SCANNER
from headgate.agent.scans.table_scan import (
    Chunk,
    ScanBroker,
    ScanContext,
    ScanProgress,
    TableScan,
)
from headgate.client import Cell
from headgate.events import (
    VERSION,
    BarrierMark,
    BarrierRequest,
    ControlMessage,
    Cut,
    ObserverLease,
    Outcome,
    RequestPart,
    UpdateBatch,
    UpdateKind,
    UpdateMessage,
    partition_of,
    updates_topic,
)

TOPIC = updates_topic("t")
PARTITIONS = 2
EVERY = 10.0
SKEW = 5.0


class Place:
    """A table, its topic, an observer that publishes late, and one scan at a time."""

    def __init__(self, rows: int = 3) -> None:
        self.now = 1_000_000.0
        self.table: dict[tuple[bytes, bytes], tuple[int, bytes]] = {}
        self.topic: list[list[UpdateMessage]] = [[] for _ in range(PARTITIONS)]
        self.unpublished: deque[UpdateBatch] = deque()
        self.requests: deque[BarrierRequest] = deque()
        self.reads: deque[Callable[[], None]] = deque()
        self.inbox: deque[Callable[[float], None]] = deque()
        self.progress: ScanProgress | None = None
        self.ended: list[int] = []
        self.found: list[Found] = []
        """Published and not yet in the topic."""
        self.lost = 0
        """How many of the next messages with found updates do not arrive."""
        self.extent: Extent | None = None
        """What dataflows want scanned; None: what they wanted at first."""
        self._rows = rows
        self._intents = 0
        self._epoch = 0
        self._positions: list[int] = []
        self._observers = ObserverTable(30.0)
        self._observers.hear(ObserverLease(VERSION, "observer", 1, 1e12, {}), self.now)
        self.scan = self._start()
        self.scan.tick(self.now)

    # -- seams

    def topics(self, tables: Sequence[str]) -> dict[str, int]:
        return {updates_topic(table): PARTITIONS for table in tables}

    def ends(self, topics: Mapping[str, int]) -> Cut:
        return Cut({TOPIC: tuple(len(messages) for messages in self.topic)})

    def control(self, message: ControlMessage) -> None:
        assert isinstance(message, BarrierRequest)
        self.requests.append(message)

    def update(self, found: Found) -> None:
        if self.lost:
            self.lost -= 1
        else:
            self.found.append(found)

    def feed(self, topics: Mapping[str, int], cut: Cut, deliver: Deliver) -> Place:
        self._positions = [cut.position(TOPIC, part) for part in range(PARTITIONS)]
        return self

    def close(self) -> None:
        self.reads.clear()
        self.inbox.clear()

    def read_chunk(
        self,
        table: str,
        extent: Extent,
        start: bytes,
        written: TimeRange,
        rows: int,
        done: Callable[[Chunk], None],
    ) -> None:
        def read() -> None:
            cells: dict[bytes, list[Cell]] = {}
            for (row, column), (timestamp, value) in sorted(self.table.items()):
                if row >= start and written.since <= timestamp < written.until:
                    cells.setdefault(row, []).append(Cell(row, column, timestamp, value))
            chosen = list(cells)[:rows]
            following = chosen[-1] + b"\0" if len(chosen) == rows else None
            done(Chunk([cell for row in chosen for cell in cells[row]], following))

        self.reads.append(read)

    def save(self, progress: ScanProgress) -> None:
        self.progress = progress

    # -- life

    def _start(self) -> TableScan:
        self._epoch += 1
        context = ScanContext(
            broker=cast("ScanBroker", self),
            reader=self,
            observers=self._observers,
            requester="agent",
            rows=self._rows,
            window=1000,
            clock_skew=SKEW,
            barrier_repeat=1e9,
            wanted=lambda: self.extent,
            save=self.save,
            post=self.inbox.append,
            deliver=lambda records: True,
            on_scanned=lambda found, seconds: self.ended.append(found),
        )
        scan = TableScan("t", self._epoch, Extent(EVERY), self.progress, context)
        scan.start(self.now)
        return scan

    def restart(self) -> None:
        """Kill the scan and start another where the saved progress stands."""
        self.close()
        self.scan = self._start()

    # -- writers

    def through(self, row: bytes, value: bytes | None, outcome: Outcome = Outcome.APPLIED) -> None:
        """Write a cell through the observer, or delete the row; its event comes later."""
        self._intents += 1
        put = value is not None
        self.unpublished.append(
            UpdateBatch(
                VERSION,
                "observer",
                1,
                self._intents,
                0,
                "t",
                (RequestPart(self._intents, "put", outcome, self.now, 1),),
                bytes([UpdateKind.PUT if put else UpdateKind.DELETE_ROW]),
                (row,),
                (b"f:v" if put else b"",),
                (-1,),
                (value,),
            )
        )
        self._apply(row, value)

    def around(self, row: bytes, value: bytes) -> None:
        """Write a cell past the observer."""
        self._apply(row, value)

    def _apply(self, row: bytes, value: bytes | None) -> None:
        self.now += 0.001
        if value is None:
            self.table.pop((row, b"f:v"), None)
        else:
            self.table[row, b"f:v"] = (int(self.now * 1000), value)

    # -- steps

    def publish(self) -> bool:
        if not self.unpublished:
            return False
        batch = self.unpublished.popleft()
        self.topic[partition_of(batch.rows[0], PARTITIONS)].append(batch)
        return True

    def arrive(self) -> bool:
        if not self.found:
            return False
        found = self.found.pop(0)
        self.topic[found.partition].append(found.batch)
        return True

    def mark(self) -> bool:
        if not self.requests:
            return False
        request = self.requests.popleft()
        while self.publish():
            pass
        for messages in self.topic:
            messages.append(BarrierMark(VERSION, "observer", 1, 0, request.id, PARTITIONS))
        return True

    def read(self) -> bool:
        if not self.reads:
            return False
        self.reads.popleft()()
        return True

    def work(self) -> bool:
        if self.inbox:
            self.inbox.popleft()(self.now)
            return True
        for partition, position in enumerate(self._positions):
            if position < len(self.topic[partition]):
                message = self.topic[partition][position]
                self._positions[partition] += 1
                record = FeedRecord(TOPIC, partition, position, message, self.now)
                self.scan.consume([record], self.now)
                return True
        if self.scan.due() <= self.now:
            self.scan.tick(self.now)
            return True
        return False

    @property
    def parties(self) -> list[Callable[[], bool]]:
        return [self.publish, self.arrive, self.mark, self.read, self.work]

    def rest(self, scans: int = 2) -> None:
        """Let time pass until so many further scans have ended."""
        until = len(self.ended) + scans
        while len(self.ended) < until:
            moves = [party() for party in self.parties]
            if not any(moves):
                self.now = max(self.now, self.scan.due())

    # -- what was published

    def published(self) -> dict[bytes, bytes]:
        """Return what the topic says of each row."""
        view: dict[bytes, bytes] = {}
        for message in (m for messages in self.topic for m in messages):
            if isinstance(message, UpdateBatch):
                for row, value in zip(message.rows, message.values, strict=True):
                    if value is None:
                        view.pop(row, None)
                    else:
                        view[row] = value
        return view

    def truth(self) -> dict[bytes, bytes]:
        return {row: value for (row, _), (_, value) in self.table.items()}

    def scanned(self) -> list[tuple[bytes, bytes | None]]:
        """Return the rows and values of found updates, each identity once."""
        seen: dict[tuple[int, int], list[tuple[bytes, bytes | None]]] = {}
        for batch in (m for messages in self.topic for m in messages):
            if isinstance(batch, UpdateBatch) and batch.observer == SCANNER:
                first = 0
                for part in batch.requests:
                    cells = slice(first, first + part.cells)
                    first += part.cells
                    found = list(zip(batch.rows[cells], batch.values[cells], strict=True))
                    seen[part.intent, part.piece] = found
        return [cell for found in seen.values() for cell in found]


@pytest.fixture
def place() -> Place:
    return Place()


def test_a_write_that_went_round_is_found_once(place: Place) -> None:
    place.around(b"r", b"1")
    place.rest(3)
    assert place.scanned() == [(b"r", b"1")]
    assert place.published() == place.truth()


def test_a_write_that_went_through_is_not_found(place: Place) -> None:
    for value in (b"1", b"2", b"1"):
        place.through(b"r", value)
    place.rest(3)
    assert place.scanned() == []


def test_one_before_the_first_scan_is_not_looked_for(place: Place) -> None:
    place.table[b"old", b"f:v"] = (int((place.now - 100) * 1000), b"1")
    place.rest()
    assert place.scanned() == []


def test_what_went_through_before_the_first_scan_is_not_found(place: Place) -> None:
    place.close()
    place.through(b"r", b"1")
    place.publish()
    place.progress = None
    place.restart()
    place.now += 0.01  # until the scan's own thread begins
    place.rest(3)
    assert place.scanned() == []


def test_a_write_that_went_round_after_one_that_went_through_is_found(place: Place) -> None:
    place.through(b"r", b"1")
    place.rest()
    place.around(b"r", b"2")
    place.rest()
    place.through(b"r", b"3")
    place.rest(3)
    assert place.scanned() == [(b"r", b"2")]
    assert place.published() == place.truth()


def test_the_same_value_put_again_after_a_delete_is_found(place: Place) -> None:
    place.through(b"r", b"1")
    place.through(b"r", None)
    place.around(b"r", b"1")
    place.rest()
    assert place.scanned() == [(b"r", b"1")]


def test_a_value_that_came_back_is_found(place: Place) -> None:
    place.through(b"r", b"1")
    place.around(b"r", b"2")
    place.rest()
    place.around(b"r", b"1")
    place.rest()
    assert place.scanned() == [(b"r", b"2"), (b"r", b"1")]
    assert place.published() == place.truth()


def test_an_uncertain_write_is_found_at_most_once_more(place: Place) -> None:
    place.through(b"r", b"1", Outcome.UNKNOWN)
    place.rest(4)
    assert place.scanned() == [(b"r", b"1")]


def test_a_table_of_many_chunks_is_read_whole(place: Place) -> None:
    rows = [b"%02d" % number for number in range(10)]
    for row in rows:
        place.around(row, b"1")
    place.rest()
    assert sorted(place.scanned()) == [(row, b"1") for row in rows]


def test_what_is_dated_in_the_future_is_not_found_by_every_scan(place: Place) -> None:
    place.table[b"r", b"f:v"] = (int((place.now + 1e6) * 1000), b"1")
    place.rest(3)
    assert place.ended == [0, 0, 0]


def test_each_scan_is_of_what_is_wanted_when_it_begins(place: Place) -> None:
    place.rest(1)
    place.extent = Extent(3600.0)
    place.rest(1)
    assert place.scan.due() > place.now + 3000
    assert place.scan.extent is place.extent


def test_progress_is_saved_when_what_was_found_has_come_back(place: Place) -> None:
    place.rest()
    before = place.progress
    place.around(b"r", b"1")
    place.lost = 1
    while place.lost:
        for party in place.parties:
            party()
        place.now = max(place.now, min(place.scan.due(), place.now + 1))
    assert place.progress == before
    place.rest()
    assert place.progress != before
    assert place.scanned() == [(b"r", b"1")]


def test_nothing_is_found_again_after_a_restart(place: Place) -> None:
    place.around(b"r", b"1")
    place.through(b"s", b"1")
    place.rest()
    place.restart()
    place.rest(3)
    assert place.scanned() == [(b"r", b"1")]


@pytest.mark.parametrize("seed", range(60))
def test_in_any_order_and_with_restarts_the_topic_tells_the_table(seed: int) -> None:
    choices = random.Random(seed)
    place = Place(rows=choices.choice((1, 3, 100)))
    for _ in range(400):
        match choices.random():
            case chance if chance < 0.1:
                place.through(
                    choices.choice((b"p", b"q", b"m", b"n")), b"%d" % choices.randrange(3)
                )
            case chance if chance < 0.2:
                place.around(choices.choice((b"a", b"b", b"m", b"n")), b"%d" % choices.randrange(3))
            case chance if chance < 0.21:
                place.restart()
            case chance if chance < 0.25:
                place.now += choices.choice((0.01, 1.0, EVERY))
            case _:
                choices.choice(place.parties)()
    place.rest(4)
    assert place.published() == place.truth()
    assert not {row for row, _ in place.scanned()} & {b"p", b"q"}
