"""What tables held at a moment of the past, by their events."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.engine import Codec, CodecName, WatchedContainer, decode_one, decoder_of
from headgate.events import Container, Item, TableChange, UpdateBatch, UpdateKind, partition_of
from headgate.replay.recording import NotRecorded

Cell = tuple[str, bytes, bytes]
"""Table, row and ``family:qualifier``."""

UNKNOWN = bytes(bytearray(b"unknown"))
"""Stands, by identity, for the value of a cell that exists and whose value no event has."""

Value = bytes | None
"""None where there is no cell."""

Write = tuple[int, Cell, Value, Value]
"""Position of the request, the cell, its value before and after."""


class RecordedTables:
    """The cells of tables, kept by every update."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[Cell, bytes]] = {}
        self._columns: dict[str, dict[bytes, None]] = {}

    def value(self, cell: Cell) -> Value:
        """Return what a cell holds now."""
        return self._tables.get(cell[0], {}).get(cell)

    def cells(self, container: Container, table: str) -> Iterator[tuple[Cell, bytes]]:
        """Yield the cells of a container's part in one table."""
        items = [item for item in container.items if item.table == table]
        for cell, value in self._tables.get(table, {}).items():
            if any(item.has_row(cell[1]) and item.has_column(cell[2]) for item in items):
                yield cell, value

    def apply(self, batch: UpdateBatch) -> list[Write]:
        """Take a batch; return what each of its updates did."""
        table = self._tables.setdefault(batch.table, {})
        columns = self._columns.setdefault(batch.table, {})
        writes: list[Write] = []
        position = 0
        for number, request in enumerate(batch.requests):
            for i in range(position, position + request.cells):
                kind, row, column = batch.kinds[i], batch.rows[i], batch.columns[i]
                if kind in _VALUES:
                    cell = (batch.table, row, column)
                    found = batch.values[i] if kind in _KNOWN else None
                    value = UNKNOWN if found is None else found
                    writes.append((number, cell, table.get(cell), value))
                    table[cell] = value
                    columns[column] = None
                else:
                    gone = self._deleted(kind, batch.table, row, column)
                    writes.extend((number, cell, table.pop(cell, None), None) for cell in gone)
            position += request.cells
        return writes

    def _deleted(self, kind: int, table: str, row: bytes, column: bytes) -> list[Cell]:
        if kind == UpdateKind.DELETE_ROW:
            named = list(self._columns[table])
        elif kind in (UpdateKind.DELETE_FAMILY, UpdateKind.DELETE_FAMILY_VERSION):
            family = column.partition(b":")[0] + b":"
            named = [c for c in self._columns[table] if c.startswith(family)]
        else:
            return [(table, row, column)]
        held = self._tables[table]
        return [cell for c in named if (cell := (table, row, c)) in held]

    def change(self, change: TableChange, partition: int, partitions: int) -> list[Write]:
        """Take a change of a table that destroys cells; return what became of each."""
        table = self._tables.get(change.table, {})
        family = change.family.encode() + b":" if change.family else b""
        gone = [
            cell
            for cell in table
            if cell[2].startswith(family) and partition_of(cell[1], partitions) == partition
        ]
        return [(0, cell, table.pop(cell), None) for cell in gone]


_VALUES = frozenset(
    {
        UpdateKind.PUT,
        UpdateKind.INCREMENT,
        UpdateKind.APPEND,
        UpdateKind.INCREMENT_DELTA,
        UpdateKind.APPEND_DELTA,
    }
)
_KNOWN = frozenset({UpdateKind.PUT, UpdateKind.INCREMENT, UpdateKind.APPEND})


class ContainerExtent:
    """Which cells lie in a container, and the numbers in them."""

    def __init__(self, watched: WatchedContainer) -> None:
        self.id = watched.id
        self.numeric = watched.codec.name is not CodecName.OPAQUE
        self._codec: Codec = watched.codec
        self._decode = decoder_of(watched.codec) if self.numeric else None
        self._items: tuple[Item, ...] = watched.container.items
        self._known: dict[tuple[str, bytes], tuple[Item, ...]] = {}

    def has(self, cell: Cell) -> bool:
        """Return whether a cell lies in the container."""
        table, row, column = cell
        items = self._known.get((table, column))
        if items is None:
            items = tuple(i for i in self._items if i.table == table and i.has_column(column))
            if len(self._known) < _MAX_COLUMNS:
                self._known[table, column] = items
        return any(item.has_row(row) for item in items)

    def number(self, cell: Cell, value: Value) -> float:
        """Return the number in a value; 0 for no cell and for what has no number.

        Raises:
            NotRecorded: events leave out the value.
        """
        if value is None or self._decode is None:
            return 0.0
        if value is UNKNOWN:
            table, _, column = cell
            raise NotRecorded(
                f"events of table {table!r} leave out values of column {column.decode()!r}, so the "
                f"error of container {self.id!r} cannot be computed; write it with puts through "
                "an observer that publishes values, or give the container codec: opaque"
            )
        found = decode_one(self._decode, value)
        return found if found == found else 0.0


_MAX_COLUMNS = 65_536  # qualifiers may be data: without a limit the cache would hold them all
