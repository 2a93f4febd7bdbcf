"""Values of cells as numbers: one declared codec per container (design: section 4).

Everybody who decodes does it here: bounds, steps, stages and replay have one verdict on a value.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from headgate.engine.spec.exact_numbers import (
    DIGITS,
    WHOLE,
    WrittenNumber,
    is_close,
    number_of_text,
    wholes_with_rest,
    with_rest_of_text,
    with_rest_of_whole,
)
from headgate.engine.spec.json_paths import is_too_deep, member, path_steps
from headgate.engine.spec.layouts import Layout, Order

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Number = float
UNDECODABLE = math.nan
"""Stands for a value that its codec cannot read. It is unequal to everything, itself included."""


class CodecName(StrEnum):
    """How bytes become a number."""

    UTF8 = "utf8"
    """A decimal number as text, with an exponent or without, blanks around it or none."""
    FLOAT64 = "float64"
    """An IEEE 754 double, 8 bytes big-endian (HBase's ``Bytes.toBytes(double)``)."""
    INT64 = "int64"
    """A signed integer, 8 bytes big-endian (HBase's counters and ``Bytes.toBytes(long)``)."""
    JSON = "json"
    """A number inside a JSON document, at a path."""
    OPAQUE = "opaque"
    """No number: values are only compared. For metric ``changed``."""
    FLOAT32 = "float32"
    """An IEEE 754 float, 4 bytes big-endian (HBase's ``Bytes.toBytes(float)``)."""
    INT32 = "int32"
    """A signed integer, 4 bytes big-endian (HBase's ``Bytes.toBytes(int)``)."""
    INT16 = "int16"
    """A signed integer, 2 bytes big-endian (HBase's ``Bytes.toBytes(short)``)."""
    BOOLEAN = "boolean"
    """1 or 0 of one byte (HBase's ``Bytes.toBytes(boolean)``, which writes 0xFF for true)."""
    PHOENIX_INT64 = "phoenix-int64"
    """Phoenix's BIGINT: 8 bytes, sign bit flipped."""
    PHOENIX_INT32 = "phoenix-int32"
    """Phoenix's INTEGER: 4 bytes, sign bit flipped."""
    PHOENIX_INT16 = "phoenix-int16"
    """Phoenix's SMALLINT: 2 bytes, sign bit flipped."""
    PHOENIX_INT8 = "phoenix-int8"
    """Phoenix's TINYINT: 1 byte, sign bit flipped."""
    PHOENIX_FLOAT64 = "phoenix-float64"
    """Phoenix's DOUBLE: 8 bytes whose order is that of the numbers."""
    PHOENIX_FLOAT32 = "phoenix-float32"
    """Phoenix's FLOAT: 4 bytes whose order is that of the numbers."""
    PHOENIX_BOOLEAN = "phoenix-boolean"
    """Phoenix's BOOLEAN: one byte, 1 for true."""


LAYOUTS: Final = {
    CodecName.FLOAT64: Layout("d"),
    CodecName.FLOAT32: Layout("f"),
    CodecName.INT64: Layout("q"),
    CodecName.INT32: Layout("i"),
    CodecName.INT16: Layout("h"),
    CodecName.BOOLEAN: Layout("?", true=0xFF),
    CodecName.PHOENIX_INT64: Layout("q", Order.SORTED),
    CodecName.PHOENIX_INT32: Layout("i", Order.SORTED),
    CodecName.PHOENIX_INT16: Layout("h", Order.SORTED),
    CodecName.PHOENIX_INT8: Layout("b", Order.SORTED),
    CodecName.PHOENIX_FLOAT64: Layout("d", Order.SORTED),
    CodecName.PHOENIX_FLOAT32: Layout("f", Order.SORTED),
    CodecName.PHOENIX_BOOLEAN: Layout("?"),
}
"""The codecs whose values have a fixed width."""


class OnUndecodable(StrEnum):
    """What a step sees of a value that the codec cannot read."""

    FAIL = "fail"
    """Nothing: reading it fails the step."""
    NULL = "null"
    """A null, as where there is no cell."""
    SKIP = "skip"
    """Nothing: the row, or in what has changed the cell, is left out."""


class Codec(Struct, frozen=True):
    """A codec. ``path`` says where the number is in a JSON document; see ``path_steps``."""

    name: CodecName = CodecName.UTF8
    path: str = ""

    @property
    def word(self) -> str:
        """How a dataflow file names it."""
        if self.name is CodecName.JSON:
            return f"json {self.place}".rstrip()
        return "number" if self.name is CodecName.UTF8 else self.name.value

    @property
    def layout(self) -> Layout | None:
        """The layout of the bytes; None where values have no fixed width."""
        return LAYOUTS.get(self.name)

    @property
    def place(self) -> str:
        """The path as people write it; empty where there is none."""
        if not self.path:
            return ""
        return f"${self.path}" if self.path.startswith(("[", "$")) else f"$.{self.path}"


Decode = Callable[[bytes], float]


def _utf8(value: bytes) -> float:
    if b"_" in value:
        raise ValueError(value)  # Python takes 1_000 for a number, and nobody else does
    return float(value)


_LONGEST: Final = 1 << 63


def _utf8_whole(value: bytes) -> int:
    number = _utf8(value)
    if not -_LONGEST <= number <= _LONGEST:  # before digits are counted out, which may be many
        raise OverflowError(value)
    text = value.decode("ascii")
    try:
        return int(text)
    except ValueError:
        exact = Decimal(text.strip())
        if exact != exact.to_integral_value():
            raise
        return int(exact)


def _json(path: str) -> Decode:
    steps = path_steps(path)
    decoder = msgspec.json.Decoder(float_hook=number_of_text)

    def decode(value: bytes) -> float:
        if is_too_deep(value):
            raise ValueError(value)
        found = member(decoder.decode(value), steps)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise TypeError(found)
        return found  # an integer stays one, and exact

    return decode


def decoder_of(codec: Codec) -> Decode:
    """Return the function from a value's bytes to its number, an exact int where it is whole.

    It raises one of ``UNREADABLE`` on what the codec cannot read, and may return NaN or infinity:
    ``decode_one`` gives the verdict.

    Raises:
        ValueError: the codec is opaque, so that values have no number.
    """
    if codec.layout is not None:
        return codec.layout.reader()
    match codec.name:
        case CodecName.JSON:
            return _json(codec.path)
        case CodecName.OPAQUE:
            raise ValueError("codec 'opaque' has no numbers; declare another for this container")
        case _:
            return _utf8


UNREADABLE: Final = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    RecursionError,  # a document nested deeper than the decoder goes
    struct.error,
)
"""Exceptions that decoders raise. msgspec's errors are ValueErrors."""


def decode_one(decode: Decode, value: bytes) -> float:
    """Return the number, or ``UNDECODABLE`` where there is none or it is not finite."""
    try:
        number = float(decode(value))
    except UNREADABLE:
        return UNDECODABLE
    return number if math.isfinite(number) else UNDECODABLE


def decode_exactly(decode: Decode, value: bytes) -> float | complex:
    """Return the number, with a rest where a float64 does not hold all of it.

    ``UNDECODABLE`` where there is none or it is not finite.
    """
    if decode is _utf8 and len(value) <= DIGITS and not value.translate(None, _PLAIN):
        try:
            return float(value)
        except ValueError:
            return UNDECODABLE
    try:
        exact = decode(value)
        number = float(exact)
    except UNREADABLE:
        return UNDECODABLE
    if not math.isfinite(number):
        return UNDECODABLE
    if decode is not _utf8:
        return _with_rest(exact, number)
    if is_close(number, len(value), exponent=_has_exponent(value)):
        return with_rest_of_text(number, value.decode("ascii"))
    return number


def _has_exponent(value: bytes) -> bool:
    return b"e" in value or b"E" in value


def _with_rest(exact: float, number: float) -> float | complex:
    if isinstance(exact, int):
        return number if -WHOLE < exact < WHOLE else with_rest_of_whole(number, exact)
    if isinstance(exact, WrittenNumber):
        return with_rest_of_text(number, exact.text)
    return number


def decode_wholes(codec: Codec, values: Sequence[bytes]) -> list[int | None]:
    """Return the exact numbers; None for what is not whole or has more than 64 bits."""
    decode = _utf8_whole if codec.name is CodecName.UTF8 else decoder_of(codec)
    return [_whole(decode, value) for value in values]


def _whole(decode: Decode, value: bytes) -> int | None:
    try:
        number = decode(value)
        whole = int(number)
    except UNREADABLE:
        return None
    return whole if whole == number and -_LONGEST <= whole < _LONGEST else None


def decode_column(
    codec: Codec, decode: Decode, values: Sequence[bytes]
) -> tuple[NDArray[np.float64], int]:
    """Return a number for each value, and how many of them are ``UNDECODABLE``."""
    # A quarter of the start of a command that knows codecs, as they all do, and reads no column.
    import numpy as np

    fixed = None if codec.layout is None else codec.layout.column(values)
    if fixed is not None:
        numbers = fixed.astype(np.float64)
    else:
        # Looking for what only Python reads in all of them is cheaper than one by one.
        each = float if decode is _utf8 and b"_" not in b"".join(values) else decode
        try:
            numbers = np.fromiter(map(each, values), np.float64, len(values))
        except UNREADABLE:
            found = (decode_one(decode, value) for value in values)
            numbers = np.fromiter(found, np.float64, len(values))
    finite = np.isfinite(numbers)
    unreadable = len(numbers) - int(np.count_nonzero(finite))
    if unreadable:
        numbers[~finite] = UNDECODABLE
    return numbers, unreadable


def decode_column_exactly(
    codec: Codec, decode: Decode, values: Sequence[bytes]
) -> tuple[NDArray[Any], int]:
    """Return a number for each value, and how many of them are ``UNDECODABLE``.

    They are complex where a float64 does not hold all of one of them, see ``exact_numbers``.
    """
    if decode is _utf8:
        looks = b",".join(values).translate(_LOOKS)
        if _ODD not in looks and _LONG not in looks:
            # Each is below 10 ** DIGITS, and so below WHOLE.
            import numpy as np

            try:
                return np.fromiter(map(float, values), np.float64, len(values)), 0
            except UNREADABLE:
                return decode_column(codec, decode, values)
        numbers, unreadable = decode_column(codec, decode, values)
        return _with_rests(numbers, values), unreadable
    layout = codec.layout
    if layout is not None and layout.whole and layout.width == _WIDEST:
        wholes = layout.column(values)
        if wholes is not None:
            return wholes_with_rest(wholes), 0
    elif layout is not None:
        return decode_column(codec, decode, values)
    return _column_of([decode_exactly(decode, value) for value in values])


def _column_of(found: Sequence[float | complex]) -> tuple[NDArray[Any], int]:
    import numpy as np

    numbers = np.array(found, np.complex128 if complex in map(type, found) else np.float64)
    return numbers, int(np.count_nonzero(numbers != numbers))


def _with_rests(numbers: NDArray[np.float64], values: Sequence[bytes]) -> NDArray[Any]:
    import numpy as np

    exact: NDArray[Any] = numbers
    for place, (number, value) in enumerate(zip(numbers.tolist(), values, strict=True)):
        if number == number and is_close(number, len(value), exponent=_has_exponent(value)):
            found = with_rest_of_text(number, value.decode("ascii"))
            if isinstance(found, complex):
                exact = exact if exact.dtype.kind == "c" else numbers.astype(np.complex128)
                exact[place] = found
    return exact


_ODD: Final = b"x"
_LONG: Final = b"0" * (DIGITS + 1)
_LOOKS: Final = bytes(
    _ODD[0] if byte in b"_eEnN" else byte if byte == ord(",") else _LONG[0] for byte in range(256)
)
"""Table of how texts of numbers look, with commas between them: what has exponents, may be NaN or
infinity, or is a number for Python only, is odd; all else may be digits."""
_PLAIN: Final = b"0123456789.-"
"""What texts of most numbers consist of: so many as ``DIGITS`` are below 10 ** DIGITS."""

_WIDEST: Final = 8  # bytes of integers that a float64 may not hold
