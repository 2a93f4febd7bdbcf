"""What outcomes come to: shares saved, confidence pooled over seeds with intervals, violations.

Figures are plain numbers by name, as they are printed; the page draws some of them wave by wave.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import to_builtins
from scipy.stats import beta, spearmanr

from evaluation.learned.classification import FIGURE_7_BOUND, Classification, Table
from evaluation.learned.evaluation import BOUNDS, SETTLED, Outcome, Seed
from headgate.learning.fitting.quality import Quality

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
    found: dict[str, Any] = {"name": outcomes[0].application}
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
    found["executions"] = executions_of(outcomes)
    found["denominators"] = denominators_of(outcomes)
    found["calibrated_quality"] = {
        f"{bound:g}": mean_quality(
            each.quality for seed in seeds for each in seed.qualities if each.bound == bound
        )
        for bound in BOUNDS
    }
    for seed in seeds:
        if seed.classification is not None:
            found |= _of_classification(seed.classification)
            found["overheads"] = to_builtins(seed.overheads)
    return found


def chosen(outcomes: Iterable[Outcome], setting: str, policy: str, bound: float) -> list[Outcome]:
    """Return the outcomes of one policy."""
    return [
        each
        for each in outcomes
        if (each.setting, each.policy, each.bound) == (setting, policy, bound)
    ]


def running_confidence(outcomes: Sequence[Outcome]) -> Table:
    """Return the share of waves within the bound up to each, all outputs and seeds together, (w,).

    The normalised cumulative sum of figures 10 and 11.
    """
    return _running(1.0 - np.array([each.violated for each in outcomes]).mean(0))


def running_executions(outcomes: Sequence[Outcome]) -> Table:
    """Return executions against those of a synchronous run up to each wave, (w,); figure 12."""
    return _running(np.array([each.ran for each in outcomes]).mean(0))


def _running(by_wave: Table) -> Table:
    shares: Table = by_wave.cumsum() / np.arange(1, len(by_wave) + 1)
    return shares


def executions_of(outcomes: Sequence[Outcome]) -> dict[str, dict[str, int]]:
    """Return how often steps ran in all seeds, by bound and policy; the totals of figure 12."""
    found = {}
    for bound in BOUNDS:
        learned, oracle = (chosen(outcomes, "step", p, bound) for p in ("learned", "oracle"))
        found[f"{bound:g}"] = {
            "learned": sum(sum(each.ran) for each in learned),
            "optimal": sum(sum(each.ran) for each in oracle),
            "synchronous": sum(len(each.ran) for each in learned),
        }
    return found


def denominators_of(outcomes: Sequence[Outcome]) -> dict[str, dict[str, dict[str, float | None]]]:
    """Return confidence and the median ratio by which ε is larger by Σ|x|, by bound and policy.

    Bounds are of the other denominator, Σ max(|x|, |x′|): ε by Σ|x| is never less. The ratio is
    of waves in which something is there, as it is infinite by Σ|x| otherwise.
    """
    found: dict[str, dict[str, dict[str, float | None]]] = {}
    for bound in BOUNDS:
        found[f"{bound:g}"] = {}
        for policy in ("learned", "oracle"):
            mine = chosen(outcomes, "step", policy, bound)
            shown = np.array([each.errors[SETTLED:] for each in mine])
            current = np.array([each.current[SETTLED:] for each in mine])
            known = (shown > 0.0) & np.isfinite(current)
            ratios = current[known] / shown[known]
            found[f"{bound:g}"][policy] = {
                "maximum": float((shown <= bound).mean()),
                "current": float((current <= bound).mean()),
                "median_ratio": float(np.median(ratios)) if ratios.size else None,
            }
    return found


def mean_quality(qualities: Iterable[Quality]) -> dict[str, float | None]:
    """Return accuracy, precision and recall, each the mean of those steps that have one."""
    found: dict[str, list[float]] = {"accuracy": [], "precision": [], "recall": []}
    for each in qualities:
        for name, values in found.items():
            value = getattr(each, name)
            values += [] if value is None else [value]
    return {name: statistics.mean(values) if values else None for name, values in found.items()}


def _of_classification(found: Classification) -> dict[str, Any]:
    return {
        "figure_7": {
            step: {
                "examples": len(points),
                "out_of_bounds": sum(not error <= FIGURE_7_BOUND for _, error in points),
                "spearman": _correlation(points),
            }
            for step, points in found.points.items()
        },
        "figure_8": learning_curves(found),
        "classifiers": roc_means(found),
    }


def _correlation(points: Sequence[tuple[float, float]]) -> float | None:
    """Return Spearman's rank correlation of ι and ε; None where one of them never changes."""
    impacts, known = zip(*points, strict=True)
    if len(set(impacts)) < 2 or len(set(known)) < 2:
        return None
    return float(spearmanr(impacts, known).statistic)


def learning_curves(found: Classification) -> dict[str, dict[str, dict[str, Any]]]:
    """Return figure 8: by bound, way and waves of training, the mean qualities of all steps."""
    curves: dict[str, dict[str, dict[str, Any]]] = {}
    for bound in BOUNDS:
        mine = [point for point in found.curve if point.bound == bound]
        curves[f"{bound:g}"] = {
            way: {
                str(waves): mean_quality(
                    p.quality for p in mine if p.way == way and p.waves == waves
                )
                for waves in dict.fromkeys(p.waves for p in mine)
            }
            for way in ("learned", "paper")
        }
    return curves


def roc_means(found: Classification) -> dict[str, dict[str, dict[str, Any]]]:
    """Return ROC areas by classifier and inputs, each the mean over steps and bounds."""
    areas: dict[str, dict[str, dict[str, Any]]] = {}
    for each in found.areas:
        areas.setdefault(each.classifier, {}).setdefault(each.inputs, {"tenfold": [], "later": []})
        into = areas[each.classifier][each.inputs]
        into["tenfold"].append(each.tenfold)
        into["later"] += [] if each.later is None else [each.later]
    return {
        classifier: {
            inputs: {
                "tenfold": statistics.mean(of["tenfold"]),
                "later": statistics.mean(of["later"]) if of["later"] else None,
                "cases": len(of["tenfold"]),
            }
            for inputs, of in by_inputs.items()
        }
        for classifier, by_inputs in areas.items()
    }


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
