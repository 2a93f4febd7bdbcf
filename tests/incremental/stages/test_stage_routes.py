"""Keys that are computed of whole tables, and the one group of no columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from filed_stage import FiledStage

from headgate.incremental import STATE, Computed, InputFlow, Stage, StateFlow, TranslationFailed


def _sum(key: Any, flows: Any) -> dict[str, list[dict[str, Any]]]:
    n = sum(row["n"] for row in (*flows[STATE], *flows["in"]))
    return {STATE: [{"n": n}], "sums": [{"key": repr(key), "n": n}]}


def summed(route_by: Any, folder: Path) -> FiledStage:
    stage = Stage(
        "summed",
        inputs={"in": InputFlow(route_by)},
        outputs={"sums": {"key": "string", "n": "int64"}},
        translate=_sum,
        state=StateFlow(pa.schema({"n": pa.int64()})),
    )
    return FiledStage(stage, folder, 2)


def tens(rows: pa.Table) -> Sequence[pa.ChunkedArray]:
    return [pc.divide(rows.column("n"), 10)]


NUMBERS = pa.table({"n": [1, 12, 5, 19]})


def test_computed_keys_are_those_that_a_column_with_them_would_be(tmp_path: Path) -> None:
    stage = summed(Computed(tens), tmp_path)
    for times in (1, 2):
        made = sorted(stage.epoch({"in": NUMBERS})["sums"], key=lambda row: row["key"])
        assert made == [{"key": "0", "n": 6 * times}, {"key": "1", "n": 31 * times}]


def test_no_columns_are_one_group(tmp_path: Path) -> None:
    stage = summed((), tmp_path)
    for times in (1, 2):
        assert stage.epoch({"in": NUMBERS})["sums"] == [{"key": "()", "n": 37 * times}]
    assert stage.epoch({"in": NUMBERS.slice(0, 0)})["sums"] == []


def test_keys_that_cannot_be_computed_are_named_with_their_flow(tmp_path: Path) -> None:
    with pytest.raises(TranslationFailed, match="input flow `in`: ZeroDivisionError"):
        summed(Computed(lambda rows: [1 // 0]), tmp_path).epoch({"in": NUMBERS})
    with pytest.raises(TranslationFailed, match="1 keys were computed of 4 units"):
        summed(Computed(lambda rows: [pa.array([7])]), tmp_path).epoch({"in": NUMBERS})
    with pytest.raises(TranslationFailed, match="a key has at least one column"):
        summed(Computed(lambda rows: []), tmp_path).epoch({"in": NUMBERS})
