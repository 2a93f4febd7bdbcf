"""The measures of the test phase against the definitions of the paper."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.learning.fitting.quality import decided_pairs, quality, simulated_runs

scored = st.lists(st.tuples(st.booleans(), st.sampled_from([0.1, 0.2, 0.4, math.nan])), max_size=30)


@given(scored, st.sampled_from([0.0, 0.2, 0.3, 1.0]))
def test_they_are_what_counting_gives(examples: list[tuple[bool, float]], threshold: float) -> None:
    violated = np.array([each for each, _ in examples], np.bool_)
    found = quality(violated, np.array([score for _, score in examples], float), threshold)
    said = [not score <= threshold for _, score in examples]
    both = sum(v and s for (v, _), s in zip(examples, said, strict=True))
    assert (found.examples, found.violations) == (len(examples), int(violated.sum()))
    right = sum(v == s for (v, _), s in zip(examples, said, strict=True))
    assert found.accuracy == pytest.approx(right / len(examples) if examples else 0.0)
    assert found.precision == (pytest.approx(both / sum(said)) if any(said) else None)
    assert found.recall == (pytest.approx(both / violated.sum()) if violated.any() else None)


@given(scored)
def test_the_area_is_how_often_a_violation_scores_above_what_is_none(
    examples: list[tuple[bool, float]],
) -> None:
    violated = np.array([each for each, _ in examples], np.bool_)
    found = quality(violated, np.array([score for _, score in examples], float), 0.3)
    known = [(v, 9.0 if math.isnan(score) else score) for v, score in examples]
    pairs = [(a, b) for v, a in known if v for w, b in known if not w]
    if not pairs:
        assert found.roc_area is None
        return
    won = sum((a > b) + 0.5 * (a == b) for a, b in pairs)
    assert found.roc_area == pytest.approx(won / len(pairs))


def test_scores_of_other_examples_are_refused() -> None:
    with pytest.raises(ValueError, match="3 scores stand against 2 examples"):
        quality(np.zeros(2, np.bool_), np.zeros(3), 0.5)


def test_a_simulated_run_restarts_where_its_error_passes_the_bound() -> None:
    """SmartFlux, section 3: each wave is an example, against the last simulated run."""
    errors = np.full((8, 4), 0.1)
    errors[2, 2] = errors[4, 2] = 0.9
    found = simulated_runs(errors, 0.5)
    # runs: 0, 2, 4; past the horizon of three waves it would run in wave 8
    assert found.waves.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert found.ages.tolist() == [1, 2, 1, 2, 1, 2, 3]


def test_waves_past_the_horizon_are_no_examples() -> None:
    found = decided_pairs(np.array([True, False, False, False, True, False]), np.zeros((6, 3)))
    assert list(zip(found.waves.tolist(), found.ages.tolist(), strict=True)) == [
        (1, 1),
        (2, 2),
        (5, 1),
    ]
