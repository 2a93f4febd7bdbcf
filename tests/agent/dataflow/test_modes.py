"""What a runtime asks of its tables in each mode."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from simulation import ScriptedAgent, World
from simulation.driving import started

from headgate.agent.ports import Extent
from headgate.engine import ReconciliationDue
from headgate.events import Notify, WatchList
from headgate.flows import parse_dataflow


@pytest.fixture
def moded(two_steps: str):
    def make(text: str) -> tuple[World, ScriptedAgent]:
        world = World(parse_dataflow(f"{two_steps}{text}\n", "two-steps.yaml"))
        return world, started(world)

    return make


def newest(world: World) -> WatchList:
    return [message for message in world.control if isinstance(message, WatchList)][-1]


def columns(world: World) -> set[Notify | None]:
    return {watch.notify for watch in newest(world).watches}


def test_in_normal_mode_nothing_is_asked_for(moded):
    world, _ = moded("")
    assert columns(world) == {None}
    assert (world.wanted, world.families) == ({}, set())


def test_observer_mode_has_what_is_watched_scanned(moded):
    world, _ = moded("mode: observer\nscans: {every: 7 s}")
    assert world.wanted == {table: Extent(7.0, (b"c:v",)) for table in ("in", "mid", "out")}
    assert columns(world) == {None}


def test_scans_by_notify_columns_have_them_set_by_everybody(moded):
    world, _ = moded("mode: observer\nscans: {by: notify}")
    assert columns(world) == {Notify()}
    assert world.families == {"in", "mid", "out"}
    assert all(extent.notify for extent in world.wanted.values())


def test_isolation_has_a_column_of_its_own_set_by_the_dataflow_and_its_feeders(moded):
    world, _ = moded("mode: isolation\nfeeders: [other/step, a/collector]")
    assert columns(world) == {
        Notify("two-steps", ("two-steps", "other", "other/step", "a", "a/collector"))
    }
    assert world.families == {"in", "mid", "out"}
    assert world.wanted == {}


def test_everything_is_scanned_from_time_to_time_whoever_was_its_agent(moded):
    world, agent = moded("mode: observer\nscans: {whole: 1 h}")
    told: list[float] = []
    for life in range(3):
        handle = agent.runtime.state.engine.handle

        def spy(stimulus, handle=handle):
            if isinstance(stimulus, ReconciliationDue):
                told.append(stimulus.now)
            return handle(stimulus)

        agent.runtime.state.engine.handle = spy
        world.now += 1500 if life == 0 else 2500
        world.run(lambda: True)
        agent.alive = False
        agent = started(world)
    assert len(told) == 1


def test_a_removed_dataflow_leaves_no_family_and_no_scan(moded):
    world, agent = moded("mode: isolation")
    gone: list[bool] = []
    world.silent = True
    agent.ask(lambda runtime, now: runtime.commands.withdraw(lambda: gone.append(True), now))
    world.run(lambda: True)
    assert newest(world).watches == ()
    assert world.families, "an observer may still set notify cells"
    assert not gone
    world.silent = False
    world.run(lambda: bool(gone))
    assert world.families == set()


def test_one_without_notify_columns_waits_for_nobody(moded):
    world, agent = moded("mode: observer")
    gone: list[bool] = []
    world.silent = True
    agent.ask(lambda runtime, now: runtime.commands.withdraw(lambda: gone.append(True), now))
    assert gone
    assert world.wanted == {}


def test_another_mode_takes_the_family_away_once_no_observer_needs_it(moded, two_steps):
    world, agent = moded("mode: isolation")
    normal = parse_dataflow(two_steps, "two-steps.yaml")
    definition = replace(agent.runtime.state.definition, revision=2, source=normal.source)
    world.silent = True
    agent.ask(lambda runtime, now: runtime.commands.change(definition, normal, now))
    world.run(lambda: True)
    assert columns(world) == {None}
    assert world.families == {"in", "mid", "out"}
    world.silent = False
    world.run(lambda: not world.families)
