"""What observers are asked to watch, and what the mode asks of tables (paper: isolation)."""

from __future__ import annotations

from collections.abc import Callable

from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.dataflow.continuations import WatchesGone, WatchesInEffect
from headgate.agent.dataflow.state import COUNTER_BITS, FlowState, RuntimePort
from headgate.agent.dataflow.tables.mode import extents_of, notify_of
from headgate.agent.parts import Part
from headgate.agent.state.saved_state import FlowProgress
from headgate.engine import ReconciliationDue
from headgate.events import VERSION, Notify, Watch, WatchList
from headgate.flows import Mode


class Watches(Part):
    """Has tables watched, notify columns set, tables scanned, and all read from time to time."""

    def __init__(
        self, state: FlowState, port: RuntimePort, context: RuntimeContext, progress: FlowProgress
    ) -> None:
        self._state = state
        self._port = port
        self._context = context
        self._reconciled = progress.reconciled
        """When all was last scanned for what no update says, in Unix seconds."""
        self._reconcile_at: float | None = None
        self._families = progress.notified
        """Tables whose notify column was asked for."""
        self._notified: frozenset[str] = frozenset()
        """Tables in which observers are asked to set it."""
        self.notify_column: Notify | None = None

    def saved(self) -> dict[str, object]:
        """Return fields of ``FlowProgress``."""
        return {"reconciled": self._reconciled, "notified": self._families}

    def publish(self, now: float) -> None:
        """Publish the watch list, and ask for the barrier behind which it is in effect.

        Tables are seen to have the family of the notify columns that it asks for.
        """
        tables = self._state.tables
        self.notify_column = notify_of(self._state.dataflow)
        self._notified = frozenset()
        if self.notify_column is not None:
            self._notified = self._context.families.provide(tables)
            self._families = tuple(dict.fromkeys((*self._families, *sorted(self._notified))))
        watches = tuple(
            Watch(table, notify=self.notify_column if table in self._notified else None)
            for table in tables
        )
        listed = WatchList(VERSION, self._state.name, self._revision, watches)
        self._port.ask(WatchesInEffect(), tables, now, prelude=listed)

    @property
    def _revision(self) -> int:
        """A number that grows with every owner and with every submit to one owner.

        Whatever revision a dataflow has that is submitted after a removal, its epoch is higher: its
        list counts even where the end of the old one's was never heard.
        """
        return (self._state.epoch << COUNTER_BITS) + self._state.definition.revision

    def enter_mode(self, now: float) -> None:
        """Begin what the mode asks for; the watches are in effect."""
        unused = [table for table in self._families if table not in self._notified]
        if unused:
            self._context.families.drop(unused)
            self._families = tuple(t for t in self._families if t in self._notified)
        self._context.observation.want(extents_of(self._state.dataflow))
        self._schedule(now)

    def withdraw(self, on_withdrawn: Callable[[], None], now: float) -> None:
        """Publish that the dataflow watches nothing any more.

        ``on_withdrawn`` is called when nothing of its notify columns is left.
        """
        tables = self._state.tables
        self._context.observation.withdraw(tables)
        nothing = WatchList(VERSION, self._state.name, self._revision + 1, ())
        if not self._families:
            self._context.broker.control(nothing)
            on_withdrawn()
            return
        # A write with a notify cell fails where the family is gone: none may be under way.
        left = [t for t in self._families if t in tables]
        self._port.ask(WatchesGone(on_withdrawn), left, now, prelude=nothing)

    def gone(self, gone: WatchesGone) -> None:
        """Remove notify columns: no observer sets them any more."""
        self._context.families.drop(self._families)
        self._families = ()
        gone.on_withdrawn()

    def _schedule(self, now: float) -> None:
        self._reconcile_at = None
        if self._state.dataflow.mode is Mode.OBSERVER:
            if not self._reconciled:
                self._reconciled = now  # the engine's own first scan is the first
            self._reconcile_at = self._reconciled + self._state.dataflow.scans.whole

    def due(self) -> list[float]:
        """Return when everything is to be read, in Unix seconds, if it is."""
        return [] if self._reconcile_at is None else [self._reconcile_at]

    def tick(self, now: float) -> None:
        """Have everything read if its time has come."""
        if self._reconcile_at is not None and now >= self._reconcile_at:
            self._reconciled = now
            self._schedule(now)
            self._port.handle(ReconciliationDue(now))

    def move_times(self, by: float) -> None:
        """Have everything read so many seconds later."""
        if self._reconcile_at is not None:
            self._reconcile_at += by
