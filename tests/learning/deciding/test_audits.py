"""Draws that a replay repeats, and intervals that hold the rate however often they are read."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from fitted_models import SOURCE, model
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headgate.learning.audits import AuditedRate, audit_draw, audit_probability
from headgate.learning.decider import Decider, DeciderState, Judged
from headgate.learning.feedback import Choice

AUDIT = 0.2
SPREAD = 0.3  # of the model's residuals

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


def decider(state: DeciderState | None = None, name: str = "air") -> Decider:
    return Decider(name, AUDIT, model(), state or DeciderState())


def test_a_skip_is_audited_the_less_the_farther_it_is_from_a_run() -> None:
    """Each of 4,000 waves is judged at three distances from the threshold; nothing is learned."""
    threshold = model().threshold
    for below in (0.0, 0.8, 5.0):
        some = decider()
        scores = {SOURCE: threshold - below * SPREAD}
        found = [some.judge(wave, wave - 1, scores) for wave in range(4000)]
        expected = audit_probability(AUDIT, below)
        assert {each.choice for each in found} == {Choice.SKIP, Choice.AUDIT}
        assert [each.probability for each in found] == pytest.approx([expected] * 4000)
        share = np.mean([each.choice is Choice.AUDIT for each in found])
        assert share == pytest.approx(expected, abs=4 * math.sqrt(expected / 4000))


def test_the_audited_rate_is_that_of_all_skips_however_often_each_is_audited() -> None:
    """Three of four skips are far from a run, and a twentieth violates; of the others a fourth."""
    rates = []
    for life in range(60):
        some, random = decider(name=f"air {life}"), np.random.default_rng(life)
        for wave in range(400):
            near = random.random() < 0.25
            score = some.threshold - (0.0 if near else 5.0 * SPREAD)
            judged = some.judge(wave, wave - 1, {SOURCE: score})
            if judged.choice is Choice.AUDIT:
                # Measured as predicted, unless violated: nothing but audits moves the threshold.
                violated = random.random() < (0.25 if near else 0.05)
                some.made(wave, 1.01 if violated else 0.5)
            else:
                some.wave_over(wave, wave - 1)
            feedback = some.state.feedback
            some.state.feedback = msgspec.structs.replace(feedback, audits=(), synchronous=0)
        rates.append(some.state.feedback.rate)
    assert {rate.waves for rate in rates} == {400}
    assert [rate.least for rate in rates] == pytest.approx([audit_probability(AUDIT, 5.0)] * 60)
    found = [rate.rate for rate in rates]
    error = float(np.std(found)) / math.sqrt(len(found))
    assert np.mean(found) == pytest.approx(0.1, abs=3 * error)
    assert error < 0.01


def test_a_wave_that_was_skipped_is_counted_by_how_it_might_have_been_audited() -> None:
    some = decider()
    far = {SOURCE: some.threshold - 5.0 * SPREAD}
    wave = next(wave for wave in range(50) if some.judge(wave, wave - 1, far).choice is Choice.SKIP)
    some.wave_over(wave, wave - 1)
    assert some.state.feedback.rate.least == pytest.approx(audit_probability(AUDIT, 5.0))


def test_what_is_no_skip_is_no_audit() -> None:
    for score in (model().threshold + 0.01, math.inf, math.nan):
        judged = decider().judge(1, 0, {SOURCE: score})
        assert (judged.choice, judged.probability) == (Choice.RUN, AUDIT)


def test_a_wave_that_a_version_before_decided_counts_as_it_did() -> None:
    """That version audited all skips alike, and has saved nothing of it."""
    old = msgspec.msgpack.encode(
        {
            "feedback": {},
            "judged": {"wave": 3, "score": -9.0, "container": SOURCE, "choice": "skip"},
        }
    )
    some = decider(msgspec.msgpack.decode(old, type=DeciderState))
    assert some.state.judged == Judged(3, -9.0, SOURCE, Choice.SKIP)
    some.wave_over(3, 2)
    assert (some.state.feedback.rate.waves, some.state.feedback.rate.least) == (1, AUDIT)
