"""Models of recorded dataflows, and the report of how far they are to be believed."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from recorded import AREAS, GRAPH, HORIZON, INDEX, MAP, few_trees, recorded, stump

from headgate.learning import (
    Calibration,
    ErrorMetric,
    Fitted,
    MeasuredPairs,
    Target,
    decode_model,
    encode_model,
    fewest_waves,
    fit,
)
from headgate.learning.calibration import calibration_of, upper_rate
from headgate.learning.fitting.models import _alone, _calibrated, _Found, _together, words_of
from headgate.learning.fitting.training import TrainedOutput, train
from headgate.learning.pairs import Table
from headgate.learning.simulation import Bounded, ClosedLoop, Graph, Step, staged_loop
from headgate.learning.spacing import Spacing

WAVES = 240


@pytest.fixture(scope="module")
def pairs() -> dict[str, MeasuredPairs]:
    return recorded(WAVES)


@pytest.fixture(scope="module")
def fitted(pairs: dict[str, MeasuredPairs]) -> Fitted:
    return fit(GRAPH, pairs, [AREAS, INDEX, MAP], few_trees)


def test_every_output_has_a_model_that_predicts_from_all_above_it(
    fitted: Fitted, pairs: dict[str, MeasuredPairs]
) -> None:
    assert {name: set(each.containers) for name, each in fitted.models.items()} == {
        "areas": {"sensors"},
        "index": {"sensors", "areas"},
        "map": {"sensors", "areas"},
    }
    model = fitted.models["map"]
    assert (model.metric, model.bound, model.confidence) == (ErrorMetric.RMSE, 12.0, 0.95)
    assert (model.horizon, model.waves) == (HORIZON, WAVES)
    assert (model.first_time, model.last_time) == tuple(pairs["map"].times[[0, -1]])
    assert model.upper <= 0.05
    assert model.calibration.startswith("95.0% kept with ")
    assert (model.containers["areas"].levels == pairs["areas"].levels).all()
    assert decode_model(encode_model(model)).threshold == model.threshold


def test_the_report_is_of_every_step_and_output(fitted: Fitted) -> None:
    report = fitted.report
    assert report.waves == WAVES
    assert [(each.output, each.container, each.steps) for each in report.steps] == [
        ("areas", "sensors", ("average",)),
        ("index", "sensors", ("average",)),
        ("index", "areas", ("rate",)),
        ("map", "sensors", ("average", "draw")),
        ("map", "areas", ("draw",)),
    ]
    assert 0.2 < report.saved < 1.0
    for output in report.outputs:
        assert output.threshold is not None
        assert output.output in fitted.models
        assert output.confidence >= 0.95
        assert output.missing is None
        assert output.calibration.upper <= 0.05
    for step in report.steps:
        assert step.blocked.roc_area is None or step.blocked.roc_area > 0.7


def test_outputs_that_hold_alone_hold_together(fitted: Fitted) -> None:
    for output in fitted.report.outputs:
        assert output.threshold is not None
        assert output.calibration.threshold is not None
        model = fitted.models[output.output]
        assert output.words == model.calibration
        assert model.upper <= 0.05


def test_what_was_seen_from_nearer_counts_in_closed_loops_and_in_models_alike(
    fitted: Fitted, pairs: dict[str, MeasuredPairs]
) -> None:
    trained = {each.output: train(GRAPH, pairs, each, few_trees) for each in (AREAS, INDEX, MAP)}
    kept = {output: each.bounded.persistence for output, each in trained.items()}
    assert {o: {c: set(n) for c, n in each.items()} for o, each in kept.items()} == {
        "areas": {},
        "index": {"sensors": {"areas"}},
        "map": {"sensors": {"areas"}},
    }
    assert 0.0 < kept["index"]["sensors"]["areas"] < 1.0
    assert {output: model.persistence for output, model in fitted.models.items()} == kept

    narrow = msgspec.structs.replace(INDEX, bound=0.015, confidence=0.8)
    report = fit(GRAPH, pairs, [narrow], few_trees).report
    [index] = report.outputs
    assert index.threshold is not None
    decided = train(GRAPH, pairs, narrow, few_trees).decided(index.threshold)
    forgetful = msgspec.structs.replace(decided, persistence={})
    remembered, forgotten = (
        staged_loop(GRAPH, {"index": each}, {"index": 0.0}, 0, WAVES)
        for each in (decided, forgetful)
    )
    assert remembered.saved == report.saved
    assert remembered.ran["average"].sum() < forgotten.ran["average"].sum()


def test_an_output_without_a_threshold_is_made_however_harmless_it_looked_from_nearer() -> None:
    chain = Graph([Step("b", ("s",), ("b",)), Step("c", ("b",), ("c",))])
    shape = 20, 5
    none = np.zeros(shape)
    trained = by_hand(Target("c", ErrorMetric.RELATIVE, 0.5), none, s=none + 0.5, b=none)
    kept = msgspec.structs.replace(trained.bounded, persistence={"s": {"b": 1.0}})
    trained = msgspec.structs.replace(trained, bounded=kept)
    found = {"c": _Found(Calibration(0.1, 20, 0, 20.0, 0.0, 0.5), (0.1,), -math.inf)}
    loop, thresholds = _together(chain, {"c": trained}, found)
    assert thresholds == {"c": -math.inf}
    assert loop.ran["c"].all()


def by_hand(target: Target, errors: Table, **scores: Table) -> TrainedOutput:
    waves, ages = errors.shape
    spacing = Spacing(np.arange(waves), ages - 1)
    return TrainedOutput(target, Bounded(errors, target.bound, scores), scores, {}, {}, spacing)


def test_what_does_not_hold_beside_another_output_is_tightened() -> None:
    """A run for the first makes the second odd waves old, at which its predictions are wrong."""
    chain = Graph([Step("b", ("s",), ("b",)), Step("c", ("b",), ("c",))])
    shape = 40, 5
    wave, age = np.indices(shape)
    none, all_of_them = np.zeros(shape), np.ones(shape)
    trained = {
        "b": by_hand(Target("b", ErrorMetric.RELATIVE, 0.5, 0.85), none, s=1.0 * (wave == 1)),
        "c": by_hand(
            Target("c", ErrorMetric.RELATIVE, 0.5, 0.85),
            1.0 * ((wave % 2 == 0) & (age == 1)),
            s=1.0 * (age % 2 == 0),
            b=all_of_them,
        ),
    }
    some = Calibration(0.5, 40, 0, 40.0, 0.0, 0.5)
    found = {
        "b": _Found(some, (0.5,), 0.5),
        "c": _Found(some, (-2.0, -1.0, 0.5), 0.5),
    }
    assert not _alone(chain, trained["c"], 0.5).violated.any()
    loop, thresholds = _together(chain, trained, found)
    assert thresholds == {"b": 0.5, "c": -1.0}
    assert not loop.violated["c"].any()
    found["c"] = _Found(some, (0.5,), 0.5)
    assert _together(chain, trained, found)[1] == {"b": 0.5, "c": -math.inf}


def test_what_holds_beside_another_output_is_loosened_up_to_where_it_does_not() -> None:
    """Even waves run for the first; the second is then seen from nearer, and made."""
    chain = Graph([Step("b", ("s",), ("b",)), Step("c", ("b",), ("c",))])
    shape = 40, 5
    wave, age = np.indices(shape)
    even = 1.0 * (wave % 2 == 0)
    trained = {
        "b": by_hand(Target("b", ErrorMetric.RELATIVE, 0.5, 0.85), np.zeros(shape), s=even),
        "c": by_hand(
            Target("c", ErrorMetric.RELATIVE, 0.5, 0.85),
            (age > 1).astype(np.float64),
            s=0.2 * even,
            b=even,
        ),
    }
    some = Calibration(0.1, 40, 0, 40.0, 0.0, 0.5)
    found = {"b": _Found(some, (0.5,), 0.5), "c": _Found(some, (0.1, 0.2, 0.3, 1.0), 0.1)}
    assert not _alone(chain, trained["c"], 0.1).violated.any()
    assert _alone(chain, trained["c"], 0.2).violated.mean() > 0.5
    loop, thresholds = _together(chain, trained, found)
    assert thresholds == {"b": 0.5, "c": 0.3}
    assert not loop.violated["c"].any()
    assert loop.ran["b"].tolist() == (wave[:, 0] % 2 == 0).tolist()
    # Nor is the first loosened where the second would not hold then.
    leaning = {"b": _Found(some, (0.5, 2.0), 0.5), "c": _Found(some, (0.3,), 0.3)}
    assert _together(chain, trained, leaning)[1] == {"b": 0.5, "c": 0.3}
    held = {"c": _Found(some, (0.1, 0.2, 0.3, 1.0), 0.1)}
    assert _together(chain, {"c": trained["c"]}, held)[1] == {"c": 0.1}
    found["c"] = _Found(some, (0.1, 0.2, 0.3), -math.inf)
    assert _together(chain, trained, found)[1] == {"b": 0.5, "c": -math.inf}


def test_a_higher_confidence_runs_more(pairs: dict[str, MeasuredPairs]) -> None:
    narrow = msgspec.structs.replace(INDEX, bound=0.03)
    loose, strict = (
        fit(GRAPH, pairs, [msgspec.structs.replace(narrow, confidence=confidence)], few_trees)
        for confidence in (0.8, 0.97)
    )
    assert strict.models["index"].threshold < loose.models["index"].threshold
    assert strict.report.saved < loose.report.saved


def test_a_preference_for_recall_tightens_and_never_loosens(
    pairs: dict[str, MeasuredPairs],
) -> None:
    plain = fit(GRAPH, pairs, [MAP], few_trees).models["map"].threshold
    thresholds = []
    for recall in (0.1, 0.9, 0.97, 1.0):
        found = fit(GRAPH, pairs, [msgspec.structs.replace(MAP, recall=recall)], few_trees)
        thresholds.append(found.models["map"].threshold)
        for step in found.report.steps:
            assert step.blocked.recall is not None
            assert step.blocked.recall >= recall - 1e-9
    assert thresholds[0] == plain
    assert thresholds == sorted(thresholds, reverse=True)
    assert thresholds[-1] < plain


def test_a_preference_for_recall_stands_where_other_outputs_would_let_it_skip_more(
    pairs: dict[str, MeasuredPairs],
) -> None:
    for recall in (0.9, 1.0):
        careful = msgspec.structs.replace(MAP, recall=recall)
        found = fit(GRAPH, pairs, [AREAS, INDEX, careful], few_trees)
        assert "map" in found.models
        for step in found.report.steps:
            if step.output == "map":
                assert step.blocked.recall is not None
                assert step.blocked.recall >= recall - 1e-9


def test_where_no_threshold_holds_there_is_no_model_and_waves_are_missing(
    pairs: dict[str, MeasuredPairs],
) -> None:
    certain = msgspec.structs.replace(AREAS, confidence=0.99)
    found = fit(GRAPH, pairs, [certain, MAP], few_trees)
    assert set(found.models) == {"map"}
    areas = found.report.outputs[0]
    assert (areas.threshold, areas.confidence) == (None, 1.0)
    assert areas.missing is not None
    assert areas.missing > 0
    assert f"about {areas.missing} more waves are missing" in areas.words
    assert found.report.outputs[1].threshold is not None


def test_what_predicts_nothing_makes_no_model(pairs: dict[str, MeasuredPairs]) -> None:
    """A forest of one leaf skips either everything or nothing."""
    found = fit(GRAPH, pairs, [msgspec.structs.replace(MAP, bound=3.0)], stump)
    assert found.models == {}
    assert "no threshold skips anything" in found.report.outputs[0].words
    assert found.report.saved == 0.0


def test_too_few_waves_are_counted_before_anything_is_fitted() -> None:
    def never(*_: object) -> None:
        raise AssertionError

    few = recorded(30)
    found = fit(GRAPH, few, [INDEX], never)  # type: ignore[arg-type]
    assert (found.models, found.report.steps) == ({}, ())
    assert found.report.outputs[0].missing == fewest_waves(HORIZON) - 30 == 2
    assert "2 more are missing" in found.report.outputs[0].words
    enough = fit(GRAPH, recorded(32), [INDEX], few_trees)
    assert len(enough.report.steps) == 2


def test_the_fewest_waves_leave_something_to_train_on_for_every_block() -> None:
    for horizon in (1, 3, 12):
        waves = fewest_waves(horizon)
        found = fit(GRAPH, recorded(waves, horizon), [AREAS], few_trees)
        assert len(found.report.steps) == 1


@pytest.mark.parametrize(
    ("targets", "left_out", "words"),
    [
        ([], "", "no output has a bound"),
        ([Target("hills", ErrorMetric.RELATIVE, 0.1)], "", "no step writes hills"),
        ([INDEX], "areas", "areas was not measured, and index depends on it"),
        ([INDEX], "index", "index was not measured"),
    ],
)
def test_what_is_not_there_is_named(
    pairs: dict[str, MeasuredPairs], targets: list[Target], left_out: str, words: str
) -> None:
    known = {name: each for name, each in pairs.items() if name != left_out}
    with pytest.raises(ValueError, match=words):
        fit(GRAPH, known, targets, few_trees)


def test_containers_of_different_waves_or_without_levels_are_refused(
    pairs: dict[str, MeasuredPairs],
) -> None:
    with pytest.raises(ValueError, match=r"\[\(238, 8\), \(240, 8\)\]"):
        fit(GRAPH, pairs | {"areas": recorded(238)["areas"]}, [INDEX], few_trees)
    bare = msgspec.structs.replace(pairs["areas"], levels=None)
    with pytest.raises(ValueError, match="give its deciles"):
        fit(GRAPH, pairs | {"areas": bare}, [INDEX], few_trees)


def loop(violations: int, waves: int = 200) -> ClosedLoop:
    violated = np.zeros(waves, np.bool_)
    violated[np.linspace(1, waves - 1, violations).astype(int)] = True
    return ClosedLoop(np.arange(waves) % 2 == 0, violated)


def test_a_calibration_is_a_sentence_that_names_the_cure() -> None:
    held = calibration_of(0.2, loop(2))
    sentence = words_of(held, 0.95)
    assert sentence.startswith("95.0% kept with 50% of the runs skipped; 2 of 200 waves were out")
    assert f"at most {upper_rate(2, 200):.1%} are" in sentence
    failed = Calibration(None, 200, 20, 180.0, 0.15, 0.0)
    assert words_of(failed, 0.95).endswith("raise the bound or lower the confidence")
    few = Calibration(None, 40, 0, 40.0, 0.07, 0.0, 19)
    assert words_of(few, 0.95).endswith(
        "about 19 more waves are missing: raise `waves` to 59 where it is less"
    )
    assert words_of(Calibration(None, 0, 0, 0.0, 1.0, 0.0), 0.95).endswith("raise the bound")


def test_no_skip_passes_that_is_more_likely_wrong_than_right() -> None:
    """Half of the waves are violated at every age, and the allowance would pay for all of them."""
    errors = np.full((WAVES, HORIZON + 1), 0.5)
    errors[::2] = 2.0
    risks = np.where(errors > 1.0, 0.9, 0.4)
    target = Target("output", ErrorMetric.RELATIVE, 1.0, confidence=0.2)
    graph = Graph([Step("step", ("input",), ("output",))])
    trained = by_hand(target, errors, input=risks)
    assert 0.4 <= _calibrated(graph, trained).threshold <= 0.5
