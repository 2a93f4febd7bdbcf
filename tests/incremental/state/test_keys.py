"""Canonical bytes of keys."""

import math
import struct
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.incremental.state import (
    UnusableKey,
    key_bytes,
    key_column,
    key_type,
    key_value,
    key_values,
    keys,
)

INTS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8"))
SCALARS = st.one_of(st.none(), st.booleans(), INTS, st.floats(), TEXTS, st.binary())
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
KINDS = [
    (pa.bool_(), st.booleans()),
    (pa.int64(), INTS),
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint64(), st.integers(0, 2**63 - 1)),
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.string(), TEXTS),
    (pa.large_string(), TEXTS),
    (pa.string_view(), TEXTS),
    (pa.binary(), st.binary()),
    (pa.large_binary(), st.binary()),
    (pa.binary_view(), st.binary()),
    (pa.binary(2), st.binary(min_size=2, max_size=2)),
    (pa.dictionary(pa.int32(), pa.string()), TEXTS),
    (pa.null(), st.none()),
]


def same(one: object, other: object) -> bool:
    """Whether two keys are the same: of one type, all NaN alike, and -0.0 as 0.0."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    return type(one) is type(other) and one == other


@st.composite
def columns(draw: st.DrawFn) -> list[pa.Array]:
    count = draw(st.integers(1, 3))
    rows = draw(st.integers(0, 6))
    found = []
    for _ in range(count):
        kind, values = draw(st.sampled_from(KINDS))
        before = draw(st.integers(0, 2))
        some = draw(st.lists(st.none() | values, min_size=rows + before, max_size=rows + before))
        found.append(pa.array(some, kind).slice(before))
    return found


@given(VALUES)
def test_bytes_become_the_value_again(value):
    assert same(key_value(key_bytes(value)), value)


@given(VALUES, VALUES)
def test_two_values_are_one_key_only_if_they_are_the_same(one, other):
    assert (key_bytes(one) == key_bytes(other)) == same(one, other)


@pytest.mark.parametrize(
    "values",
    [
        INTS,
        TEXTS,
        st.binary(),
        st.booleans(),
        st.floats(allow_nan=False),
        st.tuples(TEXTS, INTS),
        st.tuples(st.binary(), st.binary()),
        st.lists(st.binary(), max_size=4).map(tuple),
        st.tuples(st.tuples(TEXTS), TEXTS),
    ],
)
@given(st.data())
def test_sorting_bytes_sorts_values(values, data):
    some = data.draw(st.lists(values, min_size=2, max_size=6))

    assert [key_value(one) for one in sorted(map(key_bytes, some))] == sorted(some)


@given(columns())
def test_a_column_has_the_bytes_of_its_values(some):
    rows = list(zip(*(column.to_pylist() for column in some), strict=True))
    values = rows if len(some) > 1 else [row[0] for row in rows]

    found = key_column(some)

    found.validate(full=True)
    assert found.null_count == 0
    assert found.to_pylist() == [key_bytes(value) for value in values]


def test_a_column_in_chunks_is_one_column():
    chunked = pa.chunked_array([["a"], [], ["b", None]], pa.string())

    assert key_column([chunked]).to_pylist() == [key_bytes(one) for one in ("a", "b", None)]
    assert key_column([pa.chunked_array([], pa.int64())]).to_pylist() == []


@pytest.mark.parametrize("many", [1, 2])
def test_offsets_of_64_bits_are_used_where_32_do_not_count_so_far(monkeypatch, many):
    column = pa.array(["some text", None, "with \0 in it"])
    expected = key_column([column] * many)
    monkeypatch.setattr(keys, "_ADDRESSABLE", 10)

    found = key_column([column] * many)

    assert found.type == pa.large_binary()
    assert found.to_pylist() == expected.to_pylist()


def test_every_nan_is_one_key_that_sorts_last():
    negative = struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0]

    assert key_bytes(negative) == key_bytes(math.nan)
    assert key_bytes(math.nan) > key_bytes(math.inf)
    [alone] = key_column([pa.array([negative])]).to_pylist()
    assert alone == key_bytes(math.nan)


def test_zero_has_no_sign():
    assert key_bytes(-0.0) == key_bytes(0.0)
    assert key_column([pa.array([-0.0])]).to_pylist() == [key_bytes(0.0)]


def test_types_differ_and_sort_by_type():
    ordered = [None, False, 1, 1.0, "1", b"1", (1,)]

    assert all(one < other for one, other in pairwise(map(key_bytes, ordered)))


def test_parts_of_tuples_do_not_run_into_each_other():
    assert key_bytes(("a", "bc")) != key_bytes(("ab", "c"))
    assert key_bytes(("a\0", "b")) != key_bytes(("a", "\0b"))
    assert key_bytes(("a",)) < key_bytes(("a", None))
    assert key_bytes((("a",), "b")) != key_bytes((("a", "b"),))


@pytest.mark.parametrize("key", ["k" * (1 << 20), b"\0" * (1 << 20), ("\0" * (1 << 20), 1)])
def test_a_key_of_a_megabyte(key):
    assert key_value(key_bytes(key)) == key
    parts = key if isinstance(key, tuple) else (key,)
    assert key_column([pa.array([part]) for part in parts]).to_pylist() == [key_bytes(key)]


@pytest.mark.parametrize(
    ("value", "cure"),
    [
        (2**63, "text"),
        (-(2**63) - 1, "text"),
        (datetime(2024, 1, 1, tzinfo=UTC), "microseconds"),
        (Decimal("1.5"), "text"),
        ([1, 2], "a tuple"),
        (np.int64(3), "an int"),
        ("\ud800", "bytes"),
    ],
)
def test_what_can_be_no_key_is_refused_with_a_cure(value, cure):
    with pytest.raises(UnusableKey, match=cure):
        key_bytes(value)
    with pytest.raises(UnusableKey, match=cure):
        key_bytes((1, value))


def test_tuples_are_not_endlessly_deep():
    value: keys.Key = 1
    for _ in range(keys.DEEPEST):
        value = (value,)
    assert key_value(key_bytes(value)) == value

    with pytest.raises(UnusableKey, match="deep"):
        key_bytes((value,))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**63], pa.uint64()),
        pa.array([datetime(2024, 1, 1, tzinfo=UTC)]),
        pa.array([Decimal("1.5")]),
        pa.array([[1]]),
        pa.array([{"a": 1}]),
    ],
)
def test_a_column_that_can_be_no_key_is_refused_with_a_cure(column):
    with pytest.raises(UnusableKey, match="cast"):
        key_column([column])
    with pytest.raises(UnusableKey, match="cast"):
        key_column([pa.array([1]), column])


def test_a_key_has_a_column():
    with pytest.raises(UnusableKey):
        key_column([])


@pytest.mark.parametrize(
    "data",
    [b"", b"\x09", b"\x03\x00", b"\x05\xff", b"\x07\x05ab", b"\x01\x01", b"\x07" * 5000],
)
def test_bytes_of_no_key_are_refused(data):
    with pytest.raises(UnusableKey):
        key_value(data)


@given(
    st.lists(VALUES) | st.lists(INTS) | st.lists(TEXTS) | st.lists(st.binary()),
    st.sampled_from([pa.binary(), pa.large_binary()]),
    st.integers(0, 2),
)
def test_keys_are_read_together_as_one_by_one(values, kind, first):
    some = [key_bytes(value) for value in values]

    found = key_values(pa.array(some, kind).slice(first))

    assert list(map(type, found)) == [type(key_value(key)) for key in some[first:]]
    assert all(map(same, found, map(key_value, some[first:])))


@pytest.mark.parametrize("data", [b"\x05\xff", b"\x03\x00", b"", b"\x09"])
def test_bytes_of_no_key_are_refused_among_others(data):
    with pytest.raises(UnusableKey):
        key_values(pa.array([data, data], pa.binary()))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], pa.null()),
        ([None], pa.null()),
        ([None, 5], pa.int64()),
        ([1.5, math.nan], pa.float64()),
        ([True], pa.bool_()),
        (["", "a"], pa.string()),
        ([b"a"], pa.binary()),
        ([1, 1.0], None),
        (["a", b"a"], None),
        ([("a", 1)], None),
    ],
)
def test_the_type_of_keys_is_that_of_all_of_them(values, kind):
    # Each key in an array of its own, as keys of several files are.
    assert key_type(pa.array([key_bytes(each)], pa.binary()) for each in values) == kind
