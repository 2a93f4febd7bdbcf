"""Which marks a barrier needs, and whose."""

from __future__ import annotations

from headgate.agent.kafka.barriers import Barrier
from headgate.agent.kafka.observers import ObserverTable
from headgate.events import BarrierMark, ObserverLease, updates_topic

TOPIC = updates_topic("t")


def barrier() -> Barrier[str]:
    return Barrier("b", {"t": 2}, "purpose", None, 0.0)


def mark(observer: str = "o", epoch: int = 1) -> BarrierMark:
    return BarrierMark(1, observer, epoch, 0, "b", 2)


def lease(observer: str = "o", epoch: int = 1, *, ended: bool = False) -> ObserverLease:
    return ObserverLease(1, observer, epoch, 10.0, {}, f"{observer}:1", ended)


def test_a_barrier_passes_when_each_observer_has_marked_every_partition() -> None:
    found = barrier()
    for partition in (0, 1):
        found.mark(TOPIC, partition, mark("o"))
    assert found.passed({"o": 1})
    assert not found.passed({"o": 1, "p": 1})
    found.mark(TOPIC, 0, mark("p"))
    assert found.missing({"o": 1, "p": 1}) == {"p": 1}


def test_a_barrier_without_observers_does_not_pass() -> None:
    assert not barrier().passed({})


def test_a_mark_of_an_older_epoch_does_not_count() -> None:
    found = barrier()
    for partition in (0, 1):
        found.mark(TOPIC, partition, mark(epoch=1))
    assert not found.passed({"o": 2})
    for partition in (0, 1):
        found.mark(TOPIC, partition, mark(epoch=2))
    assert found.passed({"o": 2})


def test_an_observer_is_live_until_its_lease_ends() -> None:
    table = ObserverTable(30.0)
    table.hear(lease(), 100.0)
    assert table.live(109.0) == {"o": "o:1"}
    assert table.live(110.0) == {}


def test_a_time_in_which_nobody_was_heard_ends_no_lease() -> None:
    table = ObserverTable(30.0)
    table.hear(lease("o"), 100.0)
    table.hear(lease("p"), 101.0)
    table.hear(lease("o"), 1000.0)
    assert table.required(1000.0) == {"o": 1, "p": 1}
    # From here on it is silent by itself.
    table.hear(lease("o"), 1008.0)
    assert table.live(1010.0) == {"o": "o:1"}
    table.hear(lease("o"), 1016.0)
    assert table.required(1040.0) == {"o": 1}


def test_leases_from_before_the_agent_listened_are_as_old_as_they_are() -> None:
    table = ObserverTable(30.0)
    table.recall(lease("o"), 100.0)
    table.recall(lease("p"), 999.0)
    table.hear(lease("p"), 1000.0)
    assert table.required(1000.0) == {"p": 1}


def test_one_that_vanished_is_waited_for_in_its_grace() -> None:
    table = ObserverTable(30.0)
    table.hear(lease(), 100.0)
    assert table.required(139.0) == {"o": 1}
    assert table.lost(139.0) == ("o",)
    assert table.required(140.0) == {}


def test_one_that_said_goodbye_is_not_waited_for() -> None:
    table = ObserverTable(30.0)
    table.hear(lease(), 100.0)
    table.hear(lease(ended=True), 101.0)
    assert table.required(102.0) == {}


def test_the_next_epoch_stands_for_the_one_before() -> None:
    table = ObserverTable(30.0)
    table.hear(lease(epoch=2), 100.0)
    table.hear(lease(epoch=1), 101.0)
    assert table.required(102.0) == {"o": 2}
