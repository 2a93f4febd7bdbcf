"""Two observers of one name, and an epoch below one's own earlier one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.agent.kafka.observers import ObserverTable
from headgate.events import ControlMessage, ObserverLease
from headgate.observer.config import JournalSettings, KafkaSettings, Listener, ObserverConfig
from headgate.observer.control.lease import LeaseRenewer
from headgate.observer.control.notify import NotifyColumns
from headgate.observer.control.state import ControlState
from headgate.observer.doctor.findings import namesakes
from headgate.observer.starting import StartError

SECONDS = 9.0


class Topic:
    """A control topic, and the clock of all who read it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.said: list[tuple[float, ObserverLease]] = []
        self.agent = ObserverTable(grace=30.0)
        self.living: list[Process] = []

    def say(self, message: ControlMessage) -> None:
        assert isinstance(message, ObserverLease)
        self.said.append((self.now, message))
        self.agent.hear(message, self.now)
        for process in self.living:
            process.lease.hear(message, message.seconds)

    async def sleep(self, seconds: float) -> None:
        self.pass_time(seconds)

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + 0.1)
            for process in tuple(self.living):
                if process.serving:
                    process.lease.tend()


class Process:
    """An observer process, whose journal's last epoch was one below its own."""

    def __init__(self, topic: Topic, epoch: int, name: str = "o") -> None:
        self.topic = topic
        self.epoch = epoch
        self.before = epoch - 1
        self.failure: Exception | None = None
        self.serving = False
        tables = SimpleNamespace(sequences=dict)
        publisher = SimpleNamespace(
            tables=tables,
            sequences=dict,
            begin_epoch=self.begin_epoch,
            spread_before=lambda _: None,
            forget_unwanted=lambda: None,
        )
        self.lease = LeaseRenewer(
            ObserverConfig(
                name=name,
                kafka=KafkaSettings("127.0.0.1:1"),
                journal=JournalSettings("journal"),
                thrift1=Listener("127.0.0.1:0", "127.0.0.1:1"),
                lease_seconds=SECONDS,
            ),
            epoch,
            say=topic.say,
            control=ControlState(clock=lambda: topic.now),
            notify=NotifyColumns(),
            publisher=cast("Any", publisher),
            admin=lambda: f"127.0.0.1:{epoch}",
            reads=dict,
            clock=lambda: topic.now,
            later=lambda _seconds, _call: None,
            fail=self.fail,
        )

    def begin_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def fail(self, error: Exception) -> None:
        self.failure = error
        self.kill()

    def listen(self) -> None:
        """Read the topic to its end, and follow it."""
        for said, message in self.topic.said:
            self.lease.hear(message, message.seconds - (self.topic.now - said))
        self.topic.living.append(self)

    def claim(self) -> None:
        asyncio.run(self.lease.claim(lambda above: above + 1))

    def start(self) -> None:
        self.listen()
        self.claim()
        self.begin()

    def begin(self) -> None:
        self.serving = True
        self.lease.begin()
        self.lease.end_of(self.before)

    def kill(self) -> None:
        self.serving = False
        if self in self.topic.living:
            self.topic.living.remove(self)

    def end(self) -> None:
        self.lease.end()
        self.kill()


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    return made(monkeypatch)


def made(monkeypatch: pytest.MonkeyPatch) -> Topic:
    topic = Topic()
    monkeypatch.setattr(asyncio, "sleep", topic.sleep)
    return topic


@pytest.fixture(scope="module")
def patches() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as found:
        yield found


@pytest.mark.parametrize("epoch", [3, 7, 900])
def test_an_observer_does_not_start_beside_one_of_its_name(topic: Topic, epoch: int) -> None:
    first = Process(topic, 7)
    first.start()
    topic.pass_time(20)
    second = Process(topic, epoch)
    second.listen()
    with pytest.raises(StartError, match=r"another observer is called 'o' .* its own name"):
        second.claim()
    assert topic.now < 120 + SECONDS
    second.kill()
    topic.pass_time(20)
    assert first.failure is None
    assert first.lease.namesakes.living() == ""


@settings(max_examples=25)
@given(st.integers(1, 50), st.integers(1, 50), st.floats(0, 5))
def test_of_two_that_start_together_the_older_goes_on(
    patches: pytest.MonkeyPatch, one: int, other: int, apart: float
) -> None:
    topic = made(patches)
    both = [Process(topic, one), Process(topic, other)]
    for each in both:
        each.listen()
        each.claim()
    both[0].begin()
    topic.pass_time(apart)
    both[1].begin()
    topic.pass_time(SECONDS)
    assert [each.failure is None for each in both].count(True) == 1
    (ended,) = (each for each in both if each.failure is not None)
    (left,) = topic.living
    assert "another observer is called 'o'" in str(ended.failure)
    assert ended.epoch >= left.epoch
    topic.pass_time(SECONDS + 1)
    assert left.lease.namesakes.living() == ""


def test_one_that_is_heard_is_announced_for_as_long_as_it_lives(topic: Topic) -> None:
    first = Process(topic, 7)
    first.start()
    topic.say(ObserverLease(1, "o", 9, SECONDS, {}, "10.0.0.9:80"))
    assert "10.0.0.9:80" in first.lease.namesakes.living()
    topic.pass_time(SECONDS + 0.2)
    assert first.lease.namesakes.living() == ""
    assert first.failure is None


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["kill", "end"]), max_size=6), st.floats(0, 2))
def test_an_observer_that_starts_again_waits_for_nobody(
    patches: pytest.MonkeyPatch, ends: list[str], apart: float
) -> None:
    topic = made(patches)
    other = Process(topic, 50, "p")
    other.start()
    for at, end in enumerate([*ends, "end"]):
        process = Process(topic, 7 + at)
        before = topic.now
        process.start()
        assert topic.now == before
        topic.pass_time(apart)
        assert process.failure is None
        getattr(process, end)()


@settings(max_examples=25)
@given(st.integers(1, 20), st.sampled_from(["kill", "end"]))
def test_an_observer_whose_journal_was_lost_begins_above_what_was_heard(
    patches: pytest.MonkeyPatch, epoch: int, end: str
) -> None:
    topic = made(patches)
    first = Process(topic, 10)
    first.start()
    topic.pass_time(5)
    getattr(first, end)()
    again = Process(topic, epoch)
    again.start()
    assert again.epoch > 10
    topic.pass_time(5)
    assert topic.agent.required(topic.now) == {"o": again.epoch}
    assert again.failure is None


def test_agents_wait_for_a_live_observer_whose_epoch_is_below_an_earlier_one() -> None:
    """One of a version that does not begin above what was heard."""
    table = ObserverTable(grace=30.0)
    table.hear(ObserverLease(1, "o", 10, SECONDS, {}), 100.0)
    table.hear(ObserverLease(1, "o", 4, SECONDS, {}), 105.0)
    assert table.required(105.0) == {"o": 10}
    table.hear(ObserverLease(1, "o", 4, SECONDS, {}), 112.0)
    assert table.required(112.0) == {"o": 4}
    assert table.live(112.0) == {"o": ""}


def test_doctor_names_two_of_one_name() -> None:
    one = ObserverLease(1, "o", 7, SECONDS, {}, "a:1")
    other = ObserverLease(1, "o", 9, SECONDS, {}, "b:1")
    apart = ObserverLease(1, "p", 9, SECONDS, {}, "c:1")
    (found,) = namesakes([one, other, apart])
    assert found.step == "observer o"
    assert "epoch 7 at a:1, epoch 9 at b:1" in found.text
    assert not list(namesakes([one, apart, one]))
