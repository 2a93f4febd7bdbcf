"""Messages that a topic refuses, for their size or altogether: what it takes is learned once."""

from __future__ import annotations

from published import TIMEOUT, TOO_LARGE, batches, intents, row_in, write

from headgate.events import Gap
from headgate.observer.publishing import deliveries
from headgate.observer.publishing.deliveries import DeliveryFailure, FailureKind

REFUSED = DeliveryFailure(FailureKind.REFUSED, "INVALID_RECORD")
EARLY = DeliveryFailure(FailureKind.EARLY, "INVALID_TIMESTAMP")


def settle(bench, limit: int) -> tuple[int, int]:
    """Be a broker with a limit until all is there; return refusals, and the turns it took."""
    refusals = turns = 0
    while not bench.publisher.idle:
        turns += 1
        assert turns < 1000
        bench.timers.run()
        while bench.producer.sent:
            if len(bench.producer.sent[0].value) > limit:
                refusals += 1
                bench.producer.fail(TOO_LARGE)
            else:
                bench.producer.deliver()
    return refusals, turns


def test_what_a_topic_takes_is_learned_once(ready) -> None:
    rows = [row_in(0, number) for number in range(64)]
    counts = []
    for intent in range(10):
        ready.publisher.add("t", write(intent, rows, value=b"x" * 1000))
        ready.publisher.flush()
        counts.append(settle(ready, 9000)[0])
    assert counts[0] <= 5
    assert counts[1:] == [0] * 9
    found = [row for batch in batches(ready.producer.log(0)) for row in batch.rows]
    assert found == rows * 10
    assert ready.settled == list(range(10))


def test_larger_messages_are_tried_again_after_many(ready, monkeypatch) -> None:
    monkeypatch.setattr(deliveries, "_TRIED_AGAIN", 5)
    rows = [row_in(0, number) for number in range(64)]
    for limit in (9000, 1 << 20):
        for intent in range(12):
            ready.publisher.add("t", write(intent, rows, value=b"x" * 1000))
            ready.publisher.flush()
            settle(ready, limit)
    assert max(len(sent.value) for sent in ready.producer.delivered[-2:]) > 60_000


def test_what_is_too_large_is_sent_again_without_a_pause(ready) -> None:
    ready.publisher.add("t", write(0, [row_in(0, n) for n in range(8)], value=b"x" * 1000))
    ready.publisher.flush()
    ready.timers.run()
    ready.producer.fail(TOO_LARGE)
    assert [seconds for seconds, _ in ready.timers.waiting] == [0.0]
    ready.timers.run()
    ready.producer.fail(TIMEOUT)
    assert [seconds > 0 for seconds, _ in ready.timers.waiting] == [True]


def refuse_with(bench, bad: int, failure: DeliveryFailure) -> None:
    """Be a broker that refuses each batch with one message: all that is sent at a time."""
    sent = bench.producer.sent
    for _ in range(20):
        while sent:
            if bad in intents([each.message for each in sent]):
                while sent:
                    bench.producer.fail(failure)
            else:
                bench.producer.deliver()
        bench.timers.run()


def test_one_refused_message_does_not_keep_those_around_it(ready) -> None:
    for intent in range(5):
        ready.publisher.add("t", write(intent, [row_in(0, intent)]))
        ready.publisher.flush()
    refuse_with(ready, 2, REFUSED)
    log = ready.producer.log(0)
    assert intents(log) == [0, 1, 3, 4]
    (gap,) = [each for each in log if isinstance(each, Gap)]
    assert log.index(gap) == 2
    assert "INVALID_RECORD" in gap.reason
    assert sorted(ready.settled) == [0, 1, 2, 3, 4]
    # Then they go together again.
    for intent in (5, 6):
        ready.publisher.add("t", write(intent, [row_in(0, intent)]))
        ready.publisher.flush()
    assert len(ready.producer.sent) == 2


def test_a_message_ahead_of_kafkas_clock_is_kept_until_it_is_taken(ready) -> None:
    for intent in range(3):
        ready.publisher.add("t", write(intent, [row_in(0, intent)]))
        ready.publisher.flush()
    refuse_with(ready, 1, EARLY)
    assert intents(ready.producer.log(0)) == [0]
    ready.timers.run()
    ready.producer.deliver_all()
    assert intents(ready.producer.log(0)) == [0, 1, 2]
