"""Requests too large for one message, and messages too large for the broker."""

from __future__ import annotations

import pytest
from published import PARTITIONS, TOO_LARGE, batches, intents, row_in, write

from headgate.events import NO_TTL, Gap, UpdateBatch, partition_of, updates_topic


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
        == ready.publisher.tables.sequences()[updates_topic("t")][0]
    )


@pytest.mark.parametrize(
    ("ttls", "each"),
    [
        ([NO_TTL, 5, 9000, NO_TTL, 5, 5, 5, 5], [NO_TTL, 5, 9000, NO_TTL, 5, 5, 5, 5]),
        ([9000] * 8, [9000] * 8),
        ([NO_TTL] * 8, [NO_TTL] * 8),
    ],
    ids=["of every cell", "of all alike", "of none"],
)
def test_times_to_live_and_increments_by_zero_stay_with_their_cells(ready, ttls, each) -> None:
    ended = write(0, [row_in(0, i) for i in range(8)], value=b"x" * 300)
    ended.ttls, ended.zero_increments = ttls, bytes([0, 0, 1, 1, 0, 1, 0, 0])
    ready.publisher.add("t", ended)
    ready.publisher.flush()
    fail_above(ready, 1300)
    parts = [part for batch in batches(ready.producer.log(0)) for part in batch.requests]
    assert len(parts) > 1
    assert [part.ttl(at) for part in parts for at in range(part.cells)] == each
    zeros = [at in part.zero_increments for part in parts for at in range(part.cells)]
    assert zeros == [False, False, True, True, False, True, False, False]


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
    events = ready.publisher.recovering(3)
    events.add("t", write(9, rows, value=b"x" * 300_000))
    events.flush()
    numbers = [
        part.piece
        for sent in ready.producer.sent
        if isinstance(sent.message, UpdateBatch)
        for part in sent.message.requests
    ]
    assert len(set(numbers)) == 4
    assert min(numbers) > 1000
