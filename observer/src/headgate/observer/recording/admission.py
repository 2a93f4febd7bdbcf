"""What watched writes wait for before they are forwarded: room in the journal, and its disk."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

import structlog

from headgate.observer.config import Fsync, JournalSettings, WhenFull
from headgate.observer.publishing.publisher import Publisher
from headgate.observer.recording.journal import Journal
from headgate.observer.recording.journal_errors import JournalError, JournalFull, TableFull

_log = structlog.get_logger("headgate.observer.recording.admission")


_MOST_GAPS: Final = 1000
"""Tables with a gap that is to be announced: all are written to the disk with each new one."""
_NAMED: Final = 10  # tables that health names
_SAFE: Final = "nothing was written, try again"
_FULL: Final = (
    f"headgate: the observer's journal is full, because Kafka does not take events; {_SAFE}"
)
_ENDING: Final = f"headgate: the observer ends, and its journal has no room for this write; {_SAFE}"


class Waiting(Protocol):
    """A session whose request waits for room."""

    def try_again(self) -> bool:
        """Try to write the request down and forward it; return whether it waits no more."""

    def give_up(self, reason: str) -> None:
        """Answer the request with an IOError."""


class WriteAdmission:
    """Applies the journal's policies: when it is full, and when it must be on the disk."""

    def __init__(
        self,
        journal: Journal,
        publisher: Publisher,
        config: JournalSettings,
        *,
        clock: Callable[[], float],
        passing: Callable[[], float],
    ) -> None:
        """Apply the configured policies.

        ``clock`` is Unix time in seconds, for what is announced; ``passing`` any time that only
        passes, by which writes wait and the disk is asked.
        """
        self._journal = journal
        self._publisher = publisher
        self._config = config
        self.syncs_each = config.fsync is Fsync.ALWAYS
        """Whether each request must be on the disk before it is forwarded."""
        self._clock = clock
        self._passing = passing
        self._waiting: deque[tuple[float, Waiting, str]] = deque()
        self._behind_tables: list[tuple[float, Waiting, str]] = []
        """Writes that wait for room for their own table; no other write waits behind them."""
        self._gaps: dict[str, float] = {}
        self._announced: set[str] = set()
        """Tables whose gap was announced, and that nothing has passed for since then."""
        self._unsynced: list[Callable[[], None]] = []
        self._sync: asyncio.Task[None] | None = None
        # Of its own: threads that are shared may wait for Kafka, and the disk must not.
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="journal-disk")
        self._synced_at = float("-inf")
        self._lost = False
        self.blocked = 0
        """Writes that were refused because the journal had no room."""
        self.passed = 0
        """Writes that went by without events."""

    def may_pass(self, tables: tuple[str, ...]) -> bool:
        """Return whether a write goes on without events when the journal has no room."""
        if self._config.when_full is not WhenFull.PASS:
            return False
        new = sum([table not in self._gaps for table in tables])
        return len(self._gaps) + new <= _MOST_GAPS

    @property
    def gaps_open(self) -> bool:
        """Whether Kafka does not know yet of every write that passed without an event."""
        return bool(self._gaps)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why writes do not go on as they should, in words."""
        if self._gaps.keys() - self._announced:
            return ("the journal has no room: writes pass without events",)
        if self._waiting:
            return (f"the journal has no room: {len(self._waiting)} writes wait",)
        if self._behind_tables:
            reasons = sorted({reason for _, _, reason in self._behind_tables})
            return tuple(reasons[:_NAMED])
        return ()

    def reconfigure(self, config: JournalSettings) -> None:
        """Have other policies from now on; what waits already keeps its deadline."""
        self._config = config
        self.syncs_each = config.fsync is Fsync.ALWAYS

    def wait(self, session: Waiting, why: JournalFull | JournalError) -> None:
        """Queue a session whose request the journal did not take."""
        deadline = self._passing() + self._config.block_seconds
        if isinstance(why, TableFull):
            self._behind_tables.append((deadline, session, f"headgate: {why}; {_SAFE}"))
            return
        reason = _FULL
        if isinstance(why, JournalError):
            reason = f"headgate: the observer's journal cannot be written ({_cause(why)}); {_SAFE}"
        self._waiting.append((deadline, session, reason))

    def leave(self, session: Waiting) -> None:
        """Forget a session whose client is gone."""
        self._waiting = deque(entry for entry in self._waiting if entry[1] is not session)
        self._behind_tables = [entry for entry in self._behind_tables if entry[1] is not session]

    def turn_all_away(self) -> None:
        """Admit what waits where there is room by now; give up the rest: the observer ends."""
        self.tend()
        while self._waiting:
            _, session, _ = self._waiting.popleft()
            self.blocked += 1
            session.give_up(_ENDING)
        behind, self._behind_tables = self._behind_tables, []
        for _, session, _ in behind:
            self.blocked += 1
            session.give_up(_ENDING)

    def let_pass(self, tables: tuple[str, ...]) -> None:
        """Note that a write of the tables goes by without an event."""
        self.passed += 1
        for table in tables:
            # What was announced so far ended before this write.
            self._announced.discard(table)
            if table not in self._gaps:
                self._gaps[table] = self._clock()
                self._save_gaps()
                _log.error("writes pass without events: the journal has no room", table=table)

    def tend(self) -> None:
        """Admit what waits, give up what waited too long, announce gaps that are over."""
        now = self._passing()
        behind, self._behind_tables = self._behind_tables, []
        for deadline, session, reason in behind:
            if session.try_again():
                continue
            if now < deadline:
                self._behind_tables.append((deadline, session, reason))
                continue
            self.blocked += 1
            session.give_up(reason)
        while self._waiting:
            deadline, session, reason = self._waiting[0]
            if session.try_again():
                self._waiting.popleft()
                continue
            if now < deadline:
                break
            self._waiting.popleft()
            self.blocked += 1
            session.give_up(reason)
        self._announce_gaps()

    def _announce_gaps(self) -> None:
        """Announce gaps that are over; forget those of which Kafka knows."""
        room = self._journal.has_room(1)
        known: list[str] = []
        for table, since in self._gaps.items():
            if table not in self._announced:
                if room and self._publisher.has_room(table):
                    self._publisher.announce_gap(
                        table,
                        since=since,
                        until=self._clock(),
                        reason="the journal was full and its policy is to pass",
                    )
                    self._announced.add(table)
            elif self._publisher.tables.is_delivered(table):
                known.append(table)
        for table in known:
            del self._gaps[table]
            self._announced.discard(table)
        if known:
            self._save_gaps()

    def _save_gaps(self) -> None:
        try:
            self._journal.save_gaps(self._gaps)
        except JournalError as error:
            # Still announced, unless this process is killed before Kafka is back.
            _log.error("the gap could not be written down", reason=str(error))

    # -- the disk

    def when_synced(self, call: Callable[[], None]) -> None:
        """Run a call once everything that is in the journal now is on the disk."""
        self._unsynced.append(call)
        self._begin_sync()

    def sync_if_due(self) -> None:
        """Start a sync when the interval is over and there is something to sync."""
        if self._config.fsync is Fsync.NEVER:
            for handle in self._journal.take_unsynced():
                os.close(handle)
        if self._config.fsync is not Fsync.INTERVAL:
            return
        now = self._passing()
        if now - self._synced_at >= self._config.fsync_seconds:
            self._synced_at = now
            self._begin_sync()

    def _begin_sync(self) -> None:
        if self._sync is None and not self._lost:
            self._sync = asyncio.get_running_loop().create_task(self._run_syncs())

    async def _run_syncs(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                calls, self._unsynced = self._unsynced, []
                handles = self._journal.take_unsynced()
                if handles:
                    await loop.run_in_executor(self._disk, _sync, handles)
                for call in calls:
                    call()
                if not self._unsynced:
                    return
        except OSError as error:
            # The system may have dropped what it could not write, and says so once: another sync
            # would succeed. What waits for this one is never forwarded.
            self._lost = True
            failure = JournalError(
                f"the journal cannot be synced: {error.strerror}; check its disk"
            )
            failure.__cause__ = error
            loop.call_exception_handler({"message": str(failure), "exception": failure})
        finally:
            self._sync = None


def _cause(error: JournalError) -> str:
    """Return what the system said: clients need no paths of the observer's host."""
    cause = error.__cause__
    return cause.strerror if isinstance(cause, OSError) and cause.strerror else "its disk refuses"


def _sync(handles: list[int]) -> None:
    try:
        for handle in handles:
            os.fdatasync(handle)
    finally:
        for handle in handles:
            os.close(handle)
