"""Sums, counts and extremes by key, right under deletions (paper: sections 2 and 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headgate.incremental.library.rows import (
    CHANGES,
    WEIGHT,
    Held,
    Numbers,
    changed,
    checked,
    consolidated,
    key_columns,
    numbers_of,
    positive,
    rows_of,
    sums,
    weights_of,
    with_weight,
)
from headgate.incremental.stage import Stage
from headgate.incremental.stages.declared import check_each
from headgate.incremental.stages.errors import StageError
from headgate.incremental.stages.specification import (
    GROUP,
    STATE,
    Groups,
    InputFlow,
    StateFlow,
    Types,
    schema_of,
)

_ROWS: Final = "rows"
_LARGEST: Final = float(2**63)


class Function(StrEnum):
    """What is computed of the values of a column; nulls do not count."""

    COUNT = "count"
    SUM = "sum"
    """Of int64, or of float64 for floats; null where there are no values."""
    MIN = "min"
    MAX = "max"
    """NaN is the highest value; null where there are no values."""


class Aggregate(Struct, frozen=True):
    """One result of an aggregation."""

    function: Function
    column: str
    """Whose values these are."""
    type: str | pa.DataType
    """Of the column."""


class _Aggregation(Struct, frozen=True, eq=False):
    key: pa.Schema
    values: pa.Schema
    """Columns that are aggregated."""
    results: pa.Schema
    of: dict[str, Aggregate]
    source: str
    weight: str | None

    @property
    def is_running(self) -> bool:
        """Whether results follow from those before, so that no rows have to be kept."""
        return all(
            one.function == Function.COUNT
            or (one.function == Function.SUM and pa.types.is_integer(self.results.field(name).type))
            for name, one in self.of.items()
        )


@checked
def aggregate(
    by: Types,
    of: Mapping[str, Aggregate],
    *,
    source: str = "source",
    weight: str | None = WEIGHT,
    name: str = "aggregate",
) -> Stage:
    """Return the stage that computes aggregates of the rows of each key.

    A key has a result as long as the weights of its rows are more than 0 together. Counts and sums
    of integers are algebraic: the state is a few numbers a key. Extremes need all values, since the
    least may be deleted, and so do sums of floats, which would else depend on the order in which
    values came and went: with one of these the state is the values of each key with how often they
    are there, and a key that comes is read and written with all of them.

    Flows:
        source: the columns of the key, those that are aggregated, and the weight. Where an
            increment is whole, all other rows are gone.
        changes: the columns of the key, the results, and ``weight``: -1 with the results that a key
            had, 1 with those that it has.

    Args:
        by: columns of the key.
        of: results by name.
        source: the input flow's name.
        weight: column of the weight; None: each row is one.
        name: of the stage.

    Raises:
        StageError: there is no such function, a sum is of neither integers nor floats, or one
            column has two types.
    """
    wanted = "write `{'total': Aggregate(Function.SUM, 'n', 'int64')}`"
    check_each("`of` of `library.aggregate`", of, Aggregate, wanted)
    key = schema_of(by)
    columns: dict[str, pa.DataType] = {}
    results = []
    for result, one in of.items():
        if one.function not in list(Function):
            message = f"stage `{name}`: no {one.function} is computed; give {', '.join(Function)}"
            raise StageError(message)
        kind = schema_of({one.column: one.type}).field(0).type
        if columns.setdefault(one.column, kind) != kind:
            message = f"stage `{name}`: column {one.column} is {columns[one.column]} and {kind}"
            raise StageError(message)
        results.append(pa.field(result, _result_type(name, one, kind)))
    values = pa.schema(list(columns.items()))
    spec = _Aggregation(key, values, pa.schema(results), dict(of), source, weight)
    state = _running_state(spec) if spec.is_running else with_weight(values)
    translate = _translate_running if spec.is_running else _translate_bag
    return Stage(
        name,
        inputs={source: InputFlow(tuple(key.names))},
        outputs={CHANGES: with_weight(pa.schema([*key, *results]))},
        translate_tables=partial(translate, spec=spec),
        state=StateFlow(state),
    )


def _result_type(stage: str, one: Aggregate, kind: pa.DataType) -> pa.DataType:
    match one.function:
        case Function.COUNT:
            return pa.int64()
        case Function.SUM if pa.types.is_integer(kind):
            return pa.int64()
        case Function.SUM if pa.types.is_floating(kind):
            return pa.float64()
        case Function.SUM:
            message = f"stage `{stage}`: {one.column} of type {kind} has no sum; cast it"
            raise StageError(message)
    return kind


# -- algebraic: a few numbers a key ----------------------------------------------------------


def _running_state(spec: _Aggregation) -> pa.Schema:
    counts = [pa.field(f"count.{name}", pa.int64()) for name in spec.values.names]
    totals = [pa.field(f"sum.{name}", pa.int64()) for name in _summed(spec)]
    return pa.schema([pa.field(_ROWS, pa.int64()), *counts, *totals])


def _summed(spec: _Aggregation) -> list[str]:
    found = (one.column for one in spec.of.values() if one.function == Function.SUM)
    return list(dict.fromkeys(found))


def _translate_running(groups: Groups, *, spec: _Aggregation) -> dict[str, pa.Table]:
    stored = groups.flows[STATE]
    came = _came(groups, spec)
    before = {name: np.zeros(groups.count, np.int64) for name in _running_state(spec).names}
    for name, numbers in before.items():
        numbers[numbers_of(stored)] = stored.column(name).to_numpy()
    added = _running(came, groups.count, spec)
    after = {
        name: added[name] if groups.whole else _plus(numbers, added[name])
        for name, numbers in before.items()
    }
    held = [
        Held(
            pa.table(
                [_from_running(one, numbers) for one in spec.of.values()], schema=spec.results
            ),
            numbers[_ROWS] > 0,
        )
        for numbers in (before, after)
    ]
    there = np.flatnonzero(np.any([numbers != 0 for numbers in after.values()], axis=0))
    state = pa.table({**{name: n[there] for name, n in after.items()}, GROUP: there})
    return {STATE: state, CHANGES: changed(_keys(groups, spec), *held)}


def _running(rows: pa.Table, count: int, spec: _Aggregation) -> dict[str, Numbers]:
    numbers, weights = numbers_of(rows), weights_of(rows)
    found = {_ROWS: sums(numbers, weights, count)}
    for name in spec.values.names:
        valid = pc.is_valid(rows.column(name)).to_numpy()
        found[f"count.{name}"] = sums(numbers[valid], weights[valid], count)
    for name in _summed(spec):
        values = rows.column(name).cast(pa.int64()).fill_null(0).to_numpy()
        found[f"sum.{name}"] = _sums(numbers, values, weights, count)
    return found


def _from_running(one: Aggregate, numbers: Mapping[str, Numbers]) -> pa.Array:
    known = numbers[f"count.{one.column}"]
    if one.function == Function.COUNT:
        return pa.array(known)
    return pa.array(numbers[f"sum.{one.column}"], mask=known == 0)


# -- holistic: the values of a key -----------------------------------------------------------


def _translate_bag(groups: Groups, *, spec: _Aggregation) -> dict[str, pa.Table]:
    came = _came(groups, spec)
    before = groups.flows[STATE].select(came.column_names)
    after = consolidated(came) if groups.whole else consolidated(before, came)
    held = [_results(rows, groups.count, spec) for rows in (before, after)]
    return {STATE: after, CHANGES: changed(_keys(groups, spec), *held)}


def _results(rows: pa.Table, count: int, spec: _Aggregation) -> Held:
    there = sums(numbers_of(rows), weights_of(rows), count) > 0
    columns = [
        _result(rows, count, one).cast(field.type)
        for one, field in zip(spec.of.values(), spec.results, strict=True)
    ]
    return Held(pa.table(columns, schema=spec.results), there)


def _result(rows: pa.Table, count: int, one: Aggregate) -> pa.Array:
    rows = rows.select([GROUP, one.column, WEIGHT])
    rows = rows.filter(pc.is_valid(rows.column(one.column)))
    numbers, weights = numbers_of(rows), weights_of(rows)
    known = sums(numbers, weights, count)
    match one.function:
        case Function.COUNT:
            return pa.array(known)
        case Function.SUM if pa.types.is_integer(rows.column(one.column).type):
            values = rows.column(one.column).cast(pa.int64()).to_numpy()
            return pa.array(_sums(numbers, values, weights, count), mask=known == 0)
        case Function.SUM:
            # Values are added in their order, so that a sum is that of the values that there are.
            rows = consolidated(rows).sort_by([(GROUP, "ascending"), (one.column, "ascending")])
            values = rows.column(one.column).cast(pa.float64()).to_numpy() * weights_of(rows)
            return pa.array(sums(numbers_of(rows), values, count), mask=known == 0)
    descending = one.function == Function.MAX
    rows = positive(rows)
    places = _extreme(rows, one.column, count, descending=descending)
    return rows.column(one.column).combine_chunks().take(places)


def _extreme(rows: pa.Table, column: str, count: int, *, descending: bool) -> pa.Array:
    """Return where the least or greatest value of each group is; null where it has none."""
    order = pc.sort_indices(rows, sort_keys=[(GROUP, "ascending"), (column, "ascending")])
    # NaN is sorted after all numbers, up or down, so that it is looked for from the end.
    at = order.to_numpy() if descending else order.to_numpy()[::-1]
    places = np.full(count, -1)
    places[numbers_of(rows)[at]] = at
    return pa.array(places, mask=places < 0)


# -- both ------------------------------------------------------------------------------------


def _came(groups: Groups, spec: _Aggregation) -> pa.Table:
    new = [field for field in spec.values if field.name not in spec.key.names]
    rows = rows_of(groups, spec.source, pa.schema([*spec.key, *new]), spec.weight)
    return rows.select([GROUP, *spec.values.names, WEIGHT])


def _keys(groups: Groups, spec: _Aggregation) -> pa.Table:
    return key_columns(groups, spec.key, [groups.flows[spec.source]])


def _sums(numbers: Numbers, values: Numbers, weights: Numbers, count: int) -> Numbers:
    """Return weighted sums by group.

    Raises:
        OverflowError: one is beyond 64 bits.
    """
    # Rounded, they are as large as the true ones are, which would begin anew at the other end.
    rounded = sums(numbers, values.astype(np.float64) * weights, count)
    _check_size(rounded)
    return sums(numbers, values * weights, count)


def _plus(one: Numbers, other: Numbers) -> Numbers:
    _check_size(one.astype(np.float64) + other)
    return one + other


def _check_size(rounded: npt.NDArray[np.float64]) -> None:
    if (np.abs(rounded) >= _LARGEST).any():
        message = "a sum is beyond 64 bits; aggregate the column as float64"
        raise OverflowError(message)
