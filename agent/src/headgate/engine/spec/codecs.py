"""Values of cells as numbers: one declared codec per container (design: section 4)."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Number = float
UNDECODABLE = math.nan
"""Stands for a value that its codec cannot read. It is unequal to everything, itself included."""


class CodecName(StrEnum):
    """How bytes become a number."""

    UTF8 = "utf8"
    """A decimal number as text."""
    FLOAT64 = "float64"
    """An IEEE 754 double, 8 bytes big-endian (HBase's ``Bytes.toBytes(double)``)."""
    INT64 = "int64"
    """A signed integer, 8 bytes big-endian (HBase's counters and ``Bytes.toBytes(long)``)."""
    JSON = "json"
    """A number inside a JSON document, at a path."""
    OPAQUE = "opaque"
    """No number: values are only compared. For metric ``changed``."""


class OnUndecodable(StrEnum):
    """What a step sees of a value that the codec cannot read."""

    FAIL = "fail"
    """Nothing: reading it fails the step."""
    NULL = "null"
    """A null, as where there is no cell."""
    SKIP = "skip"
    """Nothing: the row, or in what has changed the cell, is left out."""


class Codec(Struct, frozen=True):
    """A codec. ``path`` says where the number is in a JSON document: keys and indices with dots."""

    name: CodecName = CodecName.UTF8
    path: str = ""


Decode = Callable[[bytes], float]


def _utf8(value: bytes) -> float:
    return float(value)


_DOUBLE = struct.Struct(">d")
_LONG = struct.Struct(">q")


def _float64(value: bytes) -> float:
    return float(_DOUBLE.unpack(value)[0])


def _int64(value: bytes) -> float:
    return float(_LONG.unpack(value)[0])


def _json(path: str) -> Decode:
    steps = [step for step in path.removeprefix("$").split(".") if step]
    decoder = msgspec.json.Decoder()

    def decode(value: bytes) -> float:
        found = decoder.decode(value)
        for step in steps:
            found = found[int(step)] if isinstance(found, list) else found[step]
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise TypeError(found)
        return float(found)

    return decode


def decoder_of(codec: Codec) -> Decode:
    """Return the function from a value's bytes to its number, raising on what it cannot read.

    Raises:
        ValueError: the codec is opaque, so that values have no number.
    """
    match codec.name:
        case CodecName.UTF8:
            return _utf8
        case CodecName.FLOAT64:
            return _float64
        case CodecName.INT64:
            return _int64
        case CodecName.JSON:
            return _json(codec.path)
        case CodecName.OPAQUE:
            raise ValueError("codec 'opaque' has no numbers; declare another for this container")


_UNREADABLE = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    OverflowError,
    RecursionError,  # a document nested deeper than the decoder goes
    struct.error,
)


def decode_one(decode: Decode, value: bytes) -> float:
    """Return the number, or ``UNDECODABLE`` where there is none or it is not finite."""
    try:
        number = decode(value)
    except _UNREADABLE:  # msgspec's errors are ValueErrors
        return UNDECODABLE
    return number if math.isfinite(number) else UNDECODABLE


def decode_column(
    codec: Codec, decode: Decode, values: Sequence[bytes]
) -> tuple[NDArray[np.float64], int]:
    """Return a number for each value, and how many of them are ``UNDECODABLE``."""
    # A quarter of the start of a command that knows codecs, as they all do, and reads no column.
    import numpy as np

    layout = _LAYOUTS.get(codec.name)
    if layout is not None and set(map(len, values)) == {_WIDTH}:
        numbers = np.frombuffer(b"".join(values), layout).astype(np.float64)
    else:
        each = float if decode is _utf8 else decode
        try:
            numbers = np.fromiter(map(each, values), np.float64, len(values))
        except _UNREADABLE:
            found = (decode_one(decode, value) for value in values)
            numbers = np.fromiter(found, np.float64, len(values))
    finite = np.isfinite(numbers)
    unreadable = len(numbers) - int(np.count_nonzero(finite))
    if unreadable:
        numbers[~finite] = UNDECODABLE
    return numbers, unreadable


_LAYOUTS = {CodecName.FLOAT64: ">f8", CodecName.INT64: ">i8"}
_WIDTH = 8  # bytes of either
