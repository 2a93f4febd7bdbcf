"""What engines remember of cells: in memory up to a limit, then on disk.

Nothing here has to last: state is in checkpoints, and files have no name once they are open, so
that nothing is left of them whatever ends the process.
"""

from __future__ import annotations

import mmap
import sqlite3
import tempfile
from collections.abc import Iterable, Sequence
from itertools import chain, count, islice
from pathlib import Path
from weakref import WeakSet

import numpy as np
from numpy.typing import DTypeLike

from headgate.engine import Array, Index, blank

_ASKED = 500  # keys in one query: SQLite took at most 999 parameters for long
_RELIEF = 0.75
"""Share of the limit that stays in memory after keys went to disk, so that few go at a time."""


class CellStorage:
    """Indices and arrays for one dataflow's engine; used by one thread at a time.

    Args:
        memory: cells whose keys may be in memory at a time. Of those on disk the ones that are
            written are in memory again, until there are too many of these.
        directory: where files go; created when it is needed.
    """

    def __init__(self, memory: int, directory: Path) -> None:
        self._memory = memory
        self._directory = directory
        self._indices: WeakSet[SpillingIndex] = WeakSet()
        self._numbers = count()
        self._held = 0
        self._database: sqlite3.Connection | None = None

    def index(self) -> Index:
        """Return an empty index."""
        made = SpillingIndex(self, next(self._numbers))
        self._indices.add(made)
        return made

    def array(self, size: int, dtype: DTypeLike) -> Array:
        """Return an array of zeros: in a file, once there are more cells than memory may hold."""
        kind = np.dtype(dtype)
        if kind == np.dtype(object) or size * kind.itemsize < mmap.PAGESIZE:
            return blank(size, kind)
        if sum(map(len, self._indices)) <= self._memory:
            return blank(size, kind)
        with tempfile.TemporaryFile(dir=self._made()) as file:
            file.truncate(size * kind.itemsize)
            return np.frombuffer(mmap.mmap(file.fileno(), 0), kind)

    @property
    def database(self) -> sqlite3.Connection:
        """Where keys go."""
        if self._database is None:
            path = self._made() / f"{id(self):x}.cells"
            path.unlink(missing_ok=True)
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode=OFF")
            self._database.execute("PRAGMA synchronous=OFF")
            self._database.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._database.execute(
                "CREATE TABLE keys (owner INTEGER, key BLOB, number INTEGER, "
                "PRIMARY KEY (owner, key)) WITHOUT ROWID"
            )
            self._database.execute("CREATE UNIQUE INDEX numbers ON keys (owner, number)")
            path.unlink()
        return self._database

    def _made(self) -> Path:
        self._directory.mkdir(parents=True, exist_ok=True)
        return self._directory

    def came(self, keys: int) -> None:
        """Take note of keys that came into memory, and have others leave it if they are many."""
        self._held += keys
        if self._held <= self._memory:
            return
        largest = sorted(self._indices, key=lambda index: index.held)
        self._held = sum(index.held for index in largest)
        while largest and self._held > _RELIEF * self._memory:
            index = largest.pop()
            self._held -= index.held
            index.spill()

    def close(self) -> None:
        """Give the files back."""
        if self._database is not None:
            self._database.close()
            self._database = None


class SpillingIndex:
    """Numbers for keys. Those below ``_stored`` are in the database, some of them in memory too."""

    def __init__(self, storage: CellStorage, owner: int) -> None:
        self._storage = storage
        self._owner = owner
        self._known: dict[bytes, int] = {}
        self._count = 0
        self._stored = 0

    @property
    def held(self) -> int:
        """How many keys are in memory."""
        return len(self._known)

    def number(self, keys: Sequence[bytes]) -> list[int]:
        """See ``Index``."""
        numbers = list(map(self._known.get, keys))
        if None not in numbers:
            return numbers  # type: ignore[return-value]  # none is None
        before = len(self._known)
        missing = [k for k, n in zip(keys, numbers, strict=True) if n is None]
        known = self._known
        known.update(self._stored_numbers(missing))
        for key in missing:
            if known.setdefault(key, self._count) == self._count:
                self._count += 1
        found = [known[key] for key in keys]
        self._storage.came(len(known) - before)
        return found

    def find(self, key: bytes) -> int | None:
        """See ``Index``."""
        number = self._known.get(key)
        return number if number is not None else dict(self._stored_numbers([key])).get(key)

    def keys(self, first: int = 0) -> Iterable[bytes]:
        """See ``Index``."""
        if not self._stored and not first:
            return self._known.keys()
        later = self._later(max(first, self._stored))
        if first >= self._stored:
            return later
        stored = self._storage.database.execute(
            "SELECT key FROM keys WHERE owner = ? AND number >= ? ORDER BY number",
            (self._owner, first),
        )
        return chain((key for (key,) in stored), later)

    def _later(self, first: int) -> list[bytes]:
        """Return the keys from a number on that are in memory only.

        They came after all that are in the database, some of which came back among them.
        """
        newest = ((n, key) for key, n in reversed(self._known.items()) if n >= first)
        return [key for _, key in sorted(islice(newest, self._count - first))]

    def spill(self) -> None:
        """Have every key in the database and none in memory."""
        new = [(self._owner, k, n) for k, n in self._known.items() if n >= self._stored]
        database = self._storage.database
        database.execute("BEGIN")
        database.executemany("INSERT INTO keys VALUES (?, ?, ?)", sorted(new))
        database.execute("COMMIT")
        self._stored = self._count
        self._known.clear()

    def close(self) -> None:
        """See ``Index``."""
        if self._stored:
            self._storage.database.execute("DELETE FROM keys WHERE owner = ?", (self._owner,))
        self._known.clear()
        self._count = self._stored = 0

    def __len__(self) -> int:
        """See ``Index``."""
        return self._count

    def _stored_numbers(self, keys: Sequence[bytes]) -> Iterable[tuple[bytes, int]]:
        if not self._stored:
            return
        for first in range(0, len(keys), _ASKED):
            some = keys[first : first + _ASKED]
            places = ",".join("?" * len(some))
            yield from self._storage.database.execute(
                f"SELECT key, number FROM keys WHERE owner = ? AND key IN ({places})",  # noqa: S608
                (self._owner, *some),
            )
