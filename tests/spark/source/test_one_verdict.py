"""Bounds and steps have one verdict on a value, whatever wrote it."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.spec.hostile_values import CODECS, DEEP, values_of

from headgate.engine import Codec, CodecName, OnUndecodable, decode_column, decode_one, decoder_of
from headgate.spark.changes import cell_by_cell
from headgate.spark.source.undecodable import Decoding
from headgate.spark.source.values import ValueType, natural_type, to_arrow, to_bytes


def by_codec(codec: Codec) -> st.SearchStrategy[tuple[Codec, list[bytes | None]]]:
    values = st.lists(st.none() | values_of(codec), max_size=5)
    return values.map(lambda found: (codec, found))


cases = st.sampled_from((*CODECS, *[Codec()] * len(CODECS))).flatmap(by_codec)


@given(cases)
@settings(max_examples=settings().max_examples * 6)
def test_a_frame_holds_the_number_that_bounds_see_and_null_where_they_see_none(
    case: tuple[Codec, list[bytes | None]],
) -> None:
    codec, values = case
    decode = decoder_of(codec)
    seen = [None if value is None else decode_one(decode, value) for value in values]
    expected = [None if number is None or math.isnan(number) else number for number in seen]

    assert to_arrow(values, codec, ValueType.DOUBLE).to_pylist() == expected
    texts = to_arrow(values, codec, ValueType.STRING).to_pylist()
    assert all(
        text is None or text.encode() == value for text, value in zip(texts, values, strict=True)
    )
    natural = to_arrow(values, codec, natural_type(codec))
    assert [None if one is None else float(one) for one in natural.to_pylist()] == expected
    present = [value for value in values if value is not None]
    numbers, unreadable = decode_column(codec, decode, present)
    in_columns = [None if math.isnan(number) else number for number in numbers.tolist()]
    assert in_columns == [e for e, value in zip(expected, values, strict=True) if value is not None]
    assert unreadable == in_columns.count(None)


@given(cases)
def test_a_long_is_the_whole_number_that_bounds_see_or_null(
    case: tuple[Codec, list[bytes | None]],
) -> None:
    codec, values = case
    longs = to_arrow(values, codec, ValueType.LONG)
    doubles = to_arrow(values, codec, ValueType.DOUBLE)

    pairs = zip(values, longs.to_pylist(), doubles.to_pylist(), strict=True)
    for value, whole, number in pairs:
        assert whole is None or float(whole) == number
        if number is not None and number.is_integer() and abs(number) < 2**53:
            assert whole == number or (whole is None and may_be_rounded(codec, value))


def may_be_rounded(codec: Codec, value: bytes | None) -> bool:
    """Return whether a whole double may stand for a number that is not whole, such as 1e-1000."""
    if codec.name is not CodecName.UTF8 or value is None:
        return codec.name is CodecName.JSON
    exact = Decimal(value.decode().strip())
    return exact != exact.to_integral_value()


@given(cases, st.sampled_from(ValueType))
def test_tasks_decode_as_the_driver_does(
    case: tuple[Codec, list[bytes | None]], kind: ValueType
) -> None:
    codec, values = case
    rows = pa.array([str(at) for at in range(len(values))])
    raw = pa.RecordBatch.from_arrays([rows, pa.array(values, pa.binary())], ["row", "a"])
    decoding = Decoding(codec, kind, OnUndecodable.NULL)
    [cells] = cell_by_cell([raw], {"a": b"f:a"}, decoding)

    driver = to_arrow(values, codec, kind).to_pylist()
    there = [number for number, value in zip(driver, values, strict=True) if value is not None]
    assert cells.column(cells.schema.get_field_index("value")).to_pylist() == there


@given(cases)
def test_what_was_read_and_is_written_is_read_again(
    case: tuple[Codec, list[bytes | None]],
) -> None:
    codec, values = case
    if codec.path:
        codec = Codec(codec.name)
    numbers = to_arrow(values, codec, natural_type(codec))
    written = to_bytes(numbers, codec)

    assert to_arrow(written, codec, natural_type(codec)) == numbers
    if codec.layout is not None and not codec.layout.boolean:
        known = [value for value, one in zip(values, numbers, strict=True) if one.is_valid]
        assert [value for value in written if value is not None] == known


@pytest.mark.parametrize(
    ("codec", "value", "kind"),
    [
        (Codec(), b"inf", ValueType.DOUBLE),
        (Codec(), b"nan", ValueType.DOUBLE),
        (Codec(), b"1e400", ValueType.DOUBLE),
        (Codec(), b"9" * 400, ValueType.DOUBLE),
        (Codec(), b"1_000", ValueType.DOUBLE),
        (Codec(), b"1_000", ValueType.LONG),
        (Codec(), b"0x10", ValueType.LONG),
        (Codec(), b"1.5", ValueType.LONG),
        (Codec(), b"9223372036854775808", ValueType.LONG),
        (Codec(), b"1e300", ValueType.LONG),
        (Codec(CodecName.FLOAT64), b"\x7f\xf0" + bytes(6), ValueType.DOUBLE),
        (Codec(CodecName.FLOAT64), b"\x7f\xf8" + bytes(6), ValueType.DOUBLE),
        (Codec(CodecName.FLOAT64), b"\x3f\xf8" + bytes(6), ValueType.LONG),
        (Codec(CodecName.JSON, "v"), DEEP, ValueType.DOUBLE),
        (Codec(CodecName.JSON, "v"), b'{"v":1e300}', ValueType.LONG),
        (Codec(CodecName.JSON, "v"), b'{"v":9223372036854775808}', ValueType.LONG),
        (Codec(CodecName.JSON, "v"), b'{"v":1.9}', ValueType.LONG),
        (Codec(CodecName.OPAQUE), b"a\xff", ValueType.STRING),
    ],
)
def test_what_cannot_be_decoded_is_null(codec: Codec, value: bytes, kind: ValueType) -> None:
    assert to_arrow([value, None], codec, kind).to_pylist() == [None, None]


@pytest.mark.parametrize(
    "value", [b"9007199254740993", b"9007199254740993.0", b" 9007199254740993"]
)
def test_a_long_is_exact_where_a_double_is_not(value: bytes) -> None:
    assert to_arrow([value], Codec(), ValueType.LONG).to_pylist() == [9007199254740993]


@pytest.mark.parametrize("value", [b"1E-1000", b"0.99999999999999999999"])
def test_a_number_that_a_double_rounds_to_a_whole_one_is_no_long(value: bytes) -> None:
    assert to_arrow([value], Codec(), ValueType.LONG).to_pylist() == [None]
