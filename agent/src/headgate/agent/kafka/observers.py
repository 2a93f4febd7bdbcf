"""Which observers are live, from the leases they publish."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from headgate.agent.kafka.read_counts import summed
from headgate.events import ObserverLease

log = structlog.get_logger("headgate.agent.observers")


@dataclass(slots=True)
class _Heard:
    epoch: int
    until: float
    address: str
    ended: bool
    reads: dict[str, dict[str, int]]


class ObserverTable:
    """Observers by name, each with its newest epoch; safe to use from several threads.

    A lease counts from its receipt by this agent's own clock, so clocks of other hosts do not
    matter. An observer that ended without a goodbye may still hold updates in its journal, which
    its next epoch publishes: barriers wait for it ``grace`` seconds longer.

    While no observer at all is heard, it is Kafka that is away, or this agent that slept: that
    time ends no lease. Else a barrier would pass with the mark of the one that is heard first.
    """

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._heard: dict[str, _Heard] = {}
        self._open: dict[tuple[str, int], float] = {}
        """By observer and epoch: when the lease ends of each that nobody said to have ended."""
        self._last: float | None = None
        """When a lease was last heard as it was given."""
        self._seconds = 0.0
        """How long that one is: observers are heard more often."""
        self._warned: dict[str, set[int]] = {}
        self._lock = threading.Lock()

    def recall(self, lease: ObserverLease, then: float) -> None:
        """Note a lease that was given at ``then`` (Unix seconds), before this agent listened."""
        with self._lock:
            self._note(lease, then)

    def hear(self, lease: ObserverLease, now: float) -> None:
        """Note a lease received at ``now`` (Unix seconds)."""
        with self._lock:
            silence = 0.0 if self._last is None else now - self._last
            self._last, self._seconds = now, lease.seconds
            if silence > lease.seconds:
                for heard in self._heard.values():
                    heard.until += silence
                for epoch in self._open:
                    self._open[epoch] += silence
            self._note(lease, now)

    def _note(self, lease: ObserverLease, now: float) -> None:
        if lease.part:
            return  # the lease itself comes behind it
        if lease.ended:
            self._open.pop((lease.observer, lease.epoch), None)
        else:
            self._open[lease.observer, lease.epoch] = now + lease.seconds
        known = self._heard.get(lease.observer)
        if known is not None and known.epoch > lease.epoch:
            if lease.ended or (not known.ended and now < known.until):
                return
            # Its journal was lost and its clock is behind: it lives all the same.
            if lease.epoch not in self._warned.setdefault(lease.observer, set()):
                self._warned[lease.observer].add(lease.epoch)
                log.warning(
                    "an observer lives under an epoch below an earlier one of its name",
                    observer=lease.observer,
                    epoch=lease.epoch,
                    earlier=known.epoch,
                )
        self._heard[lease.observer] = _Heard(
            lease.epoch, now + lease.seconds, lease.address, lease.ended, lease.reads
        )

    def required(self, now: float) -> dict[str, int]:
        """Return the observers whose marks a barrier needs: the least epoch of each, by name."""
        with self._lock:
            return {
                name: heard.epoch
                for name, heard in self._heard.items()
                if not heard.ended and now < heard.until + self._grace
            }

    def live(self, now: float) -> dict[str, str]:
        """Return the addresses of the observers whose lease runs, by name."""
        with self._lock:
            return {
                name: heard.address
                for name, heard in self._heard.items()
                if not heard.ended and now < heard.until
            }

    def reads(self, table: str) -> Mapping[str, int]:
        """Return how often a table's columns were read through observers that have not ended."""
        with self._lock:
            heard = [each for each in self._heard.values() if not each.ended]
        return summed(each.reads.get(table, {}) for each in heard)

    def gone(self, now: float) -> dict[str, tuple[int, ...]]:
        """Return the epochs of each observer that are lost for good, by name, in their order.

        Such a lease ended without a goodbye, and neither it nor a later epoch of it, which would
        publish what its journal holds, has said within the grace that nothing is missing.
        """
        found: dict[str, tuple[int, ...]] = {}
        with self._lock:
            if self._last is not None and now - self._last > self._seconds:
                return found  # nobody is heard
            for (name, epoch), until in sorted(self._open.items()):
                if now >= until + self._grace:
                    found[name] = (*found.get(name, ()), epoch)
        return found

    def under_way(self, now: float) -> frozenset[tuple[str, int]]:
        """Return the epochs, with their observers' names, that may still say what is missing."""
        with self._lock:
            return frozenset(each for each, end in self._open.items() if now < end + self._grace)

    def lost(self, now: float) -> tuple[str, ...]:
        """Return the names of those that barriers wait for although their lease ended."""
        with self._lock:
            return tuple(
                name
                for name, heard in self._heard.items()
                if not heard.ended and heard.until <= now < heard.until + self._grace
            )
