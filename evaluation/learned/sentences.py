"""Sentences that say what the figures of a dataflow show, computed from the figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation.learned.evaluation import BOUNDS, CONFIDENCE
from evaluation.learned.overheads import DECISIONS_LIMIT

_BLIND = ("random", "seq2", "seq3", "seq4", "seq5")
_NAIVE_BOUND = "0.05"

Figures = Mapping[str, Any]
"""Figures of one dataflow, as they are printed."""


def missed_in_words(figures: Figures) -> str:
    """Return where the confidence was missed: its interval is below the goal with a seed."""
    missed = [
        f"{setting} {name} at {100 * bound:g} % (seed {', '.join(map(str, each['below']))})"
        for bound in BOUNDS
        for setting in ("step", "whole")
        for name, each in figures[f"{bound:g}"][setting]["learned"]["by_name"].items()
        if each["below"]
    ]
    goal = f"{100 * CONFIDENCE:g} %"
    if not missed:
        return f"no confidence is below {goal} beyond chance."
    return f"below {goal} beyond chance are {_listed(missed)}."


def naive_in_words(figures: Figures) -> str:
    """Return how learned triggers compare with policies that look at nothing."""
    of = {name: each["confidence"] for name, each in figures[_NAIVE_BOUND]["step"].items()}
    better = [name for name in _BLIND if of[name] >= of["learned"]]
    best = max(_BLIND, key=of.__getitem__)
    if better:
        return f"{_listed(better)} kept the bound as often as the learned triggers, or more often."
    return (
        f"learned {100 * of['learned']:.1f} %, the best of the others, {best}, "
        f"{100 * of[best]:.1f} %."
    )


def savings_in_words(figures: Figures) -> str:
    """Return the share of the possible savings that was saved, step by step and of the whole."""
    parts = []
    for bound in BOUNDS:
        shares = []
        for setting in ("step", "whole"):
            policies = figures[f"{bound:g}"][setting]
            possible = policies["oracle"]["saved"]
            shares.append(policies["learned"]["saved"] / possible if possible else 0.0)
        parts.append(f"{100 * shares[0]:.0f} and {100 * shares[1]:.0f} % at ε {100 * bound:g} %")
    return f"of what can be saved, steps and the whole save {_listed(parts)}."


def classifiers_in_words(figures: Figures) -> str:
    """Return which classifier ranks best, by inputs and tests."""
    if not figures.get("classifiers"):
        return ""
    areas = figures["classifiers"]
    parts = []
    for inputs in ("ι", "features"):
        for when, words in (("tenfold", "in ten folds"), ("later", "on later waves")):
            known = {n: by[inputs][when] for n, by in areas.items() if by[inputs][when] is not None}
            if known:
                best = max(known, key=known.__getitem__)
                parts.append(f"of {inputs} {words} {best} ({known[best]:.2f})")
    cases = next(iter(areas.values()))["ι"]["cases"]
    return f"best are {_listed(parts)}; means of {cases} pairs of step and bound."


def decisions_in_words(figures: Figures) -> str:
    """Return whether all decisions of a wave are within what was aimed at."""
    if not figures.get("overheads"):
        return ""
    spent = figures["overheads"][-1]["milliseconds"]
    kept = "within" if spent <= DECISIONS_LIMIT else "above: the target was missed,"
    return (
        f"all decisions of a wave take {spent:.2f} ms, {kept} the {DECISIONS_LIMIT:g} ms aimed at."
    )


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
