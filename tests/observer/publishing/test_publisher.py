from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.events import (
    MORE_PARTITIONS,
    BarrierMark,
    Gap,
    Outcome,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
    partition_of,
    updates_topic,
)
from headgate.observer.publishing import publisher
from headgate.observer.publishing.deliveries import Failure, FailureKind
from headgate.observer.publishing.ended import EndedDefinition, EndedWrite

PARTITIONS = 3
TIMEOUT = Failure(FailureKind.OTHER, "timed out")
TOO_LARGE = Failure(FailureKind.TOO_LARGE, "too large")


def write(
    intent: int,
    rows: Sequence[bytes],
    *,
    value: bytes = b"v",
    kind: UpdateKind = UpdateKind.PUT,
    outcome: Outcome = Outcome.APPLIED,
    ambiguous: frozenset[bytes] = frozenset(),
) -> EndedWrite:
    count = len(rows)
    return EndedWrite(
        intent,
        "mutateRows",
        outcome,
        1.0,
        None,
        bytes([kind]) * count,
        list(rows),
        [b"f:q"] * count,
        [-1] * count,
        [value] * count,
        ambiguous,
    )


def batches(log: Sequence[object]) -> list[UpdateBatch]:
    return [message for message in log if isinstance(message, UpdateBatch)]


def intents(log: Sequence[object]) -> list[int]:
    return [part.intent for batch in batches(log) for part in batch.requests]


@pytest.fixture
def ready(bench):
    bench.publisher.prepare("t", values=True)
    bench.publisher.topic_ready("t", PARTITIONS)
    return bench


def row_in(partition: int, number: int = 0) -> bytes:
    """Return a row of the partition; another one for each number."""
    found = (
        row
        for row in (b"row%d" % i for i in range(100_000))
        if partition_of(row, PARTITIONS) == partition
    )
    for _ in range(number):
        next(found)
    return next(found)


def test_requests_of_one_moment_share_a_message_per_partition(ready) -> None:
    for intent in range(5):
        ready.publisher.add("t", write(intent, [row_in(1, intent)]))
    ready.timers.run()
    (sent,) = ready.producer.sent
    assert sent.topic == updates_topic("t")
    assert sent.partition == 1
    batch = sent.message
    assert isinstance(batch, UpdateBatch)
    assert [part.intent for part in batch.requests] == [0, 1, 2, 3, 4]
    assert batch.rows == tuple(row_in(1, intent) for intent in range(5))


def test_every_row_is_in_its_partition(ready) -> None:
    rows = [b"r%d" % i for i in range(200)]
    ready.publisher.add("t", write(0, rows))
    ready.timers.run()
    found = []
    for sent in ready.producer.sent:
        batch = sent.message
        assert isinstance(batch, UpdateBatch)
        assert {partition_of(row, PARTITIONS) for row in batch.rows} == {sent.partition}
        found += batch.rows
    assert sorted(found) == sorted(rows)


def test_rows_move_to_added_partitions_behind_a_mark_in_each(ready) -> None:
    rows = [b"r%d" % i for i in range(40)]
    more = PARTITIONS * 2 + 1
    ready.publisher.add("t", write(0, rows[:20]))
    ready.publisher.add_put("t", 1, "mutateRow", 1.0, None, rows[0], b"f:q", -1, b"v", False)
    ready.publisher.topic_ready("t", more)
    ready.publisher.add("t", write(2, rows))
    ready.producer.deliver_all()
    ready.timers.run()
    ready.producer.deliver_all()
    for partition in range(more):
        log = ready.producer.log(partition)
        (place,) = [at for at, one in enumerate(log) if isinstance(one, BarrierMark)]
        mark = log[place]
        assert (mark.id, mark.partitions) == (MORE_PARTITIONS, more)
        before, after = batches(log[:place]), batches(log[place:])
        assert all(partition_of(r, PARTITIONS) == partition for b in before for r in b.rows)
        assert all(partition_of(r, more) == partition for b in after for r in b.rows)
        assert [one.sequence for one in log] == list(range(len(log)))
    assert sorted(ready.settled) == [0, 1, 2]


@pytest.mark.parametrize("early", [True, False], ids=["topic first", "lease first"])
def test_rows_that_a_restart_moves_are_told_of_by_a_mark_in_each_partition(
    bench, *, early: bool
) -> None:
    topics = {updates_topic("t"): 2, updates_topic("same"): 3, updates_topic("gone"): 2}
    if not early:
        bench.publisher.spread_before(topics)
    for table in ("t", "same", "new"):
        bench.publisher.prepare(table, values=True)
        bench.publisher.topic_ready(table, 3)
    if early:
        bench.publisher.spread_before(topics)
    bench.publisher.topic_ready("t", 3)
    bench.timers.run()
    bench.producer.deliver_all()
    sent = [(one.topic, one.partition, one.message.id) for one in bench.producer.delivered]
    assert sent == [(updates_topic("t"), n, MORE_PARTITIONS) for n in range(3)]


def test_sequences_count_each_partitions_messages(ready) -> None:
    for intent in range(3):
        ready.publisher.add("t", write(intent, [row_in(2)]))
        ready.timers.run()
    ready.publisher.mark("t", "b")
    ready.timers.run()
    ready.producer.deliver_all()
    assert [message.sequence for message in ready.producer.log(2)] == [0, 1, 2, 3]
    assert ready.publisher.sequences() == {updates_topic("t"): (1, 1, 4)}


def test_an_intent_is_settled_when_its_last_message_is_acknowledged(ready) -> None:
    ready.publisher.add("t", write(4, [row_in(0), row_in(1), row_in(2)]))
    ready.timers.run()
    ready.producer.deliver()
    ready.producer.deliver()
    assert ready.settled == []
    ready.producer.deliver()
    assert ready.settled == [4]
    assert ready.publisher.idle


def test_an_intent_over_two_tables_waits_for_both(ready) -> None:
    ready.publisher.add("t", write(0, [row_in(0)]))
    ready.publisher.add("u", write(0, [row_in(0)]))
    ready.timers.run()
    ready.producer.deliver_all()
    assert ready.settled == []
    ready.publisher.topic_ready("u", 1)
    ready.producer.deliver_all()
    assert ready.settled == [0]


def test_a_write_without_cells_is_settled_at_once(ready) -> None:
    ready.publisher.add("t", write(3, []))
    assert ready.settled == [3]
    assert ready.publisher.idle


def test_what_ends_before_the_topic_is_there_waits_in_order(bench) -> None:
    bench.publisher.prepare("t", values=True)
    bench.publisher.add("t", write(0, [b"r"]))
    bench.timers.run()
    bench.publisher.add("t", write(1, [b"r"]))
    bench.timers.run()
    assert bench.producer.sent == []
    assert bench.ensured == ["t"]
    bench.publisher.topic_ready("t", 1)
    bench.producer.deliver_all()
    assert intents(bench.producer.log(0)) == [0, 1]


def test_the_first_event_of_a_table_that_is_watched_by_pattern_asks_for_its_topic(bench) -> None:
    bench.named = {"t", "u"}
    bench.publisher.add("invented", write(0, [b"r"]))
    assert bench.ensured == []
    bench.publisher.add("t", write(1, [b"r"]))
    bench.publisher.add("t", write(2, [b"r"]))
    bench.publisher.add_put("u", 3, "mutateRow", 1.0, None, b"r", b"f:q", -1, b"v", False)
    assert bench.ensured == ["t", "u"]
    for table in ("t", "u"):
        bench.publisher.topic_ready(table, 1)
    bench.timers.run()
    bench.producer.deliver_all()
    assert sorted(intents(bench.producer.log(0))) == [1, 2, 3]


def test_a_table_gets_no_topic_by_pattern_before_a_write_shows_that_it_exists(
    bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "_MOST_UNLISTED", 2)
    names = [f"t{number}" for number in range(4)]
    bench.named = set(names)
    for intent, name in enumerate(names):
        bench.publisher.add(name, write(intent, [b"r"], outcome=Outcome.UNKNOWN))
    assert bench.ensured == []
    assert bench.settled == [0, 1, 2, 3]
    bench.publisher.add("t0", write(4, [b"r"]))
    bench.publisher.add("t3", write(5, [b"r"]))
    bench.publisher.add("t0", write(6, [b"r"], outcome=Outcome.UNKNOWN))
    assert bench.ensured == ["t0", "t3"]
    for table in ("t0", "t3"):
        bench.publisher.topic_ready(table, 1)
    bench.timers.run()
    bench.producer.deliver_all()
    for table, expected in (("t0", [4, 6]), ("t3", [5])):
        topic = updates_topic(table)
        log = [sent.message for sent in bench.producer.delivered if sent.topic == topic]
        gap = log[0]
        assert isinstance(gap, Gap)
        assert (gap.table, gap.since, gap.until) == (table, 1.0, 100.0)
        assert intents(log[1:]) == expected


def test_topics_of_tables_by_pattern_are_asked_for_when_the_control_topic_is_found(bench) -> None:
    for table in ("t", "u"):
        bench.publisher.add(table, write(0, [b"r"]))
    assert bench.ensured == []
    bench.named, bench.unwanted = {"t"}, {"u"}
    bench.publisher.forget_unwanted()
    assert bench.ensured == ["t"]
    assert not bench.publisher.awaits("u")


def test_a_table_that_a_dataflow_watches_is_not_doubted(bench) -> None:
    bench.named = {"t"}
    bench.publisher.prepare("t", values=True)
    bench.publisher.topic_ready("t", 1)
    bench.publisher.add("t", write(0, [b"r"], outcome=Outcome.UNKNOWN))
    bench.timers.run()
    bench.producer.deliver_all()
    assert intents(bench.producer.log(0)) == [0]


def test_a_table_nobody_watches_can_be_forgotten_before_its_topic_is_there(bench) -> None:
    bench.publisher.add("t", write(0, [b"r"]))
    bench.publisher.forget("t")
    bench.timers.run()
    assert bench.settled == [0]
    assert bench.publisher.idle


def test_values_are_left_out_where_no_bound_needs_them(ready) -> None:
    ready.publisher.prepare("t", values=False)
    ready.publisher.add("t", write(0, [b"r"]))
    ready.timers.run()
    batch = ready.producer.sent[0].message
    assert isinstance(batch, UpdateBatch)
    assert batch.values == (None,)


def test_ambiguous_rows_are_marked_by_position(ready) -> None:
    first, second = row_in(0, 0), row_in(0, 1)
    ready.publisher.add("t", write(0, [first, second, first], ambiguous=frozenset({first})))
    ready.timers.run()
    batch = ready.producer.sent[0].message
    assert isinstance(batch, UpdateBatch)
    assert batch.requests[0].ambiguous == (0, 2)


# -- failed deliveries


def test_a_failed_delivery_is_repeated_before_anything_newer(ready) -> None:
    for intent in range(3):
        ready.publisher.add("t", write(intent, [row_in(0)]))
        ready.timers.run()
    for _ in range(3):
        ready.producer.fail(TIMEOUT)
    ready.publisher.add("t", write(3, [row_in(0)]))
    ready.timers.run()
    ready.timers.run()
    ready.producer.deliver_all()
    assert intents(ready.producer.log(0)) == [0, 1, 2, 3]
    assert [message.sequence for message in ready.producer.log(0)] == [0, 1, 2, 3]
    assert ready.settled == [0, 1, 2, 3]


def test_nothing_is_repeated_before_the_fate_of_all_is_known(ready) -> None:
    for intent in range(2):
        ready.publisher.add("t", write(intent, [row_in(0)]))
        ready.timers.run()
    ready.producer.fail(TIMEOUT)
    ready.timers.run()
    assert [intents([sent.message]) for sent in ready.producer.sent] == [[1]]


def test_other_partitions_go_on(ready) -> None:
    ready.publisher.add("t", write(0, [row_in(0)]))
    ready.timers.run()
    ready.producer.fail(TIMEOUT)
    ready.publisher.add("t", write(1, [row_in(1)]))
    ready.publisher.flush()
    ready.producer.deliver_all()
    assert intents(ready.producer.log(1)) == [1]


def test_readers_are_told_when_order_could_not_be_kept(ready) -> None:
    for intent in range(2):
        ready.publisher.add("t", write(intent, [row_in(0)]))
        ready.timers.run()
    ready.producer.fail(TIMEOUT)
    ready.producer.deliver()
    ready.timers.run()
    ready.producer.deliver_all()
    log = ready.producer.log(0)
    assert intents(log) == [1, 0]
    assert isinstance(log[-1], Gap)
    assert (log[-1].since, log[-1].until) == (1.0, 1.0)


def test_no_write_comes_after_a_mark_that_was_asked_for_later(ready) -> None:
    for intent in range(2):
        ready.publisher.add("t", write(intent, [row_in(0)]))
        ready.publisher.flush()
    ready.publisher.mark("t", "b")
    ready.publisher.add("t", write(2, [row_in(0)]))
    ready.publisher.flush()
    ready.producer.fail(TOO_LARGE)
    for _ in range(4):
        ready.producer.deliver_all()
        ready.timers.run()
    log = ready.producer.log(0)
    assert intents(log) == [1, 0, 2]
    assert isinstance(log[2], Gap)
    assert log[2].sequence == 0
    assert isinstance(log[3], BarrierMark)
    assert ready.publisher.idle


def fail_above(bench, limit: int) -> None:
    """Be a broker that takes no message above the limit, until nothing is left to send."""
    for _ in range(200):
        while bench.producer.sent:
            if len(bench.producer.sent[0].value) > limit:
                bench.producer.fail(TOO_LARGE)
            else:
                bench.producer.deliver()
        bench.timers.run()


def test_messages_that_were_too_large_together_go_one_by_one(ready) -> None:
    for intent in range(3):
        ready.publisher.add("t", write(intent, [row_in(0)]))
        ready.publisher.flush()
    for _ in range(3):
        ready.producer.fail(TOO_LARGE)
    ready.timers.run()
    for intent in range(3):
        (sent,) = ready.producer.sent
        assert intents([sent.message]) == [intent]
        ready.producer.deliver()
    assert ready.settled == [0, 1, 2]


def test_a_message_too_large_for_the_broker_is_divided_and_keeps_its_values(ready) -> None:
    rows = [row_in(0, i) for i in range(8)]
    ready.publisher.add("t", write(0, rows[:2], value=b"x" * 300))
    ready.publisher.add("t", write(1, rows[2:], value=b"y" * 300, ambiguous=frozenset({rows[5]})))
    ready.publisher.flush()
    fail_above(ready, 700)
    log = batches(ready.producer.log(0))
    assert [row for batch in log for row in batch.rows] == rows
    values = [value for batch in log for value in batch.values]
    assert values == [b"x" * 300] * 2 + [b"y" * 300] * 6
    parts = [part for batch in log for part in batch.requests]
    identities = [(part.intent, part.piece) for part in parts]
    assert len(set(identities)) == len(identities)
    marked = [
        batch.rows[at + i]
        for batch in log
        for part, at in zip(batch.requests, starts(batch), strict=True)
        for i in part.ambiguous
    ]
    assert marked == [rows[5]]
    assert ready.settled == [0, 1]
    assert ready.publisher.idle
    assert (
        max(batch.sequence for batch in log) + 1
        == ready.publisher.sequences()[updates_topic("t")][0]
    )


def starts(batch: UpdateBatch) -> list[int]:
    return [sum(part.cells for part in batch.requests[:i]) for i in range(len(batch.requests))]


def test_a_cell_too_large_for_the_broker_goes_without_its_value(ready) -> None:
    ready.publisher.add("t", write(0, [row_in(0)], value=b"x" * 1000))
    ready.publisher.flush()
    fail_above(ready, 500)
    (batch,) = batches(ready.producer.log(0))
    assert batch.values == (None,)
    assert batch.requests[0].ambiguous == (0,)
    assert ready.settled == [0]


def test_a_row_too_large_for_the_broker_leaves_a_gap_and_holds_nobody_up(ready) -> None:
    long = next(row for row in (b"%d" % i + b"x" * 1000 for i in range(99)) if in_first(row))
    ready.publisher.add("t", write(0, [long]))
    ready.publisher.add("t", write(1, [row_in(0)]))
    ready.publisher.flush()
    fail_above(ready, 500)
    gap, batch = ready.producer.log(0)
    assert isinstance(gap, Gap)
    assert (gap.table, gap.since) == ("t", 1.0)
    assert isinstance(batch, UpdateBatch)
    assert intents([batch]) == [1]
    assert ready.settled == [0, 1]


def in_first(row: bytes) -> bool:
    return partition_of(row, PARTITIONS) == 0


def test_a_missing_topic_is_asked_for_again(ready) -> None:
    ready.publisher.add("t", write(0, [row_in(0)]))
    ready.timers.run()
    ready.producer.fail(Failure(FailureKind.TOPIC, "unknown topic"))
    assert ready.ensured == ["t", "t"]


def test_a_fatal_error_makes_the_producer_new(ready) -> None:
    ready.publisher.add("t", write(0, [row_in(0)]))
    ready.timers.run()
    ready.producer.fail(Failure(FailureKind.FATAL, "fenced"))
    assert ready.producer.restarts == 1


def test_a_full_producer_is_asked_again(ready) -> None:
    ready.producer.full = True
    for intent in range(2):
        ready.publisher.add("t", write(intent, [row_in(0)]))
        ready.publisher.flush()
    ready.producer.full = False
    ready.timers.run()
    ready.producer.deliver_all()
    assert intents(ready.producer.log(0)) == [0, 1]


# -- sizes


def test_a_large_request_is_cut_into_numbered_pieces(ready) -> None:
    rows = [row_in(0, i) for i in range(4)]
    ready.publisher.add("t", write(0, rows, value=b"x" * 300_000))
    ready.timers.run()
    ready.producer.deliver_all()
    found = batches(ready.producer.log(0))
    assert [part.piece for batch in found for part in batch.requests] == [0, 1, 2, 3]
    assert [row for batch in found for row in batch.rows] == rows
    assert all(len(sent.value) < 1_000_000 for sent in ready.producer.delivered)
    assert ready.settled == [0]


def test_a_value_too_large_for_a_message_is_left_out_and_must_be_read(ready) -> None:
    ready.publisher.add("t", write(0, [row_in(0)], value=b"x" * 2_000_000))
    ready.timers.run()
    batch = ready.producer.sent[0].message
    assert isinstance(batch, UpdateBatch)
    assert batch.values == (None,)
    assert batch.requests[0].ambiguous == (0,)


def test_recovered_pieces_are_not_taken_for_those_before_the_crash(ready) -> None:
    rows = [row_in(0, i) for i in range(4)]
    ready.publisher.recover("t", 3, [write(9, rows, value=b"x" * 300_000)])
    numbers = [
        part.piece
        for sent in ready.producer.sent
        if isinstance(sent.message, UpdateBatch)
        for part in sent.message.requests
    ]
    assert len(set(numbers)) == 4
    assert min(numbers) > 1000


def test_a_recovered_request_keeps_its_identity(ready) -> None:
    ready.publisher.recover("t", 3, [write(9, [row_in(0)], outcome=Outcome.UNKNOWN)])
    batch = ready.producer.deliver().message
    assert isinstance(batch, UpdateBatch)
    assert (batch.observer, batch.epoch, batch.recovered) == ("o", 3, True)
    (part,) = batch.requests
    assert (part.intent, part.piece, part.outcome) == (9, 0, Outcome.UNKNOWN)
    assert ready.settled == []
    assert ready.publisher.sequences() == {updates_topic("t"): (0, 0, 0)}


# -- marks


def test_a_barrier_is_in_every_partition_after_what_was_added_before(ready) -> None:
    ready.publisher.add("t", write(0, [row_in(0)]))
    ready.publisher.mark("t", "b1")
    ready.publisher.add("t", write(1, [row_in(0)]))
    ready.timers.run()
    ready.producer.deliver_all()
    first = ready.producer.log(0)
    assert [type(message) for message in first] == [UpdateBatch, BarrierMark, UpdateBatch]
    assert intents(first) == [0, 1]
    for partition in (1, 2):
        (mark,) = ready.producer.log(partition)
        assert isinstance(mark, BarrierMark)
        assert (mark.id, mark.observer, mark.epoch) == ("b1", "o", 7)


def test_a_barrier_waits_behind_a_failed_delivery(ready) -> None:
    ready.publisher.add("t", write(0, [row_in(0)]))
    ready.timers.run()
    ready.producer.fail(TIMEOUT)
    ready.publisher.mark("t", "b1")
    ready.publisher.flush()
    ready.timers.run()
    ready.producer.deliver_all()
    assert [type(message) for message in ready.producer.log(0)] == [UpdateBatch, BarrierMark]


def test_a_table_change_is_in_every_partition(ready) -> None:
    change = EndedDefinition(0, TableChangeKind.TRUNCATED, Outcome.APPLIED, 1.0, "")
    ready.publisher.add("t", change)
    ready.timers.run()
    ready.producer.deliver_all()
    for partition in range(PARTITIONS):
        (message,) = ready.producer.log(partition)
        assert isinstance(message, TableChange)
        assert message.kind is TableChangeKind.TRUNCATED
    assert ready.settled == [0]


# -- the watermark


def test_the_watermark_is_not_above_what_shares_its_message(ready) -> None:
    ready.unfinished = 6
    ready.publisher.add("t", write(5, [row_in(0)]))
    ready.publisher.add("t", write(3, [row_in(0, 1)]))
    ready.timers.run()
    batch = ready.producer.sent[0].message
    assert isinstance(batch, UpdateBatch)
    assert batch.watermark == 3


def test_the_watermark_is_not_above_what_is_under_way(ready) -> None:
    ready.unfinished = 2
    ready.publisher.add("t", write(5, [row_in(0)]))
    ready.timers.run()
    batch = ready.producer.sent[0].message
    assert isinstance(batch, UpdateBatch)
    assert batch.watermark == 2


@given(
    order=st.permutations(range(8)),
    flushes=st.sets(st.integers(0, 7)),
    failing=st.lists(st.booleans(), max_size=12),
)
def test_no_intent_first_appears_behind_a_watermark_above_it(
    make_bench, order: list[int], flushes: set[int], failing: list[bool]
) -> None:
    bench = make_bench()
    bench.publisher.prepare("t", values=True)
    bench.publisher.topic_ready("t", 2)
    running = set(order)
    script = iter(failing)
    for step, intent in enumerate(order):
        running.discard(intent)
        bench.unfinished = min(running, default=8)
        bench.publisher.add("t", write(intent, [b"a%d" % intent, b"b%d" % intent]))
        if step in flushes:
            bench.publisher.flush()
            while bench.producer.sent and next(script, False):
                # All that is under way fails, as when the broker is gone for long.
                for _ in range(len(bench.producer.sent)):
                    bench.producer.fail(TIMEOUT)
                bench.timers.run()
    bench.publisher.flush()
    for _ in range(20):
        bench.producer.deliver_all()
        bench.timers.run()
    assert sorted(bench.settled) == list(range(8))
    for partition in range(2):
        highest = -1
        seen = set()
        for batch in batches(bench.producer.log(partition)):
            for part in batch.requests:
                assert part.intent >= highest
                assert part.intent not in seen
                seen.add(part.intent)
            highest = max(highest, batch.watermark)


# -- tables of which nobody knows whether they are watched


def test_no_topic_is_asked_for_before_somebody_is_known_to_watch_the_table(bench) -> None:
    bench.publisher.add("t", write(0, [b"r"]))
    bench.publisher.announce_gap("u", since=1.0, until=2.0, reason="passed")
    bench.timers.run()
    assert bench.ensured == []
    assert bench.publisher.waiting_topics() == []
    bench.publisher.prepare("t", values=True)
    assert bench.ensured == ["t"]
    bench.publisher.topic_ready("t", 1)
    bench.producer.deliver_all()
    assert intents(bench.producer.log(0)) == [0]


def test_what_is_kept_of_a_table_goes_once_it_is_known_that_nobody_watches_it(bench) -> None:
    for number, table in enumerate(("t", "u")):
        bench.publisher.add(table, write(number, [b"r"]))
    bench.unwanted = {"u"}
    bench.publisher.forget_unwanted()
    assert bench.settled == [1]
    assert not bench.publisher.awaits("u")
    assert bench.publisher.awaits("t")


def test_a_write_that_ends_after_that_is_dropped(bench) -> None:
    bench.unwanted = {"u"}
    bench.publisher.add("u", write(0, [b"r"]))
    bench.publisher.add_put("u", 1, "put", 1.0, None, b"r", b"f:q", -1, b"v", False)
    assert bench.settled == [0, 1]
    assert bench.publisher.idle
    assert not bench.publisher.awaits("u")


def test_tables_that_nobody_is_known_to_watch_are_kept_to_a_number(bench) -> None:
    assert bench.publisher.has_room("new")
    for number in range(10_000):
        bench.publisher.add(f"t{number}", write(number, [b"r"]))
    assert not bench.publisher.has_room("new")
    assert bench.publisher.has_room("t17")
