"""Scores of waves that forests have not seen, and what models keep of training."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from msgspec.structs import replace
from recorded import AREAS, GRAPH, HORIZON, MAP, few_trees, recorded

from headgate.learning import MeasuredPairs, errors, features, log_ratio
from headgate.learning.calibration import FOLDS
from headgate.learning.features import HOUR, WEEKEND, clocks_of
from headgate.learning.fitting.training import (
    Target,
    TrainedOutput,
    extra_trees,
    pairs_of,
    train,
)
from headgate.learning.forest import Forest

WAVES = 160


@pytest.fixture(scope="module")
def pairs() -> dict[str, MeasuredPairs]:
    return recorded(WAVES)


@pytest.fixture(scope="module")
def trained(pairs: dict[str, MeasuredPairs]) -> TrainedOutput:
    return train(GRAPH, pairs, MAP, few_trees)


def test_there_is_a_forest_for_every_container_above_the_output(trained: TrainedOutput) -> None:
    assert set(trained.forests) == set(trained.bounded.scores) == {"sensors", "areas"}
    for forest in trained.forests.values():
        assert forest.labels == ("map",)


def test_all_pairs_have_a_score_and_nothing_else_has(trained: TrainedOutput) -> None:
    known = np.zeros((WAVES, HORIZON + 1), np.bool_)
    known[pairs_of(WAVES, HORIZON)] = True
    for scores in trained.bounded.scores.values():
        assert (np.isfinite(scores) == known).all()


def test_a_block_is_predicted_by_what_has_seen_no_wave_near_it(
    pairs: dict[str, MeasuredPairs],
) -> None:
    """A row that is in one block is in no training set of its forest, with a horizon to spare."""
    table = features(pairs["sensors"], pairs["areas"].means)
    waves, ages = pairs_of(WAVES, HORIZON)
    at = {table[w, a].tobytes(): (w, a) for w, a in zip(waves.tolist(), ages.tolist(), strict=True)}
    seen: list[list[tuple[int, int]]] = []

    def fitter(rows: npt.NDArray[np.float32], logs: npt.NDArray[np.float64], output: str) -> Forest:
        seen.append([at[row.tobytes()] for row in rows])
        return few_trees(rows, logs, output, trees=1)

    train(GRAPH, pairs, AREAS, fitter)
    *folds, whole = seen
    assert len(folds) == FOLDS
    assert {wave for wave, _ in whole} == set(range(1, WAVES))
    size = WAVES // FOLDS
    for at_fold, rows in enumerate(folds):
        first, last = at_fold * size, (at_fold + 1) * size
        assert all(w < first - HORIZON or w - a >= last + HORIZON for w, a in rows)


def test_forests_are_fitted_to_logarithms_of_errors_in_bounds(
    pairs: dict[str, MeasuredPairs],
) -> None:
    found = train(GRAPH, pairs, AREAS, few_trees)
    logs = log_ratio(errors(pairs["areas"], AREAS.metric), AREAS.bound)
    where = pairs_of(WAVES, HORIZON)
    scores = found.bounded.scores["sensors"][where]
    assert np.corrcoef(scores, logs[where])[0, 1] > 0.9
    assert abs(np.mean(scores - logs[where])) < 0.1


def test_a_models_ranges_are_those_of_all_pairs(
    trained: TrainedOutput, pairs: dict[str, MeasuredPairs]
) -> None:
    model = trained.container_model("areas", pairs["areas"].deciles, np.ones(WAVES, np.bool_))
    rows = features(pairs["areas"], pairs["map"].means)[pairs_of(WAVES, HORIZON)]
    assert np.isfinite(model.scores(rows)).all()
    for at in (0, 9):  # impact and age
        beyond = rows[rows[:, at].argmax()].copy()
        beyond[at] *= np.float32(1.2)
        assert model.score(beyond) == math.inf


def test_what_a_part_of_a_day_has_taught_holds_at_other_hours(
    pairs: dict[str, MeasuredPairs],
) -> None:
    """A wave a minute, from midnight to twenty to three on a Monday; then one on a Sunday noon."""
    minutes = pairs["map"].times[0] + 60.0 * np.arange(WAVES)
    night = {name: replace(each, times=minutes) for name, each in pairs.items()}
    found = train(GRAPH, night, MAP, few_trees)
    model = found.container_model("areas", night["areas"].deciles, np.ones(WAVES, np.bool_))
    rows = features(night["areas"], night["map"].means)[pairs_of(WAVES, HORIZON)]
    noon = rows.copy()
    noon[:, HOUR.start : WEEKEND.stop] = clocks_of(minutes[:1] + 6.5 * 86_400.0)
    assert (model.scores(noon) == model.scores(rows)).all()
    assert np.isfinite(model.scores(noon)).all()


def test_residuals_are_those_of_runs_where_there_are_enough(
    trained: TrainedOutput, pairs: dict[str, MeasuredPairs]
) -> None:
    deciles = pairs["sensors"].deciles
    logs = log_ratio(trained.bounded.errors, MAP.bound)
    residuals = logs - trained.bounded.scores["sensors"]
    every_other = np.arange(WAVES) % 2 == 0
    found = trained.container_model("sensors", deciles, every_other).residuals
    assert found.upper == pytest.approx(np.quantile(residuals[2::2, 2], 0.9))
    few = trained.container_model("sensors", deciles, np.arange(WAVES) == 0).residuals
    near = residuals[pairs_of(WAVES, HORIZON)]
    assert few.upper == pytest.approx(np.quantile(near, 0.9))
    assert few.spread == found.spread == pytest.approx(near.std())


def test_a_recall_is_had_just_below_a_violation(trained: TrainedOutput) -> None:
    for wanted in (0.5, 0.9, 0.95, 1.0):
        threshold = trained.recall_threshold(wanted)
        above = np.nextafter(np.nextafter(threshold, math.inf), math.inf)
        at = [trained.blocked(each, threshold).recall or 0.0 for each in trained.forests]
        beyond = [trained.blocked(each, float(above)).recall or 0.0 for each in trained.forests]
        assert min(at) >= wanted - 1e-9
        assert min(beyond) < wanted


def test_where_nothing_violates_any_threshold_has_the_recall(
    pairs: dict[str, MeasuredPairs],
) -> None:
    wide = train(GRAPH, pairs, Target("areas", AREAS.metric, 0.9), few_trees)
    assert wide.recall_threshold(1.0) == math.inf


def test_the_papers_cross_validation_flatters(trained: TrainedOutput) -> None:
    """Waves drawn at random have neighbours in training; both predict better than chance."""
    tenfold, blocked = (
        trained.tenfold("sensors", 0.0, few_trees),
        trained.blocked("sensors", 0.0),
    )
    assert (tenfold.examples, tenfold.violations) == (blocked.examples, blocked.violations)
    assert tenfold.roc_area is not None
    assert tenfold.roc_area > 0.8
    assert tenfold != blocked


def test_a_tenth_of_the_examples_is_never_seen_by_what_predicts_it(
    trained: TrainedOutput,
) -> None:
    sizes = []

    def fitter(rows: npt.NDArray[np.float32], logs: npt.NDArray[np.float64], output: str) -> Forest:
        sizes.append(len(rows))
        return few_trees(rows, logs, output, trees=1)

    count = trained.tenfold("sensors", 0.0, fitter).examples
    assert len(sizes) == 10
    assert sum(count - size for size in sizes) == count
    assert max(sizes) - min(sizes) <= 1


def test_trees_are_the_same_for_the_same_rows(trained: TrainedOutput) -> None:
    rows = trained.tables["sensors"][pairs_of(WAVES, HORIZON)][:200]
    logs = np.random.default_rng(0).normal(size=200)
    first, again = extra_trees(rows, logs, "map"), extra_trees(rows, logs, "map")
    assert first.predict(rows).tobytes() == again.predict(rows).tobytes()
    assert np.corrcoef(first.predict(rows)[:, 0], logs)[0, 1] > 0.7
