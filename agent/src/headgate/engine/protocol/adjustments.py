"""Moves of limits that are given as intervals, and the votes of the two factors behind them."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from headgate.engine.spec.conditions import Dimension


class Vote(StrEnum):
    """What one factor, or both together, want to be done with a bound."""

    RESTRICT = "restrict"
    """Towards the minimum of its interval: more runs, smaller error."""
    NONE = "none"
    RELAX = "relax"
    """Towards the maximum: fewer runs on more data."""


class Assessment(Struct, frozen=True):
    """One factor's vote and, in words, what it was taken on."""

    vote: Vote
    words: str


class Adjustment(Struct, frozen=True):
    """One move of a bound's limits, and what both factors had said."""

    bound: str
    outcome: Vote
    writes: Assessment
    resources: Assessment
    share: float
    """The new place in the interval: 0 the minimum, 1 the maximum."""
    limits: dict[Dimension, float]
    """The new limits, in the units of the specification."""
    words: str
