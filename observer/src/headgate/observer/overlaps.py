"""Writes under way, by table: which of them the server may have done in another order than seen."""

from __future__ import annotations

from collections.abc import Collection


class Flight:
    """A journalled write between forwarding and its end."""

    __slots__ = ("_rows", "_set", "ambiguous", "intent")

    def __init__(self, intent: int) -> None:
        self.intent = intent
        self._rows: Collection[bytes] | None = None
        self._set: frozenset[bytes] | None = None
        self.ambiguous: set[bytes] = set()
        """Rows that another write wrote at the same time."""

    def identify(self, rows: Collection[bytes]) -> None:
        """Say which rows the write has."""
        self._rows = rows

    def rows(self) -> frozenset[bytes]:
        """Return the rows, none while they are not known; most writes are never asked."""
        if self._set is None:
            if self._rows is None:
                return frozenset()
            self._set = frozenset(self._rows)
        return self._set


class TableFlights:
    """The writes of one table that are under way."""

    __slots__ = ("_flights",)

    def __init__(self) -> None:
        self._flights: dict[int, Flight] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def depart(self, flight: Flight) -> None:
        """Note that a write is being forwarded. Intents depart in ascending order."""
        self._flights[flight.intent] = flight

    def identify(self, flight: Flight, rows: Collection[bytes]) -> None:
        """Say which rows a write has; must come before any flight that it overlaps lands."""
        flight.identify(rows)
        if len(self._flights) == 1:
            return
        mine = flight.rows()
        for other in self._flights.values():
            if other is not flight and not mine.isdisjoint(other.rows()):
                common = mine & other.rows()
                flight.ambiguous |= common
                other.ambiguous |= common

    def land(self, flight: Flight) -> None:
        """Note that a write has ended."""
        del self._flights[flight.intent]

    def lowest(self) -> int | None:
        """Return the lowest intent under way; None if there is none."""
        return next(iter(self._flights), None)
