"""Learned triggers in an engine, against the same rules applied to tables of all waves."""

from __future__ import annotations

import numpy as np
import pytest
from lived import READS, WRITES, AllWaves, Lived
from sklearn.ensemble import ExtraTreesRegressor

from headgate.engine import Engine, check_invariants
from headgate.learning import (
    FEATURES,
    Bounded,
    ContainerModel,
    Deciders,
    ErrorMetric,
    Graph,
    LearnedSettings,
    Model,
    ModelsWanted,
    OutputSettings,
    Predicted,
    Residuals,
    Step,
    Train,
    decode_model,
    encode_model,
    errors,
    features,
    forest_of,
    levels_of,
    log_ratio,
    measured_pairs,
    staged_loop,
    stages,
)

HORIZON, TRAINED, WAVES = 6, 60, 90
BOUNDS = {"level": 0.04, "map": 0.1}
GRAPH = Graph([Step(name, READS[name], (WRITES[name],)) for name in READS])


def unchecked(_: Engine) -> None:
    """Look at nothing: the invariants take longer than the engine."""


UNMOVED = Residuals(50.0, 0.3)
"""With these no label is above what was expected, so that thresholds stay where they are."""


def settings(audit: float = 0.0, waves: int = 336) -> LearnedSettings:
    outputs = {name: OutputSettings(bound) for name, bound in BOUNDS.items()}
    return LearnedSettings(outputs, audit, waves, HORIZON)


def fitted(
    truth: AllWaves, threshold: float, residuals: Residuals = UNMOVED
) -> tuple[dict[str, Bounded], dict[str, bytes]]:
    """Return what models say of all waves and ages, and the models."""
    tables, models = {}, {}
    for output, bound in BOUNDS.items():
        pairs = measured_pairs(truth.history(output), HORIZON)
        known = errors(pairs, ErrorMetric.RELATIVE)
        containers, scores = {}, {}
        for container in GRAPH.above(output):
            levels = levels_of(truth.values[container][:TRAINED].ravel())
            table = features(measured_pairs(truth.history(container), HORIZON, levels), pairs.means)
            there = [(t, a) for t in range(TRAINED) for a in range(1, min(t, HORIZON) + 1)]
            rows = np.array([table[pair] for pair in there])
            target = log_ratio(np.array([known[pair] for pair in there]), bound)
            forest = ExtraTreesRegressor(5, min_samples_leaf=3, random_state=1).fit(rows, target)
            trees = [one.tree_ for one in forest.estimators_]
            model = ContainerModel(
                forest_of(trees, FEATURES, (output,), Predicted.LOG_ERROR),
                table.reshape(-1, len(FEATURES)).min(0),
                table.reshape(-1, len(FEATURES)).max(0),
                levels,
                residuals,
            )
            containers[container] = model
            score = model.scores(table.reshape(-1, len(FEATURES))).reshape(table.shape[:2])
            scores[container] = score
        models[output] = encode_model(
            Model(output, ErrorMetric.RELATIVE, bound, 0.95, threshold, containers, HORIZON,
                  TRAINED, 0.0, 1.0, 0.05, "")
        )  # fmt: skip
        tables[output] = Bounded(known, bound, scores)
    return tables, models


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("threshold", [-0.15, 0.0])
@pytest.mark.parametrize("kind", ["plain", "early", "restarts"])
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


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["plain", "restarts"])
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
    assert asked == {11: {"level", "map"}, 17: {"level"}, 23: {"level"}, 29: {"level"}}
    report = world.policy("index").report()
    assert report is not None
    assert report.words == "`level`: made in every wave: nobody trains here."
