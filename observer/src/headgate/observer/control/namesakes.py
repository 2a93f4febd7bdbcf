"""Other observers of this one's name: there must be none, and one that lives is announced.

The name is a part of each event's identity, and agents wait for one mark by name: of two observers
with one name, barriers would wait for only one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog
from msgspec import Struct

from headgate.events import ObserverLease
from headgate.observer.starting import StartError

_log = structlog.get_logger("headgate.observer.control.namesakes")

_SHOUT_SECONDS: Final = 60.0  # between two lines of the log about the same
_CURE: Final = (
    "end one of them, or give each its own name and its own [journal] directory: agents wait for "
    "only one of two"
)


class _Heard(Struct):
    epoch: int
    incarnation: str
    address: str
    until: float
    """When the lease ends, by the clock of who heard it."""


class Namesakes:
    """Leases of the observer's name that some other process has said.

    Args:
        name: the observer's.
        incarnation: this process's, as in its leases.
        epoch: of this process.
        clock: any time in seconds that only passes.
    """

    def __init__(self, name: str, incarnation: str, epoch: int, clock: Callable[[], float]) -> None:
        self._name = name
        self._incarnation = incarnation
        self._before = epoch - 1
        """The epoch before this one in the same journal: whoever had it has ended."""
        self._clock = clock
        self._heard: dict[tuple[int, str], _Heard] = {}
        self._renewed: set[tuple[int, str]] = set()
        """Those heard again since the observer looks out for them."""
        self._looks_out = False
        self._shouted_at = float("-inf")
        self.highest = 0
        """Highest of the epochs that were heard under the name; 0 before any."""

    def hear(self, lease: ObserverLease, left: float) -> None:
        """Take note of a lease of the name, which this process has not said.

        ``left`` is for how many seconds it still lasts.
        """
        self.highest = max(self.highest, lease.epoch)
        key = lease.epoch, lease.incarnation
        if lease.ended:
            # Whoever follows in its journal says that: under an incarnation of its own.
            for each in [each for each in self._heard if each[0] == lease.epoch]:
                del self._heard[each]
        elif self._looks_out or lease.epoch != self._before:
            until = self._clock() + min(left, lease.seconds)
            self._heard[key] = _Heard(lease.epoch, lease.incarnation, lease.address, until)
            if self._looks_out:
                self._renewed.add(key)

    def look_out(self) -> None:
        """Take whoever is heard from now on for alive."""
        self._looks_out = True

    def may_live(self) -> bool:
        """Return whether a lease runs of which nobody knows whether it is renewed."""
        now = self._clock()
        return any(each.until > now for each in self._heard.values())

    def living(self) -> str:
        """Return which other observer of the name lives, in words; empty where none does."""
        found = self._newest()
        return "" if found is None else self._words(found)

    def refuse(self) -> None:
        """Refuse to live beside another observer of the name.

        Raises:
            StartError: one lives.
        """
        if words := self.living():
            raise StartError(words)

    def yields(self, epoch: int) -> bool:
        """Return whether this observer, of the epoch, is the one of two that has to end.

        The older one goes on, and says so in its log again and again.
        """
        found = self._newest()
        if found is None:
            return False
        if (epoch, self._incarnation) > (found.epoch, found.incarnation):
            return True
        now = self._clock()
        if now - self._shouted_at >= _SHOUT_SECONDS:
            self._shouted_at = now
            _log.error("another observer of this name lives", reason=self._words(found))
        return False

    def _newest(self) -> _Heard | None:
        now = self._clock()
        for key in [key for key, each in self._heard.items() if each.until <= now]:
            del self._heard[key]
            self._renewed.discard(key)
        alive = [self._heard[key] for key in self._renewed if key in self._heard]
        return max(alive, key=lambda each: (each.epoch, each.incarnation), default=None)

    def _words(self, found: _Heard) -> str:
        at = f" (admin address {found.address})" if found.address else ""
        return (
            f"another observer is called {self._name!r} and lives{at}, epoch {found.epoch}; {_CURE}"
        )
