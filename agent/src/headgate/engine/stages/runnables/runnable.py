"""What a runnable is: whether a stage can run, and on what (BIPS, section 2.6 and Table 1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from headgate.engine.protocol.increments import FramingKey
from headgate.engine.protocol.runnables import RunnableAnswer, RunnableQuestion
from headgate.engine.stages.connector import FlowView, Frame, Remembered, Take

Flows = Mapping[str, FlowView]
"""By the stage's name for it, what waits on each of its input flows, in the order declared."""
RunnableState = Remembered
"""What a runnable remembers from one run to the next."""


class Waits(Struct, frozen=True):
    """The stage cannot run. ``words`` say what for, ``flows`` of which flows it needs more.

    Whoever feeds one of these is not held because something is unread there.
    """

    words: str
    flows: tuple[str, ...]


class Asks(Struct, frozen=True):
    """It depends on what code outside the engine says: ask this, then judge again."""

    question: RunnableQuestion


class Fails(Struct, frozen=True):
    """The stage cannot run, since its runnable, of which ``words`` speak, says nothing of use."""

    words: str


Finding = Take | Waits | Asks | Fails


class Answered(Struct, frozen=True):
    """A question and what was answered to it."""

    question: RunnableQuestion
    answer: RunnableAnswer


class Waiting(Protocol):
    """What a runnable sees of its stage."""

    @property
    def flows(self) -> Flows:
        """What waits."""

    @property
    def remembered(self) -> RunnableState:
        """What it remembers."""

    @property
    def answered(self) -> Answered | None:
        """What was answered last; None where nothing was since the last run."""

    def frames(self, most: int) -> Mapping[str, Sequence[Frame]]:
        """Return by flow the oldest increments that wait, no more than so many."""


class Runnable(ABC):
    """Decides what a run reads and removes."""

    @abstractmethod
    def find(self, waiting: Waiting) -> Finding:
        """Return what a run is to take, or why there can be none."""


class PureRunnable(Runnable):
    """A runnable that is a pure function of what waits and of its own state."""

    def find(self, waiting: Waiting) -> Finding:
        """Return what it judges."""
        return self.judge(waiting.flows, waiting.remembered)

    @abstractmethod
    def judge(self, flows: Flows, state: RunnableState) -> Take | Waits:
        """Return what a run is to take, with the state from then on, or why there can be none."""


def unread(flows: Flows) -> tuple[str, ...]:
    """Return the flows with an increment that was not read yet."""
    return tuple(name for name, view in flows.items() if view.unread)


def oldest_keys(flows: Flows) -> dict[str, FramingKey]:
    """Return the framing key of what waits longest, of each flow where something waits."""
    return {name: view.key for name, view in flows.items() if view.key is not None}


def number_in(state: RunnableState, name: str) -> int:
    """Return a number that is remembered; 0 where none is."""
    number = state.get(name, 0)
    return number if isinstance(number, int) else 0


def listed(flows: tuple[str, ...], last: str = "and") -> str:
    """Return names of flows in words."""
    names = [f"`{name}`" for name in flows]
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
