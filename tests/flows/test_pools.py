"""What keeps a dataflow out of a pool."""

from __future__ import annotations

import pytest

from headgate.flows import (
    Dataflow,
    DataflowErrors,
    PoolMember,
    changes,
    parse_dataflow,
    pool_conflict,
    pool_member,
)

TEXT = """
name: one
containers: {input: "in c:v", output: "out c:v"}
actions:
  feed: {input: input}
  step: {step: "steps:first", reads: input, writes: output}
spark: {spark.sql.shuffle.partitions: 4}
spark_pool: small
"""


def dataflow(text: str = TEXT) -> Dataflow:
    return parse_dataflow(text, "one.yaml")


def member(text: str = TEXT, directory: str = "/code") -> PoolMember:
    found = pool_member(dataflow(text), directory)
    assert found is not None
    return found


def other(text: str = TEXT) -> str:
    return text.replace("name: one", "name: two")


def test_a_member_has_its_settings_and_its_whole_paths() -> None:
    text = TEXT + "python_path: [., lib, /shared]\n"
    assert member(text) == PoolMember(
        "one", "small", {"spark.sql.shuffle.partitions": "4"}, ("/code", "/code/lib", "/shared")
    )


def test_without_a_pool_or_steps_in_sessions_there_is_no_member() -> None:
    assert pool_member(dataflow(TEXT.replace("spark_pool: small", "")), "/code") is None
    command = TEXT.replace('step: "steps:first"', 'command: ["true"]')
    assert pool_member(dataflow(command), "/code") is None


def test_equal_dataflows_share() -> None:
    assert pool_conflict(member(), [member(other())]) is None


@pytest.mark.parametrize("theirs", ["8", None])
def test_another_setting_is_named_with_both_values(theirs: str | None) -> None:
    line = f"spark.sql.shuffle.partitions: {theirs}" if theirs else ""
    text = other().replace("spark.sql.shuffle.partitions: 4", line)
    words = pool_conflict(member(), [member(text)])
    assert words is not None
    assert "'spark.sql.shuffle.partitions' of spark is '4' in one" in words
    assert f"{repr(theirs) if theirs else 'not set'} in two" in words
    assert "another spark_pool" in words


def test_other_code_is_named() -> None:
    words = pool_conflict(member(), [member(other(), "/elsewhere")])
    assert words is not None
    assert words.startswith("python_path is '/code' in one and '/elsewhere' in two")


def test_other_pools_and_a_dataflows_former_self_do_not_matter() -> None:
    former = member(TEXT.replace(": 4", ": 8"))
    foreign = member(other().replace("small", "large").replace(": 4", ": 8"))
    assert pool_conflict(member(), [former, foreign]) is None


def test_a_pool_has_a_name() -> None:
    with pytest.raises(DataflowErrors):
        dataflow(TEXT.replace("small", "no name"))


def test_another_pool_is_told() -> None:
    told = changes(dataflow(), dataflow(TEXT.replace("small", "large")))
    assert [(c.part, c.words) for c in told] == [
        ("spark_pool", "small → large, before the next attempt")
    ]
