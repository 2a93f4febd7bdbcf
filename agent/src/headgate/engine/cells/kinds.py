"""Kinds of updates, and what a delete of each covers."""

from __future__ import annotations

from headgate.events import UpdateKind

DELETES_ONE_VERSION = frozenset({UpdateKind.DELETE_CELL, UpdateKind.DELETE_FAMILY_VERSION})
WIDE = frozenset(
    {UpdateKind.DELETE_FAMILY, UpdateKind.DELETE_FAMILY_VERSION, UpdateKind.DELETE_ROW}
)
"""Deletes of more than one column."""
DELETES = WIDE | {UpdateKind.DELETE_CELL, UpdateKind.DELETE_COLUMN}


def family_deleted(kind: int, column: bytes) -> bytes:
    """Return ``family:`` of a wide delete; empty for a whole row."""
    return b"" if kind == UpdateKind.DELETE_ROW else family_of(column)


def family_of(column: bytes) -> bytes:
    """Return ``family:`` of a column."""
    return column.partition(b":")[0] + b":"
