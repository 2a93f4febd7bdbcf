"""A constructor names what it is given by mistake, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from scripted_runs import ScriptedFlow

from headgate.incremental import (
    Computed,
    InputFlow,
    Keys,
    Stage,
    StageError,
    StateFlow,
    TranslationFailed,
    library,
)

N = pa.schema({"n": pa.int64()})
INPUTS: Any = {"a": InputFlow("k")}
OUT: Any = {"o": {"row": "string"}}
COLUMNS: Any = {"a": "string", "b": "int64"}
HALF = "a\ud800b"
"""Half of a surrogate pair: Python has such texts, and they are no Unicode."""


def translate(key: Any, flows: Any) -> Any:
    return {}


def made(**given: Any) -> Stage:
    return Stage("s", **{"inputs": INPUTS, "outputs": OUT, "translate": translate, **given})


MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: made(inputs={"a": "key"}), "`a` in `inputs` of stage `s` is 'key', of type str"),
    (lambda: made(inputs=["a"]), "`inputs` of stage `s` is .*InputFlow"),
    (lambda: made(inputs=None), "`inputs` of stage `s` is None"),
    (lambda: made(outputs={"o": "string"}), "`o` in `outputs` of stage `s`"),
    (lambda: made(outputs={"o": ["row"]}), "`o` in `outputs` of stage `s`"),
    (lambda: made(outputs=["o"]), "`outputs` of stage `s` is"),
    (lambda: made(outputs={"o": {"n": int}}), "`n` in what is given as columns is <class 'int'>"),
    (lambda: made(state={"n": "int64"}), "`state` of stage `s` is .*write `StateFlow"),
    (lambda: made(translate="t"), "`translate` of stage `s` is 't'"),
    (lambda: made(version=2), "`version` of stage `s` is 2"),
    (lambda: made(framing="row"), "`framing` of stage `s` is 'row'"),
    (lambda: made(framing={"o": 3}), "the framing of `o` of stage `s` is 3"),
    (lambda: made(over_open=translate), "`over_open` of stage `s`"),
    (lambda: Stage(3, inputs=INPUTS, outputs=OUT, translate=translate), "name of a stage is 3"),  # type: ignore[arg-type]
    (lambda: StateFlow({"n": "int64"}), "`columns` of a `StateFlow` is .*give an Arrow schema"),
    (lambda: StateFlow(N, outer="full"), "`outer` of a `StateFlow` is 'full'"),  # type: ignore[arg-type]
    (lambda: StateFlow(N, match="row"), "`match` of a `StateFlow` is 'row'"),  # type: ignore[arg-type]
    (lambda: StateFlow(N, order_by="m"), "`order_by` of a `StateFlow` names column m; it has n"),
    (lambda: StateFlow(N, route_by=3), "`route_by` of a `StateFlow` is 3"),  # type: ignore[arg-type]
    (lambda: InputFlow(1.5), "`route_by` of an `InputFlow` is 1.5"),  # type: ignore[arg-type]
    (lambda: InputFlow(["a"]), "several as a tuple"),  # type: ignore[arg-type]
    (lambda: InputFlow("a", order_by=["b"]), "`order_by` of an `InputFlow`"),  # type: ignore[arg-type]
    (lambda: Keys("ab"), "write several keys as a tuple"),  # type: ignore[arg-type]
    (lambda: Computed("a"), "`Computed` is 'a'"),  # type: ignore[arg-type]
    (lambda: made().fused(before={"a": translate}), "what is fused is"),  # type: ignore[dict-item]
    (lambda: made().fused(after={"o": [translate]}), "what is fused is"),  # type: ignore[list-item]
    (lambda: made().fused(before=translate), "`before` of `fused`"),  # type: ignore[arg-type]
    (lambda: library.count("site"), "`by` of `library.count` is 'site'"),
    (lambda: library.distinct(["a"]), "write names and types"),
    (lambda: library.top_k("a", "b", 3, columns=["a"]), "`columns` of `library.top_k`"),
    (lambda: library.top_k("a", "b", "3", columns=COLUMNS), "`k` of `library.top_k` is '3'"),  # type: ignore[arg-type]
    (lambda: library.aggregate({"a": "string"}, {"n": "sum"}), "`n` in `of` of `library.aggr"),  # type: ignore[dict-item]
    (lambda: library.differences(value=3), "`value` of `library.differences` is 3"),
    (lambda: library.sliding(COLUMNS, "a", "3"), "`frames` of `library.sliding` is '3'"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("mistake", "words"), MISTAKES)
def test_a_mistake_is_an_error_where_it_is_made(mistake: Callable[[], Any], words: str) -> None:
    with pytest.raises(StageError, match=words):
        mistake()


def test_the_library_takes_what_it_declares() -> None:
    library.top_k(("a",), "b", 3, columns=pa.schema({"a": pa.string(), "b": pa.int64()}))
    with pytest.raises(TypeError, match=r"join\(\)"):
        library.join("a", "b", 3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"row": {"row": "a", "t": HALF}}, "group 'a': flow `sums` .*surrogates.*, in column `t`"),
        (
            {"row": {"row": HALF, "t": "x"}},
            "group 'a': flow `sums` .*surrogates.*, in column `row`",
        ),
        ({"state": {"t": HALF}}, "group 'a': flow `state` .*surrogates.*, in column `t`"),
        ({"route": lambda row: HALF}, "input flow `pages`: .* is no Unicode text.*for {'key'"),
        ({"framing": {"sums": lambda row: HALF}}, "framing of flow `sums`.* is no key, of the row"),
        ({"row": {"row": "", "t": "x"}}, "output flow `sums`.*that of row 1 of 1 is empty"),
    ],
)
def test_a_value_that_cannot_be_written_is_named_with_its_place(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    flow = ScriptedFlow(tmp_path, ("pages", "sums"), pa.schema({"key": pa.string()}))
    flow.containers["pages"].append({"key": "a"})
    flow.strict_rows = True

    def put_out(key: Any, flows: Any) -> Any:
        row = given.get("row", {"row": "a", "t": "x"})
        return {"state": [given.get("state", {"t": "x"})], "sums": [row]}

    stage = Stage(
        "s",
        inputs={"pages": InputFlow(given.get("route", "key"))},
        outputs={"sums": {"row": "string", "t": "string"}},
        translate=put_out,
        state=StateFlow(pa.schema({"t": pa.string()})),
        framing=given.get("framing"),
    )
    with pytest.raises((TranslationFailed, StageError), match=words):
        flow.run("s", stage, flow.request(out=("sums",)))
