"""Output of a translation in the declared types of its columns: exact, or refused.

Arrow itself converts silently in some places: 1.9, True, the text "1" and a day become 1, and time
zones are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

NOT_MADE: Final = (
    pa.ArrowException,
    AttributeError,
    TypeError,
    ValueError,  # a lone surrogate, among others
    OverflowError,
)
"""Exceptions that Arrow raises at values from which it cannot make an array."""

_NOTHING: Final = type(None)
_PER_SECOND: Final = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}
"""Microseconds of a datetime in the unit of a type of times."""


class Misfit(ValueError):
    """A value that a type cannot hold, or none of the type.

    Args:
        reason: which value, and why not.
        row: the number of its row.
    """

    def __init__(self, reason: str, row: int) -> None:
        super().__init__(reason)
        self.row = row


def made_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as an array of a type.

    Raises:
        Misfit: the type cannot hold one of them.
        pa.ArrowException, TypeError, ValueError, OverflowError: likewise, as Arrow found.
    """
    return pa.array(_checked(values, range(len(values)), kind), kind)


def _checked(values: Sequence[Any], rows: Sequence[int], kind: pa.DataType) -> Sequence[Any]:
    """Return values of which Arrow makes what they are."""
    plain, check = _check_of(kind)
    if check is None or set(map(type, values)) <= plain:
        return _nested(values, rows, kind)
    checked = []
    for row, value in zip(rows, values, strict=True):
        try:
            checked.append(None if value is None else check(value, kind))
        except _Unfit as error:
            raise Misfit(f"{value!r:.200} {error}", row) from error
    return checked


def _nested(values: Sequence[Any], rows: Sequence[int], kind: pa.DataType) -> Sequence[Any]:
    """Check what lists and structures have in them; return the values as they are."""
    if types.is_struct(kind):
        there = [(row, each) for row, each in zip(rows, values, strict=True) if each is not None]
        for field in kind:
            inner = [each.get(field.name) for _, each in there]
            _only_exact(inner, [row for row, _ in there], field.type)
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        lists = [(row, each) for row, each in zip(rows, values, strict=True) if each is not None]
        inner = list(chain.from_iterable(each for _, each in lists))
        _only_exact(inner, [row for row, each in lists for _ in each], kind.value_type)
    return values


def _only_exact(values: Sequence[Any], rows: Sequence[int], kind: pa.DataType) -> None:
    _checked(values, rows, kind)


Check = Callable[[Any, pa.DataType], Any]


def _check_of(kind: pa.DataType) -> tuple[frozenset[type], Check | None]:
    """Return types of values that need no look, and the look at others."""
    if types.is_integer(kind):
        return _INTEGERS, _integer
    if types.is_float64(kind):
        return _DOUBLES, _float
    if types.is_floating(kind):
        return frozenset(), _float
    if types.is_date(kind):
        return _DATES, _date
    if types.is_timestamp(kind):
        return frozenset(), _timestamp
    return frozenset(), None


_INTEGERS: Final[frozenset[type]] = frozenset({int, _NOTHING})
_DOUBLES: Final[frozenset[type]] = frozenset({float, int, _NOTHING})
_DATES: Final[frozenset[type]] = frozenset({date, _NOTHING})


class _Unfit(Exception):
    """Why a value is none of a type."""


def _integer(value: Any, kind: pa.DataType) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(
        value, int | np.integer | float | np.floating | Decimal
    ):
        message = f"is no {kind}"
        raise _Unfit(message)
    if not math.isfinite(value) or int(value) != value:
        message = f"is no whole number: round it, or declare float64 instead of {kind}"
        raise _Unfit(message)
    return int(value)


def _float(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, bool | np.bool_):
        message = f"is no {kind}"
        raise _Unfit(message)
    if isinstance(value, float | np.floating) and math.isfinite(value):
        with np.errstate(over="ignore"):
            if not np.isfinite(kind.to_pandas_dtype()(value)):
                message = f"is too large for {kind}: declare double"
                raise _Unfit(message)
    return value


def _date(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, datetime) and (
        value.tzinfo or value != datetime.combine(value, _MIDNIGHT)
    ):
        message = f"is a time, and {kind} holds days: give value.date(), or declare timestamp[us]"
        raise _Unfit(message)
    if isinstance(value, bool) or not isinstance(value, date | int | np.datetime64):
        message = f"is no {kind}"
        raise _Unfit(message)
    return value if isinstance(value, date) else _readable(value, kind)


_MIDNIGHT: Final = datetime.min.time()


def _readable(value: Any, kind: pa.DataType) -> Any:
    """Return a count of days or of seconds that Python can read again as a date or a time."""
    scalar = pa.scalar(value, kind)
    try:
        scalar.as_py()
    except (OverflowError, ValueError) as error:
        message = "is not in the years 1 to 9999, which are all that Python can read"
        raise _Unfit(message) from error
    return value


def _timestamp(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, datetime):
        if (value.tzinfo is None) is not (kind.tz is None):
            message = (
                f"has a time zone, and {kind} has none: declare timestamp[us, tz=UTC]"
                if kind.tz is None
                else f"has no time zone, and {kind} has one: give it one, tzinfo=timezone.utc"
            )
            raise _Unfit(message)
        finer = getattr(value, "nanosecond", 0) and kind.unit != "ns"
        if finer or value.microsecond % _PER_SECOND[kind.unit]:
            message = f"has smaller parts than {kind} holds: round it, or declare timestamp[ns]"
            raise _Unfit(message)
    elif isinstance(value, bool | np.bool_) or not isinstance(
        value, int | np.integer | np.datetime64
    ):
        message = f"is no {kind}"
        raise _Unfit(message)
    elif kind.unit != "ns":  # all of which are in these years
        return _readable(value, kind)
    return value


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the columns of a schema in its types.

    Raises:
        KeyError: a column is not there.
        pa.ArrowException: a column is of another kind.
        Misfit: a value does not fit its type.
    """
    columns = [_fitted(table.column(field.name), field) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _fitted(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if column.type == field.type:
        return column
    if not _castable(column.type, field.type):
        message = f"column {field.name} is of {column.type}, not of {field.type}"
        raise pa.ArrowInvalid(message)
    try:
        made = column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise Misfit(f"column {field.name}: {error}", _first_unfit(column, field.type)) from error
    if types.is_floating(field.type) and types.is_floating(column.type):
        lost = pc.and_(pc.is_inf(made), pc.invert(pc.is_inf(column)))
        if pc.any(lost).as_py():
            row = lost.to_pylist().index(True)
            message = f"column {field.name}: {column[row].as_py()!r} is too large for {field.type}"
            raise Misfit(message, row)
    return made


def _first_unfit(column: pa.ChunkedArray, kind: pa.DataType) -> int:
    """Return the first row whose value cannot be cast, by halves."""
    first, rest = 0, column
    while len(rest) > 1:
        half = len(rest) // 2
        try:
            rest.slice(0, half).cast(kind)
        except pa.ArrowInvalid:
            rest = rest.slice(0, half)
        else:
            first, rest = first + half, rest.slice(half)
    return first


def _castable(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of a type are of another kind of the same, which holds them or not."""
    if given == wanted or types.is_null(given):
        return True
    if types.is_dictionary(given):
        return _castable(given.value_type, wanted)
    if types.is_timestamp(given) and types.is_timestamp(wanted):
        return (given.tz is None) is (wanted.tz is None)
    if types.is_struct(given) and types.is_struct(wanted):
        return [f.name for f in given] == [f.name for f in wanted] and all(
            _castable(given.field(at).type, wanted.field(at).type)
            for at in range(wanted.num_fields)
        )
    if _is_list(given) and _is_list(wanted):
        return _castable(given.value_type, wanted.value_type)
    if types.is_decimal(wanted) and types.is_floating(given):
        return False  # it would be rounded
    return any(_one_of(given, kinds) and _one_of(wanted, kinds) for kinds in _KINDS)


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _one_of(kind: pa.DataType, kinds: Iterable[Callable[[pa.DataType], bool]]) -> bool:
    return any(is_kind(kind) for is_kind in kinds)


_KINDS: Final = (
    (types.is_integer, types.is_floating, types.is_decimal),
    (types.is_string, types.is_large_string),
    (types.is_binary, types.is_large_binary, types.is_fixed_size_binary),
    (types.is_date,),
    (types.is_time,),
    (types.is_duration,),
    (types.is_map,),
)
"""Types whose casts Arrow refuses where they lose something."""
