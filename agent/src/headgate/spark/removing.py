"""Cells that a step has written before and does not write any more: removed, unless they changed.

Whoever asks for it keeps account of what was written where. A cell with another value was written
by somebody else since, so it stays. Check and delete are one atomic step of HBase.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import groupby
from typing import Final

from msgspec import Struct
from xxhash import xxh64_intdigest

from headgate.client import Thrift2Connection
from headgate.events import Origin, key_text, printable_key
from headgate.spark.views import ContainerView

_SHOWN: Final = 5
"""Cells with another value that are named; there may be many."""


class WrittenCell(Struct, frozen=True):
    """A cell that was written before."""

    row: bytes
    column: bytes
    """``family:qualifier``."""
    digest: int
    """``value_digest`` of the value that was written last."""


class Removal(Struct, frozen=True):
    """Counts of what became of cells that were to be removed."""

    removed: int = 0
    """Cells that were removed."""
    changed: int = 0
    """Cells that stay, as they have another value than the one that was written."""
    outside: int = 0
    """Cells that stay, as they are not in the container any more."""
    examples: tuple[str, ...] = ()
    """Some of those that stay, as people write them."""

    def __add__(self, other: Removal) -> Removal:
        return Removal(
            self.removed + other.removed,
            self.changed + other.changed,
            self.outside + other.outside,
            (*self.examples, *other.examples)[:_SHOWN],
        )


def value_digest(value: bytes) -> int:
    """Return a number that stands for a value: 64 bits, from 0."""
    return xxh64_intdigest(value)


def remove_cells(
    connection: Thrift2Connection,
    view: ContainerView,
    cells: Iterable[WrittenCell],
    origin: Origin | None,
    check: Callable[[], object],
) -> Removal:
    """Delete the cells that still have the value that was written, and return what was done.

    Args:
        connection: where the table is.
        view: the container; cells outside of it stay.
        cells: those of a row together.
        origin: what the deletes name as theirs.
        check: called before each row; raises if nothing is to be deleted any more.

    Raises:
        RequestRefused: the observer or the server refused.
        ConnectionFailed: whether the last cell was deleted is not known.
    """
    done = Removal()
    for row, group in groupby(cells, key=lambda cell: cell.row):
        check()
        inside: list[WrittenCell] = []
        outside: list[WrittenCell] = []
        for cell in group:
            (inside if view.has(row, cell.column) else outside).append(cell)
        done += Removal(outside=len(outside), examples=_named(outside))
        if inside:
            done += _of_row(connection, view.table, row, inside, origin)
    return done


def _of_row(
    connection: Thrift2Connection,
    table: str,
    row: bytes,
    cells: Collection[WrittenCell],
    origin: Origin | None,
) -> Removal:
    there = connection.get(table, row, [cell.column for cell in cells])
    removed, changed = 0, []
    for cell in cells:
        value = there.get(cell.column)
        if value is None:
            continue
        same = value_digest(value) == cell.digest
        # Between reading and deleting somebody may write: HBase looks once more.
        if same and connection.check_and_delete(
            table, row, cell.column, value, [cell.column], origin=origin
        ):
            removed += 1
        else:
            changed.append(cell)
    return Removal(removed, len(changed), examples=_named(changed))


def _named(cells: Iterable[WrittenCell]) -> tuple[str, ...]:
    return tuple(f"{printable_key(cell.row)} {key_text(cell.column)}" for cell in cells)[:_SHOWN]
