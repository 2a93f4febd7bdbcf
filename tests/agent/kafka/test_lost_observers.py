"""An observer whose host is lost for good takes with it what it had not published: all is looked
through once."""

from __future__ import annotations

import pytest
from simulation import ScriptedAgent, World

from headgate.agent.kafka.observers import ObserverTable
from headgate.engine import DecisionKind
from headgate.events import VERSION, ObserverLease

GRACE = 30.0
LEASE = 10.0


def lease(observer: str = "o", epoch: int = 1, *, ended: bool = False) -> ObserverLease:
    return ObserverLease(VERSION, observer, epoch, LEASE, {}, "", ended)


@pytest.fixture
def table() -> ObserverTable:
    return ObserverTable(GRACE)


def keep_company(table: ObserverTable, now: float) -> None:
    """Have another observer be heard, so that it is not Kafka that is silent."""
    table.hear(lease("other"), now)


def test_an_epoch_without_a_goodbye_is_gone_after_its_grace(table: ObserverTable) -> None:
    table.hear(lease(), 100.0)
    for now in range(101, 141, 5):
        keep_company(table, now)
    assert table.gone(139.9) == {}
    assert table.gone(140.0) == {"o": (1,)}


def test_an_epoch_that_said_goodbye_is_not(table: ObserverTable) -> None:
    table.hear(lease(), 100.0)
    table.hear(lease(ended=True), 101.0)
    assert table.gone(1e9) == {}


def test_nor_one_whose_journal_the_next_epoch_has_published(table: ObserverTable) -> None:
    table.hear(lease(epoch=1), 100.0)
    table.hear(lease(epoch=2), 105.0)
    table.hear(lease(epoch=1, ended=True), 106.0)
    assert table.gone(140.0) == {}


def test_a_new_host_of_the_same_name_does_not_make_up_for_it(table: ObserverTable) -> None:
    table.hear(lease(epoch=1), 100.0)
    for now in range(105, 200, 5):
        table.hear(lease(epoch=2), now)
    assert table.gone(200.0) == {"o": (1,)}


def test_what_ended_before_the_agent_listened_is_gone_too(table: ObserverTable) -> None:
    table.recall(lease(epoch=7), 100.0)
    table.recall(lease("p", epoch=1), 100.0)
    table.recall(lease("p", epoch=1, ended=True), 101.0)
    assert table.gone(1000.0) == {"o": (7,)}


def test_while_nobody_is_heard_nobody_is_gone(table: ObserverTable) -> None:
    table.hear(lease(), 100.0)
    keep_company(table, 101.0)
    keep_company(table, 1101.0)  # Kafka was away
    assert table.gone(1102.0) == {}
    for now in range(1105, 1200, 5):
        keep_company(table, now)
    assert table.gone(1200.0) == {"o": (1,)}


def test_nor_is_anybody_before_kafka_is_back(table: ObserverTable) -> None:
    table.hear(lease(), 100.0)
    keep_company(table, 101.0)
    assert table.gone(101.0 + LEASE + GRACE) == {}


def gaps(agent: ScriptedAgent) -> list[str]:
    assert agent.runtime is not None
    return [d.words for d in agent.runtime.decisions.newest if d.kind is DecisionKind.GAP]


def lose(world: World, agent: ScriptedAgent, epoch: int = 1) -> None:
    agent.observers.recall(lease("lost", epoch), world.now)
    world.now += LEASE + GRACE
    world.run(lambda: True)


def test_a_dataflow_looks_for_what_is_missing_once_for_each_loss(world: World) -> None:
    agent = world.start_agent()
    world.run(lambda: True)
    lose(world, agent)
    assert len(gaps(agent)) == 1
    assert "'lost' is lost" in gaps(agent)[0]
    world.now += 1000.0
    world.run(lambda: True)
    assert len(gaps(agent)) == 1
    lose(world, agent, epoch=2)
    assert len(gaps(agent)) == 2


def test_each_lost_epoch_of_a_name_is_told(table: ObserverTable) -> None:
    table.recall(lease(epoch=3), 100.0)
    table.recall(lease(epoch=2), 50.0)
    assert table.gone(139.9) == {"o": (2,)}
    assert table.gone(140.0) == {"o": (2, 3)}


def test_a_later_epochs_loss_hides_no_earlier_one(world: World) -> None:
    """Two hosts had one name for a while, and the one that began first outlived the other."""
    agent = world.start_agent()
    world.run(lambda: True)
    lose(world, agent, epoch=2)
    assert len(gaps(agent)) == 1
    lose(world, agent, epoch=1)
    assert len(gaps(agent)) == 2
    world.now += 1000.0
    world.run(lambda: True)
    assert len(gaps(agent)) == 2


def test_the_wave_after_a_loss_runs_what_may_have_missed_its_updates(world: World) -> None:
    agent = world.start_agent()
    world.run(lambda: True)
    lose(world, agent)
    agent.ask(lambda runtime, now: runtime.waves.mark((), now) and None)
    world.run(lambda: agent.settled() == 1)
    assert [request.action for request in world.commits] == ["first", "second"]


def test_an_agent_that_comes_later_knows_which_losses_were_seen_to(world: World) -> None:
    first = world.start_agent()
    world.run(lambda: True)
    lose(world, first)
    world.now += 10.0
    world.run(lambda: True)
    second = world.start_agent()
    second.observers.recall(lease("lost"), world.now - 1000.0)
    second.observers.recall(lease("another"), world.now - 1000.0)
    world.run(lambda: True)
    assert len(gaps(second)) == 1
    assert "'another'" in gaps(second)[0]


def test_what_was_lost_before_a_dataflow_watched_anything_is_none_of_its_losses(
    world: World,
) -> None:
    agent = ScriptedAgent(world, 1)
    agent.observers.recall(lease("lost"), world.now - 1000.0)
    world.agents.append(agent)
    agent.begin()
    world.run(lambda: True)
    assert gaps(agent) == []


def test_one_that_was_heard_again_can_be_lost_all_the_same(world: World) -> None:
    agent = world.start_agent()
    world.run(lambda: True)
    lose(world, agent)
    agent.observers.hear(lease("lost"), world.now)
    for _ in range(9):
        world.run(lambda: True)
        world.now += (LEASE + GRACE) / 8
        keep_company(agent.observers, world.now)
    world.run(lambda: True)
    assert len(gaps(agent)) == 2
