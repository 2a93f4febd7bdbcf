"""Files that an action depends on."""

from __future__ import annotations

import pytest

from headgate.flows import DataflowErrors, changes, parse_dataflow

FLOW = """
name: air
containers: {a: t f:a}
actions:
  feed: {input: a}
  clean: {step: "steps:clean", after: feed, depends: ...}
"""


def parsed(written: str):
    return parse_dataflow(FLOW.replace("...", written), "air.yaml")


@pytest.mark.parametrize(
    ("written", "files"),
    [
        ("model.json", ("model.json",)),
        ("[data/model.json, ../rates, ./feed]", ("data/model.json", "../rates", "./feed")),
    ],
)
def test_files_are_kept_as_they_are_written(written: str, files: tuple[str, ...]) -> None:
    assert parsed(written).actions["clean"].depends == files


@pytest.mark.parametrize(
    ("written", "message", "cure"),
    [
        ("feed", "`feed` is an action", "did you mean `after: feed`?"),
        ("models/", "`models/` is no path of a file", "the path of each file"),
        ("hdfs://x/y", "is no path of a file", "the path of each file"),
        ("[a, b, a]", "`a` is named twice", "remove one"),
    ],
)
def test_what_is_no_file_is_refused_with_the_cure(written: str, message: str, cure: str) -> None:
    with pytest.raises(DataflowErrors) as refused:
        parsed(written)

    assert any(message in one.message and cure in one.cure for one in refused.value.problems)


def test_what_is_fed_from_outside_depends_on_nothing() -> None:
    with pytest.raises(DataflowErrors, match="depends"):
        parse_dataflow(
            "name: a\ncontainers: {a: t f:a}\nactions: {feed: {input: a, depends: x}}\n", "a.yaml"
        )


def test_other_files_are_named_by_an_update() -> None:
    (change,) = changes(parsed("a"), parsed("b"))

    assert str(change) == "action `clean`: changed, `depends`, from its next attempt"
