"""Which stages are rebuilt together."""

from __future__ import annotations

import pytest

from headgate.engine import ActionFlows, FlowId, Unrebuildable
from headgate.engine.stages.rebuilding import rebuilt_together


def flows(**readers: str) -> dict[str, ActionFlows]:
    """Stages by name, each with those that it reads, separated by spaces."""
    return {
        name: ActionFlows({f"of_{maker}": FlowId(maker, "u") for maker in makers.split()}, ("u",))
        for name, makers in readers.items()
    }


def test_a_stage_over_containers_is_rebuilt_with_those_that_read_it_however_far():
    chain = flows(c="b", b="a", a="", other="")

    assert rebuilt_together("a", chain, with_sources=False) == ("a", "b", "c")


def test_a_stage_over_flows_needs_their_makers():
    chain = flows(a="", b="a")

    with pytest.raises(Unrebuildable, match=r"flow `of_a` of `a`.*--with-sources"):
        rebuilt_together("b", chain, with_sources=False)
    assert rebuilt_together("b", chain, with_sources=True) == ("a", "b")


def test_a_reader_that_reads_others_too_needs_these_others():
    joined = flows(left="", right="", join="left right")

    with pytest.raises(Unrebuildable, match="`join`, which reads what `left` makes, has read"):
        rebuilt_together("left", joined, with_sources=False)
    assert rebuilt_together("left", joined, with_sources=True)[-1] == "join"


def test_stages_in_a_circle_are_not_rebuilt():
    circle = flows(a="", b="a c", c="b")

    with pytest.raises(Unrebuildable, match="`b`, `c` stages read each other in a circle"):
        rebuilt_together("b", circle, with_sources=True)
