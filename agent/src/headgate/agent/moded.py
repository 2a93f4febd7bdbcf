"""What the mode of a dataflow asks of its tables (paper: dataflow isolation)."""

from __future__ import annotations

import msgspec

from headgate.agent.observed import extents_of
from headgate.agent.tables_read import TablesRead
from headgate.engine import ReconciliationDue
from headgate.flows import Mode


class Moded(TablesRead):
    """Has the tables of a dataflow in observer mode scanned, and everything from time to time."""

    def _enter_mode(self, now: float) -> None:
        """Begin what the mode asks for; the watches are in effect."""
        self._around.observation.want(extents_of(self._dataflow))
        self._schedule_reconciliation(now)

    def _leave_mode(self) -> None:
        """End it: the dataflow is being removed."""
        self._around.observation.withdraw(self._tables())

    def _schedule_reconciliation(self, now: float) -> None:
        self._reconcile_at = None
        if self._dataflow.mode is Mode.OBSERVER:
            if not self._progress.reconciled:
                # The engine's own first scan is the first.
                self._progress = msgspec.structs.replace(self._progress, reconciled=now)
            self._reconcile_at = self._progress.reconciled + self._dataflow.scans.whole

    def _reconcile(self, now: float) -> None:
        self._progress = msgspec.structs.replace(self._progress, reconciled=now)
        self._schedule_reconciliation(now)
        self._handle(ReconciliationDue(now))
