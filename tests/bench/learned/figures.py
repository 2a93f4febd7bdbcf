"""What outcomes come to: shares saved, confidence pooled over seeds with intervals, violations."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from evaluation import BOUNDS, SETTLED, Outcome, Seed
from scipy.stats import beta

_SURE = 0.95


def interval(violations: int, waves: int) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of a confidence, of so many violations."""
    tail = (1.0 - _SURE) / 2.0
    kept = waves - violations
    low = float(beta.ppf(tail, kept, violations + 1)) if kept else 0.0
    high = float(beta.ppf(1.0 - tail, kept + 1, violations)) if violations else 1.0
    return low, high


def confidence_of(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the confidence of an output after the first waves, its seeds pooled."""
    counts = [(sum(one.violated[SETTLED:]), len(one.violated) - SETTLED) for one in outcomes]
    violations, waves = sum(count for count, _ in counts), sum(of for _, of in counts)
    sizes = sorted(size for one in outcomes for size in one.sizes)
    return {
        "confidence": 1.0 - violations / waves,
        "violations": violations,
        "waves": waves,
        "below": [
            one.seed
            for one, (bad, of) in zip(outcomes, counts, strict=True)
            if interval(bad, of)[1] < _SURE
        ],
        "median_size": statistics.median(sizes) if sizes else None,
        "largest_size": sizes[-1] if sizes else None,
    }


def figures_of(seeds: Sequence[Seed]) -> dict[str, Any]:
    """Return the figures of one dataflow, by bound."""
    outcomes = [outcome for seed in seeds for outcome in seed.outcomes]
    found: dict[str, Any] = {}
    for bound in BOUNDS:
        of_bound = [outcome for outcome in outcomes if outcome.bound == bound]
        by: dict[str, Any] = {}
        for setting in ("step", "whole"):
            some = [outcome for outcome in of_bound if outcome.setting == setting]
            policies = list(dict.fromkeys(outcome.policy for outcome in some))
            by[setting] = {policy: _of_policy(some, policy) for policy in policies}
        for policy in by["whole"]:
            saved = statistics.mean(seed.whole_saved[f"{bound:g}"][policy] for seed in seeds)
            by["whole"][policy]["saved"] = saved
        found[f"{bound:g}"] = by
    found["fit_seconds"] = statistics.mean(s for seed in seeds for s in seed.phase)
    return found


def _of_policy(outcomes: Sequence[Outcome], policy: str) -> dict[str, Any]:
    mine = [outcome for outcome in outcomes if outcome.policy == policy]
    names = list(dict.fromkeys(outcome.name for outcome in mine))
    by_name = {
        name: {
            "saved": statistics.mean(o.saved for o in mine if o.name == name),
            **confidence_of([o for o in mine if o.name == name]),
        }
        for name in names
    }
    return {
        "saved": statistics.mean(outcome.saved for outcome in mine),
        "confidence": statistics.mean(each["confidence"] for each in by_name.values()),
        "worst": min(each["confidence"] for each in by_name.values()),
        "by_name": by_name,
    }


def table_of(figures: Mapping[str, Any]) -> str:
    """Return the figures of one dataflow as text."""
    lines = []
    for bound in BOUNDS:
        for setting, policies in figures[f"{bound:g}"].items():
            oracle = policies["oracle"]["saved"]
            lines.append(f"ε {100 * bound:g} %, {setting}")
            for policy, each in policies.items():
                names = ", ".join(
                    f"{name} {100 * one['saved']:.0f}/{100 * one['confidence']:.1f}"
                    for name, one in each["by_name"].items()
                )
                lines.append(
                    f"  {policy:19} saved {100 * each['saved']:5.1f} % "
                    f"({each['saved'] / oracle if oracle else 0:4.2f} of the oracle), confidence "
                    f"{100 * each['confidence']:5.1f} %, worst {100 * each['worst']:5.1f} % "
                    f"({names})"
                )
    return "\n".join(lines)
