"""Cures that say what to write, not once more what the value is not."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

import pytest

from headgate.engine import decode_one, decoder_of
from headgate.flows import DataflowErrors, parse_dataflow
from headgate.flows.dataflow import GRAMMAR
from headgate.flows.grammar.kinds import ANY_TEXT, Either, Kind, ListOf, MapOf, RecordOf, Single


def singles(kind: Kind, seen: set[int]) -> Iterator[Single]:
    """Yield every kind of single value in a grammar."""
    if id(kind) in seen:
        return
    seen.add(id(kind))
    match kind:
        case Single():
            yield kind
        case ListOf():
            yield from singles(kind.item, seen)
        case MapOf():
            yield from singles(kind.value, seen)
        case RecordOf():
            for key in kind.keys.values():
                yield from singles(key.kind, seen)
        case Either():
            for one in kind.kinds:
                yield from singles(one, seen)


def test_each_form_of_text_has_a_cure_with_an_example_or_a_rule() -> None:
    circular = [
        kind.what
        for kind in singles(GRAMMAR, set())
        if kind.pattern not in (None, ANY_TEXT)
        and not (kind.why_not or kind.rule or "`" in kind.what)
    ]
    assert circular == []


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("name: seoul air", "use letters without accents, digits, `_`, `-` and `.`"),
        ("name: n\ncontainers: {c: {table: a b}}", "use letters, digits"),
        ("name: n\ncontainers: {c: {table: t, family: 'a:b'}}", "without space and colon"),
        ("name: n\nactions: {a: {dag: a b}}", "at most 250"),
    ],
)
def test_a_name_that_is_none_is_answered_with_the_rule_for_names(text: str, rule: str) -> None:
    with pytest.raises(DataflowErrors) as errors:
        parse_dataflow(text, "file")
    assert any(rule in problem.cure for problem in errors.value.problems)


@pytest.mark.parametrize(
    ("written", "layout"),
    [
        ("double", ">d"),
        ("float", ">f"),
        ("long", ">q"),
        ("int", ">i"),
        ("short", ">h"),
        ("Int", ">i"),
        ("flaot64", ">d"),
        ("float_32", ">f"),
        ("intt32", ">i"),
        ("int-16", ">h"),
        ("integer", ">i"),
        ("bool", ">b"),
    ],
)
def test_the_codec_that_a_cure_names_reads_what_is_there(written: str, layout: str) -> None:
    def text(codec: str) -> str:
        container = f"{{table: t, codec: {codec}}}"
        return f"name: n\ncontainers: {{c: {container}}}\nactions: {{a: {{step: 'm:f', reads: c}}}}"

    with pytest.raises(DataflowErrors) as errors:
        parse_dataflow(text(written), "file")
    [problem] = errors.value.problems
    read = []
    for advised in re.findall("`([^`]+)`", problem.cure):
        codec = parse_dataflow(text(advised), "file").spec.containers[0].codec
        read.append(decode_one(decoder_of(codec), struct.pack(layout, 1)))
    assert 1 in read
