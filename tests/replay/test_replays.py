"""A replay says what a real run under the same bounds would have done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.seeds import seeds

from headgate.engine import (
    ActionFlows,
    ActionRole,
    ActionSpec,
    Bound,
    DataflowSpec,
    Evaluation,
    FlowId,
    Metric,
    RunnableSpec,
    SequenceBound,
    SequenceUnit,
    UserMetric,
    ValueBound,
)
from headgate.events import ContainerId
from headgate.learning import LearnedSettings, OutputSettings, trigger_of
from headgate.replay import NotRecorded, Replayed, differences

Chain = Callable[..., DataflowSpec]
Record = Callable[..., Any]


def percent(container: str, limit: float) -> Bound:
    return Bound("k", ContainerId(container), sequence=SequenceBound(limit, SequenceUnit.PERCENT))


def relative(container: str, limit: float) -> Bound:
    return Bound("k", ContainerId(container), value=ValueBound(Metric.RELATIVE, limit))


def runs(replayed: Replayed, action: str) -> list[int]:
    return [run.wave for run in replayed.step(action).runs]


def recorded_runs(world: Any, action: str) -> list[int]:
    return [run.wave for run in world.recording().runs.get(action, ())]


SETTINGS = {
    "first step": {"smooth": percent("readings", 60)},
    "middle step": {"high": percent("smoothed", 150)},
    "values": {"high": relative("smoothed", 0.1), "total": relative("heights", 0.3)},
    "all steps": {
        "smooth": percent("readings", 25),
        "high": percent("smoothed", 80),
        "total": percent("heights", 40),
    },
    "time": {"smooth": Bound("k", ContainerId("readings"), time=200.0)},
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("seed", seeds(3, 12))
def test_the_recorded_bounds_give_exactly_the_recorded_runs(
    make_chain: Chain, record: Record, setting: str, seed: int
) -> None:
    spec = make_chain(**SETTINGS[setting])
    world = record(spec, seed)
    [replayed] = world.replay(spec).replays
    assert differences(replayed, world.recording()) == ()
    assert all(
        error.changed == 0
        for step in replayed.steps
        for output in step.outputs
        for error in output.errors
    )


def test_a_metric_in_python_is_not_replayed_and_that_is_said(
    make_chain: Chain, record: Record
) -> None:
    world = record(make_chain(), 1)
    own = Bound("k", ContainerId("smoothed"), value=ValueBound(UserMetric("m:Spread"), 1.0))
    with pytest.raises(NotRecorded, match="bound 'k' of action 'high' has the metric 'm:Spread'"):
        world.replay(make_chain(high=own))


def test_a_runnable_in_python_is_not_replayed_and_that_is_said(
    make_chain: Chain, record: Record
) -> None:
    world, spec = record(make_chain(), 1), make_chain()
    flows = ActionFlows({"x": FlowId("own", "x")}, ("x",), RunnableSpec("python", "m:f"))
    asked = replace(spec, actions=(*spec.actions, ActionSpec("own", stage=flows)))
    with pytest.raises(NotRecorded, match="action 'own' has the runnable 'm:f'"):
        world.replay(asked)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("seed", seeds(3, 12))
def test_other_bounds_give_the_runs_of_a_real_run_under_them(
    make_chain: Chain, record: Record, setting: str, seed: int
) -> None:
    other = make_chain(**SETTINGS[setting])
    # Waves come later where runs take longer, and time bounds would notice.
    synchronous = record(make_chain(), seed, seconds=0.0)
    [replayed] = synchronous.replay(other).replays
    real = record(other, seed, seconds=0.0)
    for action in ("smooth", "high", "total"):
        assert runs(replayed, action) == recorded_runs(real, action)
        assert replayed.step(action).recorded == 30
    assert 0 < replayed.runs < replayed.recorded


@pytest.mark.parametrize("seed", seeds(3, 12))
def test_the_error_is_that_of_a_real_run_against_the_synchronous_one(
    make_chain: Chain, record: Record, seed: int
) -> None:
    other = make_chain(smooth=percent("readings", 60))
    values: tuple[list[dict[bytes, float]], ...] = ([], [])
    synchronous, _ = (
        record(spec, seed, waves=11, after=lambda world, to=to: to.append(world.values("smoothed")))
        for spec, to in zip((make_chain(), other), values, strict=True)
    )
    expected = []
    for exact, shown in zip(*values, strict=True):
        apart = sum(abs(exact.get(r, 0) - shown.get(r, 0)) for r in exact | shown)
        expected.append(apart / sum(max(exact.get(r, 0), shown.get(r, 0)) for r in exact | shown))
    [replayed] = synchronous.replay(other).replays
    [output] = replayed.step("smooth").outputs
    assert [error.epsilon for error in output.errors] == pytest.approx(expected, abs=1e-9)
    assert max(expected) > 0


def test_one_pass_serves_many_bounds(make_chain: Chain, record: Record) -> None:
    world = record(make_chain(), 1)
    specs = [make_chain(smooth=percent("readings", limit)) for limit in (20, 60, 140)]
    together = world.replay(*specs)
    alone = [world.replay(spec).replays[0] for spec in specs]
    for one, other in zip(together.replays, alone, strict=True):
        assert one.steps == other.steps
    counts = [len(r.step("smooth").runs) for r in together.replays]
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) == 3


def test_bounds_evaluated_at_writes_agree_too(make_chain: Chain, record: Record) -> None:
    def at_writes(spec: DataflowSpec) -> DataflowSpec:
        feed, smooth, *rest = spec.actions
        return replace(
            spec,
            actions=(feed, replace(smooth, evaluation=Evaluation(write=True)), *rest),
        )

    recorded = at_writes(make_chain(smooth=percent("readings", 60)))
    world = record(recorded, 3)
    [same, other] = world.replay(
        recorded, at_writes(make_chain(smooth=percent("readings", 120)))
    ).replays
    assert differences(same, world.recording()) == ()
    assert 0 < other.runs < same.runs
    assert Counter(len(s.runs) for s in other.steps).total() == 3


def test_learned_triggers_run_every_wave_where_no_model_was_recorded(
    make_chain: Chain, record: Record
) -> None:
    spec = make_chain(smooth=percent("readings", 60))
    world = record(spec, 1, waves=6)
    trigger = trigger_of(LearnedSettings({"totals": OutputSettings(0.05)}))
    actions = tuple(
        replace(a, trigger=trigger, bounds=()) if a.role is ActionRole.STEP else a
        for a in spec.actions
    )
    report = world.replay(spec, replace(spec, actions=actions))
    same, learned = report.replays
    waves = [1, 2, 3, 4, 5, 6]
    assert [runs(learned, name) for name in ("smooth", "high", "total")] == [waves] * 3
    assert same.runs < learned.runs
    [warning] = report.warnings
    unseen = learned.runs - same.runs
    assert f"{unseen // 3} of `smooth`, {unseen // 3} of `high`" in warning
