"""A ledger as HBase's, in memory, and files of processes that are killed while they write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs

from headgate.incremental.state.files import FileStore, Sink


class Killed(BaseException):
    """The process is gone: nothing is cleaned up after it."""


class _MortalSink:
    """A file of which only some of what is written arrives before the process is killed."""

    def __init__(self, sink: Sink, lives: Lives) -> None:
        self._sink = sink
        self._lives = lives

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if self._lives.end_here():
            self._sink.write(bytes(view[: len(view) // 2]))
            raise Killed
        return self._sink.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sink, name)


class Lives:
    """After how many writes an attempt is killed; for ever alive where None."""

    def __init__(self, writes: int | None) -> None:
        self.left = writes

    def end_here(self) -> bool:
        if self.left is None:
            return False
        self.left -= 1
        return self.left < 0


class MortalStore(FileStore):
    """Files of a process that is killed before, in the middle of or after any of its writes."""

    def __init__(self, folder: Path, lives: Lives) -> None:
        super().__init__(pafs.LocalFileSystem(), str(folder))
        self._lives = lives

    @contextmanager
    def writing(self, name: str) -> Iterator[Any]:
        if self._lives.end_here():
            raise Killed
        with super().writing(name) as sink:
            yield _MortalSink(sink, self._lives)
        if self._lives.end_here():
            raise Killed

    def _give_up(self, name: str, file: Any) -> None:
        if self._lives.left is not None and self._lives.left < 0:
            file.close()  # who is killed removes nothing
            return
        super()._give_up(name, file)


class Ledger:
    """Compare-and-set of one cell for each run: absent, claimed under a token, committed."""

    def __init__(self) -> None:
        self.cells: dict[str, tuple[str, int, str]] = {}

    def claim(self, run: str, token: int) -> bool:
        state = self.cells.get(run)
        if state is not None and (state[0] == "committed" or state[1] >= token):
            return False
        self.cells[run] = ("claimed", token, "")
        return True

    def commit(self, run: str, token: int, result: str) -> bool:
        if self.cells.get(run) != ("claimed", token, ""):
            return False
        self.cells[run] = ("committed", token, result)
        return True

    def result(self, run: str) -> str | None:
        """What a committed run named; None where none is committed."""
        state = self.cells.get(run)
        return state[2] if state is not None and state[0] == "committed" else None
