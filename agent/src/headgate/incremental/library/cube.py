"""The data cube (paper: section 3.2, Figure 5).

``input_split`` -> ``cube_update`` -> ``data_cube`` -> ``result``, and ``query_preprocessor`` ->
``data_cube``. A cuboid is a set of dimensions that are kept, and numbered by its bits: the first
dimension is bit 0. In cells of a cuboid the other dimensions are null.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headgate.incremental.library.aggregating import Aggregate, Function, aggregate
from headgate.incremental.library.rows import (
    CHANGES,
    WEIGHT,
    Held,
    checked,
    consolidated,
    numbers_of,
    rows_of,
    sums,
    weights_of,
    with_weight,
)
from headgate.incremental.stage import Stage
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

CUBOID: Final = "cuboid"
CELLS: Final = "cells"
POINTS: Final = "points"
ANSWERS: Final = "answers"
RESULTS: Final = "results"
QUERY: Final = "query"
_MOST_DIMENSIONS: Final = 12
"""A row becomes 2^n: 4,096 of each are as many as one would want to write."""
MOST_POINTS: Final = 1_000_000
"""Point queries that the range queries of one call may become: some tens of megabytes."""


@checked
def input_split(
    dimensions: Types,
    measures: Types,
    *,
    source: str = "rows",
    weight: str | None = None,
    name: str = "input_split",
) -> Stage:
    """Return the stage that makes 2^n versions of each row, one for each cuboid; it has no state.

    Flows:
        source: dimensions, measures, and the weight where rows are also deleted.
        cells: ``cuboid`` int64, dimensions, measures, ``weight``.

    Args:
        dimensions: up to 12 columns.
        measures: columns that are aggregated.
        source: the input flow's name.
        weight: column of the weight; None: each row is an insertion, as in the paper.
        name: of the stage.

    Raises:
        StageError: there are more dimensions.
    """
    kept, measured = schema_of(dimensions), schema_of(measures)
    if len(kept) > _MOST_DIMENSIONS:
        message = f"stage `{name}`: a row of {len(kept)} dimensions is in 2^{len(kept)} cuboids"
        raise StageError(f"{message}; give {_MOST_DIMENSIONS} at most")
    columns = pa.schema([*kept, *measured])
    return Stage(
        name,
        inputs={source: InputFlow()},
        outputs={CELLS: with_weight(pa.schema([pa.field(CUBOID, pa.int64()), *columns]))},
        translate_tables=partial(_split, source=source, kept=kept, columns=columns, weight=weight),
    )


@checked
def cube_update(
    dimensions: Types,
    of: Mapping[str, Aggregate],
    *,
    source: str = CELLS,
    name: str = "cube_update",
) -> Stage:
    """Return the stage that computes the aggregates of each cell, routed by (cuboid, group).

    It is ``aggregate`` by the cuboid and the dimensions: the state is of constant size a cell for
    counts and sums of integers, and the values of a cell for extremes.

    Flows:
        source: ``cuboid``, dimensions, measures, ``weight``.
        changes: ``cuboid``, dimensions, results, ``weight``: -1 with the old results of a cell, 1
            with the new.

    Args:
        dimensions: as in ``input_split``.
        of: results by name, of measures.
        source: the input flow's name.
        name: of the stage.

    Raises:
        StageError: see ``aggregate``.
    """
    return aggregate(_cell(dimensions), of, source=source, name=name)


@checked
def data_cube(
    dimensions: Types,
    of: Mapping[str, Aggregate],
    *,
    source: str = CHANGES,
    queries: str = POINTS,
    name: str = "data_cube",
) -> Stage:
    """Return the stage that has the cube as its state, changes it, and answers point queries.

    A query that is read in one epoch with changes is answered from the cube after them. Which of
    the two flows is read when is said by the stage's runnable (paper: sections 3.2 and 5.2).

    Flows:
        source: ``cuboid``, dimensions, results, ``weight``, as ``cube_update`` puts them out.
        queries: ``query`` int64, ``cuboid``, dimensions.
        answers: ``query``, results: a row for each query whose cell is there.

    Args:
        dimensions: as in ``input_split``.
        of: as in ``cube_update``.
        source: the flow of changes.
        queries: the flow of point queries.
        name: of the stage.

    Raises:
        StageError: see ``aggregate``.
    """
    cell, results = _cell(dimensions), _results(dimensions, of)
    route = InputFlow(tuple(cell.names))
    answers = pa.schema([pa.field(QUERY, pa.int64()), *results])
    return Stage(
        name,
        inputs={source: route, queries: route},
        outputs={ANSWERS: answers},
        translate_tables=partial(_answer, source=source, queries=queries, results=results),
        state=StateFlow(results),
    )


@checked
def query_preprocessor(
    dimensions: Types,
    *,
    source: str = "queries",
    most: int = MOST_POINTS,
    name: str = "query_preprocessor",
) -> Stage:
    """Return the stage that makes point queries of range queries; it has no state.

    Flows:
        source: ``query`` int64, and of each dimension ``d`` the columns ``d_from`` and ``d_to``,
            both of them included. Where both are null, the dimension is not of the cuboid that is
            asked. Ranges are of integers; of another type both have to be one value.
        points: ``query``, ``cuboid``, dimensions: one for each cell of the ranges.

    Args:
        dimensions: as in ``input_split``.
        source: the input flow's name.
        most: point queries that one call may make.
        name: of the stage.
    """
    kept = schema_of(dimensions)
    points = pa.schema([pa.field(QUERY, pa.int64()), *_cell(dimensions)])
    return Stage(
        name,
        inputs={source: InputFlow()},
        outputs={POINTS: points},
        translate_tables=partial(_points, source=source, kept=kept, most=most),
    )


@checked
def result(
    dimensions: Types,
    of: Mapping[str, Aggregate],
    *,
    source: str = ANSWERS,
    name: str = "result",
) -> Stage:
    """Return the stage that aggregates the answers to the points of each query; it has no state.

    An increment has all answers to a query, as the points of one query are of one increment.

    Flows:
        source: ``query``, results.
        results: ``query``, results: one row for each query of which a cell is there.

    Args:
        dimensions: as in ``input_split``.
        of: as in ``cube_update``; counts and sums of cells are added, extremes are compared.
        source: the input flow's name.
        name: of the stage.

    Raises:
        StageError: see ``aggregate``.
    """
    columns = _results(dimensions, of)
    functions = {field.name: of[field.name].function for field in columns}
    return Stage(
        name,
        inputs={source: InputFlow((QUERY,))},
        outputs={RESULTS: pa.schema([pa.field(QUERY, pa.int64()), *columns])},
        translate_tables=partial(_combine, source=source, functions=functions),
    )


def _cell(dimensions: Types) -> pa.Schema:
    return pa.schema([pa.field(CUBOID, pa.int64()), *schema_of(dimensions)])


def _results(dimensions: Types, of: Mapping[str, Aggregate]) -> pa.Schema:
    changes = cube_update(dimensions, of).spec.outputs[CHANGES]
    return pa.schema([field for field in changes if field.name in of])


def _split(
    groups: Groups, *, source: str, kept: pa.Schema, columns: pa.Schema, weight: str | None
) -> dict[str, pa.Table]:
    rows = rows_of(groups, source, columns, weight).drop_columns([GROUP])
    parts = []
    for cuboid in range(2 ** len(kept)):
        found = {CUBOID: pa.array(np.full(len(rows), cuboid, np.int64))}
        for name in rows.column_names:
            found[name] = rows.column(name)
        for bit, field in enumerate(kept):
            if not cuboid >> bit & 1:
                found[field.name] = pa.nulls(len(rows), field.type)
        parts.append(pa.table(found))
    return {CELLS: pa.concat_tables(parts)}


def _answer(
    groups: Groups, *, source: str, queries: str, results: pa.Schema
) -> dict[str, pa.Table]:
    came = rows_of(groups, source, results, WEIGHT)
    stored = groups.flows[STATE].select([GROUP, *results.names])
    ones = pa.array(np.ones(len(stored), np.int64))
    known = came.slice(0, 0) if source in groups.whole else stored.append_column(WEIGHT, ones)
    after = consolidated(known, came)
    _check_cells(after, groups.count, source)
    cells = Held.last_of(after.drop_columns([WEIGHT]), groups.count)
    asked = groups.flows[queries]
    if not len(asked):
        return {STATE: cells.where(cells.there)}
    numbers = numbers_of(asked)
    there = cells.there[numbers]
    found = cells.rows.take(pa.array(numbers[there]))
    answers = found.add_column(0, QUERY, asked.column(QUERY).filter(pa.array(there)))
    return {STATE: cells.where(cells.there), ANSWERS: answers}


def _check_cells(rows: pa.Table, count: int, source: str) -> None:
    weights = weights_of(rows)
    if (weights != 1).any() or (sums(numbers_of(rows), weights, count) > 1).any():
        message = (
            f"flow `{source}` leaves a cell more than one row, or takes away one that is not "
            "there: it has to begin where the cube does, and to have each change once"
        )
        raise ValueError(message)


class _Range(Struct, frozen=True, eq=False):
    """The values of one dimension that queries ask for."""

    many: np.ndarray
    """How many each query has, shape (queries,)."""
    first: pa.ChunkedArray
    kept: np.ndarray
    """Whether the dimension is of the cuboid, shape (queries,)."""


def _points(groups: Groups, *, source: str, kept: pa.Schema, most: int) -> dict[str, pa.Table]:
    rows = groups.flows[source]
    ranges = {field.name: _range(rows, source, field) for field in kept}
    cuboids = np.zeros(len(rows), np.int64)
    totals = np.ones(len(rows))
    for bit, one in enumerate(ranges.values()):
        cuboids |= one.kept.astype(np.int64) << bit
        totals *= one.many
    if totals.sum() > most:
        message = (
            f"flow `{source}`: its {len(rows)} queries ask for {totals.sum():,.0f} points, more "
            f"than {most:,}; ask for smaller ranges, or leave dimensions out"
        )
        raise ValueError(message)
    many = totals.astype(np.int64)
    at = np.repeat(np.arange(len(rows)), many)
    # The number of a point within its query, taken apart dimension by dimension.
    within = np.arange(len(at)) - np.repeat(np.cumsum(many) - many, many)
    columns = {
        QUERY: rows.column(QUERY).cast(pa.int64()).take(pa.array(at)),
        CUBOID: pa.array(cuboids[at]),
    }
    for field, one in zip(kept, ranges.values(), strict=True):
        steps = within % one.many[at]
        within = within // one.many[at]
        found = one.first.take(pa.array(at))
        if pa.types.is_integer(field.type):
            found = pc.add(found.cast(pa.int64()), pa.array(steps)).cast(field.type)
        columns[field.name] = found
    return {POINTS: pa.table(columns)}


def _range(rows: pa.Table, source: str, field: pa.Field) -> _Range:
    first, last = (rows.column(f"{field.name}_{end}").cast(field.type) for end in ("from", "to"))
    kept = pc.is_valid(first).to_numpy()
    if (kept != pc.is_valid(last).to_numpy()).any():
        message = f"flow `{source}`: {field.name} has one end of a range only; give both, or none"
        raise ValueError(message)
    many = np.ones(len(rows), np.int64)
    if pa.types.is_integer(field.type):
        ends = [each.cast(pa.int64()).fill_null(0).to_numpy() for each in (first, last)]
        # As floats, since the two ends may be further apart than an integer can say.
        size = ends[1].astype(np.float64) - ends[0] + 1
        many = np.clip(size, 0, 2.0**62).astype(np.int64)
    elif not pc.fill_null(pc.equal(first, last), True).to_numpy().all():  # noqa: FBT003 - as Arrow has it
        message = (
            f"flow `{source}`: {field.name} is {field.type}, whose values between two others are "
            "not known; give one value as both, or number the values"
        )
        raise ValueError(message)
    return _Range(many, first, kept)


def _combine(
    groups: Groups, *, source: str, functions: Mapping[str, Function]
) -> dict[str, pa.Table]:
    rows = groups.flows[source]
    how = {
        name: function if function in (Function.MIN, Function.MAX) else Function.SUM
        for name, function in functions.items()
    }
    combined = rows.group_by(QUERY, use_threads=False).aggregate(
        [(name, function.value) for name, function in how.items()]
    )
    return {RESULTS: combined.rename_columns([QUERY, *functions])}
