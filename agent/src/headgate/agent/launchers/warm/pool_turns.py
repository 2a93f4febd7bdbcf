"""Whose turn it is in a session that dataflows share, and who is to blame for its end. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final

from msgspec import Struct

_SUSPECTS: Final = 1000
"""Kept at most: those of dataflows that were removed meanwhile never come back."""


class PooledRun(Struct, frozen=True):
    """A run of a dataflow of the pool; attempts of a run are one at a time."""

    dataflow: str
    run: str


class SessionEnd(Struct, frozen=True):
    """What the end of a session means for the runs of its pool."""

    culprit: PooledRun | None
    """Whose attempt ended it, so that it failed; None where none did, or nobody knows which."""
    suspects: tuple[PooledRun, ...] = ()
    """Of whom one ended it: each is begun again, alone in the session."""
    others: tuple[PooledRun, ...] = ()
    """That had no part in it: begun again."""


class PoolTurns:
    """Lets runs into a session in the order in which they asked.

    Whoever was alone in a session when it ended has ended it. Where several were, each of them
    comes back alone: nothing else runs until it is over, so that its own end is nobody else's.
    """

    def __init__(self) -> None:
        self._waiting: deque[PooledRun] = deque()
        self._within: list[PooledRun] = []
        self._suspects: dict[PooledRun, None] = {}

    @property
    def within(self) -> tuple[PooledRun, ...]:
        """The runs in the session."""
        return tuple(self._within)

    def ask(self, run: PooledRun) -> tuple[PooledRun, ...]:
        """Take a run that wants in; return those that begin now."""
        self._waiting.append(run)
        return self._admitted()

    def over(self, run: PooledRun) -> tuple[PooledRun, ...]:
        """Take note that a run has ended, or does not want in any more; return who begins now."""
        self._suspects.pop(run, None)
        if run in self._within:
            self._within.remove(run)
        if run in self._waiting:
            self._waiting.remove(run)
        return self._admitted()

    def ended(self, known: PooledRun | None = None) -> SessionEnd:
        """Take note that the session has ended; nothing is in it, and nobody waits, any more.

        Args:
            known: the run for whose sake it was ended, where it was.
        """
        within, waiting = self._within, tuple(self._waiting)
        self._within = []
        self._waiting.clear()
        if known is None and len(within) == 1:
            known = within[0]
        if known is not None:
            self._suspects.pop(known, None)
            others = tuple(run for run in (*within, *waiting) if run != known)
            return SessionEnd(known, (), others)
        self._suspects.update(dict.fromkeys(within))
        while len(self._suspects) > _SUSPECTS:
            del self._suspects[next(iter(self._suspects))]
        return SessionEnd(None, tuple(within), waiting)

    def _admitted(self) -> tuple[PooledRun, ...]:
        admitted = []
        while self._waiting and self._may_enter(self._waiting[0]):
            run = self._waiting.popleft()
            self._within.append(run)
            admitted.append(run)
        return tuple(admitted)

    def _may_enter(self, run: PooledRun) -> bool:
        if not self._within:
            return True
        return run not in self._suspects and not any(one in self._suspects for one in self._within)
