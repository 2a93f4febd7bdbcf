"""Puts of whole columns, encoded straight to Thrift's strict binary protocol.

Nearly all bytes of such a request repeat from row to row; building objects for each cell only to
encode them again takes several times as long.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

_LENGTH: Final = struct.Struct(">i").pack
_STRING: Final = b"\x0b"
_STRUCT: Final = b"\x0c"
_MAP: Final = b"\x0d"
_LIST: Final = b"\x0f"
_I64: Final = b"\x0a"
_STOP: Final = b"\x00"
_CALL: Final = b"\x80\x01\x00\x01"


def _field(kind: bytes, number: int) -> bytes:
    return kind + struct.pack(">h", number)


def _string(value: bytes) -> bytes:
    return _LENGTH(len(value)) + value


_ROW: Final = _field(_STRING, 1)
_CELLS: Final = _field(_LIST, 2) + _STRUCT
_VALUE: Final = _field(_STRING, 3)


def _cell_start(family: bytes, qualifier: bytes) -> bytes:
    named = _field(_STRING, 1) + _string(family) + _field(_STRING, 2) + _string(qualifier)
    return named + _VALUE


def _put_end(timestamp: int | None, attributes: Mapping[bytes, bytes] | None) -> bytes:
    end = b"" if timestamp is None else _field(_I64, 3) + struct.pack(">q", timestamp)
    if attributes:
        pairs = b"".join(_string(name) + _string(value) for name, value in attributes.items())
        end += _field(_MAP, 5) + _STRING + _STRING + _LENGTH(len(attributes)) + pairs
    return end + _STOP


def encode_puts(
    table: bytes,
    rows: Sequence[bytes],
    columns: Mapping[tuple[bytes, bytes], Sequence[bytes | None]],
    timestamp: int | None,
    attributes: Mapping[bytes, bytes] | None,
) -> tuple[bytes, int]:
    """Return a ``putMultiple`` call and how many rows it writes: those with a value at all.

    Args:
        table: name of the table.
        rows: keys.
        columns: by family and qualifier, one value for each key; None writes no cell.
        timestamp: of all cells in milliseconds; None lets the server choose.
        attributes: of each put.
    """
    starts = [_cell_start(family, qualifier) for family, qualifier in columns]
    end = _put_end(timestamp, attributes)
    pieces: list[bytes] = []
    written = 0
    for row, values in zip(rows, zip(*columns.values(), strict=True), strict=True):
        cells = [
            start + _LENGTH(len(value)) + value + _STOP
            for start, value in zip(starts, values, strict=True)
            if value is not None
        ]
        if cells:
            written += 1
            pieces += (_ROW, _string(row), _CELLS, _LENGTH(len(cells)), *cells, end)
    head = (
        _CALL + _string(b"putMultiple") + _LENGTH(0)
        + _field(_STRING, 1) + _string(table)
        + _field(_LIST, 2) + _STRUCT + _LENGTH(written)
    )  # fmt: skip
    return head + b"".join(pieces) + _STOP, written
