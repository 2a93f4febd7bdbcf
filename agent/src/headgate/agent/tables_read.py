"""What the engine asks of the tables themselves: scans between two barriers, and reads."""

from __future__ import annotations

from headgate.agent.purposes import ScanEnds
from headgate.agent.seams import Cells
from headgate.agent.waves import Waves
from headgate.engine import CellsRead, ContainerScanned, DecisionKind, ReadCells, ScanContainer
from headgate.events import Container, Cut


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

    def _scan(self, scan: ScanContainer) -> None:
        positions = self._position()
        container = self._wanted(scan)
        if container is None:
            return

        def answer(cells: Cells) -> None:
            self._around.post(lambda now: self._scanned(scan, cells, positions, now))

        self._outside += 1
        isolated = self._dataflow.spec.feeders is not None
        self._around.scanner.scan(
            container,
            scan.table,
            values=scan.values,
            mark=self._notify_column if isolated else None,
            done=answer,
        )

    def _scanned(self, scan: ScanContainer, cells: Cells, positions: Cut, now: float) -> None:
        # What was written while the scan ran must have been consumed before the engine compares.
        self._outside -= 1
        if self._wanted(scan) is not None:
            self._ask(ScanEnds(scan, cells, positions), (scan.table,), now)

    def _scan_ended(self, end: ScanEnds, now: float) -> None:
        if self._wanted(end.scan) is None:
            return
        words = f"{len(end.cells.rows)} cells of `{end.scan.container}` in {end.scan.table!r}"
        place = {"container": end.scan.container, "table": end.scan.table}
        self._tell(now, DecisionKind.SCANNED, words, cells=len(end.cells.rows), **place)
        self._handle(
            ContainerScanned(
                now,
                end.scan.container,
                end.scan.table,
                end.cells.rows,
                end.cells.columns,
                end.cells.values,
                end.positions,
                end.cells.marked,
            )
        )
        self._settle()

    def _cells_read(self, read: ReadCells, cells: Cells, now: float) -> None:
        self._outside -= 1
        self._handle(
            CellsRead(now, read.container, read.table, read.rows, read.columns, cells.values)
        )
        self._settle()
