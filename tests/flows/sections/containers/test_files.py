"""Files in dataflow files: what stages read and write besides containers, and what cannot be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.engine import EngineTester, FileFormat, FilesSpec, launched
from headgate.flows import Dataflow, Problem, Severity, changes, parse_dataflow

Problems = Callable[[str], tuple[Problem, ...]]

MARK = "▲"
CLICKS = "{uri: in, format: json, columns: {url: string, n: int64}}"
EVERY = "when: {clicks: {time: 5 min}}"


def flow(
    *,
    clicks: str = CLICKS,
    ranking: str = "s3://bucket/ranking/",
    a: str = "reads: clicks, writes: ranking",
    when: str = EVERY,
    more: str = "",
    top: str = "",
) -> str:
    """A stage that reads files and writes files."""
    return (
        f"name: n\n{top}\ncontainers: {{c: t f:q}}\n"
        f"files:\n  clicks: {clicks}\n  ranking: {ranking}\n"
        f"actions:\n  feed: {{input: c}}\n"
        f"  a: {{stage: 'm:a', {', '.join(filter(None, (a, when)))}}}\n"
        f"  b: {{stage: 'm:b', reads: c, when: {{c: {{sequence: 3}}}}}}\n{more}"
    )


def parsed(text: str) -> Dataflow:
    return parse_dataflow(text, "f.yaml")


def test_files_are_places_formats_and_columns() -> None:
    dataflow = parsed(flow())
    assert dataflow.warnings == ()
    assert dataflow.files == {
        "clicks": FilesSpec("in", FileFormat.JSON, {"url": "string", "n": "int64"}, 3600.0),
        "ranking": FilesSpec("s3://bucket/ranking"),
    }


def test_a_dataflow_without_files_is_what_it_was() -> None:
    text = (
        "name: n\ncontainers: {c: t}\nactions: {a: {step: 'm:f', reads: c, when: {c: {time: 5}}}}"
    )
    assert parsed(text).files == {}
    assert [each.id for each in parsed(text).spec.containers] == ["c"]


def test_late_is_a_duration() -> None:
    spec = parsed(flow(clicks="{uri: /in, late: 2 d, columns: {url: string}}")).files["clicks"]
    assert spec.late == 2 * 86400


def test_files_have_no_tables_and_their_time_is_bounded_all_the_same() -> None:
    spec = parsed(flow()).spec
    assert spec.tables() == {"t"}
    tester = EngineTester(spec)
    assert launched(tester.pass_time(290)) == []
    assert launched(tester.pass_time(20)) == ["a"]
    tester.finish("a")
    assert launched(tester.pass_time(310)) == ["a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (flow(ranking="▲ftp://host/dir"), "nobody knows the file system of `ftp://`"),
        (flow(ranking="{▲format: parquet}"), "`uri`"),
        (flow(clicks="{uri: in, format: ▲xml}"), "`xml` is not `parquet`, `csv` or `json`"),
        (flow(clicks="{uri: in, columns: {url: ▲text}}"), "the name of a type"),
        (flow(clicks="{uri: in, columns: {▲_x: string}}"), "column"),
        (flow(more="  c: {stage: 'm:c', reads: ▲click}\n"), "there is no container `click`"),
        (flow(more="  c: {step: 'm:c', reads: ▲clicks}\n"), "`c` is no stage"),
        (flow(more="  c: {command: ls, writes: ▲ranking}\n"), "`c` is no stage"),
        (flow(more="  c: {input: ▲clicks}\n"), "nothing says when files come"),
        (flow(when="when: {▲clicks: {sequence: 5}}"), "whose arrival nothing counts"),
        (flow(when="when: {▲clicks: {value: 5%}}"), "whose arrival nothing counts"),
        (flow(when="when: {▲clicks: {time: 5 min, block: true}}"), "whose arrival nothing counts"),
        (flow(when="when: {▲ranking: {time: 5 min}}", a="writes: ranking"), "writes itself"),
    ],
)
def test_errors_have_a_place(text: str, message: str, problems: Problems) -> None:
    line = text[: text.index(MARK)].count("\n") + 1
    found = [p for p in problems(text.replace(MARK, "")) if p.severity is Severity.ERROR]
    assert [one.line for one in found if message in f"{one.message} {one.cure}"] == [line], found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (flow(clicks="in"), "nothing says which columns they have"),
        (flow(ranking="{uri: out, format: csv}"), "as csv"),
        (flow(ranking="{uri: out, columns: {a: string}}"), "those of its flow"),
        (flow(ranking="in/"), "`ranking` and `clicks` are one place, in"),
        (flow(more="  d: {stage: 'm:d', reads: ranking, after: b}\n"), "and `d` reads them"),
        (flow(more="  d: {stage: 'm:d', writes: ranking, after: b}\n"), "`a` and `d` write"),
        (flow(top="significance: {output: c, change: 5%}"), "decides by the values"),
        (flow(top="learned: {outputs: {c: 5%}}"), "decides by the values"),
    ],
)
def test_what_cannot_be_is_said(text: str, message: str, problems: Problems) -> None:
    errors = [p for p in problems(text) if p.severity is Severity.ERROR]
    assert [one for one in errors if message in one.message and one.cure], errors


def test_a_name_is_a_container_or_files(problems: Problems) -> None:
    text = flow().replace("{c: t f:q}", "{c: t f:q, clicks: t f:r}")
    assert any("`clicks` is a container, too" in one.message for one in problems(text))


def test_that_files_come_starts_nothing_and_that_is_said() -> None:
    [warning] = parsed(flow(when="")).warnings
    assert "nothing starts it; that files come starts nothing" in warning.message
    assert "`when: {clicks: {time: 5 min}}`" in warning.cure


@pytest.mark.parametrize("when", ["after: b", "in: {x: b.x}"])
def test_a_predecessor_or_a_flow_starts_it(when: str) -> None:
    text = flow(when=when).replace("'m:b', ", "'m:b', out: x, " if "in:" in when else "'m:b', ")
    assert parsed(text).warnings == ()


def test_files_that_nobody_uses_are_warned_about() -> None:
    [warning] = parsed(flow(a="reads: clicks")).warnings
    assert warning.message == "no action uses files `ranking`"


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (flow(ranking="out"), "files `ranking`: changed, s3://bucket/ranking → out; what is"),
        (flow(clicks=CLICKS.replace("n:", "m:")), "files `clicks`: changed, from the next run"),
        (flow(a="reads: clicks").replace("  ranking: s3://bucket/ranking/\n", ""), "removed"),
    ],
)
def test_an_update_says_what_becomes_of_files(other: str, said: str) -> None:
    words = [str(each) for each in changes(parsed(flow()), parsed(other))]
    assert any(said in one for one in words), words
    assert not any("container" in one for one in words)


@pytest.mark.parametrize(
    "kind", ["timestamp[us, tz=UTC]", "timestamp[ms, tz=+09:00]", "decimal(20, 2)"]
)
def test_a_type_may_have_a_zone_or_digits(kind: str) -> None:
    spec = parsed(flow(clicks=f"{{uri: /in, columns: {{c: '{kind}'}}}}")).files["clicks"]
    assert spec.columns == {"c": kind}


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("timestamp[us, tz=Mars/Base]", "no time zone `Mars/Base`"),
        ("timestamp[us, tz=../UTC]", "types are Arrow's: string"),
        ("decimal(2, 20)", "more digits after the point"),
        ("decimal(39, 2)", "types are Arrow's: string"),
    ],
)
def test_a_zone_or_digits_that_cannot_be_are_refused(
    kind: str, words: str, problems: Problems
) -> None:
    found = problems(flow(clicks=f"{{uri: /in, columns: {{c: '{kind}'}}}}"))
    assert any(words in str(problem) for problem in found)
