"""Wishes to make an output in a wave, and the views from which they are judged."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from headgate.engine import Wave
from headgate.learning.decider import Judgement
from headgate.learning.features import Row


class Seen(Struct, frozen=True):
    """View of an output from the containers that one step reads."""

    containers: tuple[str, ...]
    """Containers that the step reads and that are of the wave."""
    wave: Wave
    """Wave that the step would run on."""
    version: int
    """The wave in which the output was made last; 0 where it never was."""
    certain: bool = True
    """True if one of the containers would be of the wave even without any audit in it."""
    at_work: bool = False
    """True while a run that makes the output is under way."""


class MadeLate(Protocol):
    """Whoever knows which steps are at work."""

    def version(self, output: str) -> int:
        """Return the wave in which an output was made last."""

    def is_made_late(self, output: str, wave: int) -> bool:
        """Return whether an output is still being made of a wave that was decided on."""


class Found(Struct, frozen=True, eq=False):
    """A judgement of an output, and the features of the container that it is judged from."""

    judgement: Judgement
    row: Row | None
    """None where they are not known."""


class Wish(Struct, frozen=True):
    """Wish to make an output or to leave it as it is, with the reason."""

    wanted: bool
    words: str
    data: dict[str, float | str | None] = {}
    audited: bool = False
    """True if the output is wanted only to see what a skip would cost."""
    found: Found | None = None
    """The judgement that the wish is of; None where nothing had to be predicted."""


def wanted(words: str, *, audited: bool = False) -> Wish:
    """Return the wish to make an output, whatever is predicted of it."""
    return Wish(wanted=True, words=words, audited=audited)


def unwanted(words: str) -> Wish:
    """Return the wish to leave an output as it is, whatever is predicted of it."""
    return Wish(wanted=False, words=words)
