"""What the mode of a dataflow asks of its tables (paper: dataflow isolation)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headgate.agent.dataflow.gating import Gating
from headgate.agent.dataflow.observed import extents_of, notify_of
from headgate.agent.dataflow.purposes import WatchesGone
from headgate.agent.dataflow.tables_read import TablesRead
from headgate.engine import ReconciliationDue
from headgate.events import VERSION, WatchList
from headgate.flows import Mode


class Moded(TablesRead, Gating):
    """Has notify columns set, tables scanned, and everything read from time to time."""

    def _prepare_watches(self) -> None:
        """See that tables have the family of the notify columns that watches are to ask for."""
        self._notify_column = notify_of(self._dataflow)
        self._notified = frozenset()
        if self._notify_column is not None:
            self._notified = self._around.families.provide(self._tables())
            known = dict.fromkeys((*self._progress.notified, *sorted(self._notified)))
            self._progress = msgspec.structs.replace(self._progress, notified=tuple(known))

    def _enter_mode(self, now: float) -> None:
        """Begin what the mode asks for; the watches are in effect."""
        unused = [table for table in self._progress.notified if table not in self._notified]
        if unused:
            self._around.families.drop(unused)
            left = tuple(t for t in self._progress.notified if t in self._notified)
            self._progress = msgspec.structs.replace(self._progress, notified=left)
        self._around.observation.want(extents_of(self._dataflow))
        self._schedule_reconciliation(now)

    def withdraw(self, told: Callable[[], None], now: float) -> None:
        """Publish that the dataflow watches nothing any more; ``stop`` then leaves nothing.

        ``told`` is called when nothing of its notify columns is left.
        """
        self._withdrawn = self._draining = True
        self._open_gates(now)
        self._around.admission.leave(self.name)
        self._around.observation.withdraw(self._tables())
        nothing = WatchList(VERSION, self.name, self._watch_revision() + 1, ())
        if not self._progress.notified:
            self._around.broker.control(nothing)
            told()
            return
        # A write with a notify cell fails where the family is gone: none may be under way.
        tables = [t for t in self._progress.notified if t in self._tables()]
        self._ask(WatchesGone(told), tables, now, prelude=nothing)

    def _watches_gone(self, gone: WatchesGone) -> None:
        self._around.families.drop(self._progress.notified)
        self._progress = msgspec.structs.replace(self._progress, notified=())
        gone.told()

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
