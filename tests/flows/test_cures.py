"""Cures that say what to write, not once more what the value is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headgate.flows import DataflowErrors, parse_dataflow
from headgate.flows.grammar.kinds import ANY_TEXT, Either, Kind, ListOf, MapOf, RecordOf, Single
from headgate.flows.keys import DATAFLOW


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
        for kind in singles(DATAFLOW, set())
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
