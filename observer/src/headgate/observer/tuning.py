"""What a process that serves clients asks of Python and of the kernel."""

from __future__ import annotations

import gc
import os
import resource
import sys

import structlog

from headgate.observer.config import ObserverConfig, Scheduling

_log = structlog.get_logger("headgate.observer.tuning")

_COLLECTED_AFTER = (20_000, 50, 100)  # objects and generations: a tenth off a put's time
_DESCRIPTORS_PER_CLIENT = 2  # its connection and the one to HBase
_OWN_DESCRIPTORS = 100  # journal, Kafka, libraries


def tune_process(config: ObserverConfig) -> None:
    """Get ready to serve, in the thread that will."""
    # What was made at start lives as long as the process, and requests leave few cycles.
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    needed = _DESCRIPTORS_PER_CLIENT * config.limits.connections + _OWN_DESCRIPTORS
    if resource.RLIM_INFINITY != most < needed:
        _log.warning(
            "limits.connections cannot be reached: raise the limit of open files (ulimit -n)",
            open_files=most,
            needed=needed,
        )
    schedule(config.scheduling)


def schedule(scheduling: Scheduling) -> None:
    """Tell the kernel when this thread is to run, unless whoever started it said something else.

    A thread under ``SCHED_BATCH`` (sched(7)) gets its share of the processors like any other, but
    interrupts nobody when it wakes up.
    """
    if sys.platform != "linux":
        return
    wanted = os.SCHED_BATCH if scheduling is Scheduling.BATCH else os.SCHED_OTHER
    try:
        if os.sched_getscheduler(0) in (os.SCHED_BATCH, os.SCHED_OTHER):
            os.sched_setscheduler(0, wanted, os.sched_param(0))
    except OSError as error:
        _log.warning("the kernel keeps its scheduling", wanted=scheduling, reason=error.strerror)
