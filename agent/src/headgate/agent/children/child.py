"""The parent's side: a child process, from its start to the end of all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from headgate.agent.children.frames import receive_frame, send_frame
from headgate.agent.configuration import environment_of_steps

_LAST_BYTES: Final = 4096
"""Bytes at the end of a log in which its last line is looked for."""
_LONGEST_LINE: Final = 200
"""Characters of that line that an error shows."""


class ChildEnded(Exception):
    """The process ended by itself, or was killed by somebody else.

    The message has its status and the last line that it printed.
    """


class Child:
    """A process that answers frames: its input takes questions, its output has the answers.

    The process leads a group of its own, and its environment has no password of the agent.

    Args:
        command: the words of its command line.
        log: the file to which its error output is appended; the directory is made if missing.

    Raises:
        OSError: the process cannot be started.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._logged_before = output.tell()
            self._process = subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env=environment_of_steps(),
                start_new_session=True,
            )
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._input, self._output = self._process.stdin, self._process.stdout
        os.set_blocking(self._input.fileno(), False)  # so that writes take what fits
        self._killing = threading.Lock()
        self._over = False

    def exchange(self, question: bytes, seconds: float) -> bytes:
        """Return the answer to a question.

        Raises:
            TimeoutError: there is none after so many seconds.
            ChildEnded: the process ended before it answered.
        """
        deadline = time.monotonic() + seconds
        try:
            send_frame(self._input.fileno(), question, deadline)
            return receive_frame(self._output.fileno(), deadline)
        except (BrokenPipeError, EOFError):
            raise ChildEnded(self._end_in_words(deadline)) from None

    def _end_in_words(self, deadline: float) -> str:
        try:
            status = self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:  # it has closed its pipes and goes on
            raise TimeoutError from None
        line = self._last_line()
        return f"status {status} (last printed: {line})" if line else f"status {status}"

    def _last_line(self) -> str:
        try:
            with self._log.open("rb") as log:
                log.seek(max(self._logged_before, log.seek(0, os.SEEK_END) - _LAST_BYTES))
                lines = log.read().decode(errors="backslashreplace").split("\n")
        except OSError:  # the log was taken away; the status is known all the same
            return ""
        return next((line for line in map(str.strip, reversed(lines)) if line), "")[:_LONGEST_LINE]

    def kill(self) -> None:
        """Kill the process and its group, from any thread; nobody waits for them here."""
        with self._killing:
            if not self._over:
                with suppress(ProcessLookupError):  # all of them have ended
                    os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill the process and its group, and wait for the process."""
        self.kill()
        with self._killing:
            self._over = True  # from here on, its id may be another's
        self._process.wait()
        self._input.close()
        self._output.close()
