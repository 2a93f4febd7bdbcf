"""Canonical bytes of route and order keys: sorting the bytes sorts the values.

A tag for the type comes first, so that 1, 1.0 and "1" are three keys, and types sort as their tags
do. A tuple is the key of several columns. In a tuple text and bytes are escaped and ended by a zero
byte, so that ("a", "bc") is not ("ab", "c"); alone they are as they are.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.incremental.state.errors import UnusableKey

Key: TypeAlias = "bool | int | float | str | bytes | tuple[Key, ...] | None"

DEEPEST = 16
"""Tuples within tuples: far more than columns of columns, far less than Python's stack."""
_END = (
    b"\x00"  # of text, of bytes and of a tuple; lower than every tag, so that a prefix sorts first
)
_ESCAPED = b"\x00\xff"  # a zero byte within; higher than an end followed by any tag
_SIGN = 1 << 63
_EIGHT = struct.Struct(">Q")
_DOUBLE = struct.Struct(">d")
_OF_INT = {"min": 9, "max": 9}
"""Lengths of the keys of integers: a tag and 64 bits."""
_ADDRESSABLE = 2**31 - 1
"""Bytes that the offsets of an Arrow binary array can count."""


class _Tag(IntEnum):
    NULL = 1
    BOOL = 2
    INT = 3
    FLOAT = 4
    TEXT = 5
    BYTES = 6
    TUPLE = 7


_TAGS = {tag: bytes([tag]) for tag in _Tag}
_TYPES = {
    _TAGS[_Tag.BOOL]: pa.bool_(),
    _TAGS[_Tag.INT]: pa.int64(),
    _TAGS[_Tag.FLOAT]: pa.float64(),
    _TAGS[_Tag.TEXT]: pa.string(),
    _TAGS[_Tag.BYTES]: pa.binary(),
}
"""Of a column of such keys."""


def key_bytes(value: Key) -> bytes:
    """Return the canonical bytes of a key.

    Raises:
        UnusableKey: the value is of another type, is an integer beyond 64 bits or text that is no
            Unicode, or has tuples more than ``DEEPEST`` deep.
    """
    if isinstance(value, str):
        return _TAGS[_Tag.TEXT] + _text(value)
    if isinstance(value, bytes):
        return _TAGS[_Tag.BYTES] + value
    return _part(value, 0)


def _part(value: Key, depth: int) -> bytes:
    """Return bytes that say themselves where they end."""
    match value:
        case None:
            return _TAGS[_Tag.NULL]
        case bool():
            return _TAGS[_Tag.BOOL] + bytes([value])
        case int():
            if not -_SIGN <= value < _SIGN:
                message = (
                    f"{value} is beyond 64 bits and can be no key: give it as text or as bytes"
                )
                raise UnusableKey(message)
            return _TAGS[_Tag.INT] + _EIGHT.pack(value + _SIGN)
        case float():
            return _TAGS[_Tag.FLOAT] + _EIGHT.pack(_ordered_bits(value))
        case str():
            return _TAGS[_Tag.TEXT] + _text(value).replace(_END, _ESCAPED) + _END
        case bytes():
            return _TAGS[_Tag.BYTES] + value.replace(_END, _ESCAPED) + _END
        case tuple():
            if depth == DEEPEST:
                message = f"a key has tuples more than {DEEPEST} deep: give one tuple of all parts"
                raise UnusableKey(message)
            parts = b"".join(_part(one, depth + 1) for one in value)
            return _TAGS[_Tag.TUPLE] + parts + _END
        case _:
            message = (
                f"{value!r:.200} is a {type(value).__name__} and can be no key: give None, a bool, "
                "an int, a float, a str, bytes, or a tuple of these (of a moment its text or its "
                "microseconds, of a decimal its text)"
            )
            raise UnusableKey(message)


def _text(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        message = f"{value!r:.200} is no Unicode text and can be no key ({error}): give its bytes"
        raise UnusableKey(message) from error


def _ordered_bits(value: float) -> int:
    """Return the bits of a float such that they sort as numbers do, NaN last."""
    if value == 0:
        value = 0.0  # -0.0 is the same key
    elif math.isnan(value):
        value = math.nan
    (bits,) = _EIGHT.unpack(_DOUBLE.pack(value))
    return int(bits) ^ (2**64 - 1 if bits & _SIGN else _SIGN)


def key_value(data: bytes) -> Key:
    """Return the key that these are the canonical bytes of.

    Raises:
        UnusableKey: they are of no key.
    """
    try:
        if data[:1] == _TAGS[_Tag.TEXT]:
            return data[1:].decode()
        if data[:1] == _TAGS[_Tag.BYTES]:
            return data[1:]
        value, end = _read(data, 0)
    except (ValueError, IndexError, struct.error, RecursionError) as error:
        message = f"{data!r:.200} are the bytes of no key"
        raise UnusableKey(message) from error
    if end != len(data):
        message = f"{data!r:.200} has {len(data) - end} bytes after its key"
        raise UnusableKey(message)
    return value


def key_values(keys: pa.Array) -> list[Key]:
    """Return the keys whose canonical bytes an array holds, those of one usual type at once.

    Args:
        keys: binary or large binary, without nulls.

    Raises:
        UnusableKey: bytes are of no key.
    """
    tags = pc.binary_slice(keys, 0, 1).unique().to_pylist() if len(keys) else []
    if tags == [_TAGS[_Tag.TEXT]]:
        large = pa.types.is_large_binary(keys.type)
        kind = pa.large_string() if large else pa.string()
        try:
            found: list[Key] = pc.binary_slice(keys, 1).cast(kind).to_pylist()
        except pa.ArrowInvalid:
            return [key_value(key) for key in keys.to_pylist()]  # which names what is wrong
        return found
    if tags == [_TAGS[_Tag.INT]] and pc.min_max(pc.binary_length(keys)).as_py() == _OF_INT:
        data = np.frombuffer(b"".join(keys.to_pylist()), np.uint8).reshape(-1, 9)[:, 1:]
        bits = np.ascontiguousarray(data).view(">u8").astype(np.uint64).reshape(-1)
        return list((bits ^ np.uint64(_SIGN)).view(np.int64).tolist())
    return [key_value(key) for key in keys.to_pylist()]


def key_type(keys: Iterable[pa.Array]) -> pa.DataType | None:
    """Return the type of the column that all keys fit into.

    Args:
        keys: arrays of canonical bytes, binary or large binary, without nulls.

    Returns:
        None where keys are of several types, or tuples.
    """
    tags = {tag for each in keys for tag in pc.binary_slice(each, 0, 1).unique().to_pylist()}
    tags.discard(_TAGS[_Tag.NULL])
    if not tags:
        return pa.null()
    tag, *others = tags
    return None if others else _TYPES.get(tag)


def _read(data: bytes, at: int) -> tuple[Key, int]:
    """Return the part that begins at an index, and the index after it."""
    tag = _Tag(data[at])
    at += 1
    match tag:
        case _Tag.NULL:
            return None, at
        case _Tag.BOOL:
            return bool(data[at]), at + 1
        case _Tag.INT:
            return _EIGHT.unpack_from(data, at)[0] - _SIGN, at + 8
        case _Tag.FLOAT:
            (bits,) = _EIGHT.unpack_from(data, at)
            bits ^= _SIGN if bits & _SIGN else 2**64 - 1
            return _DOUBLE.unpack(_EIGHT.pack(bits))[0], at + 8
        case _Tag.TUPLE:
            parts = []
            while data[at]:
                value, at = _read(data, at)
                parts.append(value)
            return tuple(parts), at + 1
        case _Tag.TEXT | _Tag.BYTES:
            end = data.index(_END, at)
            while data[end : end + 2] == _ESCAPED:
                end = data.index(_END, end + 2)
            raw = data[at:end].replace(_ESCAPED, _END)
            return (raw.decode() if tag is _Tag.TEXT else raw), end + 1


def key_column(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
    """Return the canonical bytes of the keys that columns of equal length hold, row by row.

    Args:
        columns: one, whose values are the keys, or several, whose rows are tuples. Of nulls,
            booleans, integers, floats, text or bytes, dictionaries of these included.

    Returns:
        A binary array without nulls; a large binary one if its offsets need 64 bits.

    Raises:
        UnusableKey: a column of another type, or an integer beyond 64 bits.
    """
    if not columns:
        message = "a key has at least one column"
        raise UnusableKey(message)
    whole = [_whole(column) for column in columns]
    if len(whole) == 1:
        return _keys(whole[0], end=None)
    parts = [_keys(column, end=_END) for column in whole]
    large = sum(part.nbytes for part in parts) + 2 * len(parts[0]) > _ADDRESSABLE
    kind = pa.large_binary() if large else pa.binary()
    parts = [part.cast(kind) for part in parts]
    head, tail, nothing = (pa.scalar(one, kind) for one in (_TAGS[_Tag.TUPLE], _END, b""))
    return pc.binary_join_element_wise(head, *parts, tail, nothing)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece, dictionaries decoded, variable lengths as bytes or text."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_string_view(kind) or (
        pa.types.is_string(kind) and column.nbytes > _ADDRESSABLE // 2
    ):
        column = column.cast(pa.large_string())
    elif (
        pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
        or (pa.types.is_binary(kind) and column.nbytes > _ADDRESSABLE // 2)
    ):
        column = column.cast(pa.large_binary())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _keys(column: pa.Array, end: bytes | None) -> pa.Array:
    """Return the plain keys of a column, or with an end the parts that they are in tuples."""
    kind = column.type
    if pa.types.is_null(kind):
        return pa.repeat(pa.scalar(_TAGS[_Tag.NULL], pa.binary()), len(column))
    if pa.types.is_boolean(kind):
        flags = column.fill_null(fill_value=False).cast(pa.uint8()).to_numpy(zero_copy_only=False)
        return _fixed(_Tag.BOOL, flags.reshape(-1, 1), column)
    if pa.types.is_integer(kind):
        return _fixed(_Tag.INT, _integers(column), column)
    if pa.types.is_floating(kind):
        return _fixed(_Tag.FLOAT, _floats(column), column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _variable(_Tag.TEXT, column, end)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _variable(_Tag.BYTES, column, end)
    message = (
        f"a column of type {kind} can be no key: cast it to int64, float64, bool, string or binary "
        "(a timestamp to int64 or string, a decimal to string), or give its fields as columns"
    )
    raise UnusableKey(message)


def _integers(column: pa.Array) -> npt.NDArray[np.uint8]:
    try:
        signed = column.cast(pa.int64())
    except pa.ArrowInvalid as error:
        most = pc.max(column).as_py()
        message = f"{most} is beyond 64 bits and can be no key: cast the column to string"
        raise UnusableKey(message) from error
    bits = signed.fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
    return _big_endian(bits ^ np.uint64(_SIGN))


def _floats(column: pa.Array) -> npt.NDArray[np.uint8]:
    doubles = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    numbers = np.where(np.isnan(doubles), math.nan, doubles)
    numbers[numbers == 0] = 0.0  # -0.0 is the same key
    bits = numbers.view(np.uint64)
    negative = bits >= np.uint64(_SIGN)
    return _big_endian(np.where(negative, ~bits, bits | np.uint64(_SIGN)))


def _big_endian(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    return bits.astype(">u8").view(np.uint8).reshape(-1, 8)


def _fixed(tag: _Tag, body: npt.NDArray[np.uint8], column: pa.Array) -> pa.Array:
    """Return a tag and as many bytes for each value of a column, the null key for a null."""
    rows = np.empty((len(body), 1 + body.shape[1]), np.uint8)
    rows[:, 0] = tag
    rows[:, 1:] = body
    sizes = np.full(len(body), rows.shape[1], np.int64)
    data = rows.reshape(-1)
    if column.null_count:
        null = column.is_null().to_numpy(zero_copy_only=False)
        rows[null, 0] = _Tag.NULL
        sizes[null] = 1
        kept = np.ones(rows.shape, bool)
        kept[null, 1:] = False
        data = rows[kept]
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    large = len(data) > _ADDRESSABLE
    offsets = pa.py_buffer(ends if large else ends.astype(np.int32))
    kind = pa.large_binary() if large else pa.binary()
    return pa.Array.from_buffers(kind, len(body), [None, offsets, pa.py_buffer(data)])


def _variable(tag: _Tag, column: pa.Array, end: bytes | None) -> pa.Array:
    """Return a tag and the bytes of each value, escaped and ended if there is an end."""
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    large = wide or column.nbytes + 2 * len(column) > _ADDRESSABLE
    kind = pa.large_binary() if large else pa.binary()
    raw = column.cast(kind)
    before, after, null = (pa.scalar(one, kind) for one in (_TAGS[tag], end, _TAGS[_Tag.NULL]))
    nothing = pa.scalar(b"", kind)
    if end is None:
        keys = pc.binary_join_element_wise(before, raw, nothing)
    else:
        if pc.any(pc.match_substring(raw, end)).as_py():
            raw = pc.replace_substring(raw.cast(pa.large_binary()), end, _ESCAPED).cast(kind)
        keys = pc.binary_join_element_wise(before, raw, after, nothing)
    return keys.fill_null(null) if keys.null_count else keys
