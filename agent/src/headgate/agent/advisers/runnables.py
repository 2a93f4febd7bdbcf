"""Runnables in Python: asked in a process of the dataflow's own, as users' metrics are.

A function that raises, returns nonsense, does not end or ends its process leaves its stage without
an answer, with words for why: nothing is read then. A process that has ended is asked once more,
as a new one, since its end need not be the function's fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headgate.agent.advisers import runnable_program
from headgate.agent.children.code_process import CodeProcess, CodeWorker, Ended, Silent
from headgate.agent.children.question_queue import Done, QuestionQueue
from headgate.agent.supervision import Supervision, ThreadKind
from headgate.engine import (
    DataflowSpec,
    RunnableAnswer,
    decode_runnable_question,
    encode_runnable,
)

_PROGRAM: Final = str(Path(runnable_program.__file__))


class RunnableAdviser:
    """Answers what the stages of a dataflow ask their runnables, one question after the other.

    Args:
        name: the dataflow.
        worker: how its process is started.
        idle_seconds: after how long without a question the process ends; 0: it stays.
        supervision: owns its thread.
    """

    def __init__(
        self, name: str, worker: CodeWorker, idle_seconds: float, supervision: Supervision
    ) -> None:
        self.log = Path(worker.log)
        """For what the functions print."""
        self._process = CodeProcess(_PROGRAM, worker)
        self._queue = QuestionQueue(
            ThreadKind.RUNNABLES,
            f"runnables-{name}",
            self._process,
            self._answer,
            idle_seconds,
            supervision,
        )

    def use(self, roots: Sequence[str], spec: DataflowSpec) -> None:  # noqa: ARG002 -- the interface
        """Have modules read again, from these directories."""
        self._queue.use(roots)

    def answer(self, question: bytes, done: Done) -> None:
        """See ``ports.Adviser``."""
        self._queue.ask(question, done)

    def close(self) -> None:
        """Answer nothing any more."""
        self._queue.close()

    def _answer(self, question: bytes) -> bytes:
        asked = decode_runnable_question(question)
        try:
            try:
                return self._process.ask(question)
            except Ended:
                # Who has ended it (a kill for want of memory, say) may have meant another.
                return self._process.ask(question)
        except Silent as silent:
            return encode_runnable(RunnableAnswer(asked.number, failure=str(silent)))
