"""What a runnable is: whether a stage can run, and on what (BIPS, section 2.6 and Table 1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from msgspec import Struct

from headgate.engine.connectors.connector import FlowView, Take
from headgate.engine.protocol.increments import FramingKey

Flows = Mapping[str, FlowView]
"""By the stage's name for it, what waits on each of its input flows, in the order declared."""
RunnableState = Mapping[str, int]
"""What a runnable remembers from one run to the next."""


class Waits(Struct, frozen=True):
    """The stage cannot run. ``words`` say what for, ``flows`` of which flows it needs more.

    Whoever feeds one of these is not held because something is unread there.
    """

    words: str
    flows: tuple[str, ...]


class Runnable(ABC):
    """Decides what a run reads and removes: a pure function of what waits and of its own state."""

    @abstractmethod
    def judge(self, flows: Flows, state: RunnableState) -> Take | Waits:
        """Return what a run is to take, with the state from then on, or why there can be none."""


def unread(flows: Flows) -> tuple[str, ...]:
    """Return the flows with an increment that was not read yet."""
    return tuple(name for name, view in flows.items() if view.unread)


def oldest_keys(flows: Flows) -> dict[str, FramingKey]:
    """Return the framing key of what waits longest, of each flow where something waits."""
    return {name: view.key for name, view in flows.items() if view.key is not None}


def listed(flows: tuple[str, ...], last: str = "and") -> str:
    """Return names of flows in words."""
    names = [f"`{name}`" for name in flows]
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
