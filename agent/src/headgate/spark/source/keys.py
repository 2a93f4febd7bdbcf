"""Rows and names of columns as Arrow arrays and back: text without loss, or the bytes."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headgate.engine import Codec
from headgate.events import KeyForm, UnreadableKey, key_bytes, key_text
from headgate.spark.source.values import UnwritableValue, ValueType, to_arrow, to_bytes

_BACKSLASH = b"\\"


def key_array(keys: Sequence[bytes], kind: ValueType = ValueType.STRING) -> pa.Array:
    """Return keys as an Arrow array: their text, their bytes, or the numbers that they spell."""
    if kind is not ValueType.STRING:
        return to_arrow(keys, Codec(), kind)
    if _BACKSLASH not in b"".join(keys):
        try:
            return pa.array(keys, pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            pass  # some are no UTF-8 text
    return pa.array([key_text(key) for key in keys], pa.string())


def name_array(names: Sequence[str], keys: KeyForm) -> pa.Array:
    """Return names of columns as an Arrow array, in a container's form of keys."""
    if keys is KeyForm.TEXT:
        return pa.array(names, pa.string())
    return pa.array([key_bytes(name) for name in names], pa.binary())


def keys_of(column: pa.Array | pa.ChunkedArray) -> list[bytes | None]:
    """Return the keys that a column holds: text of keys, bytes, or integers in decimal digits.

    Raises:
        UnwritableValue: a text is no text of a key, or the column is of another type.
    """
    if pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if is_text and pc.any(pc.match_substring(column, _BACKSLASH.decode())).as_py():
        try:
            return [None if key is None else key_bytes(key) for key in column.to_pylist()]
        except UnreadableKey as error:
            raise UnwritableValue(str(error)) from error
    return to_bytes(column, Codec())


def row_keys(column: pa.Array | pa.ChunkedArray) -> list[bytes]:
    """Return row keys as bytes.

    Raises:
        UnwritableValue: a key is null or empty, which HBase has no row for.
    """
    keys = keys_of(column)
    if not all(keys):
        at = next(at for at, key in enumerate(keys) if not key)
        kind = "null" if keys[at] is None else "empty"
        message = (
            f"column 'row' has a null or an empty key; every row to write needs one: that of row "
            f"{at + 1} of {len(keys)} is {kind}"
        )
        raise UnwritableValue(message, at)
    return [key for key in keys if key]
