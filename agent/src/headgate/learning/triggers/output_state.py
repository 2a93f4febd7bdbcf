"""What is saved of a bounded output."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from headgate.learning.decider import DeciderState, Judged
from headgate.learning.triggers.errors import ErrorState
from headgate.learning.triggers.renewal import RenewalState


class OutputState(Struct):
    """What is saved of an output."""

    model: str = ""
    """Which one decides; none where empty."""
    begun: int = 0
    """The wave from which on it does."""
    shown: float = 0.0
    """Mean of the output's values."""
    since: int = 0
    """The wave from which on all runs have been synchronous."""
    outdated: bool = False
    """Whether a change was learned of, so that a model is to be trained on what came after it."""
    asked: int = 0
    """The wave in which a model was asked for last; 0 where none was."""
    lost: bool = False
    """Whether a run was given up: then nobody knows what the output is of."""
    words: str = ""
    """Why there is no model yet."""
    renewal: RenewalState = msgspec.field(default_factory=RenewalState)
    decided: DeciderState = msgspec.field(default_factory=DeciderState)
    """By the model that decides."""
    error: ErrorState = msgspec.field(default_factory=ErrorState)
    """Of what was shown before its last run."""
    elements: dict[str, int] = {}
    """By container above it, n when its last run began, where it is known."""
    making: Judged | None = None
    """What was predicted in the wave of the run under way."""
    awaited: bool = False
    """Whether the model that was asked for is still to come."""
    changed: int = 0
    """The wave in which a change was found last: what came before it is of another world."""
    tried: int = 0
    """Trainings since then that gave no model."""
    waves: tuple[int, int] = (0, 0)
    """The first and the last wave that the model was trained on, where that is known."""
    due: int = 0
    """The last wave that it was to be made of, by the last look in it; 0 where it was not."""
