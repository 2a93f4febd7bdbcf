"""What the two factors of adjustment say, and what comes of it (paper: dynamic adjustment)."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


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


_TOGETHER: dict[frozenset[Vote], Vote] = {
    frozenset({Vote.RESTRICT}): Vote.RESTRICT,
    frozenset({Vote.NONE}): Vote.NONE,
    frozenset({Vote.RELAX}): Vote.RELAX,
    frozenset({Vote.RESTRICT, Vote.NONE}): Vote.RESTRICT,
    frozenset({Vote.RELAX, Vote.NONE}): Vote.RELAX,
    frozenset({Vote.RESTRICT, Vote.RELAX}): Vote.NONE,
}


def together(one: Vote, other: Vote) -> Vote:
    """Return the outcome of two votes: equal, that; one is none, the other; opposed, none."""
    return _TOGETHER[frozenset({one, other})]
