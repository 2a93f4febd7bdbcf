"""Values of cells as Arrow arrays and back, whole columns at a time."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from headgate.engine import Codec, CodecName


class ValueType(StrEnum):
    """The type of a frame's column."""

    STRING = "string"
    BINARY = "binary"
    DOUBLE = "double"
    LONG = "long"

    @property
    def arrow(self) -> pa.DataType:
        """The same as an Arrow type."""
        return _ARROW[self]


_ARROW: Final = {
    ValueType.STRING: pa.string(),
    ValueType.BINARY: pa.binary(),
    ValueType.DOUBLE: pa.float64(),
    ValueType.LONG: pa.int64(),
}

_FIXED: Final = {CodecName.FLOAT64: ">f8", CodecName.INT64: ">i8"}
"""NumPy's names of the codecs whose values are 8 bytes each."""

_WIDTH: Final = 8
_DOUBLE: Final = struct.Struct(">d")
_LONG: Final = struct.Struct(">q")
_UNREADABLE: Final = (ValueError, TypeError, KeyError, IndexError, OverflowError, struct.error)


class UnwritableValue(ValueError):
    """A value that a codec has no bytes for."""


def natural_type(codec: Codec) -> ValueType:
    """Return the type of a container's values where nobody asks for another."""
    match codec.name:
        case CodecName.OPAQUE:
            return ValueType.BINARY
        case CodecName.INT64:
            return ValueType.LONG
        case _:
            return ValueType.DOUBLE


def to_arrow(values: Sequence[bytes | None], codec: Codec, kind: ValueType) -> pa.Array:
    """Return the values as an Arrow array of the type; null where absent or not decodable."""
    raw = pa.array(values, pa.binary())
    match kind:
        case ValueType.BINARY:
            return raw
        case ValueType.STRING:
            return _text(raw, values)
        case ValueType.DOUBLE | ValueType.LONG:
            return _numbers(raw, values, codec, kind)


def _text(raw: pa.Array, values: Sequence[bytes | None]) -> pa.Array:
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        replaced = [None if value is None else value.decode(errors="replace") for value in values]
        return pa.array(replaced, pa.string())


def _numbers(
    raw: pa.Array, values: Sequence[bytes | None], codec: Codec, kind: ValueType
) -> pa.Array:
    if codec.name in _FIXED:
        if raw.null_count == 0 and all(len(value or b"") == _WIDTH for value in values):
            native = np.frombuffer(b"".join(values), _FIXED[codec.name])  # type: ignore[arg-type]
            numbers = pa.array(native.astype(native.dtype.newbyteorder("=")))
            if numbers.type == kind.arrow:
                return numbers
    elif codec.name is CodecName.UTF8:
        try:
            return raw.cast(pa.string()).cast(kind.arrow)
        except pa.ArrowInvalid:
            pass  # at least one value is no number: below they are taken one by one
    return _one_by_one(values, codec, kind)


def _one_by_one(values: Sequence[bytes | None], codec: Codec, kind: ValueType) -> pa.Array:
    read = _reader(codec)
    number = float if kind is ValueType.DOUBLE else int
    numbers: list[float | int | None] = []
    for value in values:
        try:
            numbers.append(None if value is None else number(read(value)))
        except _UNREADABLE:
            numbers.append(None)
    return pa.array(numbers, kind.arrow)


def _reader(codec: Codec) -> Callable[[bytes], float | int]:
    match codec.name:
        case CodecName.FLOAT64:
            return lambda value: float(_DOUBLE.unpack(value)[0])
        case CodecName.INT64:
            return lambda value: int(_LONG.unpack(value)[0])
        case CodecName.JSON:
            return _json_reader(codec.path)
        case _:
            return _decimal_reader


def _decimal_reader(value: bytes) -> float | int:
    try:
        return int(value)
    except ValueError:
        return float(value)


def _json_reader(path: str) -> Callable[[bytes], float | int]:
    steps = [step for step in path.removeprefix("$").split(".") if step]

    def read(value: bytes) -> float | int:
        found = msgspec.json.decode(value)
        for step in steps:
            found = found[int(step)] if isinstance(found, list) else found[step]
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise TypeError(found)
        return found

    return read


def to_bytes(column: pa.Array | pa.ChunkedArray, codec: Codec) -> list[bytes | None]:
    """Return the bytes of each value under the codec; None for null.

    Text and binary are written as they are, whatever the codec.

    Raises:
        UnwritableValue: the codec is for numbers and the column holds something else.
    """
    kind = column.type
    if pa.types.is_null(kind):
        return [None] * len(column)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return list(column.to_pylist())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return list(column.cast(pa.large_string()).cast(pa.large_binary()).to_pylist())
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        message = f"a column of type {kind} has no bytes; cast it to a number, text or binary first"
        raise UnwritableValue(message)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    match codec.name:
        case CodecName.FLOAT64:
            return _packed(column.cast(pa.float64()), _DOUBLE)
        case CodecName.INT64:
            return _packed(_whole(column), _LONG)
        case _:
            return [None if v is None else _decimal(v) for v in column.to_pylist()]


def _whole(column: Any) -> Any:
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid as error:
        message = f"codec int64 cannot hold these values; round them, or use float64: {error}"
        raise UnwritableValue(message) from error


def _packed(column: Any, layout: struct.Struct) -> list[bytes | None]:
    pack = layout.pack
    return [None if value is None else pack(value) for value in column.to_pylist()]


def _decimal(value: Any) -> bytes:
    # repr is the shortest text that reads back as the same double.
    return (repr(value) if isinstance(value, float) else str(value)).encode()
