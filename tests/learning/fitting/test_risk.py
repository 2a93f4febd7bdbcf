"""Predictions from several containers are compared by their risk, and one threshold serves all."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headgate.learning.fitting.risk import limit_of, risk_of

RANDOM = np.random.default_rng(4)


def test_a_risk_is_how_often_what_is_predicted_is_a_violation() -> None:
    scores = RANDOM.uniform(-0.25, 0.25, 40_000)
    rates = (scores + 0.25) ** 2 / 0.25
    risk = risk_of(scores, RANDOM.uniform(size=len(scores)) < rates)
    asked = np.array([-0.2, -0.1, 0.0, 0.1, 0.2])
    assert risk.of(asked) == pytest.approx((asked + 0.25) ** 2 / 0.25, abs=0.05)


def test_scores_keep_their_order_also_where_their_risk_is_one() -> None:
    scores = np.sort(RANDOM.normal(size=500))
    found = risk_of(scores, scores > 0.5).of(np.concatenate((scores - 5.0, scores, scores + 5.0)))
    ordered = np.argsort(np.concatenate((scores - 5.0, scores, scores + 5.0)), kind="stable")
    assert (np.diff(found[ordered]) > 0.0).all()


def test_what_is_not_predicted_has_no_risk_and_what_nobody_knows_runs() -> None:
    found = risk_of(np.array([0.0, 1.0]), np.array([False, True])).of(
        np.array([[math.nan, math.inf], [0.0, 1.0]])
    )
    assert math.isnan(found[0, 0])
    assert found[0, 1] == math.inf
    assert found[1].tolist() == pytest.approx([0.0, 1.0], abs=1e-3)


def test_equal_scores_are_one_whichever_comes_first() -> None:
    scores = np.array([0.0, 0.0, 1.0, 0.0])
    first = risk_of(scores, np.array([True, False, True, False]))
    second = risk_of(scores, np.array([False, True, True, False]))
    assert first.of(scores).tolist() == second.of(scores).tolist()
    assert first.of(np.zeros(1))[0] == pytest.approx(1 / 3)


def test_a_limit_lets_pass_what_a_risk_does_and_nothing_where_that_is_nothing() -> None:
    scores = np.array([[math.nan, 0.1], [0.3, 0.2]])
    risks = np.array([[math.nan, 0.0], [0.6, 0.4]])
    for threshold in (0.0, 0.1, 0.4, 0.5, 0.6):
        limit = limit_of(scores, risks, threshold)
        assert ((scores <= limit) == (risks <= threshold)).all()
    assert limit_of(scores, risks, -1.0) < 0.1
