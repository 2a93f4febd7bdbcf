"""Numbers of more digits than a double has: what is unequal stays so, in columns as one by one."""

from __future__ import annotations

import struct
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.spec.hostile_values import CODECS, values_of

from headgate.engine import Codec, CodecName, decode_one, decoder_of
from headgate.engine.spec.codecs import decode_column_exactly, decode_exactly
from headgate.engine.spec.exact_numbers import gap, gaps

LONGS = st.integers(-(2**63), 2**63 - 1)
CLOSE_LONGS = st.tuples(LONGS, st.integers(-2, 2)).map(
    lambda pair: max(-(2**63), min(2**63 - 1, sum(pair)))
)


def exactly(value: bytes, codec: CodecName = CodecName.UTF8) -> complex:
    return decode_exactly(decoder_of(Codec(codec)), value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"9007199254740992", b"9007199254740993"),
        (b"1700000000000000000", b"1700000000000000001"),
        (b"-9223372036854775808", b"-9223372036854775807"),
        (b"1e23", b"99999999999999991611392"),
        (b"0.1", b"0.10000000000000000001"),
        (b"0.1", b"0.1000000000000000055511151231257827021181583404541015625"),
        (b"0." + b"3" * 60, b"0." + b"3" * 59 + b"4"),
        (b"1e-400", b"2e-400"),
        (b"1e-99999999999999999999", b"1e-99999999999999999998"),
    ],
)
def test_decimals_that_are_one_double_are_unequal(one, other):
    assert float(one) == float(other)
    assert exactly(one) != exactly(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"1", b" 1.000000000000000000000"),
        (b"0.1", b"0.1000000000000000000000"),
        (b"9007199254740993", b"9007199254740993.0"),
        (b"12345678901234567890e-5", b"123456789012345.67890"),
        (b"1e23", b"1" + b"0" * 23),
        (b"0e5", b"0.00000000000000000000"),
    ],
)
def test_one_number_in_two_spellings_is_equal(one, other):
    assert exactly(one) == exactly(other)


@given(CLOSE_LONGS, CLOSE_LONGS)
def test_differences_of_64_bits_are_exact(one, other):
    read = [exactly(struct.pack(">q", number), CodecName.INT64) for number in (one, other)]
    assert (read[0] == read[1]) == (one == other)
    assert gap(*read) == pytest.approx(abs(one - other), rel=2**-52)
    if abs(one - other) < 2**53:
        assert gap(*read) == abs(one - other)


@given(st.decimals(-(10**20), 10**20, allow_nan=False), st.integers(-(10**6), 10**6))
def test_decimals_that_are_close_are_equal_where_they_are(number, beside):
    other = number + Decimal(beside).scaleb(-25)
    one, two = exactly(str(number).encode()), exactly(str(other).encode())
    assert (one == two) == (Fraction(number) == Fraction(other))


def test_numbers_in_documents_are_exact_too():
    codec = Codec(CodecName.JSON, "v")
    read = [
        decode_exactly(decoder_of(codec), b'{"v":%s}' % number)
        for number in (b"9007199254740993", b"9007199254740993.0", b"9007199254740992.5")
    ]
    assert read[0] == read[1] != read[2]


@pytest.mark.parametrize("codec", CODECS)
@given(st.data())
def test_a_column_has_what_its_values_are_one_by_one(codec, data):
    values = data.draw(st.lists(values_of(codec), max_size=6))
    decode = decoder_of(codec)
    numbers, unreadable = decode_column_exactly(codec, decode, values)
    alone = np.array([decode_exactly(decode, value) for value in values], complex)
    assert np.array_equal(numbers, alone, equal_nan=True)
    assert unreadable == np.isnan(alone).sum()
    doubles = [decode_one(decode, value) for value in values]
    assert np.array_equal(numbers.real, doubles, equal_nan=True)


@given(st.lists(st.tuples(CLOSE_LONGS, CLOSE_LONGS), min_size=1, max_size=5))
def test_gaps_of_columns_are_those_of_each_pair(pairs):
    codec = Codec(CodecName.INT64)
    new, old = (
        decode_column_exactly(codec, decoder_of(codec), [struct.pack(">q", n) for n in side])[0]
        for side in zip(*pairs, strict=True)
    )
    alone = [gap(*pair) for pair in zip(new.tolist(), old.tolist(), strict=True)]
    assert gaps(new, old).tolist() == alone
