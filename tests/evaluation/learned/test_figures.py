"""What outcomes of the bench come to, of outcomes written by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from evaluation.learned.applications import Application
from evaluation.learned.classification import StepExamples, mean_impacts, paper_forest, roc_areas
from evaluation.learned.evaluation import BOUNDS, SETTLED, Outcome, truth_of
from evaluation.learned.figures import (
    denominators_of,
    executions_of,
    mean_quality,
    running_confidence,
    running_executions,
)
from evaluation.learned.sentences import decisions_in_words, missed_in_words, naive_in_words

from headgate.learning import (
    FEATURES,
    ContainerHistory,
    Graph,
    Step,
    measured_pairs,
)
from headgate.learning.fitting.quality import Quality

IOTA = FEATURES.index("relative_impact")


def outcome(
    ran: list[bool],
    errors: list[float],
    *,
    policy: str = "learned",
    bound: float = 0.1,
    current: list[float] | None = None,
) -> Outcome:
    saved = 1.0 - sum(ran) / len(ran)
    violated = [error > bound for error in errors]
    return Outcome(
        "AQHI", 1, "step", bound, "2", policy, saved, violated, ran, errors, current or errors
    )


def test_confidence_is_the_share_of_all_waves_so_far() -> None:
    one = outcome([True, False, True, False], [0.0, 0.2, 0.0, 0.05])
    other = outcome([True, False, False, False], [0.0, 0.2, 0.3, 0.3])
    assert running_confidence([one, other]).tolist() == [1.0, 0.5, 0.5, 0.5]
    assert running_executions([one, other]).tolist() == [1.0, 0.5, 0.5, 0.375]


def test_executions_are_counted_by_bound_beside_those_of_a_synchronous_run() -> None:
    found = [
        outcome([True, True, False], [0.0] * 3),
        outcome([True, False, False], [0.0] * 3, policy="oracle"),
        outcome([True, True, True], [0.0] * 3, bound=0.2),
    ]
    runs = executions_of(found)
    assert runs["0.1"] == {"learned": 2, "optimal": 1, "synchronous": 3}
    assert runs["0.2"] == {"learned": 3, "optimal": 0, "synchronous": 3}


def test_sizes_are_of_violations_after_the_first_waves() -> None:
    errors = [0.3] * SETTLED + [0.05, 0.15, 0.2]
    sizes = outcome([False] * len(errors), errors).sizes
    assert sizes == pytest.approx([1.5, 2.0])


def test_the_other_denominator_has_fewer_waves_within_the_same_bound() -> None:
    late = [0.0, 0.06, 0.08, 0.2]
    both = {
        bound: [
            outcome(
                [True] * SETTLED + [True, False, False, False],
                [0.0] * SETTLED + late,
                policy=policy,
                bound=bound,
                current=[9.0] * SETTLED + [0.0, 0.09, 0.16, math.inf],
            )
            for policy in ("learned", "oracle")
        ]
        for bound in BOUNDS
    }
    found = denominators_of([each for some in both.values() for each in some])["0.1"]["learned"]
    assert (found["maximum"], found["current"]) == (0.75, 0.5)
    assert found["median_ratio"] == pytest.approx(1.75)


def test_qualities_without_a_positive_have_no_say() -> None:
    found = mean_quality([Quality(9, 3, 0.5, 0.25, 1.0, 0.5), Quality(9, 0, 1.0, None, None, None)])
    assert found == {"accuracy": 0.75, "precision": 0.25, "recall": 1.0}
    assert mean_quality([])["recall"] is None


def test_both_denominators_of_an_output_are_by_wave_and_age() -> None:
    values = np.array([[1.0, 3.0], [2.0, 2.0], [4.0, 0.0]])
    counts = np.full(3, 2)
    pairs = measured_pairs(ContainerHistory(values, counts, counts, np.arange(3.0)), 2)
    truth = truth_of(pairs, 1)
    assert truth.errors[2, 1] == pytest.approx(4.0 / 6.0)
    assert truth.current[2, 1:].tolist() == [4.0 / 4.0, 6.0 / 4.0]
    assert np.isnan(truth.current[0]).all()


def test_impact_of_a_join_is_the_geometric_mean_and_none_where_one_is_quiet() -> None:
    one, other = (np.zeros((1, 2, len(FEATURES)), np.float32) for _ in range(2))
    one[0, :, IOTA] = 0.25, 0.25
    other[0, :, IOTA] = 1.0, 0.0
    assert mean_impacts([one, other]).tolist() == [[0.5, 0.0]]


def test_the_papers_forest_follows_its_examples() -> None:
    impacts = np.linspace(0.0, 1.0, 40)[:, None]
    sides = np.array([[0.1], [0.9]])
    low, high = paper_forest(impacts, impacts[:, 0] > 0.5)(sides)
    assert low < 0.1
    assert high > 0.9
    assert paper_forest(impacts, np.ones(40, np.bool_))(sides).tolist() == [1.0, 1.0]
    assert paper_forest(impacts, np.zeros(40, np.bool_))(sides).tolist() == [0.0, 0.0]


def examples(share: float) -> StepExamples:
    """Return examples of which that share is out of bounds, as ι says and the features do not."""
    waves = 150
    random = np.random.default_rng(1)
    known = np.stack([np.zeros(waves), random.random(waves)], 1)
    table = np.zeros((waves, 2, len(FEATURES)), np.float32)
    table[:, 1, IOTA] = known[:, 1]
    ages = np.ones(waves, np.int64)
    return StepExamples("2", 1.0 - share, 100, known, [table], "out", np.arange(waves), ages)


def test_classifiers_are_compared_on_training_and_on_the_waves_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "evaluation.learned.classification.TREES", 10
    )  # as good here, and sooner fitted
    areas = list(roc_areas(examples(0.4)))
    assert {(each.classifier, each.inputs) for each in areas} == {
        (name, inputs)
        for inputs in ("ι", "features")
        for name in (
            *("naive Bayes", "decision tree", "logistic regression"),
            *("neural network", "random forest", "SVM"),
        )
    }
    # A tree's classes are coarse; all others rank what is ordered by ι nearly as ι does.
    assert min(each.tenfold for each in areas) > 0.9
    assert min(each.later or 0.0 for each in areas) > 0.9


def test_classes_of_fewer_examples_than_parts_are_left_out() -> None:
    assert list(roc_areas(examples(0.02))) == []


def figures(below: list[int], learned: float = 0.97) -> dict[str, object]:
    kept = {"by_name": {"2": {"below": below}}, "confidence": learned}
    others = {name: {"confidence": 0.6} for name in ("random", "seq2", "seq3", "seq4", "seq5")}
    of_bound = {"step": {"learned": kept, **others}, "whole": {"learned": kept}}
    return {f"{bound:g}": of_bound for bound in BOUNDS}


def test_a_missed_confidence_is_named() -> None:
    assert missed_in_words(figures([])) == "no confidence is below 95 % beyond chance."
    assert "step 2 at 5 % (seed 1, 3)" in missed_in_words(figures([1, 3]))


def test_who_keeps_the_bound_more_often_is_named() -> None:
    assert naive_in_words(figures([])).startswith("learned 97.0 %, the best of the others")
    assert naive_in_words(figures([], 0.5)).startswith("random, seq2, seq3, seq4 and seq5 kept")


@pytest.mark.parametrize(
    ("spent", "words"), [(4.0, "within"), (6.0, "above: the target was missed")]
)
def test_decisions_that_take_too_long_are_called_a_miss(spent: float, words: str) -> None:
    found = decisions_in_words({"overheads": [{"milliseconds": 99.0}, {"milliseconds": spent}]})
    assert f"{spent:.2f} ms, {words}" in found


def application(histories: dict[str, ContainerHistory]) -> Application:
    """Return one step from ``in`` to ``out``."""
    return Application(
        "tiny",
        Graph([Step("2", ("in",), ("out",))]),
        {"2": ("out", ("in",))},
        ("out",),
        len(histories["in"].values) * 2 // 3,
        len(histories["in"].values) // 3,
        lambda _: histories,
    )


def test_pairs_of_written_containers_have_no_updates() -> None:
    values = np.arange(12.0).reshape(6, 2)
    counts = np.full(6, 2)
    one = ContainerHistory(values, counts, counts, np.arange(6.0))
    pairs = application({"in": one, "out": one}).pairs({"in": one, "out": one})
    assert pairs["in"].updates.tolist() == [2] * 6
    assert pairs["out"].updates.tolist() == [0] * 6
    assert pairs["out"].impacts.changed[1, 1] == 2
