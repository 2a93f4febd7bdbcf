"""The agent's threads: whatever ends one is heard, counted and shown, and the thread goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import StrEnum

import structlog

log = structlog.get_logger("headgate.agent")

FIRST_PAUSE = 0.2  # seconds before work that failed begins again: Kafka or HBase may be restarting
LONGEST_PAUSE = 30.0  # seconds; what fails at once each time must not fill the log
_STEADY = 120.0  # seconds of work after which a failure is the first again


class ThreadKind(StrEnum):
    """What an agent's thread is for. Every kind that is added needs a line in the tests, too."""

    CONTROL = "control"
    """Reads the control topic, and lets the producer report deliveries."""
    FEED = "feed"
    """Reads topics for dataflows and scans."""
    FLOW = "flow"
    """Carries dataflows."""
    SCAN = "scan"
    """Owns the scans of one table, or stands by for them."""
    READ = "read"
    """Reads tables for dataflows and scans."""
    GROUP = "group"
    """Is a member of the group of agents: which dataflows are this one's to take."""
    ADOPT = "adopt"
    """Takes dataflows over."""
    LEASES = "leases"
    """Renews what this agent holds."""
    RESOURCES = "resources"
    """Hands samples of machines to dataflows."""
    SENSORS = "sensors"
    """Reads what sensors publish."""
    EXECUTORS = "executors"
    """Asks Spark's drivers."""
    SESSION = "session"
    """Keeps the warm Spark session of a dataflow, once it has one."""
    SPARES = "spares"
    """Keeps warm Spark sessions ready for dataflows to come."""
    JOBS = "jobs"
    """Looks after a dataflow's other launches, while there are any."""
    METRICS = "metrics"
    """Has users' metrics of a dataflow computed."""
    RUNNABLES = "runnables"
    """Has runnables of a dataflow's stages asked."""
    TRAINING = "training"
    """Has models of learned triggers trained."""
    MODELS = "models"
    """Keeps and finds models of a dataflow's learned triggers."""
    RETENTION = "retention"
    """Has Kafka keep what runs need."""
    CERTIFICATES = "certificates"
    """Loads the certificates of the API again when their files change."""
    API = "api"
    """Answers requests; without it the process ends."""


def pause_after(failures: int) -> float:
    """Return how many seconds to wait before what failed so often in a row is tried again."""
    return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures - 1, 16)))


def describe(error: BaseException) -> str:
    """Return an error in one line: its class and its message."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class Supervision:
    """Owner of the threads of an agent.

    Args:
        count: called for each failure of a thread, from the thread.
        pause: returns the seconds until work that failed so often in a row begins again.
    """

    def __init__(
        self,
        count: Callable[[ThreadKind], None],
        pause: Callable[[int], float] = pause_after,
    ) -> None:
        self._count = count
        self._pause = pause
        self._lock = threading.Lock()
        self._troubles: dict[str, str] = {}

    @property
    def trouble(self) -> str | None:
        """What failed and has not gone on yet, in words; None where everything works."""
        with self._lock:
            found = dict(self._troubles)
        return "; ".join(f"thread {name}: {words}" for name, words in found.items()) or None

    def failed(self, kind: ThreadKind, name: str, error: BaseException) -> None:
        """Count and log what an owner has caught itself, because it knows how to go on."""
        self._count(kind)
        log.error("thread failed", kind=kind.value, thread=name, exc_info=error)

    def thread(
        self,
        kind: ThreadKind,
        name: str,
        work: Callable[[], None],
        stopping: threading.Event,
    ) -> threading.Thread:
        """Return a thread, not started, that does the work and begins it anew when it fails.

        Args:
            kind: what it is for.
            name: unlike that of others of its kind.
            work: returns once it is to stop. It holds nothing when it has raised, and
                finds what it needs to go on when it is called again.
            stopping: set when the work is not to begin again.
        """

        def keep() -> None:
            try:
                self._keep(kind, name, work, stopping)
            finally:
                self._well(name)

        return threading.Thread(target=keep, name=name, daemon=True)

    def _keep(
        self, kind: ThreadKind, name: str, work: Callable[[], None], stopping: threading.Event
    ) -> None:
        failures = 0
        while True:
            began = time.monotonic()
            try:
                work()
            except SystemExit:
                return
            except BaseException as error:  # noqa: BLE001 nobody else would hear of it
                failures = 1 if time.monotonic() - began > _STEADY else failures + 1
                with self._lock:
                    self._troubles[name] = describe(error)
                self.failed(kind, name, error)
                if stopping.wait(self._pause(failures)):
                    return
                self._well(name)
            else:
                return

    def _well(self, name: str) -> None:
        with self._lock:
            self._troubles.pop(name, None)
