"""Values at the edges of their types, and names as clients may invent them."""

from __future__ import annotations

import json
import math
import random
import struct
import sys

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
DAMAGED = (b"", b"\xff\xfe", b"null", b"junk", b"9" * 5000, b"1e999", b"nan", b"-inf", b"\x00" * 9)


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
    if kind == 2 and codec is not CodecName.INT64:
        return _written(codec, chance.choice(DOUBLES))
    return _written(codec, chance.choice(LONGS))


def _written(codec: CodecName, number: float) -> bytes:
    if codec is CodecName.INT64:
        return struct.pack(">q", int(number))
    if codec is CodecName.FLOAT64:
        return struct.pack(">d", number)
    text = str(number).encode()
    return b'{"v":%s}' % text if codec is CodecName.JSON else text


def read(codec: CodecName, value: bytes) -> object:
    """Return what a value is to whoever compares it: a number, NaN where there is none, or bytes.

    It is worked out apart from the product's codecs; JSON is read at the path ``v``.
    """
    if codec is CodecName.OPAQUE:
        return value
    try:
        number = _number(codec, value)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError, struct.error):
        return math.nan
    return number if math.isfinite(number) else math.nan


def _number(codec: CodecName, value: bytes) -> float:
    if codec is CodecName.INT64:
        return float(struct.unpack(">q", value)[0])
    if codec is CodecName.FLOAT64:
        return float(struct.unpack(">d", value)[0])
    if codec is CodecName.JSON:
        found = json.loads(value)["v"]
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise TypeError(found)
        return float(found)
    return float(value)
