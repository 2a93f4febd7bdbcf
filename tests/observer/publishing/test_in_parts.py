"""Events of large requests are made in parts, and say what those say that are made at once."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.events import (
    NO_TTL,
    BarrierMark,
    Outcome,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
    UpdateMessage,
    partition_of,
)
from headgate.observer.publishing.batches import PIECE_BYTES, Division, by_partition, pieces_of
from headgate.observer.publishing.deliveries import DeliveryFailure, FailureKind
from headgate.observer.publishing.ended import EndedSchemaChange, EndedWrite

VALUES = [b"v" * size for size in (0, 9, 100_000, 170_000, PIECE_BYTES - 60, PIECE_BYTES + 1)]
KINDS = [UpdateKind.PUT, UpdateKind.PUT, UpdateKind.DELETE_COLUMN, UpdateKind.APPEND]
FAILED = DeliveryFailure(FailureKind.OTHER, "timed out")


def write(intent: int, rows: list[bytes]) -> EndedWrite:
    """Return a write whose cells all differ, in rows that others have, too."""
    count = len(rows)
    return EndedWrite(
        intent,
        "mutateRows",
        Outcome.APPLIED,
        1.0,
        None,
        bytes(count),
        rows,
        [b"f:%d" % at for at in range(count)],
        [-1] * count,
        [b"%d" % intent] * count,
    )


@st.composite
def large_writes(draw: st.DrawFn) -> EndedWrite:
    """Writes of which some take several messages, with replies' values and without."""
    count = draw(st.integers(1, 40))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=count, max_size=count))
    rows = [b"r%d" % draw(st.integers(0, 9)) for _ in range(count)]
    values = [
        None if kind is UpdateKind.DELETE_COLUMN else draw(st.sampled_from(VALUES))
        for kind in kinds
    ]
    ended = write(3, rows)
    ended.kinds, ended.values = bytes(kinds), values
    ended.ambiguous = frozenset(rows[:2])
    if draw(st.booleans()):
        ended.ttls = draw(st.lists(st.sampled_from([NO_TTL, 9000]), min_size=count, max_size=count))
        ended.zero_increments = bytes(at % 2 for at in range(count))
    return ended


@settings(deadline=None)
@given(ended=large_writes(), partitions=st.integers(1, 4), sizes=st.lists(st.integers(1, 9)))
def test_a_write_is_cut_into_the_same_pieces_in_parts(ended, partitions, sizes) -> None:
    at_once = {
        partition: [
            (
                list(piece.rows),
                list(piece.columns),
                list(piece.values),
                bytes(piece.kinds),
                list(piece.ttls),
                bytes(piece.zero_increments),
                size,
            )
            for piece, size in pieces_of(part)
        ]
        for partition, part in by_partition(ended, partitions)
    }
    found: dict[int, list[Any]] = {}
    division = Division(ended, partitions)
    turns = 0
    while not division.done:
        for partition, (piece, number, size) in division.go_on(
            (sizes or [2])[turns % len(sizes or [2])]
        ):
            assert (piece.intent, piece.ambiguous) == (3, ended.ambiguous)
            assert number == len(found.setdefault(partition, []))
            found[partition].append(
                (
                    list(piece.rows),
                    list(piece.columns),
                    list(piece.values),
                    bytes(piece.kinds),
                    list(piece.ttls),
                    bytes(piece.zero_increments),
                    size,
                )
            )
        turns += 1
    assert found == at_once


def cells(log: list[UpdateMessage]) -> list[tuple[int, bytes, bytes]]:
    """Return intent, row and column of all that a partition's messages say, in their order."""
    found = []
    for message in log:
        if isinstance(message, UpdateBatch):
            at = 0
            for part in message.requests:
                places = range(at, at + part.cells)
                found += [(part.intent, message.rows[i], message.columns[i]) for i in places]
                at += part.cells
    return found


OPERATIONS = st.sampled_from(
    ["large", "large", "small", "put", "mark", "define", "turn", "turn", "turn", "deliver", "fail"]
)


class Story:
    """What is added to a publisher that makes few cells a turn, and what comes of it."""

    def __init__(self, bench: Any, partitions: int, part: int) -> None:
        self.bench = bench
        self.publisher = bench.publisher
        self.partitions = partitions
        self.publisher.part_cells = part
        self.publisher.prepare("t", values=True)
        self.publisher.topic_ready("t", partitions)
        self.added: list[tuple[int, list[bytes]] | str] = []
        """In order: intents with their rows, and names of marks."""
        self.next = 0

    def add(self, what: str) -> None:
        # Of each two the second ends first.
        intent = self.next ^ 1
        self.next += 1
        self.bench.unfinished = self.next - self.next % 2
        if what == "put":
            row = b"r%d" % (intent % 5)
            self.publisher.add_put("t", intent, "put", 1.0, None, row, b"f:0", -1, b"v", False)
            self.added.append((intent, [row]))
        elif what == "define":
            kind = TableChangeKind.TRUNCATED
            change = EndedSchemaChange(intent, kind, Outcome.APPLIED, 1.0, "")
            self.publisher.add("t", change)
            self.added.append((intent, []))
        else:
            count = 1 + intent % 3 if what == "small" else 11 + intent % 7
            rows = [b"r%d" % ((intent + each) % 5) for each in range(count)]
            self.publisher.add("t", write(intent, rows))
            self.added.append((intent, rows))

    def mark(self) -> None:
        name = f"b{len(self.added)}"
        self.publisher.mark("t", name)
        self.added.append(name)

    def turn(self) -> None:
        """Let the loop come round once."""
        self.bench.timers.run()

    def finish(self) -> None:
        for _ in range(10_000):
            if self.publisher.idle:
                return
            self.turn()
            self.bench.producer.deliver_all()
        raise AssertionError("it never ends")

    def expected(self, partition: int) -> list[Any]:
        """Return what a partition has to say, marks between cells."""
        found: list[Any] = []
        for each in self.added:
            if isinstance(each, str):
                found.append(each)
                continue
            intent, rows = each
            if not rows:
                found.append(intent)
            for at, row in enumerate(rows):
                if partition_of(row, self.partitions) == partition:
                    found.append((intent, row, b"f:%d" % at))
        return found

    def log(self, partition: int) -> list[UpdateMessage]:
        found: list[UpdateMessage] = self.bench.producer.log(partition)
        return found

    def require_crash_safety(self) -> None:
        """Whatever is settled is on Kafka, wholly: a crash now loses nothing."""
        settled = set(self.bench.settled)
        logs = [self.log(partition) for partition in range(self.partitions)]
        there = [set(cells(log)) for log in logs]
        changes = [{m.intent for m in log if isinstance(m, TableChange)} for log in logs]
        for each in self.added:
            if isinstance(each, str) or each[0] not in settled:
                continue
            intent, rows = each
            if not rows:
                assert all(intent in found for found in changes)
            for at, row in enumerate(rows):
                assert (intent, row, b"f:%d" % at) in there[partition_of(row, self.partitions)]


def said(log: list[UpdateMessage]) -> list[Any]:
    """Return cells, marks and definitions in the order in which they were delivered."""
    found: list[Any] = []
    for message in log:
        if isinstance(message, UpdateBatch):
            found += cells([message])
        elif isinstance(message, BarrierMark):
            found.append(message.id)
        elif isinstance(message, TableChange):
            found.append(message.intent)
    return found


@settings(deadline=None, max_examples=200)
@given(
    operations=st.lists(OPERATIONS, max_size=30),
    partitions=st.integers(1, 3),
    part=st.integers(1, 12),
)
def test_order_barriers_watermarks_and_settling_hold_in_parts(
    make_bench, operations, partitions, part
) -> None:
    story = Story(make_bench(), partitions, part)
    for each in operations:
        if each == "mark":
            story.mark()
        elif each == "turn":
            story.turn()
        elif each == "deliver":
            if story.bench.producer.sent:
                story.bench.producer.deliver()
        elif each == "fail":
            # All that is under way fails, as when the broker is gone.
            for _ in range(len(story.bench.producer.sent)):
                story.bench.producer.fail(FAILED)
        else:
            story.add(each)
        story.require_crash_safety()
    story.finish()
    story.require_crash_safety()
    intents = {each[0] for each in story.added if not isinstance(each, str)}
    assert sorted(story.bench.settled) == sorted(intents)
    for partition in range(partitions):
        log = story.log(partition)
        assert said(log) == story.expected(partition)
        assert [message.sequence for message in log] == list(range(len(log)))
        highest = -1
        for message in log:
            if isinstance(message, UpdateBatch):
                assert all(part.intent >= highest for part in message.requests)
                highest = max(highest, message.watermark)


@settings(deadline=None)
@given(
    before=st.lists(st.sampled_from(["large", "small", "put"]), min_size=1, max_size=4),
    turns=st.integers(0, 9),
    after=st.lists(st.sampled_from(["large", "small", "put"]), max_size=3),
)
def test_rows_keep_to_their_partitions_when_a_topic_grows_in_the_middle(
    make_bench, before, turns, after
) -> None:
    story = Story(make_bench(), 2, 3)
    for each in before:
        story.add(each)
    for _ in range(turns):
        story.turn()
    story.publisher.topic_ready("t", 5)
    middle = len(story.added)
    for each in after:
        story.add(each)
    story.finish()
    early = {each[0] for each in story.added[:middle]}
    for partition in range(5):
        for intent, row, _ in cells(story.log(partition)):
            assert partition_of(row, 2 if intent in early else 5) == partition
        sorts = [type(message) for message in story.log(partition)]
        assert sorts.count(BarrierMark) == 1
        place = sorts.index(BarrierMark)
        assert all(intent in early for intent, _, _ in cells(story.log(partition)[:place]))
        assert early.isdisjoint(intent for intent, _, _ in cells(story.log(partition)[place:]))


def test_no_turn_makes_more_than_a_part(bench) -> None:
    story = Story(bench, 1, 10)
    rows = [b"r%d" % each for each in range(100)]
    values: list[bytes | None] = [b"v" * 50_000] * 100
    ended = write(0, rows)
    ended.values = values
    bench.publisher.add("t", ended)
    turns = 0
    while not bench.publisher.idle:
        sent = len(bench.producer.sent)
        story.turn()
        turns += 1
        # A message is copied in one go, and is worth more than a part.
        assert len(bench.producer.sent) - sent <= 1
        if bench.producer.sent and not bench.timers.waiting:
            bench.producer.deliver_all()
    assert turns >= 100 // 10


def test_other_tables_have_their_turns_between_the_parts_of_one(bench) -> None:
    bench.publisher.part_cells = 10
    for table in ("t", "u"):
        bench.publisher.prepare(table, values=True)
        bench.publisher.topic_ready(table, 1)
    bench.publisher.add("t", write(0, [b"r%d" % each for each in range(100)]))
    bench.timers.run()
    bench.publisher.add("u", write(1, [b"r"]))
    bench.timers.run()
    bench.timers.run()
    tables = [sent.message.table for sent in bench.producer.sent]
    assert tables == ["u"]
    assert not bench.publisher.idle


def test_what_is_in_the_middle_is_not_idle(bench) -> None:
    story = Story(bench, 1, 10)
    bench.publisher.add("t", write(0, [b"r%d" % each for each in range(35)]))
    story.turn()
    assert not bench.producer.sent
    assert not bench.publisher.idle
    story.finish()
    assert bench.settled == [0]
