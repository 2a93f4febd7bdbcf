"""What a process that serves clients asks of Python and of the kernel."""

from __future__ import annotations

import gc
import os
import resource
import sys
from pathlib import Path

import structlog

from headgate.observer.config import LimitSettings, ObserverConfig, Scheduling
from headgate.wire import Cursor

_log = structlog.get_logger("headgate.observer.tuning")

_COLLECTED_AFTER = (20_000, 50, 100)  # objects and generations: a tenth off a put's time
_DESCRIPTORS_PER_CLIENT = 2  # its connection and the one to HBase
_OWN_DESCRIPTORS = 100  # journal, Kafka, libraries
_FEW = 1.5  # requests under way below which a thread that waits for its turn delays each of them
_MANY = 2.5  # and above which it finds several when it has it


def is_compiled() -> bool:
    """Return whether the hot path of this process is compiled (``make wheel``) or interpreted."""
    file = sys.modules[Cursor.__module__].__file__
    return file is not None and Path(file).suffix != ".py"


def tune_process(config: ObserverConfig) -> None:
    """Get ready to serve, in the thread that will."""
    # What was made at start lives as long as the process, and requests leave few cycles.
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    wanted, served = config.limits.connections, served_connections(config.limits.connections)
    # The default is as many as most hosts allow: whoever did not ask for them misses nothing.
    if served < wanted != LimitSettings().connections:
        _log.warning(
            "limits.connections cannot be reached: raise the limit of open files (ulimit -n)",
            open_files=most,
            connections=served,
        )


def served_connections(wanted: int) -> int:
    """Return how many of the wanted clients the open files of this process allow.

    Beyond them nobody could be answered, not even that there are too many. 0 stays: no limit.
    """
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(1, (most - _OWN_DESCRIPTORS) // _DESCRIPTORS_PER_CLIENT))


def _schedule(wanted: int) -> bool:
    """Ask the kernel when this thread is to run, unless whoever started it said something else.

    A thread under ``SCHED_BATCH`` (sched(7)) gets its share of the processors like any other, but
    interrupts nobody when it wakes up. Returns False where the kernel refuses.
    """
    try:
        if os.sched_getscheduler(0) in (os.SCHED_BATCH, os.SCHED_OTHER):
            os.sched_setscheduler(0, wanted, os.sched_param(0))
    except OSError as error:
        name = "batch" if wanted == os.SCHED_BATCH else "normal"
        _log.warning("the kernel keeps its scheduling", wanted=name, reason=error.strerror)
        return False
    return True


class Turns:
    """When the thread that serves clients has its turn: as its load, or the operator, wants it."""

    def __init__(self, scheduling: Scheduling) -> None:
        """Change nothing yet."""
        self._scheduling = scheduling
        self._policy = -1
        self._refused = False
        """Whether the kernel has refused: it is asked again only if the operator wants a change."""
        self._at = 0.0
        self._waited = 0.0

    def begin(self) -> None:
        """Apply what is wanted to the thread that calls, which calls ``tend`` too."""
        self._refused = False
        self._apply(batch=self._scheduling is Scheduling.BATCH)

    def reconfigure(self, scheduling: Scheduling) -> None:
        """Apply something else from now on, once it has begun."""
        self._scheduling = scheduling
        if self._policy >= 0:
            self.begin()

    def tend(self, now: float, waited: float) -> None:
        """Look at the load since the last call.

        Args:
            now: any clock's time, in seconds.
            waited: for how long all requests together have waited for HBase, in seconds: what it
                grows by in a second is the number of requests under way (Little's law).
        """
        elapsed, more = now - self._at, waited - self._waited
        self._at, self._waited = now, waited
        # Without any, the next ones are taken to come as the last did.
        if self._policy < 0 or self._scheduling is not Scheduling.AUTO or not more:
            return
        if more > _MANY * elapsed:
            self._apply(batch=True)
        elif more < _FEW * elapsed:
            self._apply(batch=False)

    def _apply(self, *, batch: bool) -> None:
        if sys.platform != "linux" or self._refused:
            return
        policy = os.SCHED_BATCH if batch else os.SCHED_OTHER
        if policy != self._policy:
            self._policy = policy
            self._refused = not _schedule(policy)
