"""Which files of others have come to a directory since it was read.

How far a directory was read is the modification time of the newest file that was, and the names of
those that are not older than ``late`` before it: so it does not grow with the directory, and files
of one time, or that come a little late, are told apart by name. What is older counts as read.
Where that cannot be so, as more files are that old than were, the run fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from headgate.engine import FilesSpec
from headgate.incremental.published import ENTRIES
from headgate.incremental.stages.errors import StageError
from headgate.incremental.state.files import FileStore

_NANOSECONDS: Final = 1_000_000_000
_NAMED: Final = 3
"""Files that an error names."""


class UnusableFile(Exception):
    """A file that is not what it should be, or not what it was; nothing of the run counts."""


class ArrivedFile(Struct, frozen=True, array_like=True):
    """A file as a listing has it."""

    name: str
    """From the location on."""
    modified: int
    """Nanoseconds of Unix time."""
    length: int
    """Bytes."""


class FilesCursor(Struct, frozen=True, tag="files"):
    """How far a directory was read."""

    location: str
    newest: int
    """When the newest file was modified, in nanoseconds of Unix time; 0 where there was none."""
    read: tuple[ArrivedFile, ...] = ()
    """Those that are not older than the horizon, by name."""
    horizon: int = 0
    """Nanoseconds of Unix time; what is older was read."""
    older: int = 0
    """How many files were there that are older."""


def files_cursor(cursor: bytes) -> FilesCursor | None:
    """Return how far a directory was read; None where the cursor is that of something else."""
    try:
        return msgspec.msgpack.decode(cursor, type=FilesCursor)
    except msgspec.ValidationError:
        return None


class Arrivals(Struct, frozen=True):
    """What has come to the directory of an input flow.

    Args:
        flow: of the stage.
        spec: where they are and what is in them.
        store: there.
    """

    flow: str
    spec: FilesSpec
    store: FileStore

    def since(self, cursor: FilesCursor | None, now: int) -> tuple[list[ArrivedFile], FilesCursor]:
        """Return the files that have come, the oldest first, and how far that is.

        Args:
            cursor: how far the directory was read before; None to read all of it.
            now: nanoseconds of Unix time.

        Raises:
            UnusableFile: a file is not what it was, or came too late.
            StageError: a stage publishes there.
        """
        listed = self._listed()
        found = listed if cursor is None else self._new(listed, cursor)
        after = self._cursor(listed, cursor, now)
        return sorted(found, key=lambda file: (file.modified, file.name)), after

    def _listed(self) -> list[ArrivedFile]:
        start = len(self.store.path(""))
        try:
            infos = self.store.listed()
        except OSError as error:
            raise UnusableFile(
                f"{self._words} cannot be listed ({error}); the run reads them when it is tried "
                "again"
            ) from error
        named = [(info.path[start:], info) for info in infos]
        if any(name.startswith(f"{ENTRIES}/") for name, _ in named):
            message = (
                f"{self._words} are those that a stage publishes, some of which may never be "
                "committed: name the flow in `in`, or have them copied elsewhere by who reads "
                "`PublishedIncrements`"
            )
            raise StageError(message)
        return [
            ArrivedFile(name, int(info.mtime_ns or 0), int(info.size or 0))
            for name, info in named
            if not any(part.startswith(("_", ".")) for part in name.split("/"))
        ]

    def _new(self, listed: Sequence[ArrivedFile], cursor: FilesCursor) -> list[ArrivedFile]:
        known = {file.name: file for file in cursor.read}
        changed = [file for file in listed if known.get(file.name, file) != file]
        if changed:
            message = (
                f"{self._words}: {_listing(changed)} changed after being read. Files must stay as "
                "they are: put what is new into files of new names, written elsewhere, or under a "
                "name that begins with `_`, and renamed. To read everything anew, have the stage "
                "rebuilt"
            )
            raise UnusableFile(message)
        old = [f for f in listed if f.modified < cursor.horizon and f.name not in known]
        if len(old) > cursor.older:
            message = (
                f"{self._words}: {len(old) - cursor.older} more files are older than "
                f"{self.spec.late:g} s before the newest than were at the last run, so some came "
                "too late, and nobody knows which (the newest that old: "
                f"{_listing(sorted(old, key=lambda f: f.modified, reverse=True))}). `touch` those "
                "that are new, and say by `late` how much older they may be; or have the stage "
                "rebuilt"
            )
            raise UnusableFile(message)
        return [f for f in listed if f.modified >= cursor.horizon and f.name not in known]

    def _cursor(
        self, listed: Sequence[ArrivedFile], before: FilesCursor | None, now: int
    ) -> FilesCursor:
        known = () if before is None else before.read
        newest = max((file.modified for file in (*known, *listed)), default=0)
        # Beside a file of the future what comes now would count as much too old.
        horizon = min(newest, now) - int(self.spec.late * _NANOSECONDS)
        if before is not None:
            horizon = max(horizon, before.horizon)  # names of what is older are gone already
        # A name stays though the file is gone: it may be back in the next listing.
        read = {file.name: file for file in (*known, *listed) if file.modified >= horizon}
        files = tuple(read[name] for name in sorted(read))
        older = sum(file.modified < horizon for file in listed)
        return FilesCursor(self.spec.location, newest, files, horizon, older)

    @property
    def _words(self) -> str:
        return f"the files of input flow `{self.flow}` in {self.spec.location}"


def _listing(files: Sequence[ArrivedFile]) -> str:
    names = ", ".join(file.name for file in files[:_NAMED])
    return names if len(files) <= _NAMED else f"{names} and {len(files) - _NAMED} more"
