"""Weighted rows: the increments that stages of the library are given and put out.

A row's weight says how often it has come, less how often it has gone: 1 for an insertion, -1 for a
deletion. A modification is both in one increment. What flows hold is the sum of their increments.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headgate.incremental.stage import Stage
from headgate.incremental.stages.declared import misused
from headgate.incremental.stages.errors import StageError
from headgate.incremental.stages.specification import GROUP, Groups, Outer
from headgate.incremental.state.keys import key_value

WEIGHT: Final = "weight"
"""The column that says how often a row has come, less how often it has gone."""
CHANGES: Final = "changes"
"""The output flow of weighted rows."""

_COLUMNS: Final = "write names and types, such as `{'row': 'string', 'n': 'int64'}`"
P = ParamSpec("P")
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Value = TypeVar("Value", np.int64, np.float64)

_INTEGER_OF = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def checked(function: Callable[P, Stage]) -> Callable[P, Stage]:
    """Return a function of the library that checks the types of what it is given first.

    Raises:
        StageError: (the function) an argument is of another type than the one that is declared.
    """
    declared = inspect.signature(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Stage:
        try:
            given = declared.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)  # Python itself says what is missing or too much
        for name, value in given.items():
            kind = str(declared.parameters[name].annotation)
            if not _is_of(value, kind):
                wanted = _COLUMNS if kind == "Types" else f"give {kind}"
                raise misused(f"`{name}` of `library.{function.__name__}`", value, wanted)
        return function(*args, **kwargs)

    return call


def _is_of(value: object, kind: str) -> bool:
    """Return whether a value is of a declared type; True of types that are checked elsewhere."""
    match kind:
        case "str":
            return isinstance(value, str)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "str | None":
            return value is None or isinstance(value, str)
        case "str | tuple[str, ...]":
            several = isinstance(value, tuple) and all(isinstance(each, str) for each in value)
            return several or isinstance(value, str)
        case "str | pa.DataType":
            return isinstance(value, str | pa.DataType)
        case "Types":
            return isinstance(value, pa.Schema | Mapping)
        case "Outer":
            return isinstance(value, Outer)
        case _:
            return True


def with_weight(columns: pa.Schema) -> pa.Schema:
    """Return columns and that of the weight.

    Raises:
        StageError: a column is named as it.
    """
    if WEIGHT in columns.names:
        message = f"a column cannot be named `{WEIGHT}`, which counts the rows; rename it"
        raise StageError(message)
    return columns.append(pa.field(WEIGHT, pa.int64()))


def rows_of(groups: Groups, flow: str, columns: pa.Schema, weight: str | None) -> pa.Table:
    """Return what came by a flow: the group, the columns, and ``weight``.

    Args:
        groups: that came.
        flow: its name.
        columns: those that are wanted, with their types.
        weight: the column of the weight; None: each row is one.

    Raises:
        ValueError: a column is missing, of another type, or a weight is null.
    """
    rows = groups.flows[flow]
    schema = pa.schema([pa.field(GROUP, pa.int64()), *with_weight(columns)])
    if not len(rows):
        # Of a flow of which nothing has come yet, nobody knows the columns.
        return schema.empty_table()
    names = [*columns.names, *(() if weight is None else (weight,))]
    missing = [name for name in names if name not in rows.column_names]
    if missing:
        message = (
            f"flow `{flow}` has no column {', '.join(missing)}; it has "
            f"{', '.join(name for name in rows.column_names if name != GROUP)}"
        )
        raise ValueError(message)
    if weight is None:
        weights: Any = pa.array(np.ones(len(rows), np.int64))
    else:
        weights = rows.column(weight).cast(pa.int64())
        if weights.null_count:
            message = f"flow `{flow}`: {weights.null_count} rows have no {weight}; give each one"
            raise ValueError(message)
    found = [rows.column(field.name).cast(field.type) for field in columns]
    return pa.table([rows.column(GROUP), *found, weights], schema=schema)


def weights_of(rows: pa.Table) -> Numbers:
    """Return the weights of rows, shape (n,)."""
    weights: Numbers = rows.column(WEIGHT).to_numpy()
    return weights


def numbers_of(rows: pa.Table) -> Numbers:
    """Return of each row the number of its group, shape (n,)."""
    numbers: Numbers = rows.column(GROUP).to_numpy()
    return numbers


def consolidated(*tables: pa.Table) -> pa.Table:
    """Return all rows of tables, each once with the sum of its weights, without those of 0.

    Rows are the same where all their bits are: 0.0 is not -0.0, and NaN is NaN.
    """
    rows = pa.concat_tables(tables)
    names = [name for name in rows.column_names if name != WEIGHT]
    # In one thread the order of rows is always the same.
    summed = rows.group_by(names, use_threads=False).aggregate([(WEIGHT, "sum")])
    summed = summed.rename_columns([*names, WEIGHT])
    return summed.filter(pc.not_equal(summed.column(WEIGHT), 0)).select(rows.column_names)


def negated(rows: pa.Table) -> pa.Table:
    """Return rows as gone that are there, and the other way round."""
    at = rows.column_names.index(WEIGHT)
    return rows.set_column(at, rows.schema.field(at), pc.negate(rows.column(WEIGHT)))


def positive(rows: pa.Table) -> pa.Table:
    """Return the rows that are there: a deletion may come before what it deletes."""
    return rows.filter(pc.greater(rows.column(WEIGHT), 0))


def by_group(rows: pa.Table) -> pa.Table:
    """Return rows sorted by group; those of one stay in their order."""
    return rows.take(pa.array(np.argsort(numbers_of(rows), kind="stable")))


def sums(numbers: Numbers, values: npt.NDArray[Value], count: int) -> npt.NDArray[Value]:
    """Return the sums of values by group, shape (count,).

    Args:
        numbers: of the group of each value, in any order.
        values: to be added.
        count: how many groups there are.
    """
    found = np.zeros(count, values.dtype)
    np.add.at(found, numbers, values)
    return found


class Held(Struct, frozen=True, eq=False):
    """One row, or none, of each group."""

    rows: pa.Table
    """Shape (groups,); what is not there may be anything."""
    there: Flags
    """Shape (groups,)."""

    @staticmethod
    def last_of(rows: pa.Table, count: int) -> Held:
        """Return the last row of each of so many groups, without the column of the group."""
        places = np.full(count, -1)
        numbers = numbers_of(rows)
        places[numbers] = np.arange(len(numbers))
        there = places >= 0
        return Held(rows.drop_columns([GROUP]).take(pa.array(places, mask=~there)), there)

    def where(self, flags: Flags) -> pa.Table:
        """Return the rows of some groups, with the column of the group."""
        at = np.flatnonzero(flags)
        return self.rows.take(pa.array(at)).append_column(GROUP, pa.array(at))


def changed(keys: pa.Table, before: Held, after: Held) -> pa.Table:
    """Return the weighted rows that lead from one row of each group to another.

    Args:
        keys: columns of each group that come first, shape (groups,).
        before: what was there.
        after: what is there now.
    """
    differs = ~(before.there & after.there & identical(before.rows, after.rows))
    parts = []
    for held, weight in ((before, -1), (after, 1)):
        at = pa.array(np.flatnonzero(held.there & differs))
        part = pa.table(
            [*keys.take(at).columns, *held.rows.take(at).columns],
            [*keys.column_names, *held.rows.column_names],
        )
        parts.append(part.append_column(WEIGHT, pa.array(np.full(len(at), weight, np.int64))))
    return pa.concat_tables(parts)


def identical(one: pa.Table, other: pa.Table) -> Flags:
    """Return which rows of two tables of one shape are the same, bit by bit."""
    same = np.ones(len(one), np.bool_)
    for left, right in zip(one.columns, other.columns, strict=True):
        same &= _identical(left, right)
    return same


def _identical(one: pa.ChunkedArray, other: pa.ChunkedArray) -> Flags:
    if pa.types.is_nested(one.type):
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return np.fromiter((a == b for a, b in pairs), np.bool_, len(one))
    left, right = (column.combine_chunks() for column in (one, other))
    if pa.types.is_floating(one.type):
        # NaN is not equal to itself, and 0.0 is equal to -0.0.
        integer = _INTEGER_OF[one.type.bit_width]
        left, right = left.view(integer), right.view(integer)
    nulls = pc.and_(pc.is_null(left), pc.is_null(right))
    equal = pc.or_(pc.fill_null(pc.equal(left, right), False), nulls)  # noqa: FBT003 - as Arrow has it
    flags: Flags = equal.to_numpy(zero_copy_only=False)
    return flags


def key_columns(groups: Groups, key: pa.Schema, tables: Sequence[pa.Table]) -> pa.Table:
    """Return the columns that route, of each group, the same in every epoch.

    Of 0.0 and -0.0, which are one group, it is 0.0, and of all NaNs one: so what is retracted is
    what was put out, however its group was spelled since.

    Args:
        groups: whose keys are canonical, as those of several columns or a tuple of one are.
        key: the columns.
        tables: rows of groups that have these columns. Of groups that have none there, which are
            seen only where all of the state is, the key is decoded.
    """
    rows = pa.concat_tables([table.select(key.names).cast(key) for table in tables])
    numbers = np.concatenate([numbers_of(table) for table in tables])
    places = np.full(groups.count, -1)
    places[numbers[::-1]] = np.arange(len(numbers))[::-1]
    missing = np.flatnonzero(places < 0)
    if len(missing):
        decoded = [key_value(data) for data in groups.keys.take(pa.array(missing)).to_pylist()]
        parts = [each if isinstance(each, tuple) else (each,) for each in decoded]
        columns = [
            pa.array([part[at] for part in parts], field.type) for at, field in enumerate(key)
        ]
        places[missing] = len(numbers) + np.arange(len(missing))
        rows = pa.concat_tables([rows, pa.table(columns, schema=key)])
    found = rows.combine_chunks().take(pa.array(places))
    for at, field in enumerate(key):
        if pa.types.is_floating(field.type):
            found = found.set_column(at, field, _one_spelling(found.column(at)))
    return found


def _one_spelling(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return floats such that equal keys have the same bits."""
    numbers = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 + 0.0 is 0.0
    return pc.if_else(pc.is_nan(numbers), pa.scalar(math.nan, column.type), numbers)
