"""What steps print, each run's apart from the others'."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO


def step_log(directory: Path, action: str, run: str, attempt: int) -> Path:
    """Return the file with what a step printed, given the directory in which its worker runs."""
    return directory / "runs" / action / f"{run}-{attempt}.log"


class PrintedLines:
    """A text stream that leads to another one for each thread.

    Args:
        otherwise: for threads that have none of their own.
    """

    def __init__(self, otherwise: IO[str]) -> None:
        self._otherwise = otherwise
        self._own = threading.local()
        self.encoding = "utf-8"

    @property
    def _stream(self) -> IO[str]:
        stream: IO[str] = getattr(self._own, "stream", self._otherwise)
        return stream

    @contextlib.contextmanager
    def to(self, stream: IO[str]) -> Iterator[None]:
        """Lead what the current thread prints to the stream."""
        self._own.stream = stream
        try:
            yield
        finally:
            del self._own.stream

    def write(self, text: str) -> int:
        """Write to the current thread's stream."""
        return self._stream.write(text)

    def flush(self) -> None:
        """Flush the current thread's stream."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Nothing here is a terminal."""
        return False

    def fileno(self) -> int:
        """Return the descriptor behind the current thread's stream."""
        return self._stream.fileno()
