"""What was read of tables: scans of containers, and values of single cells."""

from __future__ import annotations

import math

from headgate.engine.actions.state import EngineState
from headgate.engine.core.evaluation import Evaluator
from headgate.engine.core.table_reads import TableReads
from headgate.engine.intake.isolation import own_cells, still_there
from headgate.engine.protocol.stimuli import (
    CellsRead,
    ContainerScanned,
    ReconciliationDue,
    ScanBegun,
)
from headgate.events import CLOCKS_APART, NOTHING_DATED, updates_topic

_STEP = 1.0  # second


class TableAnswers:
    """Has containers take what was read, and evaluates who waited for it."""

    def __init__(self, state: EngineState, evaluator: Evaluator, reads: TableReads) -> None:
        self._state = state
        self._evaluator = evaluator
        self._reads = reads
        self._expired = -math.inf
        """When containers were last asked what has expired."""

    def expire(self) -> None:
        """Have cells read that may have expired; looks at most once a second."""
        now = self._state.now
        if 0 <= now - self._expired < _STEP:
            return
        self._expired = now
        expired = dict.fromkeys(
            cells.watched.id
            for cells in self._state.cells.values()
            if cells.lifetimes.expire(int(now * 1000))
        )
        if expired:
            self._evaluator.written(expired)

    def reconcile(self, stimulus: ReconciliationDue) -> None:
        """Look for what no update says, such as deletes that went round the observers."""
        for cells in self._state.cells.values():
            if stimulus.tables is None or cells.table in stimulus.tables:
                self._reads.scan_again(cells)

    def scan_begun(self, stimulus: ScanBegun) -> None:
        """Have what is read from here on outrank what was consumed."""
        cells = self._state.cells.get((stimulus.container, stimulus.table))
        scanning = None if cells is None else cells.scans.current
        if cells is not None and scanning is not None and scanning.at == stimulus.start:
            cells.scans.begin_reading()

    def scanned(self, stimulus: ContainerScanned) -> None:
        """Take the rows of a scan, and ask for the next ones while there are more."""
        cells = self._state.cells.get((stimulus.container, stimulus.table))
        if cells is None or cells.scans.current is None or cells.scans.current.at != stimulus.start:
            return
        if cells.scans.current.emptied:
            # These rows may have been read before they were lost; those before them were not.
            cells.scans.current.emptied = False
            self._reads.scan_on(cells)
            return
        read = (stimulus.rows, stimulus.columns, stimulus.timestamps)
        again, lossy = cells.scans.current.again, cells.scans.current.lossy
        if self._state.spec.feeders is not None:
            if cells.scans.current.lossless:
                stimulus = still_there(stimulus, cells)
            else:
                stimulus = own_cells(stimulus, cells)
        if stimulus.dated != NOTHING_DATED:
            self._state.dated_of(cells.table).add(stimulus.dated)
        cells.lifetimes.set_ttls(stimulus.ttls, cells.scans.current.written)
        cells.scans.expiring = stimulus.ttls
        first = not cells.scans.complete
        rows = (stimulus.rows, stimulus.columns, stimulus.values)
        dated = stimulus.dated.rows
        found = cells.scans.take(*rows, stimulus.recent, stop=stimulus.stop, dated=dated)
        cells.lifetimes.found(*read, stimulus.now * 1000)
        if cells.scans.current is not None:
            self._reads.scan_on(cells)
            return
        # Deletes of before were not heard of, or may have been lost.
        cells.note_marker(int(stimulus.now * 1000) + CLOCKS_APART)
        if found:
            if not first:
                self._state.lose_updates(updates_topic(cells.table))
            self._evaluator.written((cells.watched.id,))
        if again and lossy:
            self._reads.scan_again(cells)
        elif again:
            self._reads.scan_for_gone(cells)
        self._evaluator.take_up(self._state.graph.watching(cells))

    def read(self, stimulus: CellsRead) -> None:
        """Take the values of cells, and evaluate who waited for them."""
        cells = self._state.cells.get((stimulus.container, stimulus.table))
        if cells is None or not cells.reads.awaited:
            return
        before = cells.elements
        cells.reads.settle(stimulus.rows, stimulus.columns, stimulus.values, stimulus.timestamps)
        for action in self._state.graph.watching(cells):
            if action.reading and not any(c.reads.awaited for c, _ in action.all_parts()):
                action.reading = False
                self._evaluator.take_up((action,), read=True)
        if cells.elements < before:
            # Of fewer elements, updates are a greater share for whoever did not ask for the read.
            self._evaluator.written((cells.watched.id,))
