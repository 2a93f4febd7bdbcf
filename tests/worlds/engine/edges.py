"""Values at the edges of their types, and names as clients may invent them."""

from __future__ import annotations

import json
import math
import random
import struct
import sys
from decimal import Decimal
from fractions import Fraction

from headgate.engine import CodecName

LONGS = (2**63 - 1, -(2**63), 0, -1, 2**53 + 1)
DOUBLES = (
    sys.float_info.max,
    -sys.float_info.max,
    sys.float_info.min,
    math.nan,
    math.inf,
    -math.inf,
    -0.0,
)
DAMAGED = (
    *(b"", b"\xff\xfe", b"null", b"junk", b"9" * 5000, b"1e999", b"nan", b"-inf", b"\x00" * 9),
    *(b"1_000", b"0x10", b" 7 ", b"nan(1)", b"1d", b"\xd9\xa1", b"\x7f", b"\x7f\xff", b"\0" * 4),
)
FIXED = {
    CodecName.INT64: "q",
    CodecName.INT32: "i",
    CodecName.INT16: "h",
    CodecName.FLOAT64: "d",
    CodecName.FLOAT32: "f",
    CodecName.PHOENIX_INT64: "q",
    CodecName.PHOENIX_INT32: "i",
    CodecName.PHOENIX_INT16: "h",
    CodecName.PHOENIX_INT8: "b",
    CodecName.PHOENIX_FLOAT64: "d",
    CodecName.PHOENIX_FLOAT32: "f",
}
"""The letter in ``struct`` of each number of fixed width."""
TRUE = {CodecName.BOOLEAN: b"\xff", CodecName.PHOENIX_BOOLEAN: b"\x01"}


def usual(codec: CodecName, chance: random.Random) -> bytes:
    """Return a number of no special size, as the codec has it."""
    return _written(codec, chance.choice((chance.randrange(10), chance.randrange(2000))))


def extreme(codec: CodecName, chance: random.Random) -> bytes:
    """Return a value as somebody writes it by mistake, or to do harm."""
    kind = chance.randrange(4)
    if kind == 0:
        return chance.choice(DAMAGED)
    if kind == 1 and codec in (CodecName.JSON, CodecName.OPAQUE):
        depth = chance.choice((3, 60, 1100, 20_000))
        return b'{"v":' * depth + b"1" + b"}" * depth
    if kind == 2 and FIXED.get(codec, "d") in "fd":
        return _written(codec, chance.choice(DOUBLES))
    return _written(codec, chance.choice(LONGS))


def _written(codec: CodecName, number: float) -> bytes:
    if codec in TRUE:
        return TRUE[codec] if number else b"\0"
    if codec in FIXED:
        return _packed(codec, number)
    text = str(number).encode()
    return b'{"v":%s}' % text if codec is CodecName.JSON else text


def _packed(codec: CodecName, number: float) -> bytes:
    letter = FIXED[codec]
    bits = 8 * struct.calcsize(letter)
    if letter in "fd":
        limit = sys.float_info.max if letter == "d" else 3.4e38
        finite = max(-limit, min(number, limit)) if math.isfinite(number) else number
        plain = struct.pack(">" + letter, finite)
    else:
        plain = (int(number) % 2**bits).to_bytes(bits // 8, "big")
    if not codec.startswith("phoenix"):
        return plain
    value = int.from_bytes(plain, "big")
    if letter not in "fd":
        return (value ^ 1 << bits - 1).to_bytes(bits // 8, "big")
    turned = 2**bits - 1 - value if value >> bits - 1 else value ^ 1 << bits - 1
    return ((turned + 1) % 2**bits).to_bytes(bits // 8, "big")


def read(codec: CodecName, value: bytes) -> object:
    """Return what a value is to whoever compares it, all its digits: a fraction, NaN, or bytes.

    It is worked out apart from the product's codecs; JSON is read at the path ``v``.
    """
    if codec is CodecName.OPAQUE:
        return value
    try:
        number = _number(codec, value)
        float(number)
    except (ValueError, TypeError, KeyError, RecursionError, ArithmeticError, struct.error):
        return math.nan
    return number


def exact(held: complex) -> Fraction:
    """Return the number that an engine holds as a float64 and what that leaves out."""
    return Fraction(held.real) + Fraction(held.imag)


def is_held(number: Fraction, held: complex) -> bool:
    """Return whether an engine holds a number as well as it can.

    Whole numbers of up to 106 bits are exact. Of others the float64 is the nearest, and the rest,
    where there is one, is off by its last bits at most.
    """
    missing = abs(number - exact(held))
    if number.denominator == 1 and abs(number) < 2**106:
        return missing == 0
    nearest = float(number) == held.real
    return nearest and (held.imag == 0 or missing <= abs(Fraction(held.imag)) / 2**20)


def _number(codec: CodecName, value: bytes) -> Fraction:
    if codec in TRUE:
        [byte] = value
        return Fraction(byte != 0)
    if codec in FIXED:
        return _unpacked(codec, value)
    if codec is CodecName.JSON:
        if value.count(b"[") + value.count(b"{") > 256:
            raise ValueError(value)
        found = json.loads(value, parse_float=Decimal)["v"]
        if isinstance(found, bool) or not isinstance(found, int | Decimal):
            raise TypeError(found)
        return Fraction(found)
    if b"_" in value:
        raise ValueError(value)
    return Fraction(Decimal(value.decode("ascii")))


def _unpacked(codec: CodecName, value: bytes) -> Fraction:
    letter = FIXED[codec]
    bits = 8 * struct.calcsize(letter)
    if codec.startswith("phoenix"):
        if len(value) != bits // 8:
            raise ValueError(value)
        whole = int.from_bytes(value, "big")
        if letter not in "fd":
            return Fraction(whole - 2 ** (bits - 1))
        turned = (whole - 1) % 2**bits
        turned = turned ^ 1 << bits - 1 if turned >> bits - 1 else 2**bits - 1 - turned
        value = turned.to_bytes(bits // 8, "big")
    return Fraction(struct.unpack(">" + letter, value)[0])
