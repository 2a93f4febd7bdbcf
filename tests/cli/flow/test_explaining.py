"""Explanations of actions with few and with many bounds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.cli.flow.explaining import explain_lines
from headgate.engine import (
    AllOf,
    AnyOf,
    AtLeast,
    BoundReached,
    BoundResult,
    Condition,
    Dimension,
    VectorResult,
)
from headgate.engine.spec.conditions import evaluate, missing

BOUNDS = [f"b{number}" for number in range(16)]


def result(name: str, *, reached: bool) -> BoundResult:
    vector = VectorResult(
        Dimension.SEQUENCE, 4.0, 20.0, "updates", reached,
        f"`{name}` had {20 if reached else 4} of 20 updates",
        "" if reached else f"16 more updates of `{name}`",
    )  # fmt: skip
    return BoundResult(name, name, reached, (vector,))


def explained(condition: Condition, reached: set[str], words: str = "It has not run yet.") -> Any:
    found = evaluate(condition, {name: result(name, reached=name in reached) for name in BOUNDS})
    needed = "" if found.reached else f"needs {missing(found)}"
    action = {
        "action": "zones",
        "state": "idle",
        "words": words + (f" The next run {needed}." if needed else ""),
        "last": None,
        "active": None,
        "result": msgspec.to_builtins(found),
        "missing": needed,
        "policy": None,
        "adjusted": [],
        "updates": [],
    }
    return {"actions": [action], "containers": []}


def lines(explanation: Any, width: int | None = 80) -> list[str]:
    return [line.text for line in explain_lines(explanation, width)]


CONDITIONS = st.recursive(
    st.sampled_from(BOUNDS).map(BoundReached),
    lambda inner: st.builds(
        lambda kind, parts: kind(tuple(parts)),
        st.sampled_from([AllOf, AnyOf, lambda parts: AtLeast(len(parts) // 2 + 1, parts)]),
        st.lists(inner, min_size=2, max_size=6),
    ),
    max_leaves=16,
)


@given(CONDITIONS, st.sets(st.sampled_from(BOUNDS)), st.integers(40, 120))
def test_each_bound_is_named_and_no_line_is_wider_than_the_terminal(
    condition: Condition, reached: set[str], width: int
) -> None:
    explanation = explained(condition, reached)
    told = lines(explanation, width)

    assert max(map(len, told)) <= width
    named = " ".join(" ".join(told).split())
    for text in missing_texts(explanation["actions"][0]["result"]):
        assert text in named


def missing_texts(found: Any) -> list[str]:
    """Return what unreached bounds lack, where the condition waits for them."""
    if found["reached"]:
        return []
    if found["type"] == "bound":
        return [found["vectors"][0]["missing"]]
    return [text for part in found["parts"] for text in missing_texts(part)]


def test_sixteen_bounds_are_a_list() -> None:
    told = lines(explained(AllOf(tuple(map(BoundReached, BOUNDS))), {"b3"}))

    assert told[:4] == [
        "zones (idle)",
        "  It has not run yet.",
        "  The next run needs all of 16, of which 1 is reached:",
        "    - b0: 16 more updates of `b0`",
    ]
    assert told[6] == "    - b3: reached: `b3` had 20 of 20 updates"
    assert len(told) == 3 + 16


def test_groups_in_each_other_are_lists_in_each_other() -> None:
    pair = AnyOf((BoundReached("b0"), BoundReached("b1")))
    rest = AllOf((BoundReached("b2"), BoundReached("b3")))

    assert lines(explained(AllOf((pair, rest)), {"b2"}))[2:] == [
        "  The next run needs all of 2, of which 0 are reached:",
        "    - 1 of 2, of which 0 are reached:",
        "      - b0: 16 more updates of `b0`",
        "      - b1: 16 more updates of `b1`",
        "    - all of 2, of which 1 is reached:",
        "      - b2: reached: `b2` had 20 of 20 updates",
        "      - b3: 16 more updates of `b3`",
    ]


def test_few_bounds_are_a_sentence() -> None:
    told = lines(explained(AnyOf((BoundReached("b0"), BoundReached("b1"))), set()), None)

    assert told[1] == (
        "  It has not run yet. The next run needs 16 more updates of `b0`, or 16 more updates of "
        "`b1`."
    )


@pytest.mark.parametrize("run", ["last", "active"])
def test_many_reasons_of_a_run_are_a_list(run: str) -> None:
    limits = {name: result(name, reached=True) for name in BOUNDS}
    found = msgspec.to_builtins(evaluate(AllOf(tuple(map(BoundReached, BOUNDS))), limits))
    words = ", ".join(f"`{name}` had 20 of 20 updates" for name in BOUNDS)
    explanation = explained(BoundReached("b0"), {"b0"}, f"Run r1 started 3 s ago: {words}.")
    causes = {
        "last": {"cause": {"moment": "write", "words": words, "result": found}},
        "active": {"words": words, "result": found},
    }
    explanation["actions"][0][run] = {"run": "r1", **causes[run]}

    told = lines(explanation)

    assert told[1:4] == [
        "  Run r1 started 3 s ago: 16 limits were reached.",
        "  Run r1 was launched because:",
        "    - `b0` had 20 of 20 updates",
    ]
    assert len(told) == 3 + 16


@pytest.mark.parametrize(("number", "words"), [(1, "1 value"), (2, "2 values")])
def test_values_that_could_not_be_read_are_counted_in_words(number: int, words: str) -> None:
    container = {"container": "pm25", "dead_letters": number}
    (line,) = lines({"actions": [], "containers": [container]}, None)
    assert line.startswith(f"pm25: {words} could not be read")
