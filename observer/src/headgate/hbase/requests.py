"""What a request that changes something says, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Final

from msgspec import Struct

from headgate.events import NO_TTL, Origin, TableChangeKind, UpdateKind

COLON: Final = 0x3A
"""Between family and qualifier. ``bytes`` finds a number ten times as fast as ``b":"``."""

LATEST: Final = 2**63 - 1
"""HBase's timestamp for "now", chosen by the region server."""

_IS_PUT: Final = bytes([kind == UpdateKind.PUT for kind in range(256)])
_IS_DELETE_ROW: Final = bytes([kind == UpdateKind.DELETE_ROW for kind in range(256)])


class Cells(Struct):
    """Cells in columns of equal length, in the order in which the server applies them.

    ``kinds`` holds ``UpdateKind``; ``columns`` is ``family:qualifier``, ``family:`` for a family,
    empty for a row; ``timestamps`` are milliseconds, -1 where the server chooses; ``values`` is
    None where the kind has none. ``ttls`` are times to live in ms, ``NO_TTL`` where the request
    gave none; it ends behind the last cell that has one, so it is nearly always empty.
    """

    kinds: bytearray
    rows: list[bytes]
    columns: list[bytes]
    timestamps: list[int]
    values: list[bytes | None]
    ttls: list[int] = []

    @staticmethod
    def empty() -> Cells:
        """Return columns of length 0."""
        return Cells(bytearray(), [], [], [], [])

    def __len__(self) -> int:
        return len(self.kinds)

    def add(
        self, kind: int, row: bytes, column: bytes, timestamp: int, value: bytes | None
    ) -> None:
        """Append one cell."""
        self.kinds.append(kind)
        self.rows.append(row)
        self.columns.append(column)
        self.timestamps.append(timestamp)
        self.values.append(value)

    def give_ttls(self, first: int, ttls: Sequence[int]) -> None:
        """Give the cells from ``first`` on, which are the last ones, times to live."""
        if not ttls:
            return  # as of a row without cells
        known = self.ttls
        known.extend([NO_TTL] * (first - len(known)))
        known.extend(ttls)

    def every_ttl(self) -> tuple[int, ...]:
        """Return the time to live of each cell; empty where no cell has one."""
        ttls = self.ttls
        return (*ttls, *[NO_TTL] * (len(self.kinds) - len(ttls))) if ttls else ()

    def taken(self, order: list[int]) -> Cells:
        """Return the cells at these positions, in this order."""
        ttls = self.every_ttl()
        return Cells(
            bytearray(map(self.kinds.__getitem__, order)),
            list(map(self.rows.__getitem__, order)),
            list(map(self.columns.__getitem__, order)),
            list(map(self.timestamps.__getitem__, order)),
            list(map(self.values.__getitem__, order)),
            list(map(ttls.__getitem__, order)) if ttls else [],
        )

    def put_and_deleted(self) -> tuple[int, ...]:
        """Return the positions of puts that a delete among these same cells may hide."""
        kinds, rows, columns = bytes(self.kinds), self.rows, self.columns
        # What goes by every cell is left to the interpreter's own loops: batches are long.
        deleted = set(compress(rows, kinds))
        whole_rows = set(compress(rows, kinds.translate(_IS_DELETE_ROW)))
        hidden = set(compress(zip(rows, columns, strict=True), kinds))
        families = {(row, column) for row, column in hidden if column.endswith(b":")}
        puts = kinds.translate(_IS_PUT)
        found = [i for i in compress(range(len(puts)), puts) if rows[i] in deleted]
        return tuple(
            [
                i
                for i in found
                if (rows[i], columns[i]) in hidden
                or rows[i] in whole_rows
                or (families and (rows[i], columns[i].partition(b":")[0] + b":") in families)
            ]
        )


class Write(Struct, frozen=True):
    """A request that changes the cells it names.

    Attributes:
        ambiguous: positions of cells that are put and deleted by this one request: which of the two
            shows then depends on timestamps that the server chooses, so they must be read.
        origins: who wrote its parts, each once; None is among them where some part names nobody.
            Empty where none does.
        others: the parts for further tables (only Thrift1's incrementRows can have them).
        origin_error: why an origin that the request carries cannot be read; empty otherwise.
    """

    method: str
    table: str
    cells: Cells
    origins: tuple[Origin | None, ...] = ()
    conditional: bool = False
    ambiguous: tuple[int, ...] = ()
    others: tuple[Write, ...] = ()
    origin_error: str = ""

    def writers(self, otherwise: Origin | None) -> tuple[Origin | None, ...]:
        """Return who wrote its parts; ``otherwise`` wrote those that name nobody."""
        origins = self.origins
        if not origins:
            return (otherwise,)
        if otherwise is None or None not in origins:
            return origins
        return tuple(dict.fromkeys(otherwise if each is None else each for each in origins))

    def writer(self, otherwise: Origin | None) -> Origin | None:
        """Return who wrote all of it; None where that is not known, or is not one."""
        writers = self.writers(otherwise)
        return writers[0] if len(writers) == 1 else None


class SchemaChange(Struct, frozen=True):
    """A request that changes a table's schema; ``family`` is empty where it is about all."""

    method: str
    table: str
    kind: TableChangeKind
    family: str = ""
