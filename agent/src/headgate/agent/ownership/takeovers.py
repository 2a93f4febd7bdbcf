"""Which dataflows an agent takes over, and when it tries again: decisions without threads or I/O.

Times are seconds of a clock that never leaps.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Final

from msgspec import Struct

from headgate.agent.errors import Held
from headgate.agent.state.sealed import Definition, Owner
from headgate.agent.state.store import Listings
from headgate.agent.supervision import describe, pause_after
from headgate.events import partition_of

_AGAIN: Final = 1.0
"""Seconds until a dataflow that could not go on without HBase or Kafka is tried again."""
_STEADY: Final = 600.0
"""Seconds after which a dataflow that fails has not failed in a row."""


class _Broken(Struct, frozen=True):
    """Why a dataflow cannot run here, as of a revision of its definition."""

    revision: int
    words: str
    failures: int = 0
    """In a row, where something ended its thread that may not do so again."""
    again: float | None = None
    """When it is tried again; None: after the next submit."""


class Takeovers:
    """What an agent knows of the dataflows that it may take, and of those that failed with it."""

    def __init__(self) -> None:
        self._assigned: set[int] = set()
        self._standing_by: dict[str, Held] = {}
        self._broken: dict[str, _Broken] = {}
        self._begun: dict[str, float] = {}
        """When each dataflow began here."""
        self._not_before: dict[str, float] = {}
        """When to try dataflows again that could not go on."""

    # -- what is this agent's to take

    def assign(self, partitions: Iterable[int]) -> None:
        """Take note of partitions whose dataflows are this agent's to take."""
        self._assigned |= set(partitions)

    def revoke(self, partitions: Iterable[int]) -> None:
        """Take note of partitions that are so no more; what runs here goes on."""
        self._assigned -= set(partitions)

    def revoke_all(self) -> None:
        """Take note that it has none yet: a member that begins again is assigned its own anew."""
        self._assigned.clear()

    def is_due(self, definition: Definition, partitions: int, now: float) -> bool:
        """Return whether a dataflow is to be tried now, if it does not run here.

        Args:
            definition: its.
            partitions: how many the topic has by which agents share dataflows.
            now: the time.
        """
        name = definition.name
        if partition_of(name.encode(), partitions) not in self._assigned:
            return False
        broken = self._broken.get(name)
        known = broken is not None and broken.revision == definition.revision
        if broken is not None and known and (broken.again is None or now < broken.again):
            return False
        return now >= self._not_before.get(name, -math.inf)

    def patience(self, now: float, most: float) -> float:
        """Return the seconds until dataflows are to be looked through again, ``most`` at most."""
        dues = [one.again for one in list(self._broken.values()) if one.again is not None]
        left = [due - now for due in (*dues, *list(self._not_before.values())) if due > now]
        return min([most, *left])

    # -- what became of an attempt

    def stand_by(self, name: str, held: Held) -> bool:
        """Note that another agent has a dataflow; return whether that was not known before."""
        new = name not in self._standing_by
        self._standing_by[name] = held
        return new

    def taken(self, name: str) -> Held | None:
        """Note that this agent has a dataflow; return who had it while this one stood by."""
        return self._standing_by.pop(name, None)

    def begin(self, name: str, now: float) -> None:
        """Note that a dataflow begins here."""
        self._begun[name] = now

    def refuse(self, name: str, revision: int, words: str) -> None:
        """Note that a definition cannot run here, until it is changed."""
        self._broken[name] = _Broken(revision, words)

    def fail(self, name: str, revision: int, error: BaseException, now: float) -> None:
        """Note that something ended a dataflow's work, which is begun again in a while."""
        before = self._broken.get(name)
        lasted = now - self._begun.get(name, now)
        in_a_row = before is not None and before.revision == revision and lasted < _STEADY
        failures = 1 + (before.failures if before is not None and in_a_row else 0)
        pause = pause_after(failures)
        words = f"{describe(error)}; tried again after {pause:g} s (failure {failures} in a row)"
        self._broken[name] = _Broken(revision, words, failures, now + pause)

    def pause(self, name: str, now: float) -> None:
        """Note that Kafka or HBase was away: it is tried again soon, not at once."""
        self._not_before[name] = now + _AGAIN

    # -- what is known against dataflows

    def forget(self, listings: Listings, owner: Owner) -> None:
        """Forget what was removed since it could not run, was changed, or is another agent's."""
        stands = {
            listing.definition.name: listing.definition.revision
            for listing in listings.flows
            if not listing.left or listing.lease.owner in (None, owner)
        }
        for name, broken in list(self._broken.items()):
            if name not in stands or stands[name] > broken.revision:
                del self._broken[name]

    def words_against(self, definition: Definition) -> str | None:
        """Say why a definition cannot run here; None where nothing is known against it."""
        broken = self._broken.get(definition.name)
        if broken is None or broken.revision != definition.revision:
            return None
        return broken.words

    def broken(self, running: Collection[str]) -> int:
        """Return how many dataflows this agent could not go on with; not those that run."""
        return len(self._broken.keys() - set(running))
