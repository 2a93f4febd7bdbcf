"""Gates: which are closed, which writes they hold, and when those go on or are refused.

A gate is closed from the message that closes it until its release or the end of its lease. That is
counted from when the message was heard, whatever the clock of this host is set to meanwhile. The
session is what forwards, answers and drops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, Protocol

import structlog

from headgate.events import Gate, Item, Origin
from headgate.hbase import Write
from headgate.observer.control.touching import TouchedItems
from headgate.observer.monitoring.metrics import Histogram

_log = structlog.get_logger("headgate.observer.control.gates")

_HELD_BOUNDS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_MANY: Final = 100  # held writes from which on health speaks of them
_NAMED: Final = 10  # gates that it names then

_Key = tuple[str, str, str]


class HeldSession(Protocol):
    """A session whose request a gate holds."""

    def client_is_gone(self) -> bool:
        """Return whether nobody waits for the answer any more."""

    def gate_in_the_way(self) -> Gate | None:
        """Return a closed gate that must hold the request; None if there is none."""

    def go_on(self) -> None:
        """Ask everything again that was asked when the request came, and forward it."""

    def turn_away(self, reason: str) -> None:
        """Answer the request with an IOError that may be retried."""

    def drop(self, reason: str) -> None:
        """Answer likewise, should anybody listen, and end the connection."""


class _Hold:
    __slots__ = ("gate", "session", "since")

    def __init__(self, gate: Gate, session: HeldSession, since: float) -> None:
        self.gate = gate
        self.session = session
        self.since = since


class WriteGates:
    """The gates in front of writes, by table, and the requests held: one a connection at most."""

    def __init__(self, *, hold_seconds: float, clock: Callable[[], float]) -> None:
        """Hold writes for so many seconds at most; ``clock`` is any time that only passes."""
        self._hold_seconds = hold_seconds
        self._clock = clock
        self._known: dict[_Key, Gate] = {}
        self._ends: dict[_Key, float] = {}
        """When the leases of those end, by the clock."""
        self._touched: dict[_Key, dict[str, TouchedItems]] = {}
        """Items of each gate, by table, as far as somebody has asked."""
        self._touched_at_all: dict[str, TouchedItems] = {}
        """The items of all closed gates by table, as far as somebody has asked."""
        self._holds: dict[HeldSession, _Hold] = {}
        self.closed: dict[str, tuple[Gate, ...]] = {}
        """The closed gates by table: empty while no write need be looked at."""
        self.closings = 0
        """How often a gate was closed; renewing its lease does not count."""
        self.refused = 0
        """Writes that were held as long as allowed."""
        self.dropped = 0
        """Writes whose client was gone before they were forwarded."""
        self.held_seconds = Histogram(_HELD_BOUNDS)

    @property
    def closed_gates(self) -> int:
        """How many gates are closed."""
        return len({_key(gate) for gates in self.closed.values() for gate in gates})

    @property
    def held(self) -> int:
        """How many writes are held now."""
        return len(self._holds)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why many writes wait, in words."""
        if len(self._holds) < _MANY:
            return ()
        names = sorted({_name(hold.gate) for hold in self._holds.values()})
        return (f"gates hold {len(self._holds)} writes: {'; '.join(names[:_NAMED])}",)

    # -- which are closed

    def apply(self, message: Gate, left: float) -> None:
        """Take what the control topic says of a gate, unless something newer was said before.

        ``left`` is for how many seconds its lease lasts from now on.
        """
        now = self._clock()
        key = _key(message)
        known = self._known.get(key)
        if known is not None and message.revision < known.revision:
            return
        was_closed = known is not None and self._is_closed(known, now)
        if known is None or known.containers != message.containers:
            self._touched.pop(key, None)
            self._touched_at_all.clear()
        self._known[key] = message
        self._ends[key] = now + left
        if self._is_closed(message, now):
            if not was_closed:
                self.closings += 1
                _log.info("gate closed", gate=_name(message), until=_moment(message.until))
        elif was_closed:
            _log.info("gate opened", gate=_name(message))
        self._list_closed(now)

    def _is_closed(self, gate: Gate, now: float) -> bool:
        return not gate.released and now < self._ends[_key(gate)]

    def _list_closed(self, now: float) -> None:
        by_table: dict[str, list[Gate]] = {}
        for gate in self._known.values():
            if self._is_closed(gate, now):
                tables = (table for container in gate.containers for table in container.tables)
                for table in dict.fromkeys(tables):
                    by_table.setdefault(table, []).append(gate)
        closed = {table: tuple(gates) for table, gates in by_table.items()}
        if _keys(closed) != _keys(self.closed):
            self._touched_at_all.clear()
        self.closed = closed

    def _open_expired(self, now: float) -> None:
        expired = {
            _name(gate)
            for gates in self.closed.values()
            for gate in gates
            if not self._is_closed(gate, now)
        }
        for name in expired:
            _log.warning("gate opened: its lease was not renewed", gate=name)
        if expired:
            self._list_closed(now)

    # -- which writes they hold

    def in_the_way(self, write: Write, writers: Iterable[Origin | None]) -> Gate | None:
        """Return a closed gate that must hold a write; None if there is none.

        A gate lets a request pass in which nobody but runs of its own dataflow wrote. Of a writer
        that is None nobody knows who it is.
        """
        now = self._clock()
        dataflows = {None if writer is None else writer.dataflow for writer in writers}
        for part in (write, *write.others):
            gates = [
                gate
                for gate in self.closed.get(part.table, ())
                if dataflows != {gate.dataflow} and self._is_closed(gate, now)
            ]
            # Most writes that are not held touch no gate at all: that is asked once for all.
            if len(gates) > 1 and not self._touched_by_any(part.table).touched_by(part.cells):
                continue
            for gate in gates:
                if self._items_of(gate, part.table).touched_by(part.cells):
                    return gate
        return None

    def _touched_by_any(self, table: str) -> TouchedItems:
        found = self._touched_at_all.get(table)
        if found is None:
            items = [item for gate in self.closed[table] for item in _items(gate, table)]
            found = self._touched_at_all[table] = TouchedItems(items)
        return found

    def _items_of(self, gate: Gate, table: str) -> TouchedItems:
        by_table = self._touched.setdefault(_key(gate), {})
        found = by_table.get(table)
        if found is None:
            found = by_table[table] = TouchedItems(_items(gate, table))
        return found

    def hold(self, session: HeldSession, gate: Gate) -> None:
        """Note that a session's request is held from now on."""
        self._holds[session] = _Hold(gate, session, self._clock())

    def leave(self, session: HeldSession) -> None:
        """Forget a session whose client is gone, if it was held."""
        if self._holds.pop(session, None) is not None:
            self.dropped += 1

    def tend(self) -> None:
        """Open gates whose lease is over; let held writes go on, refuse or drop them."""
        now = self._clock()
        if self.closed:
            self._open_expired(now)
        for hold in tuple(self._holds.values()):
            session = hold.session
            if self._holds.get(session) is not hold:
                continue
            if session.client_is_gone():
                self._end(hold, now)
                self.dropped += 1
                session.drop(_GONE)
                continue
            if not self._still_closed(hold.gate, now):
                other = session.gate_in_the_way()
                if other is None:
                    self._end(hold, now)
                    session.go_on()
                    continue
                hold.gate = other
            if now - hold.since >= self._hold_seconds:
                self._end(hold, now)
                self.refused += 1
                session.turn_away(_refusal(self._known[_key(hold.gate)]))

    def turn_all_away(self) -> None:
        """Let held writes go on whose gates are open by now; refuse all others."""
        self.tend()
        now = self._clock()
        for hold in tuple(self._holds.values()):
            self._end(hold, now)
            self.refused += 1
            hold.session.turn_away(_refusal(self._known[_key(hold.gate)]))

    def _still_closed(self, gate: Gate, now: float) -> bool:
        """Return whether a gate, as it was last heard of, holds what it held."""
        known = self._known[_key(gate)]
        return self._is_closed(known, now) and known.containers == gate.containers

    def _end(self, hold: _Hold, now: float) -> None:
        del self._holds[hold.session]
        self.held_seconds.new.append(max(0.0, now - hold.since))


_GONE: Final = (
    "headgate: the client's side of the connection ended while a gate held its write; nothing was "
    "written"
)


def _key(gate: Gate) -> _Key:
    return gate.dataflow, gate.action, gate.bound


def _keys(closed: Mapping[str, tuple[Gate, ...]]) -> dict[str, list[_Key]]:
    return {table: [_key(gate) for gate in gates] for table, gates in closed.items()}


def _items(gate: Gate, table: str) -> list[Item]:
    return [item for each in gate.containers for item in each.items if item.table == table]


def _name(gate: Gate) -> str:
    return f"bound {gate.bound} of {gate.dataflow}/{gate.action}"


def _moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError):
        return f"Unix time {seconds:g}, which no calendar has"


def _refusal(gate: Gate) -> str:
    return (
        f"headgate: {_name(gate)} was reached and blocks writes here until {gate.action} has run, "
        f"at the latest until {_moment(gate.until)}; nothing was written, try again"
    )
