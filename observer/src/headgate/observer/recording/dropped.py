"""Tables whose events were dropped, on the disk until somebody who watches them was told."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import final

import msgspec
import structlog
from msgspec import Struct

from headgate.events import NewerFormat
from headgate.observer.publishing.unpublished import Unpublished, UnpublishedWrites
from headgate.observer.recording.epochs import sync_directory
from headgate.observer.recording.journal_errors import JournalError
from headgate.observer.recording.segments import JOURNAL

_log = structlog.get_logger("headgate.observer.recording.dropped")

_NAME = "dropped.json"


class _Dropped(Struct, frozen=True):
    version: int
    tables: dict[str, Unpublished]
    """By name; under the empty one what holds for tables whose names are not known."""


@final
class DroppedTables:
    """Keeps what is noted of dropped events in the journal's directory.

    A note whose gap was put into the table's topic goes at a clean end: after a crash nobody knows
    whether Kafka has it, so the gap is announced again.
    """

    def __init__(
        self,
        directory: Path,
        unpublished: UnpublishedWrites,
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        """Note again what an earlier epoch noted; ``soon`` has something called a little later.

        Raises:
            JournalError: a newer headgate noted it.
        """
        self._path = directory / _NAME
        self._unpublished = unpublished
        self._soon = soon
        self._due = False
        self._known = self._read()
        for table, each in self._known.items():
            if table:
                unpublished.note(table, each.since, each.reason, len(self._known))
            else:
                unpublished.note_others(each.since, each.reason)
        unpublished.noted = self._noted

    def _read(self) -> dict[str, Unpublished]:
        try:
            data = self._path.read_bytes()
            JOURNAL.check_json(data)
            return msgspec.json.decode(data, type=_Dropped).tables
        except FileNotFoundError:
            return {}
        except NewerFormat as error:
            raise JournalError(f"{self._path}: {error}") from error
        except (OSError, ValueError) as error:
            # Which tables it named nobody knows: each may have lost events.
            _log.error("the note of dropped events cannot be read", file=str(self._path))
            return {"": Unpublished(0.0, f"the note of dropped events cannot be read: {error}")}

    def _noted(self) -> None:
        """Save in this turn of the loop, once for all tables that are dropped in it."""
        self._known |= self._unpublished.all()
        if not self._due:
            self._due = True
            self._soon(self._save)

    def _save(self) -> None:
        self._due = False
        draft = self._path.with_suffix(".draft")
        try:
            if not self._known:
                self._path.unlink(missing_ok=True)
                return
            with draft.open("wb") as file:
                file.write(msgspec.json.encode(_Dropped(JOURNAL.version, self._known)))
                file.flush()
                os.fsync(file.fileno())
            draft.rename(self._path)
            sync_directory(self._path.parent)
        except OSError as error:
            # Still announced, unless this process is killed before somebody watches the table.
            _log.error("the note of dropped events could not be saved", reason=error.strerror)

    def end(self) -> None:
        """Keep only what nobody was told yet: Kafka has everything that was published."""
        self._known = self._unpublished.all()
        self._save()
