"""When a wave ends: by a mark, a period or a quiet time; and what has settled it."""

from __future__ import annotations

import msgspec
import pytest
from simulation import ScriptedAgent, World
from simulation.driving import ask, change, changed_to, feed, outcomes, started, status, wave

from headgate.agent.dataflow.views import WaveStatus
from headgate.agent.errors import Refused
from headgate.agent.state.saved_state import FlowProgress
from headgate.engine import WaveEnded
from headgate.events import VERSION, Gap
from headgate.flows import parse_dataflow

LAST_YEAR = 968_464.123456
"""A time of a wave that is not that of its mark, in Unix seconds."""


def test_a_wave_below_the_bound_launches_nothing(world: World) -> None:
    agent = started(world)
    feed(world, rows=2)
    wave(world, agent)
    assert outcomes(agent, "first") == []
    assert status(world, agent).actions[1].skipped == 1


def test_a_wave_is_settled_when_its_runs_and_their_successors_have_ended(world: World) -> None:
    agent = started(world)
    feed(world)
    told: list[WaveStatus] = []
    number = ask(agent, lambda runtime, now: runtime.waves.mark((), now))
    ask(agent, lambda runtime, now: runtime.waves.when_settled(number, told.append))
    assert told == []
    world.run(lambda: bool(told))
    assert outcomes(agent, "first") == outcomes(agent, "second") == ["committed"]
    assert told == [WaveStatus(number, settled=True)]


def test_waves_that_were_not_asked_for_cannot_be_waited_for(world: World) -> None:
    agent = started(world)
    with pytest.raises(Refused, match="the last one is 0"):
        ask(agent, lambda runtime, now: runtime.waves.when_settled(1, lambda _: None))


def test_a_quiet_period_ends_a_wave(two_steps: str) -> None:
    world = World(parse_dataflow(two_steps + "waves: quiet 10 s\n", "test"))
    agent = started(world)
    feed(world)
    world.run(lambda: True)
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "second") == ["committed"]


@pytest.mark.parametrize("waves", ["quiet 10 s", "every 2 min"])
@pytest.mark.parametrize("restarts", [1, 3])
def test_input_that_was_consumed_ends_its_wave_whoever_goes_on(
    two_steps: str, waves: str, restarts: int
) -> None:
    world = World(parse_dataflow(two_steps + f"waves: {waves}\n", "test"))
    agent = started(world)
    feed(world)
    for _ in range(restarts):
        for _ in range(40):
            world.now += 0.1
            world.step()
        agent.alive = False
        agent = world.start_agent()
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "second") == ["committed"]
    assert agent.waves() == 1


@pytest.mark.parametrize("by", [86_400.0, -86_400.0])
def test_a_clock_that_is_set_ends_a_quiet_period_neither_early_nor_late(
    two_steps: str, by: float
) -> None:
    world = World(parse_dataflow(two_steps + "waves: quiet 10 s\n", "test"))
    agent = started(world)
    feed(world)
    for _ in range(40):
        world.step()
    world.leap(by)
    for _ in range(90):
        world.now += 0.1
        world.step()
    assert agent.waves() == 0
    for _ in range(20):
        world.now += 0.1
        world.step()
    assert agent.waves() == 1


def test_a_gap_in_the_input_ends_a_wave_too(two_steps: str) -> None:
    world = World(parse_dataflow(two_steps + "waves: quiet 10 s\n", "test"))
    agent = started(world)
    feed(world)
    world.run(lambda: agent.settled() == 1)
    gap = Gap(VERSION, "observer", 1, 0, "in", world.now, world.now, "the journal was full")
    world.publish("in", 0, gap)
    world.run(lambda: agent.settled() == 2)
    assert outcomes(agent, "first") == ["committed", "committed"]


def test_input_of_a_wave_that_was_marked_until_now_ends_by_its_new_rule(two_steps: str) -> None:
    world = World(parse_dataflow(two_steps, "test"))
    agent = started(world)
    feed(world)
    world.run(lambda: True)
    change(world, agent, two_steps + "waves: quiet 10 s\n")
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "first") == ["committed"]


def test_a_period_without_input_ends_no_wave(two_steps: str) -> None:
    world = World(parse_dataflow(two_steps + "waves: every 10 s\n", "test"))
    agent = started(world)
    for _ in range(30):
        world.now += 1
        world.step()
    assert agent.waves() == 0
    feed(world)
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "first") == ["committed"]


def test_another_end_of_waves_holds_at_once(world: World, two_steps: str) -> None:
    agent = started(world)
    changed_to(world, agent, source=f"{two_steps}waves: every 5 s\n")
    feed(world)
    world.run(lambda: agent.settled() == 1)
    assert outcomes(agent, "first") == ["committed"]


# -- their own times


def marked(agent: ScriptedAgent, time: float | None = None) -> int:
    return int(ask(agent, lambda runtime, now: runtime.waves.mark((), now, time)))


def replaced(world: World, agent: ScriptedAgent, seconds: float = 500.0) -> ScriptedAgent:
    """Return the agent that takes over, so many seconds after the one before has ended."""
    agent.alive = False
    world.now += seconds
    return world.start_agent()


def published(world: World) -> list[tuple[int, float, float]]:
    """Return numbers and own times of ends of waves, and when they ended, as Kafka has them."""
    decisions = [msgspec.json.decode(line) for line in world.decisions]
    return [(d["wave"], d["wave_time"], d["time"]) for d in decisions if d["kind"] == "wave-ended"]


@pytest.mark.parametrize("time", [LAST_YEAR, 0.0, None])
def test_the_engine_and_kafka_hear_of_a_wave_with_its_own_number_and_time(
    world: World, ended_waves: list[WaveEnded], time: float | None
) -> None:
    agent = started(world)
    at = world.now
    for number in (1, 2):
        marked(agent, time)
        world.now += 5
        world.run(lambda: agent.settled() == number)  # noqa: B023
    [first, second] = ended_waves
    expected = at if time is None else time
    assert (first.actions, first.number, first.time) == (("feed",), 1, expected)
    assert first.now >= at + 5
    assert second.number == 2
    assert published(world) == [(e.number, e.time, e.now) for e in ended_waves]


@pytest.mark.parametrize("time", [LAST_YEAR, None])
@pytest.mark.parametrize("restarts", [1, 2])
def test_a_wave_keeps_its_time_when_its_agent_ends_before_the_barrier_has_passed(
    world: World, ended_waves: list[WaveEnded], time: float | None, restarts: int
) -> None:
    agent = started(world)
    expected = world.now if time is None else time
    number = marked(agent, time)
    for _ in range(restarts):
        agent = replaced(world, agent)
    assert ended_waves == []
    world.run(lambda: agent.settled() == number)
    assert [(e.number, e.time) for e in ended_waves] == [(number, expected)]


def test_a_later_mark_leaves_the_times_of_waves_before_it(
    world: World, ended_waves: list[WaveEnded]
) -> None:
    agent = started(world)
    for day in (1.0, 2.0, 3.0):
        marked(agent, day)
    agent = replaced(world, agent)
    marked(agent, 4.0)
    world.run(lambda: agent.settled() == 4)
    assert [(e.number, e.time) for e in ended_waves] == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)]
    marked(agent, 5.0)
    assert ask(agent, lambda runtime, _: runtime.waves.times) == {5: 5.0}


def test_a_wave_that_ends_by_itself_has_the_time_of_its_end(
    two_steps: str, ended_waves: list[WaveEnded]
) -> None:
    world = World(parse_dataflow(two_steps + "waves: quiet 10 s\n", "test"))
    agent = started(world)
    feed(world)
    world.run(lambda: agent.settled() == 1)
    [ended] = ended_waves
    assert ended.time is not None
    assert 1_000_010 <= ended.time <= ended.now


def test_the_time_of_the_last_wave_is_shown_whoever_goes_on(world: World) -> None:
    agent = started(world)
    assert status(world, agent).wave_time is None
    marked(agent, LAST_YEAR)
    assert status(world, agent).wave_time == LAST_YEAR
    world.run(lambda: agent.settled() == 1)
    agent = replaced(world, agent)
    assert status(world, agent).wave_time == LAST_YEAR


def forget_times(world: World) -> None:
    """Have the saved state be one of before waves had times."""
    row = world.rows.rows[b"flow/two-steps"]
    meta = msgspec.msgpack.decode(row[b"state:meta"])
    del meta["progress"]["wave_times"]
    row[b"state:meta"] = msgspec.msgpack.encode(meta)


def test_waves_of_a_state_without_times_have_that_of_the_first_restart(
    world: World, ended_waves: list[WaveEnded]
) -> None:
    agent = started(world)
    marked(agent)
    forget_times(world)
    agent = replaced(world, agent)
    taken_over = world.now
    ask(agent, lambda runtime, now: runtime.save(now))
    agent = replaced(world, agent)
    world.run(lambda: agent.settled() == 1)
    assert [(e.number, e.time) for e in ended_waves] == [(1, taken_over)]


def test_progress_of_before_waves_had_times_is_read() -> None:
    stored = b"\x83\xa5waves\x03\xa7settled\x01\xa9unsettled\x92\x92\x02\x91\xa4feed\x92\x03\x90"
    assert msgspec.msgpack.decode(stored, type=FlowProgress) == FlowProgress(
        waves=3, settled=1, unsettled=((2, ("feed",)), (3, ())), wave_times={}
    )
