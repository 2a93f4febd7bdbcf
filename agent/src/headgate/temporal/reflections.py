"""Runs that containers reflect, as values.

A container that an action writes reflects the action's last committed run. That run reflects what
its inputs reflected while it ran, and so on, up to what is fed from outside: of that the cut of the
run says everything. A run that reads in place may have seen each state of an input between its
launch and its end, so both ends are kept.
"""

from __future__ import annotations

from msgspec import Struct

from headgate.events import Cut


class Span(Struct, frozen=True, array_like=True):
    """The runs of one action that another run may have seen: these two, and all between them.

    Each is the last that had committed, when the other run was launched and when it ended; empty
    where none had. Of increments only those count that were read: then both are the same.
    """

    first: str
    last: str


class ReflectedRun(Struct, frozen=True):
    """A committed run, and what it has read. Times are Unix seconds; cuts have its topics only."""

    action: str
    launched: Cut
    """All updates that it has consumed are before it."""
    ended: Cut
    """What had arrived when it ended: it may have seen any of that where it read in place."""
    launched_at: float
    ended_at: float
    inputs: dict[str, Span] = {}
    """By action that makes what it reads, the runs of that action."""


class Reflections(Struct, frozen=True):
    """What the outputs of a dataflow reflect; each run once, however many others have read it.

    A run that is named and is not in ``runs`` is not known any more: it was read by an action on
    which it depends itself, over others or alone.
    """

    last: dict[str, str] = {}
    """By action, its last committed run: that is what the containers that it writes reflect."""
    runs: dict[str, ReflectedRun] = {}
    """By its id, each run that is reflected."""
    launched: dict[str, dict[str, str]] = {}
    """By action with a run under way, the last committed runs of its inputs at the launch."""
    made: dict[str, str] = {}
    """By increment that is not read yet, the run that made it."""


NOTHING = Reflections()
