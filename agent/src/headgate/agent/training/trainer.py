"""Trainings of an agent: one at a time, each in a process of its own that may fail as it likes."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from headgate.agent.children.child import Child, ChildEnded
from headgate.agent.supervision import Supervision, ThreadKind, describe
from headgate.agent.training.program import Answer, Failed
from headgate.agent.training.task import AnyTask, Trained

Done = Callable[[Trained | None, str, float], None]
"""Takes what has come of a training, or None and why nothing has; and the seconds it took."""

PROGRAM = (sys.executable, "-P", "-m", "headgate.agent.training")


class _Asked(Struct):
    task: AnyTask
    done: Done


class Trainer:
    """Carries trainings out, one after the other.

    Args:
        directory: where the log is.
        seconds: how long one may take.
        supervision: owns its thread.
        program: what is started for each.
    """

    def __init__(
        self,
        directory: Path,
        seconds: float,
        supervision: Supervision,
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self.log = directory / "training.log"
        self._seconds = seconds
        self._supervision = supervision
        self._program = tuple(program)
        self._waiting: deque[_Asked] = deque()
        self._under_way: _Asked | None = None
        self._child: Child | None = None
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def train(self, task: AnyTask, done: Done) -> None:
        """Have a training carried out, and ``done`` called from another thread."""
        with self._changed:
            self._waiting.append(_Asked(task, done))
            self._changed.notify_all()
            if self._thread is None:
                self._thread = self._supervision.thread(
                    ThreadKind.TRAINING, "training", self._work, self._closing
                )
                self._thread.start()

    def forget(self, dataflow: str) -> None:
        """End the trainings of a dataflow, of which nobody hears any more."""
        with self._changed:
            self._waiting = deque(a for a in self._waiting if a.task.spec.name != dataflow)
            asked = self._under_way
            if asked is not None and asked.task.spec.name == dataflow:
                self._under_way = None
                self._kill()

    def close(self) -> None:
        """End all trainings."""
        with self._changed:
            self._closing.set()
            self._waiting.clear()
            self._under_way = None
            self._kill()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing.is_set() or bool(self._waiting))
                if self._closing.is_set():
                    return
                asked = self._under_way = self._waiting.popleft()
            began = time.monotonic()
            try:
                trained, reason = self._trained(asked.task)
            except Exception as error:
                self._answer(asked, None, f"it could not be begun: {describe(error)}", began)
                raise  # counted, and the thread begins again
            self._answer(asked, trained, reason, began)

    def _answer(self, asked: _Asked, trained: Trained | None, reason: str, began: float) -> None:
        with self._changed:
            wanted = self._under_way is asked
            self._under_way = None
        if wanted:
            asked.done(trained, reason, time.monotonic() - began)

    def _trained(self, task: AnyTask) -> tuple[Trained | None, str]:
        child = self._started()
        try:
            said = child.exchange(msgspec.msgpack.encode(task), self._seconds)
        except TimeoutError:
            return None, f"the training did not end within {self._seconds:g} s (training.seconds)"
        except ChildEnded as ended:
            return None, f"the training's process ended with {ended}; its log is {self.log}"
        finally:
            with self._changed:
                self._child = None
            child.end()
        answer: Answer | Failed = msgspec.msgpack.decode(said, type=Answer | Failed)
        if isinstance(answer, Failed):
            return None, answer.reason
        return answer.trained, ""

    def _started(self) -> Child:
        with self._changed:
            child = self._child = Child(self._program, self.log)
            if self._under_way is None:
                child.kill()
        return child
