"""The tables that this agent scans, each on a thread of its own."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import structlog
from msgspec import Struct

from headgate.agent.errors import AgentError, Fenced, Held
from headgate.agent.kafka.feed import BATCHES_WAITING, FeedRecord
from headgate.agent.kafka.observers import ObserverTable
from headgate.agent.metrics import AgentMetrics
from headgate.agent.ports import Extent, TimeRange
from headgate.agent.scans.held_scan import HeldScan
from headgate.agent.scans.store import ScanStore
from headgate.agent.scans.table_scan import (
    ChunkReader,
    ScanBroker,
    ScanContext,
    ScanProgress,
    TableScan,
)
from headgate.agent.state.sealed import Owner
from headgate.agent.supervision import Supervision, ThreadKind

log = structlog.get_logger("headgate.agent.table-scan")

_AGAIN = 1.0  # seconds until a scan that could not start is tried again


class ScanSettings(Struct, frozen=True):
    """What all scans of an agent have in common; times are in seconds."""

    store: ScanStore
    broker: ScanBroker
    reader: ChunkReader
    observers: ObserverTable
    owner: Owner
    requester: str
    rows: int
    window: int
    clock_skew: float
    barrier_repeat: float
    lease: float
    metrics: AgentMetrics
    supervision: Supervision


class TableScans:
    """Scans the tables that dataflows here want scanned, of each table if no other agent does."""

    def __init__(self, settings: ScanSettings) -> None:
        self._settings = settings
        self._wanted: dict[str, set[str]] = {}
        """By dataflow."""
        self._scans: dict[str, ScannedTable] = {}
        self._lock = threading.Lock()

    def want(self, dataflow: str, extents: Mapping[str, Extent]) -> None:
        """Have tables scanned for a dataflow, and none that it wanted before and does not now.

        Raises:
            Unreachable: the state table cannot be reached.
        """
        with self._lock:
            before = self._wanted.get(dataflow, set())
        for table, extent in extents.items():
            self._settings.store.want(table, dataflow, extent)
        self._forget(dataflow, before - extents.keys())
        with self._lock:
            self._wanted[dataflow] = set(extents)
        self._start_and_stop()

    def unpublished(self, table: str, now: float) -> TimeRange | None:
        """Return how cells are dated that the next scan of a table reads, whoever scans it.

        Raises:
            Unreachable: the state table cannot be reached.
        """
        progress = self._settings.store.progress(table)
        return None if progress is None else progress.next(now, self._settings.clock_skew)

    def withdraw(self, dataflow: str, tables: Sequence[str]) -> None:
        """Forget what a dataflow wanted of these tables: it is removed, or in another mode now.

        Raises:
            Unreachable: the state table cannot be reached.
        """
        self._forget(dataflow, tables)
        self.rest(dataflow)

    def rest(self, dataflow: str) -> None:
        """Scan no more for a dataflow that goes on with another agent."""
        with self._lock:
            self._wanted.pop(dataflow, None)
        self._start_and_stop()

    def close(self) -> None:
        """End all scans."""
        with self._lock:
            self._wanted.clear()
        self._start_and_stop()

    def _forget(self, dataflow: str, tables: Sequence[str] | set[str]) -> None:
        for table in tables:
            self._settings.store.forget(table, dataflow)

    def _start_and_stop(self) -> None:
        with self._lock:
            wanted = {table for tables in self._wanted.values() for table in tables}
            ended = [self._scans.pop(table) for table in self._scans.keys() - wanted]
            for table in wanted - self._scans.keys():
                self._scans[table] = ScannedTable(table, self._settings)
                self._scans[table].begin()
        for scan in ended:
            scan.stop()


class ScannedTable:
    """The thread that owns a table's scans, or stands by while another agent does."""

    def __init__(self, table: str, settings: ScanSettings) -> None:
        self.table = table
        self._settings = settings
        self._inbox: queue.SimpleQueue[Callable[[TableScan, float], None] | None] = (
            queue.SimpleQueue()
        )
        self._room = threading.Semaphore(BATCHES_WAITING)
        self._stopping = threading.Event()
        self._thread = settings.supervision.thread(
            ThreadKind.SCAN, f"scan-{table}", self._run, self._stopping
        )

    def begin(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._stopping.set()
        self._inbox.put(None)
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            pause = _AGAIN
            try:
                self._own()
            except Held:
                pause = self._settings.lease / 3
            except AgentError as error:
                log.warning("table not scanned", table=self.table, reason=str(error))
            self._stopping.wait(pause)

    def _own(self) -> None:
        settings, lease = self._settings, self._settings.lease
        extent = settings.store.wanted(self.table)
        if extent is None:
            return
        epoch, progress = settings.store.acquire(self.table, settings.owner, time.time(), lease)
        log.info("table is scanned here", table=self.table, epoch=epoch)
        self._inbox = queue.SimpleQueue()
        self._room = threading.Semaphore(BATCHES_WAITING)
        scan = TableScan(self.table, epoch, extent, progress, self._scan_context(epoch))
        try:
            scan.start(time.time())
            self._serve(scan, epoch)
        except Fenced as error:
            log.warning("table is scanned elsewhere", table=self.table, reason=str(error))
            return
        finally:
            scan.close()
        settings.store.release(self.table, epoch)

    def _scan_context(self, epoch: int) -> ScanContext:
        settings = self._settings
        inbox, room = self._inbox, self._room

        def deliver(records: Sequence[FeedRecord]) -> bool:
            if not room.acquire(blocking=False):
                return False

            def consume(scan: TableScan, now: float) -> None:
                room.release()
                scan.consume(records, now)

            inbox.put(consume)
            return True

        def save(progress: ScanProgress) -> None:
            settings.store.save(self.table, epoch, progress)

        def on_scanned(found: int, seconds: float) -> None:
            settings.metrics.scan_seconds.labels(self.table).observe(seconds)
            settings.metrics.found.labels(self.table).inc(found)

        return ScanContext(
            broker=settings.broker,
            reader=settings.reader,
            observers=settings.observers,
            requester=settings.requester,
            rows=settings.rows,
            window=settings.window,
            clock_skew=settings.clock_skew,
            barrier_repeat=settings.barrier_repeat,
            wanted=lambda: settings.store.wanted(self.table),
            save=save,
            post=lambda work: inbox.put(lambda _, now: work(now)),
            deliver=deliver,
            on_scanned=on_scanned,
        )

    def _serve(self, scan: TableScan, epoch: int) -> None:
        settings, steady = self._settings, time.monotonic()
        held = HeldScan(scan, epoch, settings.store, settings.owner, settings.lease, steady)
        goes_on = True
        while goes_on and not self._stopping.is_set():
            try:
                work = self._inbox.get(timeout=held.patience(time.time(), time.monotonic()))
            except queue.Empty:
                work = None
            goes_on = held.turn(work, time.time(), time.monotonic())
