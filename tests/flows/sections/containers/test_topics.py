"""Topics in dataflow files: what stages read and write besides containers, and what cannot be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.engine import EngineTester, OnGap, OnUndecodable, TopicSpec, launched
from headgate.flows import Dataflow, Problem, Severity, changes, parse_dataflow

Problems = Callable[[str], tuple[Problem, ...]]

MARK = "▲"
ORDERS = (
    "{topic: shop.orders, format: json, columns: {order: string, amount: double}, key: order, "
    "on_gap: continue, on_undecodable: skip}"
)
EVERY = "when: {orders: {time: 5 min}}"


def flow(
    *,
    orders: str = ORDERS,
    sums: str = "shop.sums",
    a: str = "reads: orders, writes: sums",
    when: str = EVERY,
    more: str = "",
    top: str = "",
) -> str:
    """A stage that reads a topic and writes another."""
    return (
        f"name: n\n{top}\ncontainers: {{c: t f:q}}\n"
        f"topics:\n  orders: {orders}\n  sums: {sums}\n"
        f"actions:\n  feed: {{input: c}}\n"
        f"  a: {{stage: 'm:a', {', '.join(filter(None, (a, when)))}}}\n"
        f"  b: {{stage: 'm:b', reads: c, when: {{c: {{sequence: 3}}}}}}\n{more}"
    )


def parsed(text: str) -> Dataflow:
    return parse_dataflow(text, "f.yaml")


def test_topics_are_names_columns_and_keys() -> None:
    dataflow = parsed(flow())
    assert dataflow.warnings == ()
    columns = {"order": "string", "amount": "double"}
    assert dataflow.topics == {
        "orders": TopicSpec("shop.orders", columns, "order", OnGap.CONTINUE, OnUndecodable.SKIP),
        "sums": TopicSpec("shop.sums"),
    }
    assert dataflow.outside == {"orders", "sums"}


def test_what_is_not_said_fails() -> None:
    spec = parsed(flow(orders="{topic: t, columns: {n: int64}}")).topics["orders"]
    assert (spec.on_gap, spec.on_undecodable, spec.key) == (OnGap.FAIL, OnUndecodable.FAIL, "")


def test_columns_that_say_where_a_message_stands_may_be_declared() -> None:
    columns = "n: int64, _partition: int32, _offset: int64, _timestamp: 'timestamp[ms]', "
    spec = parsed(flow(orders=f"{{topic: t, columns: {{{columns}_tombstone: bool}}}}"))
    assert list(spec.topics["orders"].columns)[1:] == [
        "_partition",
        "_offset",
        "_timestamp",
        "_tombstone",
    ]


def test_topics_have_no_tables_and_their_time_is_bounded_all_the_same() -> None:
    spec = parsed(flow()).spec
    assert spec.tables() == {"t"}
    tester = EngineTester(spec)
    assert launched(tester.pass_time(310)) == ["a"]
    tester.finish("a")
    assert launched(tester.pass_time(310)) == ["a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (flow(sums="▲shop/sums"), "letters, digits"),
        (flow(sums="▲.."), "letters, digits"),
        (flow(sums="{▲key: k}"), "`topic`"),
        (flow(orders="{topic: t, format: ▲avro}"), "`avro` is not `json`"),
        (flow(orders="{topic: t, columns: {url: ▲uint8}}"), "the name of a type"),
        (flow(orders="{topic: t, columns: {▲_x: string}}"), "column"),
        (flow(orders="{topic: t, columns: {a: string}, on_gap: ▲skip}"), "`fail` or `continue`"),
        (flow(orders="{topic: t, columns: {a: string}, on_undecodable: ▲null}"), "skip"),
        (flow(sums="{topic: s, ▲columns: {a: string}}"), "`columns` is of topics that are read"),
        (flow(sums="{topic: s, ▲on_gap: fail}"), "`on_gap` is of topics that are read"),
        (flow(more="  c: {stage: 'm:c', reads: ▲order}\n"), "there is no container `order`"),
        (flow(more="  c: {step: 'm:c', reads: ▲orders}\n"), "`c` is no stage"),
        (flow(more="  c: {command: ls, writes: ▲sums}\n"), "`c` is no stage"),
        (flow(more="  c: {input: ▲orders}\n"), "nothing says when messages come"),
        (flow(when="when: {▲orders: {sequence: 5}}"), "whose messages nothing counts"),
        (flow(when="when: {▲orders: {time: 5 min, block: true}}"), "whose messages nothing counts"),
        (flow(when="when: {▲sums: {time: 5 min}}", a="writes: sums"), "writes itself"),
    ],
)
def test_errors_have_a_place(text: str, message: str, problems: Problems) -> None:
    line = text[: text.index(MARK)].count("\n") + 1
    found = [p for p in problems(text.replace(MARK, "")) if p.severity is Severity.ERROR]
    assert [one.line for one in found if message in f"{one.message} {one.cure}"] == [line], found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (flow(orders="shop.orders"), "nothing says which columns its messages have"),
        (flow(orders="{topic: t, columns: {a: string}, key: b}"), "none of its columns"),
        (flow(orders="{topic: t, columns: {a: double}, key: a}"), "is `a`, a double"),
        (
            flow(orders="{topic: t, columns: {_offset: int64}, key: _offset}"),
            "is `_offset`, a int64",
        ),
        (flow(orders="{topic: t, columns: {_offset: int32}}"), "column `_offset` of topic"),
        (flow(sums="shop.orders"), "`sums` and `orders` are one topic, shop.orders"),
        (flow(more="  d: {stage: 'm:d', reads: sums, after: b}\n"), "and `d` reads it"),
        (flow(more="  d: {stage: 'm:d', writes: sums, after: b}\n"), "`a` and `d` write"),
        (flow(top="significance: {output: c, change: 5%}"), "and `topics` have none"),
        (flow(top="learned: {outputs: {c: 5%}}"), "and `topics` have none"),
        (flow(top="files: {orders: /in}"), "`orders` is a topic, too"),
        (flow().replace("{c: t f:q}", "{c: t f:q, sums: t f:r}"), "`sums` is a container, too"),
    ],
)
def test_what_cannot_be_is_said(text: str, message: str, problems: Problems) -> None:
    errors = [p for p in problems(text) if p.severity is Severity.ERROR]
    assert [one for one in errors if message in one.message and one.cure], errors


def test_files_and_topics_go_together() -> None:
    text = flow(top="files: {out: /out}", a="reads: orders, writes: [sums, out]")
    dataflow = parsed(text)
    assert dataflow.warnings == ()
    assert dataflow.outside == {"orders", "sums", "out"}


def test_that_messages_come_starts_nothing_and_that_is_said() -> None:
    [warning] = parsed(flow(when="")).warnings
    assert "nothing starts it; that messages come starts nothing" in warning.message
    assert "`when: {orders: {time: 5 min}}`" in warning.cure


def test_a_topic_that_nobody_uses_is_warned_about() -> None:
    [warning] = parsed(flow(a="reads: orders")).warnings
    assert warning.message == "no action uses topic `sums`"


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (flow(sums="totals"), "topic `sums`: changed, shop.sums → totals; what is written goes"),
        (flow(orders=ORDERS.replace("skip", "fail")), "topic `orders`: changed, from the next run"),
        (flow(a="reads: orders").replace("  sums: shop.sums\n", ""), "topic `sums`: removed"),
        (flow(top="files: {out: /out}", a="reads: orders, writes: [sums, out]"), "files `out`"),
    ],
)
def test_an_update_says_what_becomes_of_topics(other: str, said: str) -> None:
    words = [str(each) for each in changes(parsed(flow()), parsed(other))]
    assert any(said in one for one in words), words
    assert not any("container" in one for one in words)
