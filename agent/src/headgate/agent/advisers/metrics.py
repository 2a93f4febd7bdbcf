"""Users' metrics: computed in a process of the dataflow's own, so that they can fail as they like.

A metric that raises, gives NaN, does not end or ends its process leaves its bound without a value,
with words for why: the bound counts as reached then.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from headgate.agent.advisers.metric_process import MetricProcess, MetricWorker, Silent
from headgate.agent.supervision import Supervision, ThreadKind, describe
from headgate.engine import (
    DataflowSpec,
    MetricAnswer,
    MetricAnswers,
    MetricQuestion,
    decode_metric_questions,
    encode_metrics,
)

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
        self.log = directory / "metrics.log"
        self.worker = MetricWorker(python, str(self.log), seconds, start_seconds)
        """How its process is started."""
        self._idle_seconds = idle_seconds or None
        self._outdated = False
        self._waiting: deque[_Asked] = deque()
        self._process = MetricProcess(self.worker)
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._supervision = supervision
        self._name = f"metrics-{name}"
        self._thread: threading.Thread | None = None
        """Most dataflows have no metric of their own, and need none."""

    def use(self, roots: Sequence[str], spec: DataflowSpec) -> None:  # noqa: ARG002 -- the interface
        """Have modules read again, from these directories."""
        with self._changed:
            self.worker = replace(self.worker, roots=tuple(roots))
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
        self._process.close()  # a metric that does not end is not waited for
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            while True:
                with self._changed:
                    idle = self._idle_seconds if self._process.runs else None
                    self._changed.wait_for(self._has_work, idle)
                    if self._closing.is_set():
                        return
                    outdated, self._outdated = self._outdated, False
                    worker = self.worker
                    asked = self._waiting[0] if self._waiting else None
                if outdated or asked is None:
                    self._process.use(worker.roots)
                if asked is not None:
                    self._tell(asked)
                    self._waiting.popleft()
        finally:
            self._process.end()

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
            return self._process.ask(question)
        except Silent as silent:
            return MetricAnswer(question.bound, question.version, None, str(silent))
