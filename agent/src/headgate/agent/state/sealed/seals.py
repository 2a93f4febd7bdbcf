"""Signatures of cells of the state table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headgate.events import DEFAULT_NAMESPACE, canonical_table
from headgate.settings import KeyRing, agent_write

_PURPOSE: Final = b"headgate state table"
"""Domain of these signatures: whatever else is signed with the same key has another."""


class Seals:
    """Signs cells of one table, and knows again what was signed.

    Args:
        ring: the keys.
        table: the state table's name: a row copied from another table is none of this one.
    """

    def __init__(self, ring: KeyRing, table: str) -> None:
        self.table = canonical_table(table)
        self._ring = ring
        # An earlier version signed with the name as it was configured.
        self._spellings = (self.table.encode(), f"{DEFAULT_NAMESPACE}{self.table}".encode())

    def of(self, table: str) -> Seals:
        """Return what signs cells of another table with the same keys."""
        return Seals(self._ring, table)

    def seal(self, row: bytes, column: bytes, value: bytes) -> bytes:
        """Return the signature of a cell."""
        return self._ring.sign(_PURPOSE, self.table.encode(), row, column, value)

    def holds(self, row: bytes, column: bytes, value: bytes, seal: bytes) -> bool:
        """Return whether an agent has signed the cell."""
        return any(
            self._ring.believes(seal, _PURPOSE, table, row, column, value)
            for table in self._spellings
        )

    def proof(self, rows: Sequence[bytes]) -> bytes:
        """Return the signature by which an observer knows an agent that writes to these rows."""
        return self._ring.sign(*agent_write(self.table, rows))

    def is_current(self, seal: bytes) -> bool:
        """Return whether a signature is of the key that signs now, not of one before it."""
        return self._ring.is_first(seal)
