"""The process in which users' metrics are computed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from headgate.agent.advisers import metric_program
from headgate.agent.advisers.code_process import CodeProcess, CodeWorker, Silent
from headgate.engine import MetricAnswer, MetricQuestion

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
