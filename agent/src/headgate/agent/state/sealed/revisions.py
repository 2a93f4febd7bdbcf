"""The highest revision seen of each dataflow: what is older is not run, whoever signed it.

A definition that was replaced or removed was signed as well, and whoever kept a copy may put it
back. The owner's lease names the highest revision too, and outlives a removal; what is kept here
holds even where the whole row is put back.
"""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Protocol

import structlog

from headgate.settings import ConfigurationError

log = structlog.get_logger("headgate.agent.store")

_BUSY = 10.0  # seconds; another agent of the user writes for a millisecond


class Revisions(Protocol):
    """The highest revision of each dataflow that this agent has seen signed."""

    def highest(self, name: str) -> int:
        """Return the highest revision seen; 0 where none was."""

    def note(self, name: str, revision: int) -> None:
        """Remember a revision, where it is the highest."""


class RememberedRevisions:
    """Revisions seen by this process."""

    def __init__(self) -> None:
        self._highest: dict[str, int] = {}

    def highest(self, name: str) -> int:
        """See ``Revisions``."""
        return self._highest.get(name, 0)

    def note(self, name: str, revision: int) -> None:
        """See ``Revisions``."""
        self._highest[name] = max(revision, self.highest(name))


class SavedRevisions:
    """Revisions seen by this host's agents of one user; safe in several threads and processes.

    Args:
        path: the file, an SQLite database; made where missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known = RememberedRevisions()
        self._database: sqlite3.Connection | None = None
        self._place = ""

    def open(self, place: str) -> None:
        """Read what was seen before.

        Args:
            place: which dataflows are meant: names count anew in each state table of each cluster.

        Raises:
            ConfigurationError: the file cannot be used.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect(self._path, timeout=_BUSY, check_same_thread=False)
            with database:
                database.execute(
                    "create table if not exists revisions (place text, name text, "
                    "revision integer, primary key (place, name)) without rowid"
                )
            query = "select name, revision from revisions where place = ?"
            found = database.execute(query, (place,)).fetchall()
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(
                f"{self._path}: cannot be used ({error}); give the agent's user the right to write "
                "there, name another workers.directory, or remove the file"
            ) from error
        with self._lock:
            self._database, self._place = database, place
            for name, revision in found:
                self._known.note(name, revision)

    def highest(self, name: str) -> int:
        """See ``Revisions``."""
        with self._lock:
            return self._known.highest(name)

    def note(self, name: str, revision: int) -> None:
        """See ``Revisions``; what cannot be written is known to this process only."""
        with self._lock:
            if revision <= self._known.highest(name):
                return
            self._known.note(name, revision)
            if self._database is None:
                return
            try:
                with self._database as database:
                    database.execute(
                        "insert into revisions values (?, ?, ?) on conflict do update set "
                        "revision = max(revision, excluded.revision)",
                        (self._place, name, revision),
                    )
            except sqlite3.Error as error:
                log.warning(
                    "revision not kept",
                    dataflow=name,
                    file=str(self._path),
                    problem=str(error),
                    cure="make room there, or remove the file and start the agent again",
                )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None
