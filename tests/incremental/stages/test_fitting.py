"""Values that a translation makes: each is in its column as it was made, or is refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.incremental.stages.fitting import NOT_MADE, Misfit, fitted, made_of

ZONED = pa.timestamp("us", "UTC")
NOON = datetime.fromisoformat("2026-07-01T12:00:00.250")
LONG_AGO, LATER = datetime.fromisoformat("1900-01-01"), datetime.fromisoformat("2200-01-01")
TYPES = (
    *(pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64(), pa.float32(), pa.float64()),
    *(pa.bool_(), pa.string(), pa.binary(), pa.date32(), pa.decimal128(20, 2)),
    *(pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), ZONED),
    *(pa.list_(pa.int64()), pa.struct({"a": pa.int64()})),
)
anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.integers(-3, 3),
    st.floats(),
    st.floats().map(np.float64),
    st.floats(width=32).map(np.float32),
    st.integers(-5, 5).map(float),
    st.decimals(allow_nan=True) | st.integers().map(Decimal),
    st.text(st.characters(), max_size=3) | st.sampled_from(["5", "\ud800"]),
    st.binary(max_size=3),
    st.dates(date(1900, 1, 1)),
    st.datetimes(LONG_AGO, LATER),
    st.datetimes(LONG_AGO, LATER, timezones=st.just(UTC)),
    st.just(NOON.replace(tzinfo=timezone(timedelta(hours=9)))),
    st.integers(-719_200, -719_100),  # days, about the first of year 1
    st.lists(st.integers(0, 3) | st.floats(0, 3) | st.booleans(), max_size=2),
    st.fixed_dictionaries({"a": st.integers(0, 3) | st.floats(0, 3)}),
)


def in_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def same(given: Any, there: Any, kind: pa.DataType) -> bool:
    """Return whether a value is what was given, apart from the digits that a float has not."""
    if given is None or there is None:
        return given is there
    if isinstance(given, bool) is not isinstance(there, bool):
        return False
    match there:
        case float():
            exact = kind.to_pandas_dtype()(given)
            return bool(exact == there or (math.isnan(exact) and math.isnan(there)))
        case list():
            return len(given) == len(there) and all(
                same(one, other, kind.value_type) for one, other in zip(given, there, strict=True)
            )
        case dict():
            return all(same(given[n], there[n], kind.field(n).type) for n in there)
        case datetime() if isinstance(given, int):
            return True  # counted in the type's unit
        case datetime() if isinstance(given, datetime):
            return (given.tzinfo is None) is (there.tzinfo is None) and given == there
        case date() if isinstance(given, datetime):
            return given == datetime.combine(there, datetime.min.time())
        case date() if isinstance(given, int):
            return True
        case str() | bytes():
            return in_bytes(given) == in_bytes(there)
        case _:
            return bool(given == there)


cells = st.one_of(
    st.tuples(st.sampled_from(TYPES), st.lists(anything, max_size=3)),
    st.tuples(st.sampled_from(TYPES[:5]), st.lists(st.floats(-9, 9), max_size=3)),
)


@given(cells)
def test_a_row_is_stored_as_it_is_or_refused(column: tuple[pa.DataType, list[Any]]) -> None:
    kind, values = column
    try:
        made = made_of(values, kind)
    except NOT_MADE:
        return
    assert all(same(v, t, kind) for v, t in zip(values, made.to_pylist(), strict=True)), made


@given(st.sampled_from(TYPES), st.sampled_from(TYPES), st.lists(anything, max_size=3))
def test_a_column_is_stored_as_it_is_or_refused(
    source: pa.DataType, kind: pa.DataType, values: list[Any]
) -> None:
    try:
        column = made_of(values, source)
    except NOT_MADE:
        return
    try:
        table = fitted(pa.table({"c": column}), pa.schema({"c": kind}))
    except NOT_MADE:
        return
    there = table.column("c").to_pylist()
    assert all(same(v, t, kind) for v, t in zip(column.to_pylist(), there, strict=True)), there


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        (1.9, pa.int64(), "1.9 is no whole number: round it, or declare float64"),
        (np.float32(0.5), pa.uint8(), "no whole number"),
        (Decimal("1.9"), pa.int64(), "no whole number"),
        (True, pa.int64(), "True is no int64"),
        (True, pa.float64(), "True is no double"),
        (math.nan, pa.int64(), "nan is no whole number"),
        (1e39, pa.float32(), "too large for float"),
        (NOON, pa.date32(), "holds days"),
        (-719_163, pa.date32(), "years 1 to 9999"),
        (np.datetime64("-0001-01-01"), pa.date32(), "years 1 to 9999"),
        (10**12, pa.timestamp("s"), "years 1 to 9999"),
        (NOON, pa.timestamp("s"), "smaller parts"),
        (pd.Timestamp(5, unit="ns"), pa.timestamp("us"), "smaller parts"),
        (NOON.replace(tzinfo=UTC), pa.timestamp("us"), r"declare timestamp\[us, tz=UTC\]"),
        (NOON, ZONED, "give it one"),
        (1.5, pa.timestamp("us"), "is no timestamp"),
        ([1, 1.9], pa.list_(pa.int64()), "1.9 is no whole number"),
        ({"a": 1.9}, pa.struct({"a": pa.int64()}), "1.9 is no whole number"),
    ],
)
def test_what_arrow_would_change_is_refused_with_its_row(
    value: Any, kind: pa.DataType, words: str
) -> None:
    with pytest.raises(Misfit, match=words) as refused:
        made_of([None, None, value], kind)
    assert refused.value.row == 2


@pytest.mark.parametrize(
    ("value", "kind"), [(2.0, pa.int64()), (Decimal(2), pa.int8()), (2**60 * 1.0, pa.uint64())]
)
def test_a_whole_number_may_be_a_float(value: Any, kind: pa.DataType) -> None:
    assert made_of([value], kind).to_pylist() == [int(value)]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([True]), pa.int64()),
        (pa.array(["5"]), pa.int64()),
        (pa.array([5]), pa.string()),
        (pa.array([1.25]), pa.decimal128(38, 1)),
        (pa.array([NOON]), pa.date32()),
        (pa.array([NOON]), ZONED),
        (pa.array([NOON], ZONED), pa.timestamp("us")),
    ],
)
def test_a_column_of_another_kind_is_refused(column: pa.Array, kind: pa.DataType) -> None:
    with pytest.raises(pa.ArrowInvalid, match="column c is of"):
        fitted(pa.table({"c": column}), pa.schema({"c": kind}))


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([1.0, 2.0, 1.9, 1.8]), pa.int64()),
        (pa.array([1.0, math.inf, 1e39]), pa.float32()),
        (pa.array([1, 2, 2**53 + 1]), pa.float64()),
        (pa.array([NOON.replace(microsecond=0)] * 2 + [NOON]), pa.timestamp("s")),
    ],
)
def test_a_value_of_a_column_that_does_not_fit_has_its_row(
    column: pa.Array, kind: pa.DataType
) -> None:
    with pytest.raises(Misfit, match="column c") as refused:
        fitted(pa.table({"c": column}), pa.schema({"c": kind}))
    assert refused.value.row == 2
