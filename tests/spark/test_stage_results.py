"""What a stage's commit names is one text that says all, and no other text is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine import Produced
from headgate.spark import (
    FramePart,
    IncrementName,
    StageResult,
    decode_result,
    parse_frame_part,
    parse_increment_name,
)
from headgate.spark.ledger import checked_result

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.\-]{0,99}", fullmatch=True)
MANIFESTS = st.from_regex(r"[A-Za-z0-9_.\-%/~]{1,400}", fullmatch=True)

KEYS = st.none() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(max_size=50)
PARTS = st.builds(FramePart, NAMES, KEYS)


@given(
    MANIFESTS, st.dictionaries(PARTS.map(str), st.integers(0, 10**11), max_size=3), st.booleans()
)
def test_a_result_is_read_as_it_was_written(
    manifest: str, rows: dict[str, int], upkeep: bool
) -> None:
    result = StageResult(manifest, rows, upkeep)
    assert decode_result(checked_result(result.encoded())) == result


@given(st.text())
def test_what_is_read_from_any_text_says_the_same_again(text: str) -> None:
    found = decode_result(text)
    assert found is None or decode_result(found.encoded()) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "manifest-1",
        "stage:1",
        "stage:1 ",
        "stage:2 m a=1",
        "stage:1 m#x a=1",
        "stage:1 m a",
        "stage:1 m a=",
        "stage:1 m a=-1",
        "stage:1 m a=²",
        "stage:1 m =1",
        "stage:1 m a=1 a=2",
        "stage:1 m  a=1",
        "stage:1 m +upkeep a=1",
        "stage:1 m +upkeep +upkeep",
        "stage:1 m a@=1",
        "stage:1 m a@x5=1",
        "stage:1 m a@i05=1",
        "stage:1 m a@i+5=1",
        "stage:1 m a@s%=1",
        "stage:1 m @i5=1",
    ],
)
def test_other_texts_are_no_results_of_a_stage(text: str) -> None:
    assert decode_result(text) is None


@pytest.mark.parametrize(
    "result", [StageResult("a b"), StageResult("m", {"a=b": 1}), StageResult("")]
)
def test_names_that_cannot_be_told_apart_are_refused(result: StageResult) -> None:
    with pytest.raises(ValueError, match="cannot stand"):
        result.encoded()


def test_each_output_flow_has_an_increment_though_it_be_empty() -> None:
    assert StageResult("m", {"a": 3, "b": 0}).produced == (
        Produced("a", "m#a", None, 3),
        Produced("b", "m#b", None, 0),
    )


def test_with_a_framing_there_is_an_increment_of_each_key() -> None:
    result = StageResult("m", {"a@i-2": 3, "a@i5": 1, "b@s2024-05-01%2F": 4})
    assert decode_result(result.encoded()) == result
    assert result.produced == (
        Produced("a", "m#a@i-2", -2, 3),
        Produced("a", "m#a@i5", 5, 1),
        Produced("b", "m#b@s2024-05-01%2F", "2024-05-01/", 4),
    )


@given(MANIFESTS, PARTS)
def test_an_increments_name_says_manifest_flow_and_framing_key(
    manifest: str, part: FramePart
) -> None:
    name = IncrementName(manifest, part.flow, part.key)
    assert parse_increment_name(str(name)) == name
    assert parse_frame_part(name.part) == part


@pytest.mark.parametrize(
    "name", ["", "m", "#f", "m#", "m#f#g", "m#f@", "m#f@i", "m#f@i1@", "m#@i1"]
)
def test_other_names_are_none_of_increments(name: str) -> None:
    with pytest.raises(ValueError, match="no name of an increment"):
        parse_increment_name(name)
