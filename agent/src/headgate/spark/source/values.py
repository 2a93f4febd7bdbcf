"""Values of cells as Arrow arrays and back, whole columns at a time.

The verdict on a value is that of ``headgate.engine``; Arrow's own casts are used where they are
faster and cannot differ from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headgate.engine import (
    Codec,
    CodecName,
    Layout,
    decode_column,
    decode_wholes,
    decoder_of,
)


class ValueType(StrEnum):
    """The type of a frame's column."""

    STRING = "string"
    BINARY = "binary"
    DOUBLE = "double"
    LONG = "long"
    BOOLEAN = "boolean"

    @property
    def arrow(self) -> pa.DataType:
        """The same as an Arrow type."""
        return _ARROW[self]


_ARROW: Final = {
    ValueType.STRING: pa.string(),
    ValueType.BINARY: pa.binary(),
    ValueType.DOUBLE: pa.float64(),
    ValueType.LONG: pa.int64(),
    ValueType.BOOLEAN: pa.bool_(),
}


class UnwritableValue(ValueError):
    """A value that a codec has no bytes for.

    Args:
        reason: why, and what to do.
        at: the place of the first such value in its column; None where the whole column is at
            fault.
    """

    def __init__(self, reason: str, at: int | None = None) -> None:
        super().__init__(reason)
        self.at = at


def natural_type(codec: Codec) -> ValueType:
    """Return the type of a container's values where nobody asks for another."""
    layout = codec.layout
    if codec.name is CodecName.OPAQUE:
        return ValueType.BINARY
    if layout is None or not layout.whole:
        return ValueType.DOUBLE
    return ValueType.BOOLEAN if layout.boolean else ValueType.LONG


def to_arrow(values: Sequence[bytes | None], codec: Codec, kind: ValueType) -> pa.Array:
    """Return the values as an Arrow array of the type; null where absent or not decodable.

    Numbers of an opaque codec, which has none, are decimal text.
    """
    codec = Codec() if codec.name is CodecName.OPAQUE else codec
    raw = pa.array(values, pa.binary())
    match kind:
        case ValueType.BINARY:
            return raw
        case ValueType.STRING:
            return _text(raw, values)
        case ValueType.DOUBLE:
            return _doubles(raw, values, codec)
        case ValueType.LONG:
            return _longs(raw, values, codec)
        case ValueType.BOOLEAN:
            numbers = _doubles(raw, values, codec)
            known = pc.is_in(numbers, pa.array([0.0, 1.0]))
            return pc.if_else(known, pc.equal(numbers, 1.0), None)


def _text(raw: pa.Array, values: Sequence[bytes | None]) -> pa.Array:
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if v is None else _text_of(v) for v in values], pa.string())


def _text_of(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _doubles(raw: pa.Array, values: Sequence[bytes | None], codec: Codec) -> pa.Array:
    if codec.name is CodecName.UTF8:
        try:
            found = raw.cast(pa.string()).cast(pa.float64())
        except pa.ArrowInvalid:
            pass  # blanks, or no number: below they are taken one by one
        else:
            # Whatever Arrow reads and the codec does not is not finite.
            finite = np.isfinite(found.to_numpy(zero_copy_only=False))
            if np.count_nonzero(finite) + raw.null_count < len(found):
                found = pa.array(found.fill_null(0.0).to_numpy(), mask=~finite)
            return found
    present = _present(raw, values)
    numbers, unreadable = decode_column(codec, decoder_of(codec), present)
    return _spread(raw, numbers, np.isnan(numbers) if unreadable else None)


def _longs(raw: pa.Array, values: Sequence[bytes | None], codec: Codec) -> pa.Array:
    present = _present(raw, values)
    layout = codec.layout
    if layout is not None and layout.whole:
        numbers = layout.column(present)
        if numbers is not None:
            return _spread(raw, numbers.astype(np.int64), None)
    elif codec.name is CodecName.UTF8 and b"x" not in b"".join(present).lower():
        try:  # except for 0x10, Arrow reads no more than the codec does
            return raw.cast(pa.string()).cast(pa.int64())
        except pa.ArrowInvalid:
            pass  # a fraction, blanks, or no number: below they are taken one by one
    wholes = decode_wholes(codec, present)
    missing = np.fromiter((whole is None for whole in wholes), np.bool_, len(wholes))
    numbers = np.fromiter((whole or 0 for whole in wholes), np.int64, len(wholes))
    return _spread(raw, numbers, missing)


def _present(raw: pa.Array, values: Sequence[bytes | None]) -> Sequence[bytes]:
    if raw.null_count == 0:
        return values  # type: ignore[return-value]  # None is not in it
    return [value for value in values if value is not None]


def _spread(raw: pa.Array, numbers: NDArray[Any], missing: NDArray[np.bool_] | None) -> pa.Array:
    """Return numbers of what is there as an array of the length of ``raw``, with its nulls."""
    if raw.null_count == 0:
        return pa.array(numbers, mask=missing)
    places = np.flatnonzero(raw.is_valid().to_numpy(zero_copy_only=False))
    all_numbers = np.zeros(len(raw), numbers.dtype)
    all_numbers[places] = numbers
    all_missing = np.ones(len(raw), np.bool_)
    all_missing[places] = False if missing is None else missing
    return pa.array(all_numbers, mask=all_missing)


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
    if codec.name is CodecName.JSON and codec.path:
        message = (
            f"codec json reads a number at {codec.place} of a document and cannot write one; write "
            "the whole documents, as text"
        )
        raise UnwritableValue(message)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    if codec.layout is None:
        return [None if v is None else _decimal(v) for v in column.to_pylist()]
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    numbers = _within(column, codec, codec.layout)
    packed: list[bytes | None] = list(codec.layout.pack(numbers))
    if column.null_count:
        for at in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)):
            packed[at] = None
    return packed


def _within(column: pa.Array, codec: Codec, layout: Layout) -> NDArray[Any]:
    """Return the numbers in a type from which they can be packed; 0 where there is null."""
    target = pa.int64() if layout.whole else pa.float64()
    try:
        cast = column.cast(target)
    except pa.ArrowInvalid as error:
        raise _unwritable(column, codec, _first_that_fails(column, target)) from error
    numbers: NDArray[Any] = cast.fill_null(0).to_numpy(zero_copy_only=False)
    if layout.whole:
        least, most = layout.limits()
        outside = (numbers < least) | (numbers > most)
    else:
        outside = np.isfinite(numbers) & (np.abs(numbers) >= layout.overflow)
    if outside.any():
        raise _unwritable(column, codec, int(np.flatnonzero(outside)[0]))
    return numbers


def _first_that_fails(column: pa.Array, target: pa.DataType) -> int:
    for at in range(len(column)):
        try:
            column.slice(at, 1).cast(target)
        except pa.ArrowInvalid:
            return at
    return 0


def _unwritable(column: pa.Array, codec: Codec, at: int) -> UnwritableValue:
    cure = (
        "write 0, 1 or a boolean"
        if codec.layout and codec.layout.boolean
        else ("round it, or choose a codec that has it, such as float64 or number")
    )
    return UnwritableValue(f"codec {codec.word} cannot hold {column[at].as_py()!r}; {cure}", at)


def _decimal(value: Any) -> bytes:
    # repr is the shortest text that reads back as the same double.
    return (repr(value) if isinstance(value, float) else str(value)).encode()
