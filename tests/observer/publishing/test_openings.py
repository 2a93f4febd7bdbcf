"""A partition's first message goes alone; those behind it wait."""

import pytest

from headgate.observer.publishing.deliveries import DeliveryFailure, Done, FailureKind
from headgate.observer.publishing.openings import Openings

REFUSED = DeliveryFailure(FailureKind.OTHER, "not leader for partition")


class Client:
    """Takes messages as Kafka's client does, and tells their fate when it is asked to."""

    def __init__(self) -> None:
        self.room = True
        self.taken: list[bytes] = []
        self.under_way: list[Done] = []

    def produce(
        self, _topic: str, _partition: int, value: bytes, _key: bytes | None, done: Done
    ) -> bool:
        if self.room:
            self.taken.append(value)
            self.under_way.append(done)
        return self.room

    def end(self, failure: DeliveryFailure | None = None) -> None:
        self.under_way.pop(0)(failure)


class Bench:
    def __init__(self) -> None:
        self.client = Client()
        self.openings = Openings(self.client.produce)
        self.ended: list[tuple[bytes, DeliveryFailure | None]] = []

    def send(self, value: bytes, partition: int = 0) -> bool:
        return self.openings.send(
            "t", partition, value, None, lambda failure: self.ended.append((value, failure))
        )

    def again(self, value: bytes) -> None:
        assert self.send(value)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_nothing_goes_while_the_first_message_is_under_way(bench: Bench) -> None:
    assert [bench.send(value) for value in (b"1", b"2", b"3")] == [True] * 3
    assert bench.client.taken == [b"1"]


def test_what_waited_goes_in_order_once_the_first_is_there(bench: Bench) -> None:
    for value in (b"1", b"2", b"3"):
        bench.send(value)
    bench.client.end()
    assert bench.client.taken == [b"1", b"2", b"3"]
    assert bench.ended == [(b"1", None)]


def test_later_messages_do_not_wait_for_each_other(bench: Bench) -> None:
    bench.send(b"1")
    bench.client.end()
    bench.send(b"2")
    bench.send(b"3")
    assert bench.client.taken == [b"1", b"2", b"3"]


def test_a_message_sent_on_the_news_of_the_first_comes_after_those_that_waited(
    bench: Bench,
) -> None:
    bench.openings.send("t", 0, b"1", None, lambda _: bench.again(b"3"))
    bench.send(b"2")
    bench.client.end()
    assert bench.client.taken == [b"1", b"2", b"3"]


def test_partitions_do_not_wait_for_each_other(bench: Bench) -> None:
    bench.send(b"1", partition=0)
    bench.send(b"2", partition=1)
    assert bench.client.taken == [b"1", b"2"]


def test_what_waited_behind_a_failure_fails_with_it_in_order(bench: Bench) -> None:
    for value in (b"1", b"2", b"3"):
        bench.send(value)
    bench.client.end(REFUSED)
    assert bench.ended == [(b"1", REFUSED), (b"2", REFUSED), (b"3", REFUSED)]
    assert bench.client.taken == [b"1"]


def test_after_a_failure_the_next_message_goes_alone(bench: Bench) -> None:
    bench.send(b"1")
    bench.client.end(REFUSED)
    bench.send(b"1")
    bench.send(b"2")
    assert bench.client.taken == [b"1", b"1"]


def test_a_first_message_without_room_is_given_back(bench: Bench) -> None:
    bench.client.room = False
    assert not bench.send(b"1")
    bench.client.room = True
    assert bench.send(b"1")
    assert bench.client.taken == [b"1"]


def test_what_waited_and_finds_no_room_fails(bench: Bench) -> None:
    for value in (b"1", b"2", b"3"):
        bench.send(value)
    bench.client.room = False
    bench.client.end()
    failures = {value: failure for value, failure in bench.ended if failure is not None}
    assert list(failures) == [b"2", b"3"]
    assert {failure.kind for failure in failures.values()} == {FailureKind.OTHER}


def test_a_new_producer_begins_alone_again(bench: Bench) -> None:
    bench.send(b"1")
    bench.client.end()
    bench.openings.shut_all()
    bench.send(b"2")
    bench.send(b"3")
    assert bench.client.taken == [b"1", b"2"]


def test_a_partition_that_was_shut_begins_alone_again(bench: Bench) -> None:
    bench.send(b"1")
    bench.client.end()
    bench.openings.shut("t", 0)
    bench.send(b"2")
    bench.send(b"3")
    assert bench.client.taken == [b"1", b"2"]
