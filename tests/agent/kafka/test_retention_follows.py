"""Topics are kept as long as dataflows need them, whichever agents these are with."""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation import ScriptedAgent, World
from simulation.rows import MemoryRows

from headgate.agent.errors import Unreachable
from headgate.agent.kafka.feed import FeedRecord
from headgate.agent.kafka.retention import (
    Raised,
    Retention,
    RetentionChange,
    RetentionKeeper,
    RetentionRefused,
    change_of,
    needed,
)
from headgate.agent.supervision import Supervision
from headgate.events import updates_topic

DAY = 86_400.0
WEEK = Retention(7 * DAY, inherited=True)
LONGEST = 30 * DAY


class Topics:
    """Kafka's topics; an agent may be without the right to alter them."""

    def __init__(self, **topics: Retention) -> None:
        self.topics = topics
        self.allowed = True
        self.answers = True
        self.altered: list[tuple[str, Retention]] = []

    def retentions(self, topics: Iterable[str]) -> dict[str, Retention | None]:
        return {topic: self.topics.get(topic) for topic in topics} if self.answers else {}

    def retain(self, topic: str, retention: Retention) -> None:
        if not self.allowed:
            raise RetentionRefused("not allowed")
        self.altered.append((topic, retention))
        self.topics[topic] = retention


class Cluster:
    """Agents over one state table."""

    def __init__(self, agents: int = 1, **topics: Retention) -> None:
        self.rows = MemoryRows()
        self.kafka = Topics(**topics or {"t": WEEK})
        self.agents = [self.agent() for _ in range(agents)]

    def agent(self) -> RetentionKeeper:
        return RetentionKeeper(self.rows, self.kafka, LONGEST, Supervision(lambda _: None))

    @property
    def kept(self) -> float:
        return self.kafka.topics["t"].seconds


@pytest.mark.parametrize(
    ("age", "longest", "seconds"),
    [
        (0.0, 30.0, None),
        (4.0, 30.0, None),
        (4.1, 30.0, 16.0),
        (8.1, 40.0, 32.0),
        (100.0, 30.0, 30.0),
        (100.0, 8.0, None),
        (100.0, 0.0, None),
    ],
)
def test_an_update_may_fill_half_of_the_retention(
    age: float, longest: float, seconds: float | None
) -> None:
    assert needed(age, 8.0, longest) == seconds


def test_the_greatest_need_wins_and_the_topic_gets_back_what_it_had() -> None:
    raised = change_of(WEEK, None, [14 * DAY, 28 * DAY])
    assert raised == RetentionChange(Retention(28 * DAY), Raised(WEEK, 28 * DAY))
    assert change_of(Retention(28 * DAY), raised.raised, [14 * DAY, 28 * DAY]) is None
    less = change_of(Retention(28 * DAY), raised.raised, [14 * DAY])
    assert less == RetentionChange(Retention(14 * DAY), Raised(WEEK, 14 * DAY))
    assert change_of(Retention(14 * DAY), less.raised, []) == RetentionChange(WEEK, None)


def test_what_somebody_has_altered_meanwhile_is_what_the_topic_has() -> None:
    raised = Raised(WEEK, 14 * DAY)
    assert change_of(Retention(3 * DAY), raised, []) == RetentionChange(Retention(3 * DAY), None)
    assert change_of(Retention(20 * DAY), raised, [14 * DAY]) == RetentionChange(
        Retention(20 * DAY), None
    )


def test_retention_follows_the_oldest_cut_and_comes_back() -> None:
    cluster = Cluster()
    (agent,) = cluster.agents
    agent.need("d", {"t": 3 * DAY})
    agent.look()
    assert cluster.kafka.altered == []
    agent.need("d", {"t": 4 * DAY})
    agent.look()
    assert cluster.kafka.topics["t"] == Retention(14 * DAY)
    assert agent.kept("t") == 14 * DAY
    agent.need("d", {"t": 9 * DAY})
    agent.look()
    assert cluster.kept == 28 * DAY
    agent.need("d", {"t": 200 * DAY})
    agent.look()
    assert cluster.kept == LONGEST
    agent.need("d", {"t": 10.0})
    agent.look()
    assert cluster.kafka.topics["t"] == WEEK
    assert cluster.rows.get(b"retention/t") == {}


def test_agents_do_not_take_from_each_other() -> None:
    cluster = Cluster(2)
    one, other = cluster.agents
    one.need("d", {"t": 4 * DAY})
    other.need("e", {"t": 9 * DAY})
    for agent in (one, other, one, other):
        agent.look()
    assert cluster.kept == 28 * DAY
    other.need("e", {})
    for agent in (other, one):
        agent.look()
    assert cluster.kept == 14 * DAY
    assert len(cluster.kafka.altered) == 3


def test_a_dataflow_that_no_agent_has_needs_its_updates_all_the_same() -> None:
    cluster = Cluster(2)
    one, other = cluster.agents
    one.need("d", {"t": 4 * DAY})
    one.look()
    one.rest("d")
    for agent in (one, other):
        agent.look()
    assert cluster.kept == 14 * DAY
    other.need("d", {"t": 1.0})
    other.look()
    assert cluster.kafka.topics["t"] == WEEK


def test_one_that_is_removed_needs_nothing() -> None:
    cluster = Cluster()
    (agent,) = cluster.agents
    agent.need("d", {"t": 4 * DAY})
    agent.look()
    agent.rest("d")
    agent.remove("d")
    agent.look()
    assert cluster.kafka.topics["t"] == WEEK
    assert cluster.rows.get(b"retention/t") == {}


def test_a_refusal_is_told_once_and_leaves_nothing_behind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = Cluster()
    (agent,) = cluster.agents
    cluster.kafka.allowed = False
    agent.need("d", {"t": 4 * DAY})
    for _ in range(3):
        agent.look()
    told = capsys.readouterr().out
    assert told.count("retention cannot follow what runs need") == 1
    assert "retention.ms to 1209600000" in told
    assert cluster.kept == 7 * DAY
    cluster.kafka.allowed = True
    agent.look()
    assert cluster.kept == 14 * DAY


@pytest.mark.parametrize("ends_at", range(1, 10))
def test_an_agent_that_ends_between_two_steps_leaves_a_topic_that_can_be_given_back(
    ends_at: int,
) -> None:
    cluster = Cluster()
    left = [ends_at]

    def point() -> None:
        left[0] -= 1
        if not left[0]:
            raise Unreachable("killed")

    cluster.rows = MemoryRows(point)
    agent = cluster.agent()
    with suppress(Unreachable):
        for age in (4 * DAY, 9 * DAY, 1.0):
            agent.need("d", {"t": age})
            agent.look()
    left[0] = 0
    later = cluster.agent()
    later.need("d", {"t": 9 * DAY})
    later.look()
    assert cluster.kept == 28 * DAY
    later.need("d", {})
    later.look()
    assert cluster.kafka.topics["t"] == WEEK
    assert cluster.rows.get(b"retention/t") == {}


def test_a_topic_that_keeps_everything_or_is_gone_is_forgotten() -> None:
    cluster = Cluster()
    (agent,) = cluster.agents
    agent.need("d", {"t": 4 * DAY})
    agent.look()
    del cluster.kafka.topics["t"]
    agent.look()
    assert cluster.rows.get(b"retention/t") == {}


def test_what_a_topic_had_is_remembered_while_kafka_does_not_tell_what_it_has() -> None:
    cluster = Cluster()
    (agent,) = cluster.agents
    agent.need("d", {"t": 4 * DAY})
    agent.look()
    cluster.kafka.answers = False
    agent.look()
    cluster.kafka.answers = True
    agent.look()
    agent.need("d", {})
    agent.look()
    assert cluster.kafka.topics["t"] == WEEK


@given(st.integers(0, 10**6))
@settings(max_examples=200, deadline=None)
def test_whatever_agents_do_in_whatever_order_the_topic_comes_to_what_is_needed(seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster(3)
    ages: dict[str, float] = {}
    homes: dict[str, RetentionKeeper] = {}
    for _ in range(rng.randint(1, 30)):
        flow = rng.choice("def")
        agent = rng.choice(cluster.agents)
        match rng.choice(["need", "need", "rest", "remove", "look", "look"]):
            case "need":
                if flow in homes and homes[flow] is not agent:
                    homes[flow].rest(flow)
                homes[flow], ages[flow] = agent, rng.choice([0.0, 4.0, 9.0, 60.0]) * DAY
                agent.need(flow, {"t": ages[flow]})
            case "rest" if flow in homes:
                homes[flow].look()
                homes.pop(flow).rest(flow)
            case "remove" if flow in homes:
                homes[flow].rest(flow)
                homes.pop(flow).remove(flow)
                ages.pop(flow)
            case "look":
                agent.look()
    for agent in (*cluster.agents, *cluster.agents):
        agent.look()
    wanted = [needed(age, 7 * DAY, LONGEST) for age in ages.values()]
    assert cluster.kept == max([7 * DAY, *(one for one in wanted if one is not None)])


def test_a_dataflow_says_what_its_next_runs_are_to_be_shown(world: World) -> None:
    agent: ScriptedAgent = world.start_agent()
    world.run(lambda: True)
    for row in (b"1", b"2", b"3"):
        world.write("in", row, b"c:v", b"1")
    agent.ask(lambda runtime, now: runtime.waves.mark((), now) and None)
    world.run(lambda: agent.settled() == 1)
    world.write("in", b"4", b"c:v", b"1")
    later = world.now + 1000.0
    world.run(lambda: world.now >= later)
    assert set(world.needs) == {updates_topic("in")}
    assert 900 < world.needs[updates_topic("in")] < 1100


def test_of_a_topic_of_which_updates_were_lost_nothing_is_needed_before_the_next_run(
    world: World,
) -> None:
    agent: ScriptedAgent = world.start_agent()
    world.run(lambda: True)
    for row in (b"1", b"2", b"3"):
        world.write("in", row, b"c:v", b"1")
    agent.ask(lambda runtime, now: runtime.waves.mark((), now) and None)
    world.run(lambda: agent.settled() == 1)
    lost = FeedRecord(updates_topic("in"), 0, 0, None, world.now, lost=True)
    agent.ask(lambda runtime, now: runtime.consume([lost], now))
    later = world.now + 1000.0
    world.run(lambda: world.now >= later)
    assert world.needs == {}
