"""What a generator of worlds finds: the product says or does what the world shows to be wrong."""

from __future__ import annotations


class Contradiction(AssertionError):
    """The product contradicts what was computed again from all that happened."""


def require(*, holds: bool, words: str) -> None:
    """Go on where it holds.

    Raises:
        Contradiction: it does not; ``words`` say what contradicts what.
    """
    if not holds:
        raise Contradiction(words)
