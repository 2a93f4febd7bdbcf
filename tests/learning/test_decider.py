"""What is decided on one output, and which of its skips are audited how often."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from fitted_models import SOURCE, model

from headgate.learning.audits import audit_probability
from headgate.learning.decider import Decider, DeciderState, Judged
from headgate.learning.feedback import Choice

AUDIT = 0.2
SPREAD = 0.3  # of the model's residuals


def decider(state: DeciderState | None = None, name: str = "air") -> Decider:
    return Decider(name, AUDIT, model(), state or DeciderState())


def test_a_skip_is_audited_the_less_the_farther_it_is_from_a_run() -> None:
    """Each of 4,000 waves is judged at three distances from the threshold; nothing is learned."""
    threshold = model().threshold
    for below in (0.0, 0.8, 5.0):
        some = decider()
        scores = {SOURCE: threshold - below * SPREAD}
        found = [some.judge(wave, scores) for wave in range(4000)]
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
            judged = some.judge(wave, {SOURCE: score})
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
    wave = next(wave for wave in range(50) if some.judge(wave, far).choice is Choice.SKIP)
    some.wave_over(wave, wave - 1)
    assert some.state.feedback.rate.least == pytest.approx(audit_probability(AUDIT, 5.0))


def test_what_is_no_skip_is_no_audit() -> None:
    for score in (model().threshold + 0.01, math.inf, math.nan):
        judged = decider().judge(1, {SOURCE: score})
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
