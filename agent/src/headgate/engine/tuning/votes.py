"""What comes of the votes of the two factors (paper: dynamic adjustment)."""

from __future__ import annotations

from headgate.engine.protocol.adjustments import Vote

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
