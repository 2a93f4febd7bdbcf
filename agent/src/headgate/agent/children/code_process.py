"""A process in which code of a dataflow's users runs: asked one question after the other."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from headgate.agent.children.child import Child, ChildEnded

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
        program: the file that is run; it calls ``program.serve``.
        worker: how it is started.
    """

    def __init__(self, program: str, worker: CodeWorker) -> None:
        self._program = program
        self._worker = worker
        self._child: Child | None = None
        self._fresh = True
        """True until the process has answered once."""
        self._closed = threading.Event()

    @property
    def runs(self) -> bool:
        """True from its start until it is ended here."""
        return self._child is not None

    def ask(self, question: bytes) -> bytes:
        """Return the answer to a question.

        Raises:
            Ended: there is no answer, since the process has ended; the next one may answer.
            Silent: there is no answer.
        """
        worker = self._worker
        try:
            child = self._child or self._started()
        except OSError as error:
            raise Silent(f"has no process, which could not be started: {error}") from error
        seconds = worker.seconds + (worker.start_seconds if self._fresh else 0)
        try:
            answer = child.exchange(question, seconds)
        except TimeoutError:
            self.end()
            words = f"did not answer within {seconds:g} s; its log is {worker.log}"
            raise Silent(words) from None
        except ChildEnded as ended:
            self.end()
            raise Ended(f"ended its process with {ended}; its log is {worker.log}") from ended
        self._fresh = False
        return answer

    def _started(self) -> Child:
        worker = self._worker
        alone = _ALONE * (worker.seconds + worker.start_seconds)
        command = (worker.python, "-P", self._program, str(alone), *worker.roots)
        self._child, self._fresh = Child(command, Path(worker.log)), True
        if self._closed.is_set():
            self._child.kill()
        return self._child

    def use(self, roots: Sequence[str]) -> None:
        """End it; the next one reads modules from these directories."""
        self.end()
        self._worker = replace(self._worker, roots=tuple(roots))

    def end(self) -> None:
        """End it, if it runs."""
        child, self._child = self._child, None
        if child is not None:
            child.end()

    def close(self) -> None:
        """Kill it, from any thread, and each that is started afterwards: nobody waits for it."""
        self._closed.set()
        child = self._child
        if child is not None:
            child.kill()
