"""Deliveries that fail are repeated in order, or readers are told."""

from __future__ import annotations

from published import TIMEOUT, TOO_LARGE, intents, row_in, write

from headgate.events import BarrierMark, Gap, UpdateBatch
from headgate.observer.publishing.deliveries import DeliveryFailure, FailureKind


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


def test_a_missing_topic_is_asked_for_again(ready) -> None:
    ready.publisher.add("t", write(0, [row_in(0)]))
    ready.timers.run()
    ready.producer.fail(DeliveryFailure(FailureKind.TOPIC, "unknown topic"))
    assert ready.ensured == ["t", "t"]


def test_a_fatal_error_makes_the_producer_new(ready) -> None:
    ready.publisher.add("t", write(0, [row_in(0)]))
    ready.timers.run()
    ready.producer.fail(DeliveryFailure(FailureKind.FATAL, "fenced"))
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


def test_a_barrier_waits_behind_a_failed_delivery(ready) -> None:
    ready.publisher.add("t", write(0, [row_in(0)]))
    ready.timers.run()
    ready.producer.fail(TIMEOUT)
    ready.publisher.mark("t", "b1")
    ready.publisher.flush()
    ready.timers.run()
    ready.producer.deliver_all()
    assert [type(message) for message in ready.producer.log(0)] == [UpdateBatch, BarrierMark]
