"""Weighted rows become the rows of a container, and what is gone is deleted from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from flows_of_rows import Relation, filed
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_runs import ScriptedFlow

from headgate.incremental import StageError, TranslationFailed
from headgate.incremental.library import to_container, top_k

COLUMNS = pa.schema(
    {"site": pa.string(), "day": pa.int64(), "score": pa.float64(), "url": pa.string()}
)
keys = st.tuples(st.sampled_from(["s", "t", ""]), st.integers(0, 2))
values = st.tuples(
    st.sampled_from([None, 0.0, -0.0, float("nan"), 1.5]), st.sampled_from([None, "u", "v"])
)


def put(container: dict[Any, Any], rows: list[dict[str, Any]]) -> None:
    """Do what ``run.write`` does: a null deletes the cell, and a row without cells is gone."""
    for row in rows:
        cells = {name: repr(value) for name, value in row.items() if value is not None}
        container[cells.pop("row")] = cells


@given(data=st.data())
@settings(max_examples=settings().max_examples // 3)
def test_the_container_has_the_row_of_each_key(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stage = filed(to_container(("site", "day"), COLUMNS), tmp_path_factory)
    there: dict[Any, Any] = {}
    container: dict[Any, Any] = {}
    for _ in range(data.draw(st.integers(1, 6))):
        whole = data.draw(st.integers(0, 4)) == 0
        after = {} if whole else dict(there)
        for key in data.draw(st.lists(keys, max_size=5)):
            after[key] = data.draw(st.one_of(st.none(), values))
        after = {key: value for key, value in after.items() if value is not None}
        gone = [] if whole else [((*key, *value), -1) for key, value in there.items()]
        came = data.draw(st.permutations([*gone, *(((*k, *v), 1) for k, v in after.items())]))
        increment = Relation(COLUMNS).increment(came)
        made = stage.epoch({"source": increment}, ["source"] if whole else [])
        put(container, made["upserts"])
        there = after
        wanted = {
            repr(f"{site}/{day}"): {
                name: repr(value)
                for name, value in zip(("score", "url"), value, strict=True)
                if value is not None
            }
            for (site, day), value in there.items()
        }
        assert {row: cells for row, cells in container.items() if cells} == {
            row: cells for row, cells in wanted.items() if cells
        }


def test_nothing_is_written_of_a_row_that_is_the_same(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    stage = filed(to_container("site", COLUMNS, out="best"), tmp_path_factory)
    row = ("s", 1, 2.0, "u")
    relation = Relation(COLUMNS)
    assert stage.epoch({"source": relation.feed([(row, 1)])})["best"] == [
        {"row": "s", "day": 1, "score": 2.0, "url": "u"}
    ]
    assert stage.epoch({"source": relation.feed([(row, 1), (row, -1)])})["best"] == []
    assert stage.epoch({"source": relation.feed([(row, -1)])})["best"] == [
        {"row": "s", "day": None, "score": None, "url": None}
    ]


def test_two_rows_of_a_key_are_refused_with_the_cure(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    stage = filed(to_container("site", COLUMNS), tmp_path_factory)
    rows = [(("s", day, 1.0, "u"), 1) for day in (1, 2)]
    with pytest.raises(TranslationFailed, match=r"2 rows of the key 's', .*add columns to `by`"):
        stage.epoch({"source": Relation(COLUMNS).feed(rows)})


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (("a/b", 1, 1.0, "u"), "`site` is 'a/b', which has the separator '/'"),
        ((None, 1, 1.0, "u"), "`site` is null, and a container has no such row"),
    ],
)
def test_keys_that_make_no_row_of_their_own_are_refused(
    tmp_path_factory: pytest.TempPathFactory, row: Any, words: str
) -> None:
    stage = filed(to_container(("site", "day"), COLUMNS), tmp_path_factory)
    with pytest.raises(TranslationFailed, match=words):
        stage.epoch({"source": Relation(COLUMNS).feed([(row, 1)])})


@pytest.mark.parametrize(
    ("by", "columns", "words"),
    [
        ("place", COLUMNS, "place is none of its columns"),
        ((), COLUMNS, "nothing is none of its columns"),
        ("site", {"site": "string"}, "all its columns are of the row"),
        ("score", COLUMNS, "column `score` of the row is double"),
        (("site", "key"), {"site": "string", "key": "binary", "n": "int64"}, "is binary"),
        ("site", {"site": "string", "row": "string"}, "`row` is the row's key"),
    ],
)
def test_columns_that_make_no_container_are_refused(by: Any, columns: Any, words: str) -> None:
    with pytest.raises(StageError, match=words):
        to_container(by, columns)
    with pytest.raises(StageError, match="`separator` is empty"):
        to_container(("site", "day"), COLUMNS, separator="")


def test_what_a_stage_of_the_library_makes_is_in_a_table(tmp_path: Path) -> None:
    """Take ``top_k`` to a container, through the runs of both stages."""
    columns = {"site": "string", "score": "double", "url": "string"}
    flow = ScriptedFlow(
        tmp_path,
        ("source", "best"),
        pa.schema({"site": pa.string(), "score": pa.float64(), "url": pa.string()}),
    )
    best = top_k("site", "score", 1, columns=columns, weight=None)
    table = to_container("site", columns, source="changes", out="best")
    for score, url in ((1.0, "u"), (3.0, "v"), (2.0, "w")):
        flow.containers["source"].append({"site": "s", "score": score, "url": url})
        made = flow.run("top", best, flow.request(out=("changes",)))
        flow.run("table", table, flow.request({"changes": (made["changes"],)}))
    assert flow.hbase["best"] == {(b"s", b"f:score"): b"3.0", (b"s", b"f:url"): b"v"}


@pytest.mark.parametrize(("kind", "key"), [("binary", b"\xff"), ("int64", -7)])
def test_bytes_and_whole_numbers_are_rows_as_they_are(
    tmp_path_factory: pytest.TempPathFactory, kind: str, key: Any
) -> None:
    stage = filed(to_container("key", {"key": kind, "n": "int64"}), tmp_path_factory)
    came = pa.table({"key": [key], "n": [1], "weight": [1]})
    assert stage.epoch({"source": came})["upserts"] == [{"row": key, "n": 1}]
