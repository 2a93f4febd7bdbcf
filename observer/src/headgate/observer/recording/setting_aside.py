"""Keeps tables whose events Kafka does not take from holding the journal's segments for all."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog

from headgate.observer.publishing.publisher import Publisher
from headgate.observer.publishing.stuck import JournalUse
from headgate.observer.recording.journal import Journal

_log = structlog.get_logger("headgate.observer.recording.setting_aside")

SHARE: Final = 4
"""One table that is stuck may hold one part in so many of the journal's limit."""
_LOOK_SECONDS: Final = 1.0
_LOOK_IN_NEED_SECONDS: Final = 0.25
"""The same while the journal needs room: a good table must not wait for what a bad one holds."""
_SEGMENTS: Final = 3
"""Segments from which on the oldest is looked at."""


class SettingAside:
    """Sets aside what is unsettled in the oldest segment, while a table is stuck."""

    def __init__(self, journal: Journal, publisher: Publisher) -> None:
        """Set nothing aside yet."""
        self._journal = journal
        self._publisher = publisher
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal-aside")
        self._task: asyncio.Task[None] | None = None
        self._looked_at = float("-inf")
        self._late = False
        """True while Kafka takes the events of some tables, but not those of another."""

    def tend(self, now: float, limit_bytes: int) -> None:
        """Look for stuck tables, and begin with the oldest segment if they hold it.

        ``now`` is any time that only passes, in seconds.
        """
        in_need = self._needs_room(limit_bytes)
        if now - self._looked_at < (_LOOK_IN_NEED_SECONDS if in_need else _LOOK_SECONDS):
            return
        self._looked_at = now
        self._late = self._publisher.look(
            JournalUse(self._journal.size, limit_bytes // SHARE, in_need)
        )
        if self._task is None and self._is_needed(limit_bytes):
            self._task = asyncio.get_running_loop().create_task(self._set_aside(limit_bytes))

    def _is_needed(self, limit_bytes: int) -> bool:
        journal = self._journal
        if not journal.segments:
            return False
        if self._publisher.stuck:
            return journal.segments >= _SEGMENTS or self._needs_room(limit_bytes)
        return self._late and self._needs_room(limit_bytes)

    def _needs_room(self, limit_bytes: int) -> bool:
        return self._journal.size >= limit_bytes // 2 or self._journal.refused

    async def _set_aside(self, limit_bytes: int) -> None:
        """Go on with the oldest segment until there is room, or nothing holds it."""
        loop = asyncio.get_running_loop()
        try:
            while self._is_needed(limit_bytes):
                pinned = self._journal.pinned_segment()
                if not pinned.numbers:
                    return
                if not self._publisher.stuck and pinned.most_is_unsettled:
                    return  # It would take as much room beside the journal.
                copied = await loop.run_in_executor(self._thread, pinned.copy)
                self._journal.set_aside(pinned, copied)
                _log.warning(
                    "requests of tables that Kafka takes no events of are set aside",
                    requests=len(pinned.numbers),
                    tables=sorted(self._publisher.stuck)[:10],
                )
        except OSError as error:
            _log.error(
                "requests could not be set aside; free space on the journal's disk",
                reason=error.strerror,
            )
        finally:
            self._task = None

    def close(self) -> None:
        """Set nothing aside any more."""
        self._thread.shutdown(wait=True)
