"""A request of the table, and the origin that some of them have."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from headgate.events import ORIGIN_ATTRIBUTE, Origin, UpdateKind, encode_origin
from headgate.hbase import Dialect
from request_table.encoder import encode

ORIGIN = Origin("aqhi", "zones", "zones-17", 3)
ATTRIBUTES = {b"other": b"x", ORIGIN_ATTRIBUTE: encode_origin(ORIGIN)}
LATEST = 2**63 - 1
"""The timestamp that means now."""
FIVE = (5).to_bytes(8, "big")
"""As counters have it."""

Cell = tuple[UpdateKind, bytes, bytes, int, bytes | None]


class Case(Struct, frozen=True):
    """A request and what decoding it must give."""

    name: str
    dialect: Dialect
    method: str
    arguments: dict[str, Any]
    cells: list[Cell]
    origins: tuple[Origin | None, ...] = ()
    conditional: bool = False
    ambiguous: tuple[int, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def encoded(self) -> bytes:
        """The request on a buffered transport."""
        return encode(self.dialect, self.method, self.arguments)
