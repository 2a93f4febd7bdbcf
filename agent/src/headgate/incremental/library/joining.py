"""The join of two flows of weighted rows (paper: sections 2.2 and 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headgate.incremental.library.rows import (
    CHANGES,
    WEIGHT,
    checked,
    consolidated,
    negated,
    numbers_of,
    rows_of,
    weights_of,
    with_weight,
)
from headgate.incremental.stage import Stage
from headgate.incremental.stages.errors import StageError
from headgate.incremental.stages.grouping import starts
from headgate.incremental.stages.specification import (
    GROUP,
    STATE,
    Groups,
    InputFlow,
    StateFlow,
    Types,
    schema_of,
)

_IS_LEFT: Final = "is_left"
_MOST: Final = 50_000_000
"""Pairs that one call may make: some gigabytes. More are those of a key that nearly all rows have.
"""


class Side(StrEnum):
    """One of the two flows."""

    LEFT = "left"
    RIGHT = "right"


class _Join(Struct, frozen=True, eq=False):
    columns: dict[Side, pa.Schema]
    by: dict[Side, tuple[str, ...]]
    flows: dict[Side, str]
    weight: str | None
    state: pa.Schema

    @property
    def result(self) -> dict[Side, list[str]]:
        """The columns that each side gives the result."""
        left = self.columns[Side.LEFT].names
        same = set(self.by[Side.LEFT]) & set(self.by[Side.RIGHT])
        right = [name for name in self.columns[Side.RIGHT].names if name not in same]
        return {Side.LEFT: left, Side.RIGHT: right}


@checked
def join(
    left_by: str | Sequence[str],
    right_by: str | Sequence[str],
    *,
    left: Types,
    right: Types,
    flows: tuple[str, str] = ("left", "right"),
    weight: str | None = WEIGHT,
    name: str = "join",
) -> Stage:
    """Return the stage that joins two flows where their columns are equal (an inner join).

    Both sides are the state, grouped by what they are joined by: a key that comes is read and
    written with all rows that it has. A null is equal to nothing, as in SQL.

    What comes by both flows in one epoch is joined as if one had come after the other. The weight
    of a result is the product of its rows': an insertion, deletion or modification on either side
    gives those of the result (paper: section 3.3).

    Flows:
        left: columns, and the weight. Where an increment is whole, all other rows of the side are
            gone.
        right: the same.
        changes: the columns of the left, those of the right, and ``weight``. Columns of one name
            by which both are joined come once.

    Args:
        left_by: columns of the left.
        right_by: as many of the right, of the same types.
        left: columns of the left flow.
        right: columns of the right flow.
        flows: names of the two.
        weight: column of the weight in both; None: each row is one.
        name: of the stage.

    Raises:
        StageError: the sides are joined by columns of other types or numbers, or have columns of
            one name that they are not joined by.
    """
    columns = {Side.LEFT: schema_of(left), Side.RIGHT: schema_of(right)}
    by = {Side.LEFT: _names(left_by), Side.RIGHT: _names(right_by)}
    _check(name, columns, by)
    places = [
        pa.field(f"{side}.{field.name}", field.type) for side in Side for field in columns[side]
    ]
    state = pa.schema([pa.field(_IS_LEFT, pa.bool_()), *places, pa.field(WEIGHT, pa.int64())])
    spec = _Join(columns, by, dict(zip(Side, flows, strict=True)), weight, state)
    fields = [columns[side].field(one) for side, names in spec.result.items() for one in names]
    return Stage(
        name,
        inputs={spec.flows[side]: InputFlow(by[side]) for side in Side},
        outputs={CHANGES: with_weight(pa.schema(fields))},
        translate_tables=partial(_join, spec=spec),
        state=StateFlow(state),
    )


def _names(by: str | Sequence[str]) -> tuple[str, ...]:
    return (by,) if isinstance(by, str) else tuple(by)


def _check(name: str, columns: dict[Side, pa.Schema], by: dict[Side, tuple[str, ...]]) -> None:
    for side in Side:
        unknown = [one for one in by[side] if one not in columns[side].names]
        if unknown:
            message = f"stage `{name}`: {', '.join(unknown)} is no column of the {side}"
            raise StageError(message)
    types = [[columns[side].field(one).type for one in by[side]] for side in Side]
    if types[0] != types[1] or not types[0]:
        message = (
            f"stage `{name}`: it joins {', '.join(by[Side.LEFT]) or 'nothing'} with "
            f"{', '.join(by[Side.RIGHT]) or 'nothing'}, whose types have to be the same"
        )
        raise StageError(message)
    shared = set(columns[Side.LEFT].names) & set(columns[Side.RIGHT].names)
    joined = {one for one, other in zip(*by.values(), strict=True) if one == other}
    if shared - joined:
        message = (
            f"stage `{name}`: both sides have a column {', '.join(sorted(shared - joined))}; "
            "rename it in one of them"
        )
        raise StageError(message)


def _join(groups: Groups, *, spec: _Join) -> dict[str, pa.Table]:
    stored = groups.flows[STATE]
    before, after, delta = {}, {}, {}
    for side in Side:
        before[side] = _stored(stored, side, spec)
        came = rows_of(groups, spec.flows[side], spec.columns[side], spec.weight)
        for one in spec.by[side]:
            came = came.filter(pc.is_valid(came.column(one)))
        if spec.flows[side] in groups.whole:
            came = pa.concat_tables([came, negated(before[side])])
        delta[side] = consolidated(came)
        after[side] = consolidated(before[side], delta[side])
    pairs = (
        _paired(delta[Side.LEFT], before[Side.RIGHT], groups.count, spec),
        _paired(after[Side.LEFT], delta[Side.RIGHT], groups.count, spec),
    )
    state = pa.concat_tables([_to_store(after[side], side, spec) for side in Side])
    return {STATE: state, CHANGES: consolidated(*pairs)}


def _stored(stored: pa.Table, side: Side, spec: _Join) -> pa.Table:
    rows = stored.filter(pc.equal(stored.column(_IS_LEFT), side is Side.LEFT))
    names = spec.columns[side].names
    wanted = [GROUP, *(f"{side}.{one}" for one in names), WEIGHT]
    return rows.select(wanted).rename_columns([GROUP, *names, WEIGHT])


def _to_store(rows: pa.Table, side: Side, spec: _Join) -> pa.Table:
    names = [GROUP, *(f"{side}.{one}" for one in spec.columns[side].names), WEIGHT]
    named = dict(zip(names, rows.columns, strict=True))
    named[_IS_LEFT] = pa.repeat(pa.scalar(side is Side.LEFT), len(rows))
    schema = pa.schema([*spec.state, pa.field(GROUP, pa.int64())])
    columns = [
        named[field.name] if field.name in named else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _paired(left: pa.Table, right: pa.Table, count: int, spec: _Join) -> pa.Table:
    """Return all pairs of rows of one group, with the products of their weights."""
    order = np.argsort(numbers_of(right), kind="stable")
    bounds = starts(numbers_of(right)[order], count)
    numbers = numbers_of(left)
    many = bounds[numbers + 1] - bounds[numbers]
    total = int(many.sum())
    if total > _MOST:
        message = (
            f"{total:,} pairs of rows would come of one call, more than {_MOST:,}: many rows of "
            "both sides are equal in what they are joined by; join by more columns"
        )
        raise ValueError(message)
    at_left = np.repeat(np.arange(len(numbers)), many)
    within = np.arange(total) - np.repeat(np.cumsum(many) - many, many)
    at_right = order[np.repeat(bounds[numbers], many) + within]
    columns = {
        name: table.column(name).combine_chunks().take(pa.array(at))
        for table, at, side in ((left, at_left, Side.LEFT), (right, at_right, Side.RIGHT))
        for name in spec.result[side]
    }
    columns[WEIGHT] = pa.array(weights_of(left)[at_left] * weights_of(right)[at_right])
    return pa.table(columns)
