"""Durations end, and none is so short that nothing but it happens."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.flows import DataflowErrors, parse_dataflow
from headgate.flows.grammar.quantities import (
    DURATION,
    LEAST_SECONDS,
    SECONDS_OF,
    duration_seconds,
)

numbers = st.from_regex(r"0{0,3}(\.0{0,8}[0-9])?|[0-9]{1,3}(\.[0-9]{1,9})?", fullmatch=True)
spoken = st.tuples(numbers, st.sampled_from(["", " "]), st.sampled_from(sorted(SECONDS_OF)))
texts = st.lists(spoken.map("".join), min_size=1, max_size=3).map(" ".join)
iso = st.tuples(numbers, st.sampled_from("HMS")).map(lambda part: f"PT{part[0]}{part[1]}")


@given(texts | iso)
def test_what_is_accepted_is_a_millisecond_or_more(text: str) -> None:
    if re.fullmatch(DURATION, text):
        assert duration_seconds(text) >= LEAST_SECONDS


def flow(duration: str, **keys: str) -> str:
    more = "".join(f", {key}: {value}" for key, value in keys.items())
    return (
        f"name: n\ncontainers: {{c: t f:q}}\n"
        f"actions: {{a: {{step: 'm:f', reads: c, when: {{c: {{time: {duration}}}}}{more}}}}}"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (flow("0.0001 ms"), "a millisecond at least"),
        (flow("0.0001"), "a millisecond at least"),
        (flow("1e-7"), "a millisecond at least"),
        (flow("PT0.0001S"), "a millisecond at least"),
        (flow(".inf"), "must have an end"),
        (flow(".nan"), "must have an end"),
        (flow("1e300"), "must have an end"),
        (flow("5", evaluate="every 0.0001 ms"), "`every 0.0001 ms` is not"),
        (flow("5", timeout=".inf"), "must have an end"),
    ],
)
def test_a_duration_that_is_none_is_refused(text: str, words: str) -> None:
    with pytest.raises(DataflowErrors) as errors:
        parse_dataflow(text, "file")
    assert any(words in str(problem) for problem in errors.value.problems), errors.value


def test_a_millisecond_is_a_duration() -> None:
    action = parse_dataflow(flow("1 ms"), "file").spec.actions[-1]
    assert [bound.time for bound in action.bounds] == [0.001]
