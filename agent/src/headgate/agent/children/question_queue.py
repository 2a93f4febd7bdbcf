"""Questions to code of a dataflow's users, answered one by one in a thread of their own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from headgate.agent.children.code_process import CodeProcess
from headgate.agent.supervision import Supervision, ThreadKind, describe

_TRIES: Final = 2
"""Times the thread may fail on a question before that is left without an answer."""

Done = Callable[[bytes | None, str], None]


class _Asked(Struct):
    question: bytes
    done: Done
    failures: int = 0
    """How often the thread has failed on it."""


class QuestionQueue:
    """Has questions answered by a process, which begins with the first of them.

    Args:
        kind: of its thread.
        name: of its thread.
        process: in which the code runs.
        answer: returns the answer to a question, by the process.
        idle_seconds: after how long without a question the process ends; 0: it stays.
        supervision: owns its thread.
    """

    def __init__(
        self,
        kind: ThreadKind,
        name: str,
        process: CodeProcess,
        answer: Callable[[bytes], bytes],
        idle_seconds: float,
        supervision: Supervision,
    ) -> None:
        self._kind = kind
        self._name = name
        self._process = process
        self._answer = answer
        self._idle_seconds = idle_seconds or None
        self._roots: tuple[str, ...] = ()
        self._outdated = False
        self._waiting: deque[_Asked] = deque()
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._supervision = supervision
        self._thread: threading.Thread | None = None
        """Most dataflows have no such code, and need none."""

    def use(self, roots: Sequence[str]) -> None:
        """Have modules read again, from these directories."""
        with self._changed:
            self._roots = tuple(roots)
            self._outdated = True
            self._changed.notify_all()

    def ask(self, question: bytes, done: Done) -> None:
        """See ``ports.Adviser.answer``."""
        with self._changed:
            self._waiting.append(_Asked(question, done))
            self._changed.notify_all()
            if self._thread is None:
                self._thread = self._supervision.thread(
                    self._kind, self._name, self._work, self._closing
                )
                self._thread.start()

    def close(self) -> None:
        """Answer nothing any more."""
        with self._changed:
            self._closing.set()
            self._changed.notify_all()
        self._process.close()  # code that does not end is not waited for
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
                    roots = self._roots
                    asked = self._waiting[0] if self._waiting else None
                if outdated or asked is None:
                    self._process.use(roots)
                if asked is not None:
                    self._tell(asked)
                    self._waiting.popleft()
        finally:
            self._process.end()

    def _has_work(self) -> bool:
        return self._closing.is_set() or bool(self._waiting) or self._outdated

    def _tell(self, asked: _Asked) -> None:
        try:
            answer = self._answer(asked.question)
        except Exception as error:
            asked.failures += 1
            if asked.failures == _TRIES:
                self._waiting.popleft()
                asked.done(None, f"it could not be asked: {describe(error)}")
            raise  # counted, and begun again
        asked.done(answer, "")
