"""Which parts of tables are to be read: scans of containers, and reads of single cells."""

from __future__ import annotations

from headgate.engine.actions.state import EngineState
from headgate.engine.cells.cells import ContainerCells
from headgate.engine.cells.columns import Detail
from headgate.engine.core.output import Output
from headgate.engine.protocol.instructions import ReadCells, ScanContainer


class TableReads:
    """Asks for scans and reads, and knows what has to be asked for again."""

    def __init__(self, state: EngineState, output: Output) -> None:
        self._state = state
        self._output = output

    def resume(self) -> None:
        """Ask again for all that is awaited: whoever was asked before is not there any more."""
        for cells in self._state.cells.values():
            if not cells.scans.complete or cells.scans.current is not None:
                self._resume_scan(cells)
            elif cells.lifetimes.ttls:
                self.scan_for_gone(cells)  # when its cells expire is not saved
            if cells.reads.awaited:
                self.read(cells)

    def scan_unknown(self) -> None:
        """Ask for the first scan of all containers of which none was asked for."""
        for cells in self._state.cells.values():
            if not cells.scans.complete and cells.scans.current is None:
                self.scan(cells)

    def scan(self, cells: ContainerCells) -> None:
        """Ask for a scan from the first row on."""
        if cells.detail is Detail.COUNTS:
            return
        cells.scans.start()
        self.scan_on(cells)

    def _resume_scan(self, cells: ContainerCells) -> None:
        """Go on with a scan whose question is not known any more, if there is one to go on with."""
        if cells.detail is not Detail.COUNTS:
            cells.scans.resume()
            self.scan_on(cells)

    def scan_on(self, cells: ContainerCells) -> None:
        """Ask for the rows to which a scan has come."""
        values = cells.detail is Detail.VALUES
        at = b"" if cells.scans.current is None else cells.scans.current.at
        self._output.add(ScanContainer(cells.watched.id, cells.table, values, at))

    def scan_again(self, cells: ContainerCells) -> None:
        """Have cells scanned from here on: a scan under way may have read what is older."""
        if cells.scans.current is None:
            self.scan(cells)
        else:
            cells.scans.current.again = cells.scans.current.lossy = True
            cells.scans.current.lossless = False

    def scan_for_gone(self, cells: ContainerCells) -> None:
        """Have cells scanned though every update of them was published."""
        if cells.scans.current is not None:
            cells.scans.current.again = True
            cells.scans.current.lossy |= cells.scans.complete and not cells.scans.current.lossless
            return
        self.scan(cells)
        if cells.scans.current is not None:
            cells.scans.current.lossless = cells.scans.complete

    def read(self, cells: ContainerCells) -> None:
        """Ask for the values of unsettled cells."""
        keys = cells.reads.ask()
        rows, columns = tuple(k[0] for k in keys), tuple(k[1] for k in keys)
        self._output.add(ReadCells(cells.watched.id, cells.table, rows, columns))
