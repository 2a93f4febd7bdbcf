"""Warm Spark sessions that belong to nobody yet: a dataflow that is taken over need not wait."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import structlog
from msgspec import Struct

from headgate.agent.supervision import Supervision, ThreadKind, pause_after
from headgate.spark import (
    AdoptSession,
    SessionWorker,
    StartSession,
    WorkerGone,
    WorkerReady,
    WorkerReply,
)

log = structlog.get_logger("headgate.agent.spares")

_REFILL: Final = 30.0
"""Seconds after one was taken until the next is started: by then the takeover needs the processors
less than a Spark that starts beside it would take from it."""
_STOP: Final = 3.0
"""Seconds for Spark to remove its files before it is ended by force."""
_LIVE: Final = ("spark.sql.", "spark.headgate.")
"""Settings that a session takes after its start, too; all others are those of its JVM."""


class _Spare(Struct):
    worker: SessionWorker
    warm: bool = False


class SpareSessions:
    """Keeps sessions warm until dataflows take them.

    Args:
        number: how many.
        start: their settings.
        directory: where they run until they are taken.
        python: their interpreter.
        patience: seconds until a session must be warm.
        supervision: owns the thread that starts them.
        refill: seconds after one was taken until another is started.
    """

    def __init__(
        self,
        number: int,
        start: StartSession,
        directory: Path,
        python: str,
        patience: float,
        supervision: Supervision,
        refill: float = _REFILL,
    ) -> None:
        self._number = number
        self._settings = start
        self._directory = directory
        self._python = python
        self._patience = patience
        self._refill = refill
        self._changed = threading.Condition()
        self._spares: dict[int, _Spare] = {}
        self._counter = itertools.count(1)
        self._taken = 0
        """How often one was taken: a pause follows each time."""
        self._stopping = threading.Event()
        self._thread = supervision.thread(ThreadKind.SPARES, "spares", self._keep, self._stopping)

    def start(self) -> None:
        """Begin to start sessions, if there are to be any."""
        if self._number:
            self._thread.start()

    @property
    def warm(self) -> int:
        """How many sessions are ready."""
        with self._changed:
            return sum(spare.warm for spare in self._spares.values())

    def take(
        self,
        start: StartSession,
        directory: Path,
        *,
        on_reply: Callable[[WorkerReply], None],
        on_exit: Callable[[int], None],
    ) -> SessionWorker | None:
        """Return a session for a dataflow, which says ``WorkerReady``; None where none fits.

        Args:
            start: the dataflow's settings.
            directory: where its steps leave their logs.
            on_reply: called with each reply.
            on_exit: called once, last, with the exit status.
        """
        if _of_the_jvm(start.conf) != _of_the_jvm(self._settings.conf):
            return None
        live = {name: value for name, value in start.conf.items() if name.startswith(_LIVE)}
        adopted = AdoptSession(str(directory), live, start.python_path)
        while True:
            with self._changed:
                number = next((n for n, one in self._spares.items() if one.warm), None)
                if number is None or self._stopping.is_set():
                    return None
                worker = self._spares.pop(number).worker
                self._taken += 1
                self._changed.notify_all()
            try:
                worker.adopt(adopted, on_reply=on_reply, on_exit=on_exit)
            except WorkerGone:
                continue
            log.info("a spare session is taken", process=worker.pid, directory=str(directory))
            return worker

    def close(self) -> None:
        """End the sessions that nobody took; nothing of them is left when this returns."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        with self._changed:
            left = [spare.worker for spare in self._spares.values()]
            self._spares.clear()
        for worker in left:
            worker.stop(_STOP)

    def _keep(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            with self._changed:
                self._changed.wait_for(
                    lambda: self._stopping.is_set() or len(self._spares) < self._number
                )
                taken, self._taken = self._taken, 0
            if taken and self._stopping.wait(self._refill):
                return
            if self._stopping.is_set():
                return
            if self._start_one():
                failures = 0
            elif not self._stopping.is_set():
                failures += 1
                self._stopping.wait(pause_after(failures))

    def _start_one(self) -> bool:
        """Start a session and wait until it is warm, or has ended; return whether it is."""
        number = next(self._counter)

        def reply(said: WorkerReply) -> None:
            with self._changed:
                spare = self._spares.get(number)
                if spare is not None and isinstance(said, WorkerReady):
                    spare.warm = True
                elif not isinstance(said, WorkerReady):
                    log.warning("a spare session does not start", said=said)
                self._changed.notify_all()

        def ended(status: int) -> None:
            with self._changed:
                if self._spares.pop(number, None) is not None:
                    log.warning("a spare session ended", status=status)
                self._changed.notify_all()

        with self._changed:
            # Held, so that nothing is said of it before it is known.
            try:
                worker = SessionWorker(
                    self._settings,
                    self._directory / str(number),
                    on_reply=reply,
                    on_exit=ended,
                    python=self._python,
                )
            except (OSError, WorkerGone) as error:
                log.warning("a spare session could not be started", error=str(error))
                return False
            spare = self._spares[number] = _Spare(worker)
            self._changed.wait_for(
                lambda: spare.warm or number not in self._spares or self._stopping.is_set(),
                self._patience,
            )
            known = number in self._spares
        if spare.warm or self._stopping.is_set():
            return spare.warm
        if known:
            log.warning("a spare session was not warm in time", seconds=self._patience)
            worker.kill()
        return False


def _of_the_jvm(conf: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in conf.items() if not name.startswith(_LIVE)}
