"""Flows between stages: what is refused, and the order of those that depend on each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine.spec.dataflow import (
    ActionRole,
    ActionSpec,
    DataflowSpec,
    SpecificationError,
    check_specification,
    launch_order,
    looped_flows,
)
from headgate.engine.spec.order import circles
from headgate.engine.spec.stages import ActionFlows, FlowId


def stage(name: str, *fed_by: str, after: tuple[str, ...] = (), **changes) -> ActionSpec:
    """A stage with the output ``out`` that reads the output of others, under their names."""
    inputs = {one: FlowId(one, "out") for one in fed_by}
    return ActionSpec(name, after=after, stage=ActionFlows(inputs, ("out",)), **changes)


def check(*actions: ActionSpec) -> None:
    check_specification(DataflowSpec("flow", (), actions))


WRONG = [
    ((stage("a", "x"),), "action 'a', flow 'x': 'x' is no action"),
    (
        (stage("a"), ActionSpec("b", stage=ActionFlows({"f": FlowId("a", "in")}))),
        "'a' has no output 'in', but out",
    ),
    (
        (ActionSpec("a"), ActionSpec("b", stage=ActionFlows({"f": FlowId("a", "out")}))),
        "'a' has no output 'out', but none",
    ),
    ((ActionSpec("a", stage=ActionFlows({}, ("u", "u"))),), "output flow 'u' is declared twice"),
    ((ActionSpec("a", stage=ActionFlows({}, ("u",), backlog=0)),), "holds its producers for ever"),
    ((stage("a", role=ActionRole.INPUT),), "is an input, never launched: drop its flows"),
    (
        (stage("a", after=("b",)), stage("b", "a")),
        "cycle: a -> b -> a; only flows may make one, so 'a' can't be after 'b'",
    ),
    (
        (stage("a", "c"), stage("b", "a"), ActionSpec("d", after=("b",)), stage("c", after=("d",))),
        "cycle: .*only flows may make one",
    ),
    ((stage("a", after=("b",)), stage("b", after=("a",))), "remove one of these edges"),
]


@pytest.mark.parametrize(("actions", "words"), WRONG, ids=[words for _, words in WRONG])
def test_flows_that_make_no_sense_are_refused_in_words(actions, words):
    with pytest.raises(SpecificationError, match=words):
        check(*actions)


def test_who_feeds_a_flow_comes_before_who_reads_it():
    assert launch_order((stage("c", "b"), stage("b", "a"), stage("a"))) == ("a", "b", "c")


def test_a_cycle_over_flows_is_none_to_refuse():
    actions = [stage("result", "median"), stage("median", "tree")]
    actions += [stage("tree", "in", "median"), stage("in")]

    check(*actions)

    assert launch_order(actions) == ("in", "median", "tree", "result")


def test_a_stage_may_feed_itself():
    check(stage("a", "a"))


def test_it_is_known_which_flows_come_back():
    actions = (stage("in"), stage("tree", "in", "median"), stage("median", "tree"))

    assert looped_flows(actions) == {
        "in": frozenset(),
        "tree": {"median"},
        "median": {"tree"},
    }


graphs = st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("abcdef")), max_size=6)


@given(graphs)
def test_order_puts_whoever_depends_on_nobody_behind_it_first(graph):
    edges = {name: tuple(sorted(p for p in graph[name] if p in graph)) for name in sorted(graph)}
    order = launch_order(stage(name, *before) for name, before in edges.items())
    together = circles(edges)

    assert sorted(order) == sorted(edges)
    for name, before in edges.items():
        for one in before:
            assert one in together[name] or order.index(one) < order.index(name)
