"""What the engine asks of the tables themselves: scans between two barriers, and reads."""

from __future__ import annotations

from headgate.agent.dataflow.purposes import ScanEnds, ScanStarts
from headgate.agent.dataflow.waves import Waves
from headgate.agent.ports import Cells
from headgate.engine import (
    CellsRead,
    ContainerScanned,
    DecisionKind,
    ReadCells,
    ScanBegun,
    ScanContainer,
)
from headgate.events import Container
from headgate.flows import Mode

_MILLISECONDS = 1000


class TablesRead(Waves):
    """Has tables read and hands the engine what was found."""

    def _read(self, read: ReadCells) -> None:
        def answer(cells: Cells) -> None:
            self._around.post(lambda now: self._cells_read(read, cells, now))

        self._outside += 1
        self._around.scanner.read(read.table, read.rows, read.columns, answer)

    def _wanted(self, scan: ScanContainer) -> Container | None:
        """Return what a scan reads; None where the dataflow has changed since it was asked for."""
        if self._scans.get((scan.container, scan.table)) is not scan:
            return None
        for watched in self._dataflow.spec.containers:
            if watched.id == scan.container and scan.table in watched.container.tables:
                return watched.container
        return None

    def _ask_for_scan(self, scan: ScanContainer, now: float) -> None:
        place = (scan.container, scan.table)
        self._scans[place] = scan
        if scan.start and self._edges.pop(place, None) == scan.start:
            # The barrier behind the stretch before is the one before this.
            self._scan(ScanStarts(scan, None), now)
            return
        untold = None
        if self._dataflow.mode is Mode.OBSERVER:
            # Asked before the barrier: what was told until then is consumed when it has passed.
            untold = self._around.observation.untold(scan.table, now)
        self._ask(ScanStarts(scan, untold), (scan.table,), now)

    def _scan_starts(self, starts: ScanStarts, asked: float, now: float) -> None:
        scan = starts.scan
        if self._wanted(scan) is not None:
            self._handle(ScanBegun(now, scan.container, scan.table, scan.start))
            self._scan(starts, asked)

    def _scan(self, starts: ScanStarts, asked: float) -> None:
        scan, untold = starts.scan, starts.untold
        container = self._wanted(scan)
        if container is None:
            return

        def answer(cells: Cells) -> None:
            self._around.post(lambda now: scanned(cells, now))

        def scanned(cells: Cells, now: float) -> None:
            until = 0 if untold is None else untold.until + int((now - asked) * _MILLISECONDS)
            recent = tuple(place for place, dated in cells.recent.items() if dated < until)
            self._scanned(scan, cells, recent, now)

        self._outside += 1
        isolated = self._dataflow.spec.feeders is not None
        self._around.scanner.scan(
            container,
            scan.table,
            values=scan.values,
            mark=self._notify_column if isolated else None,
            recent=None if untold is None else untold.since,
            start=scan.start,
            done=answer,
        )

    def _scanned(
        self,
        scan: ScanContainer,
        cells: Cells,
        recent: tuple[int, ...],
        now: float,
    ) -> None:
        # What was written while the scan ran must have been consumed before the engine compares.
        self._outside -= 1
        if self._wanted(scan) is not None:
            self._ask(ScanEnds(scan, cells, recent), (scan.table,), now)

    def _scan_ended(self, end: ScanEnds, now: float) -> None:
        if self._wanted(end.scan) is None:
            return
        scan, cells = end.scan, end.cells
        words = f"{len(cells.rows)} cells of `{scan.container}` in {scan.table!r}"
        if scan.start or cells.following is not None:
            words += f", rows from {_shown(scan.start)} to before {_shown(cells.following)}"
        self._tell(
            now,
            DecisionKind.SCANNED,
            words,
            container=scan.container,
            table=scan.table,
            cells=len(cells.rows),
            start=scan.start,
            stop=cells.following,
        )
        if cells.following is not None and self._dataflow.mode is not Mode.OBSERVER:
            self._edges[scan.container, scan.table] = cells.following
        self._handle(
            ContainerScanned(
                now,
                scan.container,
                scan.table,
                cells.rows,
                cells.columns,
                cells.values,
                cells.marked,
                end.recent,
                scan.start,
                cells.following,
            )
        )
        self._edges.pop((scan.container, scan.table), None)
        self._settle()

    def _cells_read(self, read: ReadCells, cells: Cells, now: float) -> None:
        self._outside -= 1
        self._handle(
            CellsRead(now, read.container, read.table, read.rows, read.columns, cells.values)
        )
        self._settle()


def _shown(row: bytes | None) -> str:
    """Return the edge of a stretch of rows for people."""
    if row is None:
        return "the end"
    return repr(row.removesuffix(b"\0").decode("utf-8", "backslashreplace")) if row else "the first"
