"""``flow check --imports`` compares flows and columns of a file with those of its stages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headgate.cli.app import app
from headgate.cli.flow.stage_flows import flow_problems
from headgate.flows import parse_dataflow
from headgate.incremental import described

STAGES = """
import pyarrow as pa
from headgate.incremental import InputFlow, Outer, Route, Stage, StateFlow, library


def make(key, flows):
    return {}


STATE = StateFlow(pa.schema({"n": pa.int64()}))
links = Stage(
    "links",
    inputs={"pages": InputFlow("row")},
    outputs={
        "links": {"site": "string", "url": "string"},
        "sizes": {"row": "string", "n": "int64"},
    },
    translate=make,
    state=STATE,
)
counts = Stage(
    "counts",
    inputs={"links": InputFlow("site", order_by="url"), "k": InputFlow(Route.ALL)},
    outputs={"counts": {"row": "string", "n": "int64"}},
    translate=make,
    state=STATE,
)
total = counts


def plain(run): ...
"""
FLOW = """
name: web
containers:
  pages: {table: pages, family: f}
  sizes: {table: sizes, column: "f:n"}
  counts: {table: counts, column: "f:n"}
files:
  k: {uri: ks, format: csv, columns: {k: int64}}
actions:
  links:
    stage: stages:links
    reads: pages
    out: links
    writes: sizes
    when: {pages: {sequence: 1}}
  counts:
    stage: stages:counts
    in: {links: links.links}
    reads: k
    writes: counts
"""


def changed(text: str, changes: Sequence[tuple[str, str]]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def problems(*changes: tuple[str, str], stages: Sequence[tuple[str, str]] = ()) -> list[str]:
    """Return what is found once words of the file, and of the stages, are replaced."""
    made: dict[str, Any] = {}
    exec(changed(STAGES, stages), made)
    dataflow = parse_dataflow(changed(FLOW, changes), "flow.yaml")
    found = {name: described(made[name].spec) for name in ("links", "counts")}
    return [str(problem) for problem in flow_problems(dataflow, found)]


def test_what_agrees_is_in_order_and_parameters_that_some_groups_miss_are_named(
    tmp_path: Path,
) -> None:
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "stages.py").write_text(STAGES)
    command = ["flow", "check", "--imports", str(tmp_path / "flow.yaml")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.stderr
    assert "19:12: warning: units of `k` go to all groups of their run" in result.stderr
    assert "give the state `outer=Outer.FULL`" in result.stderr

    full = ("pa.int64()}))", "pa.int64()}), outer=Outer.FULL)")
    assert problems(stages=[full]) == []

    (tmp_path / "flow.yaml").write_text(changed(FLOW, [("stages:counts", "stages:plain")]))
    assert "units of" not in CliRunner().invoke(app, command).stderr, "nothing is known of it"

    (tmp_path / "flow.yaml").write_text(changed(FLOW, [("writes: counts", "writes: sizes")]))
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert "20:13: error: stage `counts` has no output flow `sizes`, but `counts`" in result.stderr


@pytest.mark.parametrize(
    ("changes", "stages", "words"),
    [
        (
            [("reads: pages", "reads: pagse"), ("pages: {t", "pagse: {t"), ("{pages:", "{pagse:")],
            [],
            ("nothing feeds input flow `pages` of stage `links`", "did you mean it by `pagse`?"),
        ),
        (
            [("in: {links: links.links}", "in: {link: links.links}")],
            [],
            ("18:10: error: stage `counts` has no input flow `link`, but", "did you mean `links`?"),
        ),
        (
            [("out: links", "out: lniks"), ("links.links", "links.lniks")],
            [],
            ("13:10: error: stage `links` has no output flow `lniks`, but `links`, `sizes`",),
        ),
        (
            [("writes: sizes", "writes: [sizes, counts]")],
            [],
            ("14:21: error: stage `links` has no output flow `counts`",),
        ),
        (
            [],
            [('InputFlow("row")', 'InputFlow("site")')],
            ("stage `links` routes or orders `pages` by column `site`, and it has row, column,",),
        ),
        (
            [],
            [('order_by="url"', 'order_by="address"')],
            ("18:10: error: stage `counts` routes or orders `links` by column `address`",),
        ),
        (
            [],
            [("Route.ALL", '"limit"')],
            ("stage `counts` routes or orders `k` by column `limit`, and it has k",),
        ),
        (
            [],
            [('counts": {"row": "string", "n"', 'counts": {"row": "string", "count"')],
            ("output flow `counts` of stage `counts` cannot be written: column 'count' is not",),
        ),
        (
            [],
            [('"counts": {"row"', '"counts": {"key"')],
            ("it has no column 'row' with the keys of the rows",),
        ),
        (
            [('"f:n"}', '"f:n", codec: int64}')],
            [
                (
                    'counts": {"row": "string", "n": "int64"',
                    'counts": {"row": "string", "n": "date32"',
                )
            ],
            ("a column of type date32[day] has no bytes",),
        ),
    ],
)
def test_what_differs_is_an_error_with_its_place_and_the_cure(
    changes: Any, stages: Any, words: tuple[str, ...]
) -> None:
    told = " ".join(" ".join(problems(*changes, stages=stages)).split())
    for one in words:
        assert one in told, told


def test_a_container_that_a_stage_is_not_given_is_a_warning() -> None:
    told = problems(
        ("reads: pages", "reads: [pages, other]"),
        ("containers:", "containers:\n  other: {table: other, family: f}"),
    )[0]
    assert "13:20: warning: stage `links` has no input flow `other`, but `pages`" in told


def test_a_table_that_is_read_again_and_again_is_there_for_all_groups() -> None:
    kept = [
        ("reads: k", "runnable: {lookup: k}"),
        ("{links: links.links}", "{links: links.links, k: links.k}"),
        ("  k: {uri: ks,", "  unread: {uri: ks,"),
    ]
    made = [('"sizes": {', '"k": {"k": "int64"}, "sizes": {')]
    assert problems(*kept, ("out: links", "out: [links, k]"), stages=made) == []
