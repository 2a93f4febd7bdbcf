"""Users' metrics: computed in a process of the dataflow's own, so that they can fail as they like.

A metric that raises, gives NaN, does not end or ends its process leaves its bound without a value,
with words for why: the bound counts as reached then.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from headgate.agent.advisers import metric_program
from headgate.agent.advisers.pipes import read_whole, write_whole
from headgate.agent.configuration import environment_of_steps
from headgate.agent.supervision import Supervision, ThreadKind, describe
from headgate.engine import (
    DataflowSpec,
    MetricAnswer,
    MetricAnswers,
    MetricQuestion,
    decode_metric_questions,
    encode_metrics,
)

_PROGRAM: Final = str(Path(metric_program.__file__))
_LENGTH: Final = metric_program.LENGTH
_ALONE: Final = 2.0
"""How many times as long as it may take a metric lives on whose agent was killed."""
_TRIES: Final = 2
"""Times the thread may fail on a question before that is left without an answer."""

Done = Callable[[bytes | None, str], None]


class _Asked(Struct):
    question: bytes
    done: Done
    failures: int = 0
    """How often the thread has failed on it."""


class MetricAdviser:
    """Answers what bounds with users' metrics ask, one question after the other.

    Args:
        name: the dataflow.
        python: the interpreter of its steps.
        directory: where the log is.
        seconds: how long a metric may take.
        start_seconds: how much longer the first may, while modules are imported.
        idle_seconds: after how long without a question the process ends; 0: it stays.
        supervision: owns its thread.
    """

    def __init__(
        self,
        name: str,
        python: str,
        directory: Path,
        seconds: float,
        start_seconds: float,
        idle_seconds: float,
        supervision: Supervision,
    ) -> None:
        self._python = python
        self.log = directory / "metrics.log"
        self._seconds = seconds
        self._start_seconds = start_seconds
        self._idle_seconds = idle_seconds or None
        self._roots: tuple[str, ...] = ()
        self._outdated = False
        self._waiting: deque[_Asked] = deque()
        self._process: subprocess.Popen[bytes] | None = None
        self._fresh = True
        """Whether the process has answered nothing yet."""
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._supervision = supervision
        self._name = f"metrics-{name}"
        self._thread: threading.Thread | None = None
        """Most dataflows have no metric of their own, and need none."""

    def use(self, roots: Sequence[str], spec: DataflowSpec) -> None:  # noqa: ARG002 -- the interface
        """Have modules read again, from these directories."""
        with self._changed:
            self._roots = tuple(roots)
            self._outdated = True
            self._changed.notify_all()

    def answer(self, question: bytes, done: Done) -> None:
        """See ``ports.Adviser``."""
        with self._changed:
            self._waiting.append(_Asked(question, done))
            self._changed.notify_all()
            if self._thread is None:
                self._thread = self._supervision.thread(
                    ThreadKind.METRICS, self._name, self._work, self._closing
                )
                self._thread.start()

    def close(self) -> None:
        """Answer nothing any more."""
        with self._changed:
            self._closing.set()
            self._changed.notify_all()
        process = self._process
        if process is not None:
            process.kill()  # a metric that does not end is not waited for
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            while True:
                with self._changed:
                    idle = self._idle_seconds if self._process is not None else None
                    self._changed.wait_for(self._has_work, idle)
                    if self._closing.is_set():
                        return
                    outdated, self._outdated = self._outdated, False
                    asked = self._waiting[0] if self._waiting else None
                if outdated or asked is None:
                    self._end()
                if asked is not None:
                    self._tell(asked)
                    self._waiting.popleft()
        finally:
            self._end()

    def _has_work(self) -> bool:
        return self._closing.is_set() or bool(self._waiting) or self._outdated

    def _tell(self, asked: _Asked) -> None:
        try:
            questions = decode_metric_questions(asked.question).questions
            answers = MetricAnswers([self._answer(question) for question in questions])
        except Exception as error:
            asked.failures += 1
            if asked.failures == _TRIES:
                self._waiting.popleft()
                asked.done(None, f"it could not be asked: {describe(error)}")
            raise  # counted, and begun again
        asked.done(encode_metrics(answers), "")

    def _answer(self, question: MetricQuestion) -> MetricAnswer:
        try:
            process = self._process or self._started()
            return self._exchanged(process, question)
        except _Silent as silent:
            self._end()
            words = f"`{question.entry}` {silent}; its log is {self.log}"
        except OSError as error:
            self._end()
            words = f"the process for `{question.entry}` could not be started: {error}"
        return MetricAnswer(question.bound, question.version, None, words)

    def _started(self) -> subprocess.Popen[bytes]:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        alone = _ALONE * (self._seconds + self._start_seconds)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._python, "-P", _PROGRAM, str(alone), *self._roots],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment_of_steps(),
                start_new_session=True,
            )
        self._fresh = True
        assert self._process.stdin is not None  # noqa: S101 - a pipe
        os.set_blocking(self._process.stdin.fileno(), False)  # so that writes take what fits
        if self._closing.is_set():
            self._process.kill()
        return self._process

    def _exchanged(
        self, process: subprocess.Popen[bytes], question: MetricQuestion
    ) -> MetricAnswer:
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        seconds = self._seconds + (self._start_seconds if self._fresh else 0)
        deadline = time.monotonic() + seconds
        message = msgspec.msgpack.encode(question)
        try:
            write_whole(process.stdin.fileno(), _LENGTH.pack(len(message)) + message, deadline)
            head = read_whole(process.stdout.fileno(), _LENGTH.size, deadline)
            answer = read_whole(process.stdout.fileno(), _LENGTH.unpack(head)[0], deadline)
        except TimeoutError:
            raise _Silent(f"did not answer within {seconds:g} s") from None
        except (BrokenPipeError, EOFError):
            process.wait()
            raise _Silent(f"ended its process with status {process.returncode}") from None
        self._fresh = False
        return msgspec.msgpack.decode(answer, type=MetricAnswer)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


class _Silent(Exception):
    """No answer came; the message says why."""
