"""Predictions and audits of one output, in words and in data, for ``headgate flow explain``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from headgate.engine import PolicyReport
from headgate.learning.audits import SURE_OF_RATE, AuditedRate
from headgate.learning.decider import Audit, Judged
from headgate.learning.feedback import Choice
from headgate.learning.predictor import Influence

MAIN_FEATURES: Final = 3
"""That are named of a prediction: more make no sentence."""
_LARGEST: Final = 50.0
"""Of ln(ε / bound), beyond which it is cut off: exp of more than 709 is no number."""

_OUTCOMES: Final = {
    Choice.SKIP: "a skip",
    Choice.RUN: "a run",
    Choice.AUDIT: "a run, to audit the skip",
    Choice.SYNCHRONOUS: "a run, as it is learned anew",
}


def ratio_of(score: float) -> float:
    """Return ε / bound of a score, which is its logarithm."""
    return math.exp(min(score, _LARGEST))


def prediction_report(
    judged: Judged,
    threshold: float,
    influences: Sequence[Influence],
    adjustment: float = 0.0,
) -> PolicyReport:
    """Return what was predicted of a skip last, and of what.

    Args:
        judged: the last prediction.
        threshold: λ as it applies now, ln(ε / bound).
        influences: of the features on it, strongest first; empty where they are not known.
        adjustment: of scores from the container.
    """
    known = math.isfinite(judged.score)
    predicted = ratio_of(judged.score - adjustment)
    data: dict[str, Any] = {
        "predicted": predicted if known else None,
        "predicted_from": judged.container,
        "predicted_in": judged.wave,
        "carried": ratio_of(judged.carried),
        "choice": judged.choice.value,
        "features": list(influences),
    }
    features = ", ".join(_influence_words(one) for one in influences)
    if known:
        mostly = f", mostly for {features}" if features else ""
        if judged.carried:
            mostly += (
                f", {ratio_of(judged.carried):.2g} times what this wave alone says, as it was seen "
                "from nearer in a wave before"
            )
        words = (
            f"in wave {judged.wave} a skip was predicted from `{judged.container}` to leave it at "
            f"{predicted:.2g} of its bound{mostly}; more than "
            f"{ratio_of(threshold - adjustment):.2g} runs, so it was {_OUTCOMES[judged.choice]}"
        )
    else:
        unlike = f"unlike all that was learned from: {features}" if features else "not known"
        words = (
            f"in wave {judged.wave} nothing was predicted, as `{judged.container}` is {unlike}; so "
            f"it was {_OUTCOMES[judged.choice]}"
        )
    return PolicyReport(words, data)


def _influence_words(one: Influence) -> str:
    return f"`{one.feature}` {one.value:.3g} (in training {one.lowest:.3g} to {one.highest:.3g})"


def audit_report(rate: AuditedRate, last: Audit | None, confidence: float) -> PolicyReport:
    """Return the confidence that audits have measured, and what the last of them found.

    Args:
        rate: of the waves in which a skip would have violated the bound.
        last: audit of this model.
        confidence: share of the waves that shall be within the bound.
    """
    interval = rate.interval()
    low, high = max(0.0, 1.0 - interval.high), 1.0 - interval.low
    measured = max(0.0, 1.0 - rate.rate) if rate.audits else None
    data: dict[str, Any] = {
        "audits": rate.audits,
        "violations": rate.violations,
        "audited_rate": rate.rate,
        "rate_from": interval.low,
        "rate_to": interval.high,
        "measured_confidence": measured,
        "confidence_from": low,
        "confidence_to": high,
        "last_audit": None if last is None else last.wave,
        "last_audit_error": last.ratio if last is not None and math.isfinite(last.ratio) else None,
    }
    asked = f"{confidence:.4g}"
    if measured is None:
        return PolicyReport(f"no audit has measured its confidence yet; {asked} is asked for", data)
    count = f"{rate.audits} audit{'s' if rate.audits > 1 else ''}"
    found = f"{rate.violations} violation{'' if rate.violations == 1 else 's'}"
    words = (
        f"{count} found {found}: measured confidence {measured:.4g}, between {low:.3g} and "
        f"{high:.3g} with {SURE_OF_RATE:.0%} certainty; {asked} is asked for"
    )
    if last is not None:
        known = math.isfinite(last.ratio)
        error = f"{last.ratio:.2g} of its bound" if known else "an error that is not known"
        words = f"the last audit, in wave {last.wave}, found {error}; {words}"
    return PolicyReport(words, data)
