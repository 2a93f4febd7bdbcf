import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine import Codec, CodecName
from headgate.engine.spec.codecs import decode_column, decode_one, decoder_of


@pytest.mark.parametrize(
    ("codec", "value", "number"),
    [
        (Codec(), b"12.5", 12.5),
        (Codec(), b" -3 ", -3.0),
        (Codec(CodecName.FLOAT64), struct.pack(">d", 0.1), 0.1),
        (Codec(CodecName.INT64), struct.pack(">q", -7), -7.0),
        (Codec(CodecName.JSON), b"4.5", 4.5),
        (Codec(CodecName.JSON, "$.air.o3.1"), b'{"air": {"o3": [1, 2.5]}}', 2.5),
    ],
)
def test_a_value_is_a_number(codec, value, number):
    assert decode_one(decoder_of(codec), value) == number


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (Codec(), b"n/a"),
        (Codec(), b""),
        (Codec(), b"nan"),
        (Codec(), b"inf"),
        (Codec(), b"\xff"),
        (Codec(CodecName.FLOAT64), b"\0"),
        (Codec(CodecName.FLOAT64), struct.pack(">d", math.nan)),
        (Codec(CodecName.INT64), b"12"),
        (Codec(CodecName.JSON), b"{"),
        (Codec(CodecName.JSON, "a"), b'{"b": 1}'),
        (Codec(CodecName.JSON, "a.0"), b'{"a": []}'),
        (Codec(CodecName.JSON, "a.x"), b'{"a": [1]}'),
        (Codec(CodecName.JSON, "a.b"), b'{"a": 1}'),
        (Codec(CodecName.JSON, "a"), b'{"a": true}'),
        (Codec(CodecName.JSON, "a"), b'{"a": "1"}'),
    ],
)
def test_what_is_no_finite_number_is_undecodable(codec, value):
    assert math.isnan(decode_one(decoder_of(codec), value))


def test_a_document_nested_too_deep_to_read_is_undecodable_alone_and_in_a_column():
    codec = Codec(CodecName.JSON, "a.0")
    deep = b'{"a":' + b"[" * 1_100 + b"1" + b"]" * 1_100 + b"}"
    assert math.isnan(decode_one(decoder_of(codec), deep))
    numbers, unreadable = decode_column(codec, decoder_of(codec), [deep, b'{"a": [2]}'])
    assert math.isnan(numbers[0])
    assert numbers[1] == 2
    assert unreadable == 1


def test_opaque_values_have_no_number():
    with pytest.raises(ValueError, match="declare another"):
        decoder_of(Codec(CodecName.OPAQUE))


def column(values, codec=None):
    codec = codec or Codec()
    return decode_column(codec, decoder_of(codec), values)


def test_a_column_of_values_keeps_its_good_ones():
    numbers, unreadable = column([b"1", b"x", b"inf", b"2"])
    assert unreadable == 2
    assert [n for n in numbers.tolist() if n == n] == [1.0, 2.0]
    assert len(numbers) == 4


def test_a_column_of_readable_values_says_so():
    numbers, unreadable = column([b"1", b"2"])
    assert (numbers.tolist(), unreadable) == ([1.0, 2.0], 0)


def test_finite_values_whose_sum_is_not_are_readable():
    numbers, unreadable = column([b"1e308", b"1e308"])
    assert (numbers.tolist(), unreadable) == ([1e308, 1e308], 0)


@pytest.mark.parametrize("codec", [Codec(CodecName.FLOAT64), Codec(CodecName.INT64)])
@given(st.lists(st.binary(min_size=8, max_size=8), max_size=6), st.booleans())
def test_a_column_holds_what_its_values_are_one_by_one(codec, values, cut):
    values = [*values, b"short"] if cut else values
    numbers, unreadable = column(values, codec)
    alone = [decode_one(decoder_of(codec), value) for value in values]
    assert list(map(repr, numbers.tolist())) == list(map(repr, alone))
    assert unreadable == sum(number != number for number in alone)
