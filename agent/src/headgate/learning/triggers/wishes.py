"""Whether an output is to be made in a wave, and from where that was seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from headgate.engine import Wave


class Seen(Struct, frozen=True):
    """From where an output is looked at."""

    containers: tuple[str, ...]
    """That a step reads and that are of the wave."""
    wave: Wave
    """That the step would run on."""
    version: int
    """The wave in which the output was made last; 0 where it never was."""
    certain: bool = True
    """Whether one of the containers would be of the wave without any audit in it."""
    at_work: bool = False
    """Whether a run that makes the output is under way."""


class MadeLate(Protocol):
    """Whoever knows which steps are at work."""

    def version(self, output: str) -> int:
        """Return the wave in which an output was made last."""

    def is_made_late(self, output: str, wave: int) -> bool:
        """Return whether an output is still being made of a wave that was decided on."""


class Wish(Struct, frozen=True):
    """Whether an output wants to be made, and why."""

    wanted: bool
    words: str
    data: dict[str, float | str | None] = {}
    audited: bool = False
    """Whether it is wanted only to see what a skip would cost."""


Data = Mapping[str, float | str | None]
_NONE: Data = {}


def wanted(words: str, data: Data = _NONE, *, audited: bool = False) -> Wish:
    """Return the wish to make an output."""
    return Wish(wanted=True, words=words, data=dict(data), audited=audited)


def unwanted(words: str) -> Wish:
    """Return the wish to leave an output as it is."""
    return Wish(wanted=False, words=words)
