"""What tests of the library feed stages with, and what they compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from filed_stage import FiledStage
from hypothesis import strategies as st

Row = tuple[Any, ...]
Bag = Counter[str]


def exact(row: Iterable[Any]) -> str:
    """A row such that it is another's only where all bits are the same."""
    return repr(tuple(row))


class Relation:
    """Rows with how often they are there, as the sum of all increments of a flow."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.weights: Counter[str] = Counter()
        self.known: dict[str, Row] = {}

    def feed(self, rows: Sequence[tuple[Row, int]], *, whole: bool = False) -> pa.Table:
        """Add weighted rows, and return them as an increment."""
        if whole:
            self.weights.clear()
        for row, weight in rows:
            self.known[exact(row)] = row
            self.weights[exact(row)] += weight
        return self.increment(rows)

    def increment(self, rows: Sequence[tuple[Row, int]]) -> pa.Table:
        columns = [*self.schema, pa.field("weight", pa.int64())]
        dicts = [dict(zip(self.schema.names, row, strict=True), weight=n) for row, n in rows]
        return pa.Table.from_pylist(dicts, pa.schema(columns))

    @property
    def rows(self) -> list[tuple[Row, int]]:
        """Each once, without those of weight 0."""
        return [(self.known[place], n) for place, n in self.weights.items() if n]


def weighted(*columns: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Increments: few rows out of few, so that they repeat, cancel and come back."""
    return st.lists(
        st.tuples(st.tuples(*columns), st.sampled_from([1, 1, 1, 2, -1, -1])), max_size=9
    )


class Changes:
    """The sum of the increments of weighted rows that a stage puts out."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            values = dict(row)
            weight = values.pop("weight")
            self.rows[exact(values.values())] += weight
        self.rows = Counter({row: n for row, n in self.rows.items() if n})


def bag_of(rows: Iterable[tuple[Iterable[Any], int]]) -> Counter[str]:
    """Weighted rows, summed."""
    found: Counter[str] = Counter()
    for row, weight in rows:
        found[exact(row)] += weight
    return Counter({row: n for row, n in found.items() if n})


def filed(stage: Any, factory: Any, bits: int = 1) -> FiledStage:
    return FiledStage(stage, factory.mktemp("state"), bits)
