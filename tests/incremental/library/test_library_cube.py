"""The data cube: its five stages, wired by hand, answer as a scan of all rows does."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from filed_stage import FiledStage
from flows_of_rows import Relation, filed, weighted
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.incremental import Groups, Stage, StageError, TranslationFailed
from headgate.incremental.library import (
    Aggregate,
    Function,
    cube_update,
    data_cube,
    input_split,
    query_preprocessor,
    result,
)
from headgate.incremental.stages.grouping import units
from headgate.incremental.stages.translating import translated

DIMENSIONS = {"day": "int64", "shop": "string"}
ROWS = pa.schema({"day": pa.int64(), "shop": pa.string(), "price": pa.int64()})
QUERIES = pa.schema(
    {
        "query": pa.int64(),
        "day_from": pa.int64(),
        "day_to": pa.int64(),
        "shop_from": pa.string(),
        "shop_to": pa.string(),
    }
)
OF = {
    "number": Aggregate(Function.COUNT, "price", "int64"),
    "total": Aggregate(Function.SUM, "price", "int64"),
    "least": Aggregate(Function.MIN, "price", "int64"),
    "most": Aggregate(Function.MAX, "price", "int64"),
}
sold = weighted(st.integers(1, 3), st.sampled_from(["x", "y"]), st.integers(-4, 4))
day = st.one_of(st.tuples(st.none(), st.none()), st.tuples(st.integers(0, 4), st.integers(0, 4)))
shop = st.sampled_from([None, "x", "y", "z"])
asked = st.lists(st.tuples(day, shop), max_size=4)


def by_unit(stage: Stage, rows: pa.Table) -> dict[str, pa.Table]:
    [flow] = stage.spec.inputs
    groups = Groups(pa.nulls(len(rows)), units({flow: rows}), {})
    return dict(translated(stage.spec, groups.keys, groups).outputs)


def table(stage: FiledStage, flow: str, made: Any) -> pa.Table:
    return pa.Table.from_pylist(made[flow], stage.spec.outputs[flow])


class Cube:
    """Figure 5."""

    def __init__(self, factory: Any) -> None:
        self.split = input_split(DIMENSIONS, {"price": "int64"}, weight="weight")
        self.update = filed(cube_update(DIMENSIONS, OF), factory)
        self.cube = filed(data_cube(DIMENSIONS, OF), factory, bits=2)
        self.preprocessor = query_preprocessor(DIMENSIONS)
        self.result = filed(result(DIMENSIONS, OF), factory)

    def epoch(self, rows: pa.Table, queries: pa.Table) -> list[Any]:
        cells = by_unit(self.split, rows)["cells"]
        changes = table(self.update, "changes", self.update.epoch({"cells": cells}))
        points = by_unit(self.preprocessor, queries)["points"]
        answers = self.cube.epoch({"changes": changes, "points": points})
        return self.result.epoch({"answers": table(self.cube, "answers", answers)})["results"]


def scan(rows: list[Any], number: int, query: Any) -> list[Any]:
    (first, last), shop = query
    found = [
        price
        for (day, of_shop, price), n in rows
        for _ in range(n)
        if (first is None or first <= day <= last) and shop in (None, of_shop)
    ]
    if not found:
        return []
    answer = {"number": len(found), "total": sum(found), "least": min(found), "most": max(found)}
    return [{"query": number, **answer}]


def queries_of(queries: Any) -> pa.Table:
    rows = [(number, *days, shop, shop) for number, (days, shop) in enumerate(queries)]
    return pa.Table.from_pylist(
        [dict(zip(QUERIES.names, row, strict=True)) for row in rows], QUERIES
    )


@given(epochs=st.lists(st.tuples(sold, asked), max_size=4))
@settings(max_examples=settings().max_examples // 4)
def test_queries_are_answered_as_by_a_scan_of_all_rows(epochs: Any, tmp_path_factory: Any) -> None:
    cube, source = Cube(tmp_path_factory), Relation(ROWS)
    for rows, queries in epochs:
        known = dict(source.rows)
        kept = []
        for row, weight in rows:  # nothing is deleted that is not there
            if known.get(row, 0) + weight >= 0:
                known[row] = known.get(row, 0) + weight
                kept.append((row, weight))
        answers = cube.epoch(source.feed(kept), queries_of(queries))
        wanted = [scan(source.rows, number, query) for number, query in enumerate(queries)]
        assert sorted(answers, key=lambda row: row["query"]) == list(itertools.chain(*wanted))


def test_a_row_is_in_each_cuboid_once() -> None:
    split = input_split(DIMENSIONS, {"price": "int64"})
    cells = by_unit(split, pa.table({"day": [1], "shop": ["x"], "price": [9]}))["cells"]

    assert cells.to_pylist() == [
        {"cuboid": 0, "day": None, "shop": None, "price": 9, "weight": 1},
        {"cuboid": 1, "day": 1, "shop": None, "price": 9, "weight": 1},
        {"cuboid": 2, "day": None, "shop": "x", "price": 9, "weight": 1},
        {"cuboid": 3, "day": 1, "shop": "x", "price": 9, "weight": 1},
    ]
    with pytest.raises(StageError, match=r"13 dimensions is in 2\^13 cuboids; give 12 at most"):
        input_split({f"d{n}": "int64" for n in range(13)}, {})


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((0, 1, None, "x", "x"), "day has one end of a range only"),
        ((0, 1, 2, "x", "y"), "shop is string, whose values between two others are not known"),
        ((0, 0, 2**40, None, None), "1 queries ask for 1,099,511,627,777 points"),
        (
            (0, -(2**63), 2**63 - 1, None, None),
            "1 queries ask for 4,611,686,018,427,387,904 points",
        ),
    ],
)
def test_a_range_that_is_none_is_refused(row: Any, message: str) -> None:
    queries = pa.Table.from_pylist([dict(zip(QUERIES.names, row, strict=True))], QUERIES)

    with pytest.raises(TranslationFailed, match=message):
        by_unit(query_preprocessor(DIMENSIONS), queries)


def test_a_change_that_comes_twice_is_refused(tmp_path_factory: Any) -> None:
    cube = Cube(tmp_path_factory)
    cells = by_unit(cube.split, Relation(ROWS).feed([((1, "x", 5), 1)]))["cells"]
    changes = table(cube.update, "changes", cube.update.epoch({"cells": cells}))
    nothing = by_unit(cube.preprocessor, queries_of([]))["points"]
    cube.cube.epoch({"changes": changes, "points": nothing})

    with pytest.raises(TranslationFailed, match="leaves a cell more than one row"):
        cube.cube.epoch({"changes": changes, "points": nothing})
