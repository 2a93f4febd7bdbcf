"""The state table and the ledger's rows, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from headgate.agent.state.sealed import Seals
from headgate.events import Origin
from headgate.settings import KeyRing

SEALS = Seals(KeyRing([b"the key of all scripted agents"]), "headgate")
"""What agents of a script sign the state table with."""


class MemoryRows:
    """The state table, in memory."""

    def __init__(self, point: Callable[[], None] = lambda: None) -> None:
        """Call ``point`` before every change."""
        self.rows: dict[bytes, dict[bytes, bytes]] = {}
        self._point = point

    def get(self, row: bytes, families: Iterable[bytes] = ()) -> dict[bytes, bytes]:
        """See ``Rows``."""
        return _of(self.rows.get(row, {}), tuple(families))

    def put(self, row: bytes, columns: Mapping[bytes, bytes]) -> None:
        """See ``Rows``."""
        self._point()
        self.rows.setdefault(row, {}).update(columns)

    def check_and_put(
        self, row: bytes, column: bytes, expected: bytes | None, columns: Mapping[bytes, bytes]
    ) -> bool:
        """See ``Rows``."""
        self._point()
        if self.rows.get(row, {}).get(column) != expected:
            return False
        self.rows.setdefault(row, {}).update(columns)
        return True

    def delete(self, row: bytes, columns: Iterable[bytes] = ()) -> None:
        """See ``Rows``."""
        self._point()
        named = tuple(columns)
        if not named:
            self.rows.pop(row, None)
        for column in named:
            self.rows.get(row, {}).pop(column, None)

    def scan(
        self, start: bytes, stop: bytes, families: Iterable[bytes] = ()
    ) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """See ``Rows``."""
        named = tuple(families)
        return [
            (row, _of(columns, named))
            for row, columns in sorted(self.rows.items())
            if start <= row < stop
        ]

    def names(self, start: bytes, stop: bytes) -> list[bytes]:
        """See ``Rows``."""
        return sorted(row for row in self.rows if start <= row < stop)

    def drop(self, rows: Sequence[bytes]) -> None:
        """See ``Rows``."""
        for row in rows:
            self._point()
            self.rows.pop(row, None)


def _of(columns: Mapping[bytes, bytes], named: tuple[bytes, ...]) -> dict[bytes, bytes]:
    return {
        column: value
        for column, value in columns.items()
        if not named or any(column == n or column.startswith(n + b":") for n in named)
    }


class LedgerRows:
    """The ledger's rows, as its connection would show them."""

    def __init__(self) -> None:
        self._rows = MemoryRows()

    def damage(self, row: bytes) -> None:
        """Put into a row what no ledger writes."""
        self._rows.put(row, dict.fromkeys(self._rows.get(row), b"?"))

    def delete(self, row: bytes) -> None:
        """Delete a row."""
        self._rows.delete(row)

    def get(self, table: str, row: bytes, columns: Iterable[bytes] = ()) -> dict[bytes, bytes]:
        """Return the cells of a row, all where none are named."""
        del table
        return self._rows.get(row, columns)

    def check_and_put(
        self,
        table: str,
        row: bytes,
        column: bytes,
        expected: bytes | None,
        put: Mapping[bytes, bytes],
        *,
        origin: Origin | None = None,
    ) -> bool:
        """Put cells if one has the expected value; tell whether it had."""
        del table, origin
        return self._rows.check_and_put(row, column, expected, put)
