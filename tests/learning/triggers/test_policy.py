"""Learned triggers in an engine, against the same rules applied to tables of all waves."""

from __future__ import annotations

import pytest
from lived import READS, AllWaves, Lived
from lived_models import BOUNDS, GRAPH, WAVES, fitted, settings

from headgate.engine import Engine, check_invariants
from headgate.learning import (
    Deciders,
    ModelsWanted,
    Residuals,
    Train,
    decode_model,
    staged_loop,
    stages,
)


def unchecked(_: Engine) -> None:
    """Look at nothing: the invariants take longer than the engine."""


@pytest.mark.parametrize("threshold", [-0.15, 0.0])
@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("plain", 0),
        ("plain", 1),
        ("early", 0),
        ("restarts", 1),
        pytest.param("early", 1, marks=pytest.mark.soak),
        pytest.param("restarts", 0, marks=pytest.mark.soak),
    ],
)
def test_an_engine_decides_as_the_rules_say_wave_by_wave(
    seed: int, threshold: float, kind: str
) -> None:
    truth = AllWaves(seed, WAVES)
    tables, models = fitted(truth, threshold)
    expected = staged_loop(GRAPH, tables, dict.fromkeys(BOUNDS, threshold), 0, WAVES)
    world = Lived(truth, settings(), check=unchecked if kind == "plain" else check_invariants)
    world.use(models)

    def restart() -> None:
        world.tester.restart()
        wanted = [q for q in world.questions() if isinstance(q, ModelsWanted)]
        assert {name for question in wanted for name in question.models} == set(BOUNDS)
        world.use(models)

    between = restart if kind == "restarts" else lambda: None
    for wave in range(WAVES):
        ran = world.pass_wave(early=kind == "early", between=between)
        assert ran == {step for step in READS if expected.ran[step][wave]}, wave
    assert 0.1 < expected.saved < 0.9


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("plain", 0),
        ("plain", 1),
        ("restarts", 2),
        pytest.param("plain", 2, marks=pytest.mark.soak),
        pytest.param("restarts", 0, marks=pytest.mark.soak),
        pytest.param("restarts", 1, marks=pytest.mark.soak),
    ],
)
def test_audits_and_what_runs_show_move_an_engine_as_they_move_the_tables(
    seed: int, kind: str
) -> None:
    truth = AllWaves(seed, WAVES)
    tables, models = fitted(truth, 0.0, Residuals(0.02, 0.3))
    decoded = {name: decode_model(data) for name, data in models.items()}
    deciders = Deciders("lived", tables, decoded, audit=0.3, first=1)
    expected = stages(GRAPH, tables, deciders, 0, WAVES)
    world = Lived(truth, settings(audit=0.3), check=unchecked)
    world.use(models)

    def restart() -> None:
        world.tester.restart()
        world.use(models)

    for wave in range(WAVES):
        ran = world.pass_wave(between=restart if kind == "restarts" else lambda: None)
        assert ran == {step for step in READS if expected.ran[step][wave]}, wave
    rates = {name: one.state.feedback.rate for name, one in deciders.deciders.items()}
    assert sum(rate.audits for rate in rates.values()) > 3
    for step, name in (("index", "level"), ("draw", "map")):
        # The last wave is not over in the engine.
        live = world.policy(step).state.outputs[name].decided.feedback
        assert (live.rate.audits, live.shift, live.tightening) == (
            rates[name].audits,
            deciders.deciders[name].state.feedback.shift,
            deciders.deciders[name].state.feedback.tightening,
        )


def test_a_day_of_values_that_cannot_be_read_is_no_change_of_the_world() -> None:
    truth = AllWaves(1, WAVES)
    world = Lived(truth, settings(), check=unchecked)
    world.use(fitted(truth, 0.0)[1])
    rested = [world.pass_wave() != set(READS) for _ in range(20)]
    assert any(rested)
    for wave in range(30):
        for container, by in (("sensors", None), ("areas", "combine"), ("peaks", "spot")):
            world.tester.write(container, {b"damaged": {b"f:x": b"%d, or so" % wave}}, by=by)
        assert world.pass_wave() == set(READS)
    report = world.policy("draw").report()
    assert report is not None
    assert "nothing was predicted, as `areas` is not known" in report.words
    for step, name in (("index", "level"), ("draw", "map")):
        feedback = world.policy(step).state.outputs[name].decided.feedback
        assert (feedback.changes, feedback.synchronous, feedback.unlike) == (0, 0, 0)
    assert not [q for q in world.questions() if isinstance(q, Train)]


def test_without_a_model_all_run_and_one_is_asked_for_when_there_is_enough() -> None:
    world = Lived(AllWaves(1, 40), settings(waves=10))
    trained = fitted(AllWaves(1, WAVES), 0.0)[1]
    asked = {}
    for wave in range(1, 31):
        ran = world.pass_wave()
        assert {"combine", "spot", "index"} <= ran
        assert wave > 12 or ran == set(READS)
        names = {n for q in world.questions() if isinstance(q, Train) for n in q.outputs}
        if names:
            asked[wave] = names
        if wave == 12:
            world.answer("level", None, "nobody trains here")
            world.use({"map": trained["map"]})
        if wave == 18:
            world.answer("level", None, "nobody trains here")
    # What was asked in wave 23 is never answered, and so nothing is asked again.
    assert asked == {11: {"level", "map"}, 17: {"level"}, 23: {"level"}}
    report = world.policy("index").report()
    assert report is not None
    assert report.words == (
        "`level`: made in every wave: nobody trains here; 10 waves never give a model that keeps "
        "0.95, as that takes 69 without a violation: raise `waves` to 69."
    )


def test_before_the_first_wave_a_step_waits_for_the_end_of_one() -> None:
    world = Lived(AllWaves(0, 3), settings())
    [step] = [a for a in world.tester.engine.explain(0.0).actions if a.action == "combine"]
    assert step.result is not None
    assert (step.result.words, step.result.missing) == ("no wave has ended", "the end of a wave")
