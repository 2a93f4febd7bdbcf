"""What has ended and is to be published: writes and table definitions."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from headgate.events import Origin, Outcome, TableChangeKind


class EndedWrite(Struct):
    """A write whose end was seen, as it is to be published. The columns have equal lengths."""

    intent: int
    method: str
    outcome: Outcome
    received: float
    origin: Origin | None
    kinds: bytes | bytearray
    rows: Sequence[bytes]
    columns: Sequence[bytes]
    timestamps: Sequence[int]
    values: Sequence[bytes | None]
    ambiguous: frozenset[bytes] | set[bytes] = frozenset()
    ttls: Sequence[int] = ()
    """Times to live in ms, one for each cell; empty where no cell has one."""
    zero_increments: bytes | bytearray = b""
    """1 for each cell that is an increment by 0, else 0; empty where none is."""


class EndedSchemaChange(Struct):
    """A schema change whose end was seen."""

    intent: int
    kind: TableChangeKind
    outcome: Outcome
    received: float
    family: str


Ended = EndedWrite | EndedSchemaChange
