"""Framing: of an epoch's rows those with one key are one increment (paper: section 2.6)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_runs import ScriptedFlow

from headgate.engine import FramingKey, Produced
from headgate.incremental import InputFlow, Stage, StageError, StateFlow
from headgate.incremental.epochs import writing
from headgate.spark import decode_result

READ = pa.schema({"key": pa.string(), "n": pa.int64()})
UNITS = pa.schema([*READ, ("day", pa.date32()), ("x", pa.float64())])
STATE = StateFlow(pa.schema({"n": pa.int64()}))

By = str | Callable[[dict[str, Any]], FramingKey]


def _day(n: int | None) -> date | None:
    return None if n is None else date(2024, 5, 1 + n)


def _pass(key: Any, flows: Any) -> dict[str, list[dict[str, Any]]]:
    rows = [{**row, "day": _day(row["n"]), "x": 0.5} for row in flows["pages"]]
    return {"state": [{"n": 0}], "units": rows}


def framed(by: By, flow: str = "units") -> Stage:
    """Passes on what it reads."""
    return Stage(
        "parse",
        inputs={"pages": InputFlow("key")},
        outputs={"units": UNITS},
        translate=_pass,
        state=STATE,
        framing={flow: by},
    )


def _list(key: Any, flows: Any) -> dict[str, list[dict[str, Any]]]:
    came = [{"key": key, "n": row["n"]} for row in flows["units"]]
    return {"state": [{"n": 0}], "sums": came}


READER = Stage(
    "reader",
    inputs={"units": InputFlow("key")},
    outputs={"sums": READ},
    translate=_list,
    state=STATE,
)


@pytest.fixture
def flow(tmp_path: Path) -> ScriptedFlow:
    return ScriptedFlow(tmp_path, ("pages", "sums", "units"), READ)


def made(flow: ScriptedFlow, by: By, *rows: tuple[str, int | None]) -> tuple[Produced, ...]:
    """Write rows, and return the increments that a run makes of them."""
    flow.containers["pages"] += [{"key": key, "n": n} for key, n in rows]
    flow.run("parse", framed(by), flow.request(out=("units",)))
    result = decode_result(flow.results["parse"])
    assert result is not None
    return result.produced


def read(flow: ScriptedFlow, increment: Produced) -> list[tuple[str, int]]:
    flow.outputs.pop("sums", None)
    flow.run("reader", READER, flow.request({"units": (increment.name,)}))
    return sorted((row["key"], row["n"]) for row in flow.outputs.get("sums", []))


FRAMINGS: list[tuple[By, Callable[[int], FramingKey]]] = [
    ("n", lambda n: n),
    ("day", lambda n: f"2024-05-{1 + n:02}"),
    (lambda row: row["n"] // -3, lambda n: n // -3),
    (lambda row: f"#{row['n'] % 3}=@", lambda n: f"#{n % 3}=@"),
]


@pytest.mark.parametrize(("by", "key_of"), FRAMINGS, ids=["column", "day", "number", "text"])
@settings(max_examples=6, deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 12))), max_size=3))
def test_each_row_is_in_the_increment_of_its_key_and_these_come_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    by: By,
    key_of: Callable[[int], FramingKey],
    epochs: list[list[tuple[str, int]]],
) -> None:
    flow = ScriptedFlow(tmp_path_factory.mktemp("flow"), ("pages", "sums"), READ)
    for rows in epochs:
        found = made(flow, by, *rows)
        keys: list[Any] = list({key_of(n) for _, n in rows})
        assert [one.key for one in found] == sorted(keys)
        for one in found:
            own = sorted(row for row in rows if key_of(row[1]) == one.key)
            assert one.rows == len(own)
            assert read(flow, one) == own


def test_of_the_first_epoch_only_the_first_increment_is_all_that_there_is(
    flow: ScriptedFlow,
) -> None:
    """Otherwise each would take away what those before it brought."""
    found = made(flow, "n", ("a", 9), ("b", 10), ("c", 0))
    wholes = []

    def note(groups: Any) -> dict[str, pa.Table]:
        wholes.append("units" in groups.whole)
        return {}

    reader = Stage(
        "reader",
        inputs={"units": InputFlow("key")},
        outputs={},
        translate_tables=note,
        state=STATE,
    )
    for one in found:
        flow.run("reader", reader, flow.request({"units": (one.name,)}))
    assert [one.key for one in found] == [0, 9, 10]
    assert wholes == [True, False, False]


def test_a_container_is_given_the_rows_of_all_keys(flow: ScriptedFlow) -> None:
    made(flow, "n", ("a", 2), ("b", 1), ("c", 2))
    assert sorted(row["key"] for row in flow.outputs["units"]) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("n", r"framing of flow `units` of stage `flow/parse`: None is no key, of the row"),
        ("day", "None is no key"),
        (lambda row: row["x"], r"0\.5 is no key"),
        (lambda row: row["n"] is None, "(True|False) is no key"),
        (lambda _row: 1 << 63, f"{1 << 63} is no key"),
        (lambda row: row["n"] or "none", "gave numbers and text"),
    ],
)
def test_what_is_no_key_fails_the_run_and_names_the_row(
    flow: ScriptedFlow, by: By, words: str
) -> None:
    with pytest.raises(StageError, match=words):
        made(flow, by, ("a", 1), ("a", None))


def test_too_many_keys_of_one_run_fail_it(
    flow: ScriptedFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_MOST_FRAMES", 3)
    assert len(made(flow, "n", *(("a", n) for n in range(3)))) == 3
    with pytest.raises(StageError, match="frame its flows by fewer keys"):
        made(flow, "n", *(("a", n) for n in range(5)))


@pytest.mark.parametrize(
    ("by", "flow", "words"),
    [
        ("m", "units", "by `m`, which is none of its columns key, n, day, x"),
        ("x", "units", "by `x`, which is double; keys are whole numbers"),
        ("n", "unit", "framing of `unit`, which is none of its output flows units"),
    ],
)
def test_a_stage_that_cannot_be_framed_so_is_refused(by: str, flow: str, words: str) -> None:
    with pytest.raises(StageError, match=words):
        framed(by, flow)
