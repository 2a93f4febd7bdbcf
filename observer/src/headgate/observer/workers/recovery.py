"""Journals of observers that are not configured any more: published, said goodbye to, emptied."""

from __future__ import annotations

import structlog

from headgate.observer.config import ObserverConfig
from headgate.observer.service import Observer
from headgate.observer.starting import ObserverAddresses
from headgate.observer.workers.division import left_behind

_log = structlog.get_logger("headgate.observer.workers.recovery")


class _Successor(Observer):
    """Starts under another's name, publishes what its journal holds, and ends."""

    async def _open_admin(self) -> None:
        """Nobody asks it."""

    async def _await_upstreams(self, deadline: float) -> None:
        """It needs none."""

    async def _listen(self) -> None:
        """It takes no clients."""


async def recover_left_behind(config: ObserverConfig) -> None:
    """Publish what workers have left that are not started any more.

    Raises:
        StartError: Kafka did not take it.
        JournalError: a journal cannot be used, or its observer still runs.
    """
    for earlier in left_behind(config):
        _log.warning(
            "an observer that is not configured any more has left a journal: publishing it",
            observer=earlier.name,
            journal=earlier.journal.directory,
        )
        successor = _Successor(earlier)

        def ended(_addresses: ObserverAddresses, successor: _Successor = successor) -> None:
            successor.stop()

        await successor.run(ended)
