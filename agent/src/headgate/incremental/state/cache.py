"""Copies on this machine's disk of files that are elsewhere: none is stale, as none changes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

_SHARE = 4
"""Files larger than this part of the cache are read by ranges: one would drive out all others."""


class FileCache:
    """A folder of copies; programs and threads may share it.

    Args:
        folder: made when it is needed.
        limit: bytes of all copies together; the one used longest ago goes first. A copy that is
            still mapped takes its room until it is closed.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit

    def takes(self, length: int) -> bool:
        """Return whether a file of this length gets a copy."""
        return 0 < length <= self._limit // _SHARE

    def find(self, name: str) -> pa.MemoryMappedFile | None:
        """Return the mapped copy of this name, if there is one."""
        path = self._folder / name
        try:
            os.utime(path)
            return pa.memory_map(str(path))
        except FileNotFoundError:
            return None

    def add(self, name: str, portions: Iterable[bytes]) -> pa.MemoryMappedFile:
        """Return a new mapped copy; if the portions or the disk fail, there is none."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix=".", delete=False) as file:
            part = Path(file.name)
            try:
                for portion in portions:
                    file.write(portion)
                file.flush()
                copy = pa.memory_map(str(part))
                self._keep(part, name)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
        self._shrink()
        return copy

    def _keep(self, part: Path, name: str) -> None:
        try:
            part.replace(self._folder / name)
        except FileNotFoundError:
            return  # another program made room; what is mapped can be read all the same

    def _shrink(self) -> None:
        copies = []
        for path in self._folder.iterdir():
            try:
                status = path.stat()
            except FileNotFoundError:
                continue  # another program makes room, too
            copies.append((status.st_mtime_ns, status.st_size, path))
        held = sum(size for _, size, _ in copies)
        for _, size, path in sorted(copies):
            if held <= self._limit:
                return
            path.unlink(missing_ok=True)
            held -= size
