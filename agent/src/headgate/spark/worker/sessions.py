"""The agent's end of a worker process: starts it, talks to it, and leaves nothing of it behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Final

from headgate.spark.messages import (
    AdoptSession,
    CancelStep,
    CloseSpace,
    StartSession,
    StepRequest,
    WorkerMessage,
    WorkerReply,
    decode_reply,
    encode_line,
)

STOP_SECONDS: Final = 10.0
"""How long a worker may take to end by itself: Spark closes its files in one or two."""


class WorkerGone(Exception):
    """The worker process has ended; a new one must be started."""


class SessionWorker:
    """A worker process with a warm Spark session.

    Replies arrive on a thread of the worker's own, in the order in which they were said:
    ``WorkerReady`` or ``WorkerFailed`` first, then ``StepStarted`` and ``StepEnded`` of each
    request. The worker ends when this process does, however that happens: its standard input then
    closes.

    Args:
        start: Spark's configuration.
        directory: where the worker runs and leaves its logs; it is made if missing.
        on_reply: called with each reply.
        on_exit: called once, last, with the exit status as ``subprocess`` gives it.
        python: the interpreter, which must have headgate with its extra ``spark``.
        environment: variables added to this process's own.
    """

    def __init__(
        self,
        start: StartSession,
        directory: Path,
        *,
        on_reply: Callable[[WorkerReply], None],
        on_exit: Callable[[int], None],
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._on_reply = on_reply
        self._on_exit = on_exit
        self._sending = threading.Lock()
        self._handing_over = threading.Lock()
        self._over = False
        directory.mkdir(parents=True, exist_ok=True)
        self.log = directory / "worker.log"
        receive, reply = os.pipe()
        try:
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    [python, "-m", "headgate.spark", "--reply-fd", str(reply)],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    cwd=directory,
                    env={**os.environ, **(environment or {})},
                    pass_fds=(reply,),
                    # A group of its own: signals of a terminal stay away, and it can be killed.
                    start_new_session=True,
                )
        except OSError:
            os.close(receive)
            raise
        finally:
            os.close(reply)
        self._replies: IO[bytes] = os.fdopen(receive, "rb")
        self._reader = threading.Thread(
            target=self._read, name=f"worker-{self._process.pid}", daemon=True
        )
        self._reader.start()
        self._waiter = threading.Thread(
            target=self._wait, name=f"worker-{self._process.pid}-end", daemon=True
        )
        self._waiter.start()
        self._send(start)

    @property
    def pid(self) -> int:
        """The worker's process id, also that of its group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def adopt(
        self,
        adopted: AdoptSession,
        *,
        on_reply: Callable[[WorkerReply], None],
        on_exit: Callable[[int], None],
    ) -> None:
        """Make it a dataflow's; its replies from now, and its exit, go to these functions.

        Raises:
            WorkerGone: the worker has ended, which its former owner was notified of.
        """
        with self._handing_over:
            if self._over:
                message = f"worker {self.pid} has ended; its log is {self.log}"
                raise WorkerGone(message)
            self._on_reply, self._on_exit = on_reply, on_exit
        with contextlib.suppress(WorkerGone):  # its new owner is notified of its exit
            self._send(adopted)

    def submit(self, request: StepRequest) -> None:
        """Ask for an attempt. Requests run side by side; ``StepEnded`` says how each ended.

        Raises:
            WorkerGone: the worker has ended.
        """
        self._send(request)

    def cancel(self, run: str, attempt: int, space: str = "") -> None:
        """Ask that an attempt stops; it ends as ``CANCELLED`` once its step lets go.

        Raises:
            WorkerGone: the worker has ended.
        """
        self._send(CancelStep(run, attempt, space))

    def close_space(self, space: str) -> None:
        """Ask that a space is forgotten in which nothing runs any more.

        Raises:
            WorkerGone: the worker has ended.
        """
        self._send(CloseSpace(space))

    def _send(self, message: WorkerMessage) -> None:
        pipe = self._process.stdin
        assert pipe is not None  # noqa: S101 - made with stdin=PIPE
        with self._sending:
            try:
                pipe.write(encode_line(message))
                pipe.flush()
            except (OSError, ValueError) as error:
                message_ = f"worker {self.pid} has ended; its log is {self.log}"
                raise WorkerGone(message_) from error

    def _read(self) -> None:
        with self._replies as replies:
            for line in replies:
                try:
                    self._on_reply(decode_reply(line))
                except BaseException:
                    # Nothing after it can be trusted; the agent sees the exit and starts another.
                    self.kill()
                    raise

    def _wait(self) -> None:
        # Not the end of the replies: what a step has forked may hold that pipe open.
        status = self._process.wait()
        self._kill_group()
        self._reader.join()
        with self._handing_over:
            self._over = True
            on_exit = self._on_exit
        on_exit(status)

    def stop(self, seconds: float = STOP_SECONDS) -> int:
        """End the worker by closing its input, by force after ``seconds``; return its status."""
        pipe = self._process.stdin
        with self._sending, contextlib.suppress(BrokenPipeError):
            if pipe is not None:
                pipe.close()
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            status = self._process.wait()
        self._kill_group()
        return status

    def kill(self) -> None:
        """End the worker and all that it started at once."""
        self._kill_group()

    def _kill_group(self) -> None:
        # What is left of the group after the worker's own end: Spark's JVM and its Python workers.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
