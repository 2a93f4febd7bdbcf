"""Scripted seams: a producer whose deliveries the test decides, and a clock that it turns."""

from collections.abc import Callable

import pytest
from msgspec import Struct

from headgate.events import UpdateMessage, decode_update
from headgate.observer.publisher import Done, Failure, Publisher


class Sent(Struct):
    topic: str
    partition: int
    value: bytes
    done: Done

    @property
    def message(self) -> UpdateMessage:
        return decode_update(self.value)


class ScriptedProducer:
    """Keeps what was sent until the test delivers it or lets it fail."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.delivered: list[Sent] = []
        self.full = False
        self.restarts = 0

    def send(self, topic: str, partition: int, value: bytes, done: Done) -> bool:
        if self.full:
            return False
        self.sent.append(Sent(topic, partition, value, done))
        return True

    def restart(self) -> None:
        self.restarts += 1

    def deliver(self, at: int = 0) -> Sent:
        sent = self.sent.pop(at)
        self.delivered.append(sent)
        sent.done(None)
        return sent

    def deliver_all(self) -> None:
        while self.sent:
            self.deliver()

    def fail(self, failure: Failure, at: int = 0) -> None:
        self.sent.pop(at).done(failure)

    def log(self, partition: int) -> list[UpdateMessage]:
        """What a consumer of the partition has seen."""
        return [sent.message for sent in self.delivered if sent.partition == partition]


class Timers:
    """Calls that wait for the test to let their time come."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.waiting.append((seconds, call))

    def run(self) -> None:
        waiting, self.waiting = self.waiting, []
        for _, call in waiting:
            call()


class Bench:
    """A publisher between a scripted producer and scripted timers."""

    def __init__(self) -> None:
        self.producer = ScriptedProducer()
        self.timers = Timers()
        self.settled: list[int] = []
        self.ensured: list[str] = []
        self.unfinished = 1_000_000
        self.publisher = Publisher(
            observer="o",
            epoch=7,
            producer=self.producer,
            settle=self.settled.append,
            unfinished=lambda _table: self.unfinished,
            ensure=lambda table, _topic: self.ensured.append(table),
            later=self.timers.later,
            linger_seconds=0.002,
        )


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture(scope="session")
def make_bench() -> type[Bench]:
    """For properties, which need a new one for each example."""
    return Bench
