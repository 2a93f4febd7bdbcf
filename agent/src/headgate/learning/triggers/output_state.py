"""The saved state of a bounded output."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from headgate.learning.decider import DeciderState, Judged
from headgate.learning.triggers.errors import ErrorState
from headgate.learning.triggers.renewal import RenewalState


class OutputState(Struct):
    """The saved state of a bounded output."""

    model: str = ""
    """Version of the model that decides; empty if none does."""
    begun: int = 0
    """The wave from which on it does."""
    shown: float = 0.0
    """Mean of the output's values."""
    since: int = 0
    """The wave from which on all runs have been synchronous."""
    outdated: bool = False
    """True while a model is to be trained on the waves after a change of the world."""
    asked: int = 0
    """The wave in which a model was asked for last; 0 where none was."""
    lost: bool = False
    """True after a run was given up, until the next commit: nobody knows what the output was made
    of."""
    words: str = ""
    """Why there is no model yet."""
    renewal: RenewalState = msgspec.field(default_factory=RenewalState)
    decided: DeciderState = msgspec.field(default_factory=DeciderState)
    """State of the decider that uses the current model."""
    error: ErrorState = msgspec.field(default_factory=ErrorState)
    """State of the error against what was shown before the output's last run."""
    elements: dict[str, int] = {}
    """Number of elements (n) of each container above the output when its last run began, where it
    is known."""
    making: Judged | None = None
    """Judgement in the wave of the run under way; None if nothing was predicted in it."""
    awaited: bool = False
    """True while a requested model is awaited."""
    changed: int = 0
    """The wave in which a change was found last: what came before it is of another world."""
    tried: int = 0
    """Trainings since then that gave no model."""
    waves: tuple[int, int] = (0, 0)
    """The first and the last wave that the model was trained on, where that is known."""
    due: int = 0
    """The last wave that it was to be made of, by the last look in it; 0 where it was not."""
    unbased: set[str] = set()
    """Containers above the output of which nobody knows how they were for its last run."""
