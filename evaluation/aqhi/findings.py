"""Sentences about the figures of the evaluation, computed from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Figures = Mapping[str, Mapping[str, Any]]
"""Figures of one step by σ, as they are printed."""

_SAME = 1.0
"""Percent of the waves: executions that differ by less are the same."""


def spared_by_c(alone: Figures, with_c: Figures) -> str:
    """Say whether bounds on C spare runs of E (figure 15).

    Args:
        alone: E without bounds on C, by σ.
        with_c: E with the same σ on C.
    """
    spared = {
        sigma: alone[sigma]["executions_percent"] - with_c[sigma]["executions_percent"]
        for sigma in alone
    }
    gains = {sigma: points for sigma, points in spared.items() if points >= _SAME}
    if not gains:
        return "Bounds on C spare E nothing; in the paper they do from 75 % on."
    each = ", ".join(
        f"{alone[sigma]['executions_percent']:.0f} → {with_c[sigma]['executions_percent']:.0f} % "
        f"at σ {sigma} %"
        for sigma in gains
    )
    nothing = [sigma for sigma in spared if sigma not in gains]
    rest = f", and nothing at σ {_listed(nothing)} %" if nothing else ""
    return f"Bounds on C spare runs of E: {each}{rest}. In the paper they spare nothing below 75 %."


def held_by_divergence(figures: Figures, limit: float) -> str:
    """Say from which σ on F runs for the divergence of its input alone (figure 18).

    Args:
        figures: F's, by σ.
        limit: the divergence that it runs for, in points.
    """
    sigmas = sorted(figures, key=float)
    ran = {sigma: figures[sigma]["executions_percent"] for sigma in sigmas}
    least = ran[sigmas[-1]]
    from_here = next(
        sigma
        for place, sigma in enumerate(sigmas)
        if all(abs(ran[each] - least) < _SAME for each in sigmas[place:])
    )
    shares = ", ".join(f"{ran[sigma]:.0f} % at σ {sigma} %" for sigma in sigmas)
    if from_here == sigmas[-1]:
        return f"F runs in {shares} of the waves: σ counts up to the largest."
    return (
        f"F runs in {shares} of the waves. From σ {from_here} % on that does not change: it is the "
        f"{limit:g} points that F runs for, as in the paper from 60 % on."
    )


def papers_f(figures: Figures) -> str:
    """Say how far F's executions are from those that the paper gives."""
    compared = ", ".join(
        f"{figure['executions_percent']:.0f} % here and {figure['paper_percent']:.0f} % there at σ "
        f"{sigma} %"
        for sigma, figure in figures.items()
        if figure["paper_percent"] is not None
    )
    return (
        f"Against the paper: {compared}. The generator's fields, its noise and C's resolution were "
        "chosen to come near these two."
    )


def _listed(sigmas: list[str]) -> str:
    return sigmas[0] if len(sigmas) == 1 else f"{', '.join(sigmas[:-1])} and {sigmas[-1]}"
