"""What ended becomes messages of its partitions, in order, and is settled when they are taken."""

from __future__ import annotations

import pytest
from published import PARTITIONS, batches, intents, row_in, write

from headgate.events import (
    MORE_PARTITIONS,
    BarrierMark,
    Outcome,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    partition_of,
    updates_topic,
)
from headgate.observer.publishing.ended import EndedSchemaChange


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
    found: list[bytes] = []
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
    assert ready.publisher.tables.sequences() == {updates_topic("t"): (1, 1, 4)}


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


def test_a_recovered_request_keeps_its_identity(ready) -> None:
    events = ready.publisher.recovering(3)
    events.add("t", write(9, [row_in(0)], outcome=Outcome.UNKNOWN))
    events.flush()
    batch = ready.producer.deliver().message
    assert isinstance(batch, UpdateBatch)
    assert (batch.observer, batch.epoch, batch.recovered) == ("o", 3, True)
    (part,) = batch.requests
    assert (part.intent, part.piece, part.outcome) == (9, 0, Outcome.UNKNOWN)
    assert ready.settled == []
    assert ready.publisher.tables.sequences() == {updates_topic("t"): (0, 0, 0)}


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


def test_a_table_change_is_in_every_partition(ready) -> None:
    change = EndedSchemaChange(0, TableChangeKind.TRUNCATED, Outcome.APPLIED, 1.0, "")
    ready.publisher.add("t", change)
    ready.timers.run()
    ready.producer.deliver_all()
    for partition in range(PARTITIONS):
        (message,) = ready.producer.log(partition)
        assert isinstance(message, TableChange)
        assert message.kind is TableChangeKind.TRUNCATED
    assert ready.settled == [0]
