"""Stages by unit that are part of others: the same rows in one pass, with nothing in between."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from filed_stage import FiledStage, SparkStage
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from reference import bag
from stages_of_tests import (
    by_stream,
    counter,
    halving,
    history,
    limited,
    pages,
    splitting,
    thinning,
)

from headgate.incremental import InputFlow, Outer, Stage, StageError
from headgate.incremental.epochs.cluster import packed
from headgate.incremental.epochs.increments import route_increments
from headgate.incremental.epochs.modes import Mode
from headgate.incremental.epochs.shuffling import BUCKET, RANGE, Packer, ShuffledIncrements
from headgate.incremental.state.buckets import even_buckets

KEYED = pa.schema({"key": pa.int64(), "n": pa.int64()})
PAGES = pa.schema({"key": pa.string(), "url": pa.string(), "n": pa.int64()})
TIMES = pa.schema({"key": pa.string(), "time": pa.int64(), "value": pa.int64()})
K = pa.schema({"k": pa.int64()})
FLOWS: dict[str, tuple[Stage, dict[str, pa.Schema]]] = {
    "counter": (counter(), {"in": KEYED}),
    "counter, by tables": (counter(tables=True), {"in": KEYED}),
    "counter, by streams": (by_stream(counter()), {"in": KEYED}),
    "history": (history(Outer.FULL), {"in": TIMES}),
    "pages": (pages(Outer.RIGHT), {"in": PAGES}),
    "limited": (limited(Outer.RIGHT), {"in": KEYED, "k": K}),
    "splitting": (splitting(), {"in": KEYED, "k": K}),
}
"""The last is by unit itself."""
BY_SPARK = ("counter", "counter, by streams", "limited", "splitting")

Rows = list[dict[str, Any]]


class Apart:
    """The same stages one after another, each with files of its own.

    Args:
        stage: the one that others are before and after.
        columns: by input flow.
        folder: for the files.
        tables: whether those others are by tables.
    """

    def __init__(
        self, stage: Stage, columns: Mapping[str, pa.Schema], folder: Path, *, tables: bool
    ) -> None:
        self._columns = columns
        self._before = {
            flow: [FiledStage(each, folder / f"{flow} {n}", 0) for n, each in enumerate(some)]
            for flow, some in before(columns, tables=tables).items()
        }
        self.stage = FiledStage(stage, folder / "stage", 1)
        self._after = FiledStage(halving(tables=tables), folder / "after", 0)

    def epoch(self, increments: Mapping[str, pa.Table]) -> dict[str, Rows]:
        came = dict(increments)
        for flow, stages in self._before.items():
            for each in stages:
                some = each.epoch({"units": came[flow]})["some"]
                came[flow] = pa.Table.from_pylist(some, self._columns[flow])
        made = self.stage.epoch(came)
        schemas = self.stage.spec.outputs
        return {
            flow: self._after.epoch({"rows": pa.Table.from_pylist(rows, schemas[flow])})["halves"]
            for flow, rows in made.items()
        }


def before(columns: Mapping[str, pa.Schema], *, tables: bool) -> dict[str, list[Stage]]:
    """What is before the flows: before the first two in a row, one of each form."""
    first = next(iter(columns))
    return {
        flow: [
            thinning(each, tables=tables),
            *([thinning(each, tables=not tables)] if flow == first else []),
        ]
        for flow, each in columns.items()
    }


def fused(stage: Stage, columns: Mapping[str, pa.Schema], *, tables: bool) -> Stage:
    """The stage with all of them as parts."""
    fronts = {
        flow: [each.flow("some") for each in some]
        for flow, some in before(columns, tables=tables).items()
    }
    return stage.fused(
        before=fronts, after={flow: halving(tables=tables) for flow in stage.spec.outputs}
    )


def same(made: Mapping[str, Rows], wanted: Mapping[str, Rows]) -> bool:
    return {flow: bag(rows) for flow, rows in made.items()} == {
        flow: bag(rows) for flow, rows in wanted.items()
    }


def drawn(columns: pa.Schema, chance: random.Random, rows: int) -> pa.Table:
    values = {pa.int64(): lambda: chance.randint(-3, 9), pa.string(): lambda: chance.choice("abä")}
    found = [{field.name: values[field.type]() for field in columns} for _ in range(rows)]
    return pa.Table.from_pylist(found, columns)


@pytest.mark.parametrize("name", FLOWS)
@given(
    seed=st.integers(0, 1 << 20),
    sizes=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5)), min_size=1, max_size=4),
    tables=st.booleans(),
)
@settings(max_examples=12, deadline=None)
def test_stages_that_are_fused_make_what_they_make_apart(
    name: str,
    seed: int,
    sizes: list[tuple[int, int]],
    tables: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    stage, columns = FLOWS[name]
    chance, folder = random.Random(seed), tmp_path_factory.mktemp("stages")
    apart = Apart(stage, columns, folder / "apart", tables=tables)
    whole = FiledStage(fused(stage, columns, tables=tables), folder / "fused", 1)
    for size in sizes:
        some = zip(columns.items(), size, strict=False)
        came = {flow: drawn(schema, chance, rows) for (flow, schema), rows in some}
        assert same(whole.epoch(came), apart.epoch(came))
        assert whole.state == apart.stage.state


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    # Spark's Python processes do not find the modules of tests.
    spark.sparkContext.addPyFile(str(Path(__file__).parents[1] / "stages_of_tests.py"))
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(name, "7")
    yield spark
    spark.conf.unset(name)


@pytest.mark.parametrize("name", BY_SPARK)
@pytest.mark.parametrize("mode", [Mode.DIRECT, Mode.BLACK_BOX])
def test_tasks_translate_what_is_fused_as_the_driver_does(
    mode: Mode, name: str, session: SparkSession, tmp_path: Path
) -> None:
    stage, columns = FLOWS[name]
    chance = random.Random(3)
    apart = Apart(stage, columns, tmp_path / "apart", tables=True)
    whole = SparkStage(fused(stage, columns, tables=True), tmp_path / "fused", session, mode)
    for size in (40, 0, 15):
        came = {flow: drawn(schema, chance, size) for flow, schema in columns.items()}
        assert same(whole.epoch(came), apart.epoch(came))
        assert {key: bag(rows) for key, rows in whole.state.items()} == {
            key: bag(rows) for key, rows in apart.stage.state.items()
        }


def test_with_landmarks_what_is_fused_is_translated_again_with_all_that_came(
    session: SparkSession, tmp_path: Path
) -> None:
    stage, columns = FLOWS["counter"]
    whole = fused(stage, columns, tables=False)
    by_spark = SparkStage(whole, tmp_path / "fused", session, Mode.LANDMARK)
    chance = random.Random(4)
    so_far = drawn(KEYED, chance, 0)
    for number in range(2):
        so_far = pa.concat_tables([so_far, drawn(KEYED, chance, 20)])
        apart = Apart(stage, columns, tmp_path / str(number), tables=False)
        assert same(by_spark.epoch({"in": so_far}), apart.epoch({"in": so_far}))
        assert not by_spark.state


# -- what it saves


def test_what_is_dropped_before_a_flow_is_not_shuffled() -> None:
    whole = fused(counter(), {"in": KEYED}, tables=False).spec
    came = pa.table({"key": list(range(300)), "n": [0, 1, 2] * 100}, KEYED)
    left = 100 * 1 + 100 * 4  # of n = 0 none, of n = 2 twice two
    buckets = even_buckets(1)
    packer = Packer(0, buckets, KEYED)
    packs = list(packed(came.to_batches(7), stage=whole, flow="in", packer=packer))
    shuffled = pa.Table.from_batches(packs).sort_by(RANGE)
    found = 0
    for number in range(len(buckets)):
        own = shuffled.filter(pa.compute.equal(shuffled.column(BUCKET), number))
        pieces = ShuffledIncrements({"in": KEYED}, own.to_batches()).pieces()
        found += sum(len(piece["in"]) for piece in pieces)
    assert found == left
    assert len(route_increments(whole, {"in": came}).rows["in"]) == left


def test_rows_that_one_unit_becomes_are_gathered_before_they_are_packed() -> None:
    whole = fused(counter(), {"in": KEYED}, tables=False).spec
    came = pa.table({"key": [1] * 40, "n": [1] * 40}, KEYED)
    packer = Packer(0, even_buckets(1), KEYED)
    packs = list(packed(came.to_batches(1), stage=whole, flow="in", packer=packer))
    assert sum(map(len, packs)) == 1


# -- what is wrong

BAD = pa.table({"key": [1, 2, 3], "n": [5, -1, 7]}, KEYED)


def _fails(key: Any, flows: Any) -> Any:
    if flows["units"][0]["n"] < 0:
        raise ZeroDivisionError("nothing of it")
    return {"some": []}


def _smallest(rows: pa.Table) -> int:
    return int(pa.compute.min(rows.column("n")).as_py())


def _fails_by_tables(groups: Any) -> Any:
    if _smallest(groups.flows["units"]) < 0:
        raise ZeroDivisionError("nothing of it")
    return {}


def _fails_of_many(groups: Any) -> Any:
    if groups.count > 1:
        raise ZeroDivisionError("nothing of so many")
    return {}


def _wrong(key: Any, flows: Any) -> Any:
    return {"some": [{"m": 1}] if flows["units"][0]["n"] < 0 else []}


def _wrong_by_tables(groups: Any) -> Any:
    rows = groups.flows["units"]
    return {"some": rows if _smallest(rows) >= 0 else rows.drop_columns(["n"])}


def _no_mapping(key: Any, flows: Any) -> Any:
    return [1] if flows["units"][0]["n"] < 0 else {}


def failing(translate: Any = None, translate_tables: Any = None) -> Stage:
    return Stage(
        "failing",
        inputs={"units": InputFlow()},
        outputs={"some": KEYED},
        translate=translate,
        translate_tables=translate_tables,
    )


UNIT = "stage `failing`: unit {'key': 2, 'n': -1}: "
FAILURES: list[tuple[Stage, str]] = [
    (failing(_fails), UNIT + "ZeroDivisionError: nothing of it"),
    (failing(None, _fails_by_tables), UNIT + "ZeroDivisionError: nothing of it"),
    (
        failing(None, _fails_of_many),
        "stage `failing`: one of 3 units: ZeroDivisionError: nothing of so many",
    ),
    (failing(_wrong), UNIT + "flow `some` has no column m; it is key int64, n int64; got {'m': 1}"),
    (
        failing(None, _wrong_by_tables),
        UNIT + "flow `some` has to be key int64, n int64, and is not",
    ),
    (failing(_no_mapping), UNIT + "it returned list"),
]


@pytest.mark.parametrize(("stage", "words"), FAILURES)
def test_who_fails_is_told_with_its_unit(stage: Stage, words: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r".") as alone:
        FiledStage(stage, tmp_path / "alone", 0).epoch({"units": BAD})
    assert str(alone.value).startswith(words)
    whole = counter().fused(before={"in": stage})
    with pytest.raises(Exception, match=r".") as raised:
        FiledStage(whole, tmp_path / "before", 0).epoch({"in": BAD})
    assert str(raised.value).startswith("stage `counter`: before input flow `in`: " + words)
    behind = splitting().fused(
        before={"in": thinning(KEYED).fused(before={"units": stage}).flow("all")}
    )
    with pytest.raises(Exception, match=r".") as nested:
        FiledStage(behind, tmp_path / "nested", 0).epoch({"in": BAD, "k": K.empty_table()})
    place = (
        "stage `splitting`: before input flow `in`: stage `thinning`: before input flow `units`: "
    )
    assert str(nested.value).startswith(place + words)


def test_who_fails_after_a_flow_is_told_with_the_row(tmp_path: Path) -> None:
    def fail(key: Any, flows: Any) -> Any:
        raise ZeroDivisionError

    after = Stage("late", inputs={"in": InputFlow()}, outputs={"out": K}, translate=fail)
    whole = counter().fused(after={"counts": after})
    with pytest.raises(Exception, match=r".") as raised:
        FiledStage(whole, tmp_path, 0).epoch({"in": BAD.slice(0, 1)})
    assert str(raised.value) == (
        "stage `counter`: after output flow `counts`: stage `late`: unit {'key': '1', 'n': 5}: "
        "ZeroDivisionError: "
    )


def test_a_flow_of_which_nothing_comes_asks_nobody_whatever_its_columns(tmp_path: Path) -> None:
    whole = splitting().fused(before={"in": failing(None, _fails_by_tables)})
    came = {"in": pa.table({}), "k": pa.table({"k": [3]})}
    assert FiledStage(whole, tmp_path, 0).epoch(came) == {"out": [{"n": 3, "from": "k"}]}


WRONG: list[tuple[Callable[[], object], str]] = [
    (
        lambda: counter().fused(before={"in": thinning(KEYED)}),
        "stage `thinning` has output flows some, all, of which one goes on .*; name it, as in",
    ),
    (
        lambda: counter().fused(before={"in": thinning(KEYED).flow("none")}),
        "stage `thinning` has no output flow `none`, but some, all",
    ),
    (lambda: counter().fused(before={"in": counter()}), "`counter` cannot be fused .* has a state"),
    (lambda: counter().fused(before={"in": splitting()}), "has input flows in, k, where one is"),
    (
        lambda: counter().fused(before={"on": halving()}),
        "stage `counter` has no input flow `on` with which stages could be fused, but in",
    ),
    (lambda: counter().fused(after={"in": halving()}), "has no output flow `in` .* but counts"),
    (
        lambda: counter().fused(before={"in": halving()}),
        "stage `counter`, input flow `in`: there is no column key in `halves` of stage `halving`",
    ),
    (
        lambda: history(Outer.RIGHT).fused(before={"in": thinning(KEYED).flow("some")}),
        "input flow `in`: there is no column time in `some`",
    ),
    (
        lambda: counter().fused(after={"counts": framed("half")}),
        "stage `framed` frames `halves`, which has no increments of its own",
    ),
    (
        lambda: (
            framed("n")
            .fused(after={"halves": failing(_fails)})
            .fused(
                after={
                    "halves": Stage(
                        "k", inputs={"n": InputFlow()}, outputs={"k": K}, translate=_fails
                    )
                }
            )
        ),
        "stage `framed` frames flow `halves` by `n`, which is none of its columns k",
    ),
]


def framed(by: str) -> Stage:
    spec = halving().spec
    return Stage(
        "framed",
        inputs=spec.inputs,
        outputs=spec.outputs,
        translate=spec.translate,
        framing={"halves": by},
    )


@pytest.mark.parametrize(("make", "words"), WRONG)
def test_what_cannot_be_fused_is_refused_in_words(make: Callable[[], object], words: str) -> None:
    with pytest.raises(StageError, match=words):
        make()


def test_what_is_fused_later_is_before_and_after_what_is_there() -> None:
    one, two = failing(_fails), failing(_wrong)
    whole = counter().fused(before={"in": one}, after={"counts": halving()})
    whole = whole.fused(before={"in": [two]}, after={"counts": [failing(_fails)]})
    assert [each.stage for each in whole.spec.before["in"]] == [two.spec, one.spec]
    assert [each.stage.name for each in whole.spec.after["counts"]] == ["halving", "failing"]
    assert whole.spec.emitted == {"counts": KEYED}


def test_nothing_fused_is_the_stage_itself(tmp_path: Path) -> None:
    whole = counter().fused(before={"in": []}, after={"counts": []})
    assert whole.spec.code == "1"
    assert FiledStage(whole, tmp_path, 0).epoch({"in": BAD})["counts"]
