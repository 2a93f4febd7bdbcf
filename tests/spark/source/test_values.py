"""Values of cells become Arrow columns, and columns values."""

from __future__ import annotations

import math
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine import Codec, CodecName
from headgate.spark.source.values import (
    UnwritableValue,
    ValueType,
    natural_type,
    to_arrow,
    to_bytes,
)

UTF8, FLOAT64, INT64 = Codec(), Codec(CodecName.FLOAT64), Codec(CodecName.INT64)


@pytest.mark.parametrize(
    ("codec", "kind", "values", "expected"),
    [
        (UTF8, ValueType.DOUBLE, [b"1.5", None, b"-2e3"], [1.5, None, -2000.0]),
        (UTF8, ValueType.DOUBLE, [b"1.5", b"x", b"", b"3"], [1.5, None, None, 3.0]),
        (UTF8, ValueType.DOUBLE, [b"\xff\xfe"], [None]),
        (UTF8, ValueType.LONG, [b"9007199254740993", None], [9007199254740993, None]),
        (UTF8, ValueType.LONG, [b"2.0", b"7"], [2, 7]),
        (FLOAT64, ValueType.DOUBLE, [struct.pack(">d", 2.5)] * 2, [2.5, 2.5]),
        (FLOAT64, ValueType.DOUBLE, [struct.pack(">d", 2.5), None, b"short"], [2.5, None, None]),
        (INT64, ValueType.LONG, [struct.pack(">q", -3)], [-3]),
        (INT64, ValueType.LONG, [None, struct.pack(">q", 2**62 + 1)], [None, 2**62 + 1]),
        (INT64, ValueType.DOUBLE, [struct.pack(">q", -3)], [-3.0]),
        (Codec(CodecName.JSON, "a.1"), ValueType.DOUBLE, [b'{"a":[0,4]}', b"{}"], [4.0, None]),
        (Codec(CodecName.OPAQUE), ValueType.BINARY, [b"\xff", None], [b"\xff", None]),
        (UTF8, ValueType.STRING, ["ä".encode(), None], ["ä", None]),
        (Codec(CodecName.OPAQUE), ValueType.STRING, [b"a\xff", b"a"], [None, "a"]),
        (Codec(CodecName.OPAQUE), ValueType.DOUBLE, [b"1.5", b"x"], [1.5, None]),
        (
            Codec(CodecName.BOOLEAN),
            ValueType.BOOLEAN,
            [b"\0", b"\xff", b"", None],
            [False, True, None, None],
        ),
        (Codec(CodecName.BOOLEAN), ValueType.DOUBLE, [b"\0", b"\x01"], [0.0, 1.0]),
        (UTF8, ValueType.BOOLEAN, [b"1", b"0", b"2", b"true"], [True, False, None, None]),
    ],
)
def test_values_decode_to_the_asked_type(
    codec: Codec, kind: ValueType, values: list[bytes | None], expected: list[object]
) -> None:
    decoded = to_arrow(values, codec, kind)

    assert decoded.type == kind.arrow
    assert decoded.to_pylist() == expected


def test_nothing_decodes_to_an_empty_column_of_the_type() -> None:
    for codec in (UTF8, FLOAT64, INT64):
        for kind in ValueType:
            assert to_arrow([], codec, kind).type == kind.arrow


@given(values=st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False)))
@pytest.mark.parametrize("codec", [UTF8, FLOAT64])
def test_numbers_survive_being_written_and_read(codec: Codec, values: list[float | None]) -> None:
    written = to_bytes(pa.array(values, pa.float64()), codec)

    assert to_arrow(written, codec, ValueType.DOUBLE).to_pylist() == values


@given(values=st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
@pytest.mark.parametrize("codec", [UTF8, INT64])
def test_whole_numbers_survive_being_written_and_read(
    codec: Codec, values: list[int | None]
) -> None:
    written = to_bytes(pa.array(values, pa.int64()), codec)

    assert to_arrow(written, codec, ValueType.LONG).to_pylist() == values


def test_text_and_binary_are_written_as_they_are() -> None:
    assert to_bytes(pa.array(["ä", None]), FLOAT64) == ["ä".encode(), None]
    assert to_bytes(pa.array([b"\xff"]), FLOAT64) == [b"\xff"]


@pytest.mark.parametrize(
    ("column", "codec"),
    [
        (pa.array([1.0, None, 1.5]), CodecName.INT64),
        (pa.array([1.0, None, math.nan]), CodecName.INT64),
        (pa.array([1, None, 2**63], pa.uint64()), CodecName.INT64),
        (pa.array([1, None, 2**31]), CodecName.INT32),
        (pa.array([1, None, -(2**15) - 1]), CodecName.INT16),
        (pa.array([1, None, 128]), CodecName.PHOENIX_INT8),
        (pa.array([1, None, 2]), CodecName.BOOLEAN),
        (pa.array([1, None, 2**53 + 1]), CodecName.FLOAT64),
        (pa.array([1.0, None, 3.5e38]), CodecName.FLOAT32),
    ],
)
def test_what_a_codec_cannot_hold_is_refused_with_its_place(
    column: pa.Array, codec: CodecName
) -> None:
    with pytest.raises(UnwritableValue, match=f"codec {codec} cannot hold") as refused:
        to_bytes(column, Codec(codec))
    assert refused.value.at == 2


def test_infinities_and_nan_are_written_as_they_are() -> None:
    every = [math.inf, -math.inf, math.nan]
    for codec in (FLOAT64, Codec(CodecName.FLOAT32), UTF8):
        assert to_arrow(to_bytes(pa.array(every), codec), codec, ValueType.DOUBLE).null_count == 3


def test_a_number_cannot_be_written_into_a_document() -> None:
    codec = Codec(CodecName.JSON, '["pm 2.5"]')
    with pytest.raises(UnwritableValue, match=r'at \$\["pm 2.5"\].*as text'):
        to_bytes(pa.array([1.5]), codec)
    assert to_bytes(pa.array(['{"pm 2.5":1}']), codec) == [b'{"pm 2.5":1}']


def test_a_nested_column_has_no_bytes() -> None:
    with pytest.raises(UnwritableValue, match="cast it"):
        to_bytes(pa.array([[1]]), UTF8)


@pytest.mark.parametrize(
    ("codec", "kind"),
    [
        (UTF8, ValueType.DOUBLE),
        (FLOAT64, ValueType.DOUBLE),
        (INT64, ValueType.LONG),
        (Codec(CodecName.JSON, "x"), ValueType.DOUBLE),
        (Codec(CodecName.OPAQUE), ValueType.BINARY),
        (Codec(CodecName.INT16), ValueType.LONG),
        (Codec(CodecName.FLOAT32), ValueType.DOUBLE),
        (Codec(CodecName.PHOENIX_INT8), ValueType.LONG),
        (Codec(CodecName.PHOENIX_BOOLEAN), ValueType.BOOLEAN),
    ],
)
def test_each_codec_has_a_type(codec: Codec, kind: ValueType) -> None:
    assert natural_type(codec) is kind
