"""Users' metrics: computed in a process of the dataflow's own, so that they can fail as they like.

A metric that raises, gives NaN, does not end or ends its process leaves its bound without a value,
with words for why: the bound counts as reached then.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from headgate.agent.advisers import metric_program
from headgate.agent.children.code_process import CodeProcess, CodeWorker, Silent
from headgate.agent.children.question_queue import Done, QuestionQueue
from headgate.agent.supervision import Supervision, ThreadKind
from headgate.engine import (
    DataflowSpec,
    MetricAnswer,
    MetricAnswers,
    MetricQuestion,
    decode_metric_questions,
    encode_metrics,
)

_PROGRAM: Final = str(Path(metric_program.__file__))


class MetricProcess:
    """Asks metrics one question after the other.

    Args:
        worker: how the process is started.
    """

    def __init__(self, worker: CodeWorker) -> None:
        self.process = CodeProcess(_PROGRAM, worker)

    def ask(self, question: MetricQuestion) -> MetricAnswer:
        """Return what a metric answers, its failure included.

        Raises:
            Silent: there is no answer.
        """
        try:
            answer = self.process.ask(msgspec.msgpack.encode(question))
        except Silent as silent:
            raise Silent(f"`{question.entry}` {silent}") from silent
        return msgspec.msgpack.decode(answer, type=MetricAnswer)

    def end(self) -> None:
        """End the process, if it runs."""
        self.process.end()


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
        self.worker = CodeWorker(python, str(self.log), seconds, start_seconds)
        """How its process is started."""
        self._process = MetricProcess(self.worker)
        self._queue = QuestionQueue(
            ThreadKind.METRICS,
            f"metrics-{name}",
            self._process.process,
            self._answers,
            idle_seconds,
            supervision,
        )

    def use(self, roots: Sequence[str], spec: DataflowSpec) -> None:  # noqa: ARG002 -- the interface
        """Have modules read again, from these directories."""
        self.worker = replace(self.worker, roots=tuple(roots))
        self._queue.use(roots)

    def answer(self, question: bytes, done: Done) -> None:
        """See ``ports.Adviser``."""
        self._queue.ask(question, done)

    def close(self) -> None:
        """Answer nothing any more."""
        self._queue.close()

    def _answers(self, question: bytes) -> bytes:
        questions = decode_metric_questions(question).questions
        return encode_metrics(MetricAnswers([self._answer(one) for one in questions]))

    def _answer(self, question: MetricQuestion) -> MetricAnswer:
        try:
            return self._process.ask(question)
        except Silent as silent:
            return MetricAnswer(question.bound, question.version, None, str(silent))
