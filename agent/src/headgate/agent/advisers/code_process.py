"""A process in which code of a dataflow's users runs: asked one question after the other."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from headgate.agent.advisers.code_program import LENGTH
from headgate.agent.advisers.pipes import read_whole, write_whole
from headgate.agent.configuration import environment_of_steps

_ALONE: Final = 2.0
"""How many times as long as it may take code lives on whose agent was killed."""


class Silent(Exception):
    """No answer came, and the process has ended.

    The message says why, in words that follow the name of what was asked.
    """


class Ended(Silent):
    """The process has ended by itself, or somebody has ended it, maybe before it was asked."""


class CodeWorker(Struct, frozen=True):
    """How the process of a dataflow is started."""

    python: str
    """The interpreter of its steps."""
    log: str
    """File for what the code prints."""
    seconds: float
    """How long an answer may take."""
    start_seconds: float
    """How much longer the first may, while modules are imported."""
    roots: tuple[str, ...] = ()
    """Directories with its modules."""


class CodeProcess:
    """The process; it is started by the first question, and again by the one after it has ended.

    Args:
        program: the file that is run, with the seconds after which it ends itself and the roots of
            modules. It answers each frame of a length and a message with another.
        worker: how it is started.
    """

    def __init__(self, program: str, worker: CodeWorker) -> None:
        self._program = program
        self._worker = worker
        self._process: subprocess.Popen[bytes] | None = None
        self._fresh = True
        """Whether it has answered nothing yet."""
        self._closed = threading.Event()

    @property
    def runs(self) -> bool:
        """Whether it was started, and not ended from here."""
        return self._process is not None

    def ask(self, question: bytes) -> bytes:
        """Return what is answered to a question.

        Raises:
            Ended: there is no answer, since the process has ended; the next one may answer.
            Silent: there is no answer.
        """
        try:
            process = self._process or self._started()
            return self._exchanged(process, question)
        except Silent as silent:
            self.end()
            raise type(silent)(f"{silent}; its log is {self._worker.log}") from silent
        except OSError as error:
            self.end()
            raise Silent(f"has no process, which could not be started: {error}") from error

    def _started(self) -> subprocess.Popen[bytes]:
        worker = self._worker
        log = Path(worker.log)
        log.parent.mkdir(parents=True, exist_ok=True)
        alone = _ALONE * (worker.seconds + worker.start_seconds)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [worker.python, "-P", self._program, str(alone), *worker.roots],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env=environment_of_steps(),
                start_new_session=True,
            )
        self._fresh = True
        assert self._process.stdin is not None  # noqa: S101 - a pipe
        os.set_blocking(self._process.stdin.fileno(), False)  # so that writes take what fits
        if self._closed.is_set():
            self._process.kill()
        return self._process

    def _exchanged(self, process: subprocess.Popen[bytes], question: bytes) -> bytes:
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        seconds = self._worker.seconds + (self._worker.start_seconds if self._fresh else 0)
        deadline = time.monotonic() + seconds
        try:
            write_whole(process.stdin.fileno(), LENGTH.pack(len(question)) + question, deadline)
            head = read_whole(process.stdout.fileno(), LENGTH.size, deadline)
            answer = read_whole(process.stdout.fileno(), LENGTH.unpack(head)[0], deadline)
        except TimeoutError:
            raise Silent(f"did not answer within {seconds:g} s") from None
        except (BrokenPipeError, EOFError):
            process.wait()
            raise Ended(f"ended its process with status {process.returncode}") from None
        self._fresh = False
        return answer

    def use(self, roots: Sequence[str]) -> None:
        """End it; the next one reads modules from these directories."""
        self.end()
        self._worker = replace(self._worker, roots=tuple(roots))

    def end(self) -> None:
        """End it, if it runs."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def close(self) -> None:
        """Kill it, from any thread, and each that is started afterwards: nobody waits for it."""
        self._closed.set()
        process = self._process
        if process is not None:
            process.kill()
