"""Draws that a replay repeats, and intervals that hold the rate however often they are read."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headgate.learning.audits import AuditedRate, audit_draw, audit_probability

names = st.text(max_size=8)


def test_a_draw_is_the_same_for_ever() -> None:
    """Recordings are replayed years later."""
    assert audit_draw("aqhi", 7) == pytest.approx(0.3262143448686655, abs=1e-15)


@given(names, st.integers(0, 2**53), names, st.integers(0, 2**53))
def test_what_differs_in_anything_is_drawn_anew(a: str, wave: int, b: str, other: int) -> None:
    first, second = audit_draw(a, wave), audit_draw(b, other)
    assert 0.0 <= first < 1.0
    assert (first == second) == ((a, wave) == (b, other))


def test_draws_are_uniform_over_waves_and_dataflows_do_not_move_together() -> None:
    first, second = (
        np.array([audit_draw(dataflow, wave) for wave in range(2000)])
        for dataflow in ("aqhi", "lrb")
    )
    assert stats.kstest(first, "uniform").pvalue > 0.01
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.06
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 0.06


@given(st.floats(0.0, 1.0, exclude_max=True), st.floats(0.0, 50.0), st.floats(0.0, 50.0))
def test_the_nearer_a_skip_is_to_a_run_the_more_it_is_audited(
    share: float, below: float, farther: float
) -> None:
    at, far = audit_probability(share, 0.0), audit_probability(share, 1e9)
    assert at == pytest.approx(share)
    assert share / 4 <= far * (1 + 1e-9) <= at * (1 + 1e-9)
    near, less = (audit_probability(share, each) for each in sorted((below, below + farther)))
    assert far <= less <= near <= at * (1 + 1e-9)


def test_where_nearly_all_skips_are_audited_the_far_ones_are_too() -> None:
    assert audit_probability(0.99, 1e9) > 0.96
    assert audit_probability(0.05, 1e9) == pytest.approx(0.013, abs=0.001)
    assert audit_probability(0.0, 0.0) == 0.0


def of_waves(
    skips: np.ndarray, violates: np.ndarray, drawn: np.ndarray, probabilities: np.ndarray
) -> list[AuditedRate]:
    """The rates after each of some waves."""
    rate, rates = AuditedRate(), []
    for skipped, violated, draw, probability in zip(
        skips, violates, drawn, probabilities.tolist(), strict=True
    ):
        if skipped and draw < probability:
            rate = rate.audited(probability, violated=bool(violated))
        else:
            rate = rate.unaudited(probability)
        rates.append(rate)
    return rates


def test_the_rate_is_unbiased_though_probabilities_change() -> None:
    random = np.random.default_rng(1)
    probabilities = np.repeat([0.05, 0.5], 300)
    found = []
    for _ in range(400):
        skips, violates = random.random(600) < 0.6, random.random(600) < 0.2
        found.append(of_waves(skips, violates, random.random(600), probabilities)[-1].rate)
    assert np.mean(found) == pytest.approx(0.12, abs=4 * float(np.std(found)) / math.sqrt(400))
    assert np.std(found) < 0.1


@pytest.mark.parametrize("probability", [0.05, 0.5, 1.0])
def test_an_interval_holds_the_rate_at_all_waves_at_once(probability: float) -> None:
    """That of Clopper and Pearson, read after each wave, would miss it in a quarter of them."""
    random = np.random.default_rng(2)
    runs, missed = 120, 0
    for _ in range(runs):
        skips, violates = random.random(400) < 0.6, random.random(400) < 0.1
        rates = of_waves(skips, violates, random.random(400), np.full(400, probability))
        intervals = [rate.interval() for rate in rates[::10]]
        missed += any(not each.low <= 0.06 <= each.high for each in intervals)
    assert missed <= runs * 0.05 + 3 * math.sqrt(runs * 0.05 * 0.95)


@given(st.integers(1, 500), st.integers(0, 60), st.floats(0.01, 1.0))
def test_an_interval_is_where_the_mixture_has_not_won_twentyfold(
    waves: int, violations: int, probability: float
) -> None:
    violations = min(violations, waves)
    rate = AuditedRate(waves, violations, violations, violations / probability, probability)
    found = rate.interval()
    assert 0.0 <= found.low <= min(1.0, rate.rate) <= found.high + 1e-9 <= 1.0 + 1e-9

    def won(mean: float) -> float:
        return math.exp(
            math.lgamma(violations + 0.5)
            + math.lgamma(waves - violations + 0.5)
            - math.lgamma(waves + 1)
            - math.log(math.pi)
            - violations * math.log(mean)
            - (waves - violations) * math.log1p(-mean)
        )

    if 0.0 < found.low < 1.0:
        assert won(found.low * probability) == pytest.approx(20.0, rel=1e-3)
    if found.high < 1.0:
        assert won(found.high * probability) == pytest.approx(20.0, rel=1e-3)


def test_more_waves_and_a_lower_certainty_narrow_it() -> None:
    short, long = AuditedRate(200, 10, 1, 20.0, 0.05), AuditedRate(2000, 100, 10, 200.0, 0.05)
    assert long.interval().high < short.interval().high
    assert long.interval().low > short.interval().low
    assert long.interval(0.8).high < long.interval().high


def test_where_nothing_is_audited_nothing_is_known() -> None:
    rate = AuditedRate().unaudited(0.0)
    assert (rate.waves, rate.rate) == (0, 0.0)
    assert (rate.interval().low, rate.interval().high) == (0.0, 1.0)
    for impossible in (0.0, 1.5, math.nan):
        with pytest.raises(ValueError, match="drawn with a probability above 0"):
            rate.audited(impossible, violated=True)
