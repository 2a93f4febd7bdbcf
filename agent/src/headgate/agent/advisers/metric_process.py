"""The process in which users' metrics are computed: asked one question after the other."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from headgate.agent.advisers import metric_program
from headgate.agent.advisers.pipes import read_whole, write_whole
from headgate.agent.configuration import environment_of_steps
from headgate.engine import MetricAnswer, MetricQuestion

_PROGRAM: Final = str(Path(metric_program.__file__))
_LENGTH: Final = metric_program.LENGTH
_ALONE: Final = 2.0
"""How many times as long as it may take a metric lives on whose agent was killed."""


class Silent(Exception):
    """No answer came, and the process has ended; the message says why."""


class MetricWorker(Struct, frozen=True):
    """How the process of a dataflow is started."""

    python: str
    """The interpreter of its steps."""
    log: str
    """File for what metrics print."""
    seconds: float
    """How long a metric may take."""
    start_seconds: float
    """How much longer the first may, while modules are imported."""
    roots: tuple[str, ...] = ()
    """Directories with its modules."""


class MetricProcess:
    """The process; it is started by the first question, and again by the one after it has ended.

    Args:
        worker: how it is started.
    """

    def __init__(self, worker: MetricWorker) -> None:
        self._worker = worker
        self._process: subprocess.Popen[bytes] | None = None
        self._fresh = True
        """Whether it has answered nothing yet."""
        self._closed = threading.Event()

    @property
    def runs(self) -> bool:
        """Whether it was started, and not ended from here."""
        return self._process is not None

    def ask(self, question: MetricQuestion) -> MetricAnswer:
        """Return what a metric answers, its failure included.

        Raises:
            Silent: there is no answer.
        """
        try:
            process = self._process or self._started()
            return self._exchanged(process, question)
        except Silent as silent:
            self.end()
            message = f"`{question.entry}` {silent}; its log is {self._worker.log}"
            raise Silent(message) from silent
        except OSError as error:
            self.end()
            message = f"the process for `{question.entry}` could not be started: {error}"
            raise Silent(message) from error

    def _started(self) -> subprocess.Popen[bytes]:
        worker = self._worker
        log = Path(worker.log)
        log.parent.mkdir(parents=True, exist_ok=True)
        alone = _ALONE * (worker.seconds + worker.start_seconds)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [worker.python, "-P", _PROGRAM, str(alone), *worker.roots],
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

    def _exchanged(
        self, process: subprocess.Popen[bytes], question: MetricQuestion
    ) -> MetricAnswer:
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        seconds = self._worker.seconds + (self._worker.start_seconds if self._fresh else 0)
        deadline = time.monotonic() + seconds
        message = msgspec.msgpack.encode(question)
        try:
            write_whole(process.stdin.fileno(), _LENGTH.pack(len(message)) + message, deadline)
            head = read_whole(process.stdout.fileno(), _LENGTH.size, deadline)
            answer = read_whole(process.stdout.fileno(), _LENGTH.unpack(head)[0], deadline)
        except TimeoutError:
            raise Silent(f"did not answer within {seconds:g} s") from None
        except (BrokenPipeError, EOFError):
            process.wait()
            raise Silent(f"ended its process with status {process.returncode}") from None
        self._fresh = False
        return msgspec.msgpack.decode(answer, type=MetricAnswer)

    def use(self, roots: Sequence[str]) -> None:
        """End it; the next one reads modules from these directories."""
        self.end()
        self._worker = msgspec.structs.replace(self._worker, roots=tuple(roots))

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
