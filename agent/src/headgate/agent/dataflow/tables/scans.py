"""What the engine asks of tables: scans between two barriers, and reads of single cells."""

from __future__ import annotations

from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.dataflow.continuations import ScanEnds, ScanStarts
from headgate.agent.dataflow.decisions import Decisions
from headgate.agent.dataflow.state import FlowState, RuntimePort
from headgate.agent.dataflow.tables.watches import Watches
from headgate.agent.ports import ScannedCells
from headgate.engine import (
    CellsRead,
    ContainerScanned,
    DecisionKind,
    ReadCells,
    ScanBegun,
    ScanContainer,
)
from headgate.events import Container, key_text, printable_key
from headgate.flows import Mode

_MILLISECONDS = 1000


class EngineScans:
    """Scans and reads that the engine asks for: has tables read and hands it what was found."""

    def __init__(
        self,
        state: FlowState,
        port: RuntimePort,
        context: RuntimeContext,
        decisions: Decisions,
        watches: Watches,
    ) -> None:
        self._state = state
        self._port = port
        self._context = context
        self._decisions = decisions
        self._watches = watches
        self._asked: dict[tuple[str, str], ScanContainer] = {}
        """The newest scan asked for, by container and table."""
        self._edges: dict[tuple[str, str], bytes] = {}
        """Where the next rows begin of a container of which some have just come."""

    def read(self, read: ReadCells) -> None:
        """Have single cells read."""

        def answer(cells: ScannedCells) -> None:
            self._context.post(lambda now: answered(cells, now))

        def answered(cells: ScannedCells, now: float) -> None:
            found = (read.rows, read.columns, cells.values, cells.timestamps)
            self._port.handle(CellsRead(now, read.container, read.table, *found))
            self._port.settle()

        self._context.scanner.read(read.table, read.rows, read.columns, answer)

    def scan(self, scan: ScanContainer, now: float) -> None:
        """Have some rows of a container scanned, once what was written before is consumed."""
        place = (scan.container, scan.table)
        self._asked[place] = scan
        if scan.start and self._edges.pop(place, None) == scan.start:
            # The barrier behind the rows before is the one before these.
            self._begin(ScanStarts(scan, None), now)
            return
        unpublished = None
        if self._state.dataflow.mode is Mode.OBSERVER:
            # Asked before the barrier: what was published by then is consumed when it has passed.
            unpublished = self._context.observation.unpublished(scan.table, now)
        self._port.ask(ScanStarts(scan, unpublished), (scan.table,), now)

    def _wanted(self, scan: ScanContainer) -> Container | None:
        """Return what a scan reads; None where the dataflow has changed since it was asked for."""
        if self._asked.get((scan.container, scan.table)) is not scan:
            return None
        for watched in self._state.dataflow.spec.containers:
            if watched.id == scan.container and scan.table in watched.container.tables:
                return watched.container
        return None

    def start(self, starts: ScanStarts, asked: float, now: float) -> None:
        """Begin a scan whose first barrier has passed, which was asked for at ``asked``."""
        scan = starts.scan
        if self._wanted(scan) is not None:
            self._port.handle(ScanBegun(now, scan.container, scan.table, scan.start))
            self._begin(starts, asked)

    def _begin(self, starts: ScanStarts, asked: float) -> None:
        scan, unpublished = starts.scan, starts.unpublished
        container = self._wanted(scan)
        if container is None:
            return

        def answer(cells: ScannedCells) -> None:
            self._context.post(lambda now: scanned(cells, now))

        def scanned(cells: ScannedCells, now: float) -> None:
            until = (
                0 if unpublished is None else unpublished.until + int((now - asked) * _MILLISECONDS)
            )
            recent = tuple(place for place, dated in cells.recent.items() if dated < until)
            # What was written meanwhile must have been consumed before the engine compares.
            if self._wanted(scan) is not None:
                self._port.ask(ScanEnds(scan, cells, recent), (scan.table,), now)

        isolated = self._state.dataflow.spec.feeders is not None
        self._context.scanner.scan(
            container,
            scan.table,
            values=scan.values,
            mark=self._watches.notify_column if isolated else None,
            recent=None if unpublished is None else unpublished.since,
            start=scan.start,
            done=answer,
        )

    def end(self, end: ScanEnds, now: float) -> None:
        """Hand the engine what a scan has found whose second barrier has passed."""
        if self._wanted(end.scan) is None:
            return
        scan, cells = end.scan, end.cells
        words = f"{len(cells.rows)} cells of `{scan.container}` in {scan.table!r}"
        if scan.start or cells.following is not None:
            words += f", rows from {_shown(scan.start)} to before {_shown(cells.following)}"
        self._decisions.publish(
            now,
            DecisionKind.SCANNED,
            words,
            container=scan.container,
            table=scan.table,
            cells=len(cells.rows),
            start=scan.start,
            stop=cells.following,
            ttls={key_text(family): ttl for family, ttl in cells.ttls.items()},
        )
        place = (scan.container, scan.table)
        if cells.following is not None and self._state.dataflow.mode is not Mode.OBSERVER:
            self._edges[place] = cells.following
        self._port.handle(
            ContainerScanned(
                now,
                *place,
                cells.rows,
                cells.columns,
                cells.values,
                cells.marked,
                end.recent,
                scan.start,
                cells.following,
                cells.dated,
                cells.timestamps,
                dict(cells.ttls),
            )
        )
        self._edges.pop(place, None)
        self._port.settle()


def _shown(row: bytes | None) -> str:
    """Return the edge of some rows for people."""
    if row is None:
        return "the end"
    shown = printable_key(row.removesuffix(b"\0"))
    return f"'{shown}'" if row else "the first"
