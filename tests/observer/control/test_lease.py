"""The observer's lease: renewed, heard, lost and found again on the control topic."""

import pytest
from structlog.testing import capture_logs

from headgate.events import (
    MORE_PARTITIONS,
    ControlMessage,
    ObserverLease,
    Watch,
    WatchList,
    control_key,
    encode_control,
    updates_topic,
)
from headgate.observer.config import JournalSettings, KafkaSettings, Listener, ObserverConfig
from headgate.observer.control import lease
from headgate.observer.control.lease import LeaseRenewer
from headgate.observer.control.notify import NotifyColumns
from headgate.observer.control.state import ControlState


class Scene:
    """An observer's lease of nine seconds, begun when the clock showed 100."""

    def __init__(self, bench, *, begun: bool = True) -> None:
        self.now = 100.0
        self.said: list[ControlMessage] = []
        self.failed: list[Exception] = []
        self.publisher = bench.publisher
        self.timers = bench.timers
        self.control = ControlState(clock=lambda: self.now)
        self.lease = LeaseRenewer(
            ObserverConfig(
                name="o",
                kafka=KafkaSettings("127.0.0.1:1"),
                journal=JournalSettings("journal"),
                thrift1=Listener("127.0.0.1:0", "127.0.0.1:1"),
                lease_seconds=9.0,
            ),
            7,
            say=self.said.append,
            control=self.control,
            notify=NotifyColumns(),
            publisher=self.publisher,
            admin=lambda: "127.0.0.1:8080",
            reads=lambda: {"t": {"f:a": 2}},
            clock=lambda: self.now,
            later=bench.timers.later,
            fail=self.failed.append,
        )
        if begun:
            self.lease.begin()

    def tend(self, now: float) -> None:
        self.now = now
        self.lease.tend()

    def hear_last(self) -> None:
        """Let the control topic be read to its end."""
        last = self.said[-1]
        assert isinstance(last, ObserverLease)
        self.lease.hear(last, 9.0)

    def taken(self) -> list[ControlMessage]:
        said, self.said[:] = list(self.said), []
        return said


@pytest.fixture
def scene(bench) -> Scene:
    return Scene(bench)


def test_a_lease_is_renewed_when_a_third_of_it_is_over(scene: Scene) -> None:
    scene.taken()
    scene.tend(102.9)
    assert scene.taken() == []
    scene.tend(103.0)
    (renewed,) = scene.taken()
    assert isinstance(renewed, ObserverLease)
    assert renewed.number == 2


def test_a_lease_that_is_not_heard_loses_the_control_topic(scene: Scene) -> None:
    scene.tend(109.0)
    assert not scene.control.is_watched("any")
    scene.tend(109.1)
    assert scene.control.is_watched("any")


def test_partitions_that_were_added_between_two_epochs_are_marked(bench) -> None:
    topic = updates_topic("t")
    bench.publisher.prepare("t", values=True)
    bench.publisher.topic_ready("t", 3)
    scene = Scene(bench, begun=False)
    for observer, epoch, count in (("o", 5, 1), ("o", 6, 2), ("p", 6, 3), ("o", 7, 3)):
        scene.lease.hear(ObserverLease(1, observer, epoch, 9.0, {topic: (4,) * count}), 9.0)
    scene.lease.hear(ObserverLease(1, "o", 6, 9.0, {}, ended=True), 9.0)
    bench.timers.run()
    assert bench.producer.sent == []
    scene.lease.begin()
    bench.timers.run()
    bench.producer.deliver_all()
    marks = [(one.partition, one.message.id) for one in bench.producer.delivered]
    assert marks == [(n, MORE_PARTITIONS) for n in range(3)]


def test_a_lease_of_another_epoch_keeps_nothing(scene: Scene) -> None:
    scene.now = 105.0
    scene.lease.hear(ObserverLease(1, "o", 6, 9.0, {}), 9.0)
    scene.tend(109.1)
    assert scene.control.everything


def test_a_lease_that_is_heard_again_brings_the_control_topic_back(scene: Scene) -> None:
    scene.control.apply(WatchList(1, "d", 1, (Watch("watched"),)), "o")
    scene.tend(120.0)
    scene.hear_last()
    assert not scene.control.everything
    assert not scene.control.is_watched("other")


def test_a_lease_tells_what_was_read_of_watched_tables(scene: Scene) -> None:
    (begun,) = scene.taken()
    assert isinstance(begun, ObserverLease)
    assert begun.reads == {"t": {"f:a": 2}}


def test_a_pause_longer_than_the_lease_is_no_error_where_the_topic_is_heard_at_once(
    scene: Scene,
) -> None:
    with capture_logs() as lines:
        scene.tend(160.0)
        assert scene.control.everything, "what was said meanwhile is not known yet"
        scene.now = 160.008
        scene.hear_last()
        for now in (160.1, 161.1, 162.0):
            scene.tend(now)
    assert not scene.control.everything
    assert lines == []


def test_a_loss_that_lasts_is_told_once_and_so_is_its_end(scene: Scene) -> None:
    with capture_logs() as lines:
        for _ in range(2):
            for tenth in range(110):
                scene.tend(scene.now + 0.1 * (tenth > 0))
            scene.hear_last()
    told = [(line["log_level"], line["event"].split(":")[0]) for line in lines]
    assert (
        told
        == [
            ("error", "the control topic is lost"),
            ("info", "the control topic is back"),
        ]
        * 2
    )


def test_what_others_took_for_lost_is_not_told_as_a_loss(scene: Scene) -> None:
    """A program that began without Kafka takes every table as watched by itself."""
    scene.control.lost()
    with capture_logs() as lines:
        scene.tend(105.0)
    assert lines == []


def test_the_end_of_a_lease_names_what_was_published_last(scene: Scene) -> None:
    scene.publisher.prepare("t", values=True)
    scene.publisher.topic_ready("t", 2)
    scene.taken()
    scene.lease.end()
    (message,) = scene.taken()
    assert isinstance(message, ObserverLease)
    assert message.ended
    assert list(message.sequences.values()) == [(0, 0)]


def test_time_that_passed_while_the_process_was_stopped_is_seen_before_anything_is_tended(
    scene: Scene,
) -> None:
    scene.now = 108.9
    assert not scene.control.is_watched("any")
    scene.now = 109.1
    assert scene.control.is_watched("any")


def test_a_lease_said_before_the_process_was_stopped_proves_nothing_of_the_time_after(
    scene: Scene,
) -> None:
    """It comes from the topic all the same, before what was said while nobody listened."""
    (before,) = scene.taken()
    scene.now = 160.0
    assert isinstance(before, ObserverLease)
    scene.lease.hear(before, 9.0)
    assert scene.control.is_watched("any")
    scene.tend(160.0)
    scene.lease.hear(before, 9.0)
    assert scene.control.everything
    scene.hear_last()
    assert not scene.control.is_watched("any")


def test_what_was_heard_is_good_from_when_the_lease_was_said_not_from_when_it_came(
    scene: Scene,
) -> None:
    """Agents count from when they heard it, and that may be at once."""
    scene.now = 108.0
    scene.hear_last()
    scene.now = 109.1
    assert scene.control.is_watched("any")


def test_a_lease_is_renewed_until_its_end_whatever_the_observer_does(scene: Scene) -> None:
    """A drain may take longer than the lease; nothing but the lease itself renews it."""
    for _ in range(140):
        scene.now += 0.1
        scene.timers.run()
        scene.hear_last()
    numbers = [each.number for each in scene.taken() if isinstance(each, ObserverLease)]
    assert numbers == [1, 2, 3, 4, 5]
    assert not scene.control.is_watched("any")
    scene.lease.end()
    scene.now += 9.0
    scene.timers.run()
    (last,) = scene.taken()
    assert isinstance(last, ObserverLease)
    assert last.ended
    assert not scene.timers.waiting


def test_ten_thousand_tables_with_long_names_fit_into_messages_that_kafka_takes(
    bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"{number:05d}_{'long' * 40}" for number in range(10_000)]
    for name in names:
        bench.publisher.prepare(name, values=True)
        bench.publisher.topic_ready(name, 2)
    scene = Scene(bench)
    said = scene.taken()
    assert max(len(encode_control(each)) for each in said) < 1_000_000
    assert len({control_key(each) for each in said}) == len(said) > 2
    # Agents take the last one for the lease, and the next epoch hears all of them.
    assert isinstance(said[-1], ObserverLease)
    assert (said[-1].number, said[-1].part, said[-1].address) == (1, 0, "127.0.0.1:8080")
    heard: dict[str, tuple[int, ...]] = {}
    for each in said:
        assert isinstance(each, ObserverLease)
        heard |= each.sequences
    assert heard == bench.publisher.tables.sequences()
    # What has not changed is said again from time to time only.
    scene.tend(103.0)
    assert len(scene.taken()) == 1
    monkeypatch.setattr(lease, "_PARTS_EACH", 3)
    scene.tend(106.0)
    assert len(scene.taken()) == len(said)


def test_a_part_of_a_lease_is_no_lease(scene: Scene) -> None:
    scene.lease.hear(ObserverLease(1, "o", 7, 9.0, {"topic": (1,)}, part=1), 9.0)
    assert not scene.lease.came_back.is_set()
