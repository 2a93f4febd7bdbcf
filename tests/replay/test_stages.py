"""Stages are replayed: those that read flows run as often as what they read is made."""

from __future__ import annotations

import random

import pytest
from recorded_world import RecordedTester

from headgate.engine import (
    ActionFlows,
    ActionRole,
    ActionSpec,
    Bound,
    DataflowSpec,
    DecisionKind,
    FlowId,
    Produced,
    SequenceBound,
    WatchedContainer,
)
from headgate.events import Container, ContainerId, Item
from headgate.replay import Replayed, differences

READINGS, HEIGHTS = ContainerId("readings"), ContainerId("heights")


def flow(updates: float) -> DataflowSpec:
    """Return ``readings -> parse -> (flow) -> count -> heights``; parse has a bound."""
    bound = Bound("k", READINGS, sequence=SequenceBound(updates))
    return DataflowSpec(
        "flow",
        tuple(
            WatchedContainer(Container(name, (Item(str(name), b"c", b"v"),)))
            for name in (READINGS, HEIGHTS)
        ),
        (
            ActionSpec("feed", ActionRole.INPUT, writes=(READINGS,)),
            ActionSpec(
                "parse", reads=(READINGS,), bounds=(bound,), stage=ActionFlows(outputs=("units",))
            ),
            ActionSpec(
                "count",
                writes=(HEIGHTS,),
                stage=ActionFlows({"units": FlowId("parse", "units")}),
            ),
        ),
    )


class Stages(RecordedTester):
    """A dataflow whose stage makes an increment in each run."""

    waves = 0

    def end_wave(self) -> None:
        self.pass_time(60.0)
        self.work()
        self.waves += 1
        self.note(DecisionKind.WAVE_ENDED, wave=self.waves, inputs=("feed",))
        self.wave("feed")
        self.work()

    def work(self) -> None:
        while active := [name for name, a in self.engine.actions.items() if a.run is not None]:
            self.pass_time(2.0)
            if active[0] == "count":
                self.write("heights", {b"%d" % self.waves: {b"c:v": b"1"}}, by="count")
                self.finish("count")
            else:
                name = f"units-{self.waves}-{self.now}"
                self.finish("parse", Produced("units", name, None, 3))


def recorded(spec: DataflowSpec, seed: int) -> Stages:
    chance = random.Random(seed)
    world = Stages(spec, partitions=2)
    for _ in range(25):
        rows = chance.sample(range(40), chance.randrange(1, 12))
        world.write("readings", {b"%03d" % row: {b"c:v": b"%f" % chance.random()} for row in rows})
        world.end_wave()
    return world


def runs(replayed: Replayed, action: str) -> list[int]:
    return [run.wave for run in replayed.step(action).runs]


@pytest.mark.parametrize("seed", range(3))
def test_the_recorded_bounds_give_the_recorded_runs_of_stages_over_a_flow(seed: int) -> None:
    spec = flow(15)
    world = recorded(spec, seed)
    assert len(world.recording().runs["count"]) > 3
    [replayed] = world.replay(spec).replays
    assert differences(replayed, world.recording()) == ()


def test_under_a_wider_bound_whoever_reads_a_flow_runs_less_often_too() -> None:
    world = recorded(flow(5), 1)
    [close, wide] = world.replay(flow(5), flow(60)).replays
    assert len(runs(wide, "parse")) < len(runs(close, "parse"))
    assert runs(wide, "count") == runs(wide, "parse")
