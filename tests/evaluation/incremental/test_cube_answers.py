"""The cube's answers, however its dataflow is scheduled, are those of a scan of what it read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from evaluation.incremental.cube_dataflow import ALONE, BOTH, PLAIN, CubeDriver, Ran, Scenario
from evaluation.incremental.cube_stages import DIMENSIONS, FiledStages
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.engine import Launch

RUNS = 30
"""Of all stages, in each scenario: some rounds of four queries and an update."""
row = st.fixed_dictionaries(
    {name: st.integers(0, 2) for name in DIMENSIONS} | {"price": st.integers(-4, 4)}
)
ends = st.one_of(st.none(), st.tuples(st.integers(0, 1), st.integers(1, 2)))
query = st.fixed_dictionaries(dict.fromkeys(DIMENSIONS, ends))
ROWS = pa.schema({**dict.fromkeys(DIMENSIONS, pa.int64()), "price": pa.int64()})
QUERIES = pa.schema(
    {
        "query": pa.int64(),
        **{f"{name}_{end}": pa.int64() for name in DIMENSIONS for end in ("from", "to")},
    }
)


class Recorded(FiledStages):
    """Stages whose increments are repeated for ever, with what came of them."""

    def __init__(self, folder: Any, rows: list[Any], queries: list[Any]) -> None:
        super().__init__(folder, self._fed)
        self.rows = rows
        self.queries = queries
        self.answers: list[list[dict[str, Any]]] = []
        """Of each run of ``result`` that has read answers."""

    def _fed(self, container: str, number: int) -> pa.Table:
        if container == "rows":
            return pa.Table.from_pylist(self.rows[number % len(self.rows)], ROWS)
        asked = [
            {
                "query": at,
                **{
                    f"{name}_{end}": None if range_ is None else range_[place]
                    for name, range_ in one.items()
                    for place, end in enumerate(("from", "to"))
                },
            }
            for at, one in enumerate(self.queries[number % len(self.queries)])
        ]
        return pa.Table.from_pylist(asked, QUERIES)

    def carry_out(self, launch: Launch, needed: frozenset[str]) -> Ran:
        ran = super().carry_out(launch, needed)
        if launch.action == "result":
            self.answers.append(self.rows_of(ran.result, "results"))
        return ran


def scan(rows: list[Any], queries: list[Any]) -> list[dict[str, Any]]:
    found = []
    for number, asked in enumerate(queries):
        prices = [
            row["price"]
            for row in rows
            if all(r is None or r[0] <= row[name] <= r[1] for name, r in asked.items())
        ]
        if prices:
            found.append({"query": number, "number": len(prices), "total": sum(prices)})
    return found


@pytest.mark.parametrize("scenario", [PLAIN, ALONE, BOTH], ids=lambda one: one.name)
@given(
    rows=st.lists(st.lists(row, min_size=1, max_size=4), min_size=1, max_size=3),
    queries=st.lists(st.lists(query, min_size=1, max_size=3), min_size=1, max_size=3),
)
@settings(max_examples=2, deadline=None)
def test_answers_are_those_of_a_scan(
    scenario: Scenario, rows: list[Any], queries: list[Any], tmp_path_factory: Any
) -> None:
    stages = Recorded(tmp_path_factory.mktemp("cube"), rows, queries)
    driver = CubeDriver(scenario, stages)
    for _ in range(RUNS):
        driver.step()

    wanted, updates, asked = [], 0, 0
    for step in driver.steps:
        if step.action == "cube":
            updates += "changes" in step.reads
            now = [row for number in range(updates) for row in rows[number % len(rows)]]
            here = []
            if "points" in step.reads:
                here = scan(now, queries[asked % len(queries)])
                asked += 1
            wanted.append(here)
    answers = [sorted(found, key=lambda one: one["query"]) for found in stages.answers]
    assert len(answers) > RUNS // 8
    assert answers == wanted[: len(answers)]
