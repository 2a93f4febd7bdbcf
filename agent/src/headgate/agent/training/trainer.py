"""Trainings of an agent: one at a time, each in a process of its own that may fail as it likes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from headgate.agent.advisers.pipes import read_whole, write_whole
from headgate.agent.configuration import environment_of_steps
from headgate.agent.supervision import Supervision, ThreadKind, describe
from headgate.agent.training.program import LENGTH, Answer, Failed
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
        self._process: subprocess.Popen[bytes] | None = None
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
        if self._process is not None:
            self._process.kill()

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
        process = self._started()
        try:
            answer = self._exchanged(process, task)
        except TimeoutError:
            return None, f"the training did not end within {self._seconds:g} s (training.seconds)"
        except (BrokenPipeError, EOFError):
            status = process.wait()
            return None, f"the training's process ended with status {status}; its log is {self.log}"
        finally:
            self._end(process)
        if isinstance(answer, Failed):
            return None, answer.reason
        return answer.trained, ""

    def _started(self) -> subprocess.Popen[bytes]:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log, self._changed:
            process = self._process = subprocess.Popen(
                self._program,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment_of_steps(),
                start_new_session=True,
            )
            if self._under_way is None:
                process.kill()
        return process

    def _exchanged(self, process: subprocess.Popen[bytes], task: AnyTask) -> Answer | Failed:
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        os.set_blocking(process.stdin.fileno(), False)
        deadline = time.monotonic() + self._seconds
        message = msgspec.msgpack.encode(task)
        write_whole(process.stdin.fileno(), LENGTH.pack(len(message)) + message, deadline)
        head = read_whole(process.stdout.fileno(), LENGTH.size, deadline)
        data = read_whole(process.stdout.fileno(), LENGTH.unpack(head)[0], deadline)
        answer: Answer | Failed = msgspec.msgpack.decode(data, type=Answer | Failed)
        return answer

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with self._changed:
            self._process = None
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
