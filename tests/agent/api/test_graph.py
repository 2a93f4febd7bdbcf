"""A dataflow as a graph, as one answer."""

from __future__ import annotations

import msgspec
import pytest
from simulation import ScriptedAgent, World
from simulation.driving import feed, started, wave

from headgate.agent.api.graph import Edge, EdgeKind, FlowGraph, graph_of
from headgate.engine import leaves
from headgate.flows import parse_dataflow


def graph(world: World, agent: ScriptedAgent) -> FlowGraph:
    assert agent.runtime is not None
    reporting = agent.runtime.reporting
    return graph_of(
        agent.runtime.state.dataflow, reporting.status(world.now), reporting.explain(world.now)
    )


def test_actions_and_containers_are_connected_by_all_that_the_file_says(world: World) -> None:
    found = graph(world, started(world))
    assert [node.action for node in found.actions] == ["feed", "first", "second"]
    assert [node.trigger for node in found.actions] == ["", "bounds", "synchrony"]
    assert [(node.container, node.tables) for node in found.containers] == [
        ("input", ("in",)),
        ("middle", ("mid",)),
        ("output", ("out",)),
    ]
    assert set(found.edges) == {
        Edge(EdgeKind.WRITES, "feed", "input"),
        Edge(EdgeKind.AFTER, "feed", "first"),
        Edge(EdgeKind.READS, "input", "first"),
        Edge(EdgeKind.WATCHES, "input", "first", "input"),
        Edge(EdgeKind.WRITES, "first", "middle"),
        Edge(EdgeKind.AFTER, "first", "second"),
        Edge(EdgeKind.READS, "middle", "second"),
        Edge(EdgeKind.WRITES, "second", "output"),
    }


def test_a_bound_fills_up_and_a_run_says_why_it_was(world: World) -> None:
    agent = started(world)
    feed(world, rows=2)
    wave(world, agent)
    first = graph(world, agent).actions[1]
    assert first.last is None
    assert not first.reached
    assert first.missing == "needs 1 more update of `input`"
    assert [(bound.bound, bound.fill) for bound in first.bounds] == [("input", 2 / 3)]
    feed(world, rows=3)
    wave(world, agent)
    first = graph(world, agent).actions[1]
    assert first.last is not None
    assert first.last.outcome == "committed"
    assert first.last.cause.startswith("σ of `input` reached 5 of 3 updates")
    assert first.bounds[0].fill == 0.0


def test_what_a_graph_says_of_bounds_is_what_explain_says(world: World) -> None:
    agent = started(world)
    feed(world, rows=1)
    wave(world, agent)
    assert agent.runtime is not None
    (explained,) = (
        one for one in agent.runtime.reporting.explain(world.now).actions if one.action == "first"
    )
    assert explained.result is not None
    ((vector,),) = (bound.vectors for bound in leaves(explained.result))
    ((filled,),) = (bound.vectors for bound in graph(world, agent).actions[1].bounds)
    assert (filled.value, filled.limit, filled.unit, filled.words) == (
        vector.value,
        vector.limit,
        vector.unit,
        vector.words,
    )


STAGES = """
name: stages
description: counts links
containers:
  links: l c:v
state: /states
actions:
  feed: {input: links}
  pages:
    stage: lib:pages
    after: feed
    description: pages of links
    reads: links
    out: changed
  counts:
    stage: lib:counts
    in: {pages: pages.changed}
"""


@pytest.mark.parametrize("dataflow", [parse_dataflow(STAGES, "stages.yaml")])
def test_flows_connect_stages_and_texts_are_shown(world: World) -> None:
    found = graph(world, started(world))
    assert Edge(EdgeKind.FLOW, "pages", "counts", "changed") in found.edges
    assert found.description == "counts links"
    assert {node.action: node.description for node in found.actions} == {
        "feed": "",
        "pages": "pages of links",
        "counts": "",
    }
    json = msgspec.json.decode(msgspec.json.encode(found))
    assert json["edges"][-1] == {
        "kind": "flow",
        "source": "pages",
        "target": "counts",
        "name": "changed",
    }
