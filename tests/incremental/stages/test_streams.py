"""What a translation by streams may do with its flows, and what it may yield."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from filed_stage import FiledStage
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.incremental import (
    STATE,
    FlowStream,
    InputFlow,
    Match,
    Stage,
    StageError,
    StateFlow,
    TranslationFailed,
)
from headgate.incremental.epochs import changing, streaming
from headgate.incremental.epochs.spilling import Spill
from headgate.incremental.library import aligned
from headgate.incremental.state import key_bytes
from headgate.incremental.state.errors import UnwrittenFile

N = pa.schema({"n": pa.int64()})
CAME = pa.table({"key": ["a", "a", "a", "b"], "n": [1, 2, 3, 4]})


def stage(translate_stream: Any, match: Match = Match.GROUP) -> Stage:
    return Stage(
        "streaming",
        inputs={"in": InputFlow("key", order_by="n")},
        outputs={"out": N},
        translate_stream=translate_stream,
        state=StateFlow(N, order_by="n", match=match),
    )


def epoch(folder: Path, translate_stream: Any, came: pa.Table = CAME) -> list[int]:
    made = FiledStage(stage(translate_stream), folder, 0).epoch({"in": came})
    return sorted(row["n"] for row in made["out"])


def test_what_is_not_read_of_a_stream_is_no_other_groups(tmp_path: Path) -> None:
    def first(key: Any, flows: Any) -> Iterator[Any]:
        yield "out", {"n": next(flows["in"].rows())["n"]}

    assert epoch(tmp_path, first) == [1, 4]


def test_a_stream_cannot_be_read_after_its_group(tmp_path: Path) -> None:
    kept: list[FlowStream] = []

    def keeps(key: Any, flows: Any) -> Iterator[Any]:
        for stream in kept:
            next(stream)
        kept.append(flows["in"])
        yield "out", {"n": 0}

    with pytest.raises(StageError, match="flow `in` was read after the translation of its group"):
        epoch(tmp_path, keeps)


def test_a_generator_is_closed_when_what_it_yields_is_wrong(tmp_path: Path) -> None:
    ended = []

    def wrong(key: Any, flows: Any) -> Iterator[Any]:
        try:
            yield "out", {"n": "many"}
            yield "out", pa.table({"m": [1]})
        finally:
            ended.append(key)

    with pytest.raises(TranslationFailed, match="flow `out` has to be n int64"):
        epoch(tmp_path, wrong)
    assert len(ended) == 1


def _raises(key: Any, flows: Any) -> Iterator[Any]:
    yield "out", {"n": 1}
    raise ZeroDivisionError("nothing")


def _several(pair: Any) -> Any:
    return lambda key, flows: iter([pair])


@pytest.mark.parametrize(
    ("translate", "words"),
    [
        (_raises, "group 'a': ZeroDivisionError: nothing"),
        (lambda key, flows: None, "group 'a': it returned NoneType"),
        (_several(None), "it yielded None, where the name of a flow"),
        (_several(("other", {"n": 1})), "it yielded .'other', .*`out`, `state`"),
        (_several(("out", [{"n": 1}])), "a row, a record batch or a table of it are wanted"),
        (_several(("out", {"m": 1})), "flow `out` has no column m"),
    ],
)
def test_what_is_wrong_is_told_with_the_group(tmp_path: Path, translate: Any, words: str) -> None:
    with pytest.raises(TranslationFailed, match=words):
        epoch(tmp_path, translate, CAME.slice(0, 3))


@pytest.mark.parametrize("limit", [1, 1 << 16])
@pytest.mark.parametrize(
    ("match", "rows"), [(Match.GROUP, [1, 3, 2]), (Match.ROW, [1, 3, 2]), (Match.ROW, [1, 3, 3])]
)
def test_rows_of_state_out_of_their_order_are_told_with_the_one_before(
    match: Match, rows: list[int], limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "PORTION_ROWS", limit)

    def unsorted(key: Any, flows: Any) -> Iterator[Any]:
        yield STATE, pa.table({"n": rows[:2]})
        yield STATE, pa.table({"n": rows[2:]})

    filed = FiledStage(stage(unsorted, match), tmp_path, 0)
    with pytest.raises(TranslationFailed, match=f"the row {{'n': {rows[2]}}} .* after {{'n': 3}}"):
        filed.epoch({"in": CAME})


def test_a_stage_has_one_translation_and_units_have_no_stream() -> None:
    with pytest.raises(StageError, match="needs one translation"):
        Stage(
            "two",
            inputs={"in": InputFlow("key")},
            outputs={},
            translate=lambda key, flows: {},
            translate_stream=_raises,
        )
    with pytest.raises(StageError, match="of which there is nothing to stream"):
        Stage("units", inputs={"in": InputFlow()}, outputs={}, translate_stream=_raises)


def test_a_group_that_stays_the_same_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "PORTION_ROWS", 1)

    def union(key: Any, flows: Any) -> Iterator[Any]:
        for part in aligned(flows, "n"):
            yield (
                STATE,
                pa.table(
                    {"n": sorted({*part[STATE]["n"].to_pylist(), *part["in"]["n"].to_pylist()})}
                ),
            )

    filed = FiledStage(stage(union), tmp_path, 0)
    filed.epoch({"in": CAME})
    before = filed.buckets
    filed.epoch({"in": CAME.slice(1)})
    assert filed.buckets == before
    assert filed.state[("str", "a")] == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_no_room_for_what_is_spilled_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/nowhere/at/all,/tmp")
    with pytest.raises(UnwrittenFile, match=r"written to /nowhere/at/all .*make room there"):
        Spill(N)


values = st.lists(st.one_of(st.none(), st.integers(0, 6)), max_size=20)


@given(values, values, st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_aligned_parts_rise_and_have_all_rows_of_their_values(
    one: list[int | None], other: list[int | None], batch: int
) -> None:
    wanted = {"one": sorted(one, key=key_bytes), "other": sorted(other, key=key_bytes)}
    flows = {}
    for flow, rows in wanted.items():
        table = pa.table({"n": rows}, N)
        flows[flow] = FlowStream(flow, N, table.to_batches(max_chunksize=batch))
    seen: dict[str, list[int | None]] = {"one": [], "other": []}
    last = b""
    for part in aligned(flows, "n"):
        found = {flow: rows["n"].to_pylist() for flow, rows in part.items()}
        places = [key_bytes(n) for rows in found.values() for n in rows]
        assert min(places) > last, "a value is in two parts"
        last = max(places)
        for flow, rows in found.items():
            seen[flow] += rows
    assert seen == wanted


def test_the_old_rows_that_stay_come_first_once_one_has_changed() -> None:
    def rows(*numbers: int) -> pa.Table:
        return pa.table({"n": pa.array(numbers, pa.int64())})

    group = changing.ReplacedGroup(lambda: iter(rows(1, 2, 3).to_batches(max_chunksize=2)))
    assert [*group.add(rows(1)), *group.add(rows(2))] == []
    assert [n for part in group.add(rows(4)) for n in part["n"].to_pylist()] == [1, 2, 4]
    assert [*group.end()] == []
