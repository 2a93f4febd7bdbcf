"""Only the change of the output that matters is given; the limits of steps are found (Figure 4)."""

from __future__ import annotations

import math
import zlib

import msgspec
import numpy as np
import pytest
from searching import CELLS, TARGET, CopyingPipeline, container, flow

from headgate.engine import (
    Codec,
    CodecName,
    DecisionKind,
    Engine,
    SpecificationChanged,
    SpecificationError,
    check_specification,
)
from headgate.engine.triggers.significance.policy import Searched
from headgate.engine.triggers.significance.search import MOST_UPDATES, SearchPhase
from headgate.events import ContainerId

INPUTS = np.random.default_rng(7)


def test_every_step_runs_at_every_wave_until_its_search_has_its_turn():
    pipeline = CopyingPipeline(flow())
    for _ in range(3):
        pipeline.wave(0.01)
    assert pipeline.runs["first"] == [1, 2, 3]
    assert pipeline.search("first").state.phase is SearchPhase.WAITING
    assert pipeline.search("second").state.phase is SearchPhase.DOUBLING


def test_the_last_step_is_searched_for_first_and_then_its_predecessor():
    pipeline = CopyingPipeline(flow())
    budget = round(3 * math.log2(MOST_UPDATES * CELLS))
    pipeline.until(lambda: pipeline.search("second").found, 0.04, budget)
    change = pipeline.search("second").change
    assert change == pytest.approx(TARGET, rel=0.1)
    target = pipeline.search("first").state.target
    assert target == pytest.approx(pipeline.search("second").input_change, rel=0.1)
    pipeline.until(lambda: pipeline.search("first").found, 0.04, budget)
    assert len(pipeline.runs["first"]) < pipeline.waves


def test_the_change_can_be_taken_against_a_reference():
    pipeline = CopyingPipeline(flow(0.05, against=100.0))
    pipeline.until(lambda: pipeline.search("second").found, 0.04, 60)
    # The values are about half the reference, so they may move by twice as much.
    relative = CopyingPipeline(flow(0.1))
    relative.until(lambda: relative.search("second").found, 0.04, 60)
    ratio = pipeline.search("second").state.limit / relative.search("second").state.limit
    assert 0.7 < ratio < 1.4


def test_a_step_that_is_not_searched_for_runs_before_one_that_is():
    pipeline = CopyingPipeline(flow(searched=("second",)))
    for _ in range(3):
        pipeline.wave(0.01)
    assert pipeline.runs["first"] == [1, 2, 3]
    assert not isinstance(pipeline.tester.engine.actions["first"].policy, Searched)
    assert pipeline.tester.engine.explain(0).actions[1].policy is None
    assert pipeline.search("second").state.phase is SearchPhase.DOUBLING


def test_the_reference_is_one_for_the_output_alone():
    pipeline = CopyingPipeline(flow(against=1000.0))
    for _ in range(3):
        pipeline.wave(0.01)
    first, second = (pipeline.search(name).state.measurements[-1] for name in ("first", "second"))
    assert first.change == pytest.approx(first.input)  # each copies its input
    assert second.change == pytest.approx(second.input * pipeline.values.mean() / 1000, rel=0.02)


def test_each_step_of_a_search_is_a_decision_and_explaining_shows_its_state():
    pipeline = CopyingPipeline(flow())
    pipeline.until(lambda: pipeline.search("second").found, 0.04, 60)
    words = [d.words for d in pipeline.tester.decisions() if d.kind is DecisionKind.ADJUSTED]
    assert words[0].startswith("search opened; target 5 %")
    assert any("search doubled" in said for said in words)
    assert any("search ended after" in said for said in words)
    explained = {a.action: a for a in pipeline.tester.engine.explain(pipeline.tester.now).actions}
    found = explained["second"].policy
    assert found.data["phase"] is SearchPhase.FOUND
    assert found.data["change"] == pytest.approx(TARGET, rel=0.1)
    assert "target 5 %" in found.words
    assert explained["feed"].policy is None


def test_a_step_whose_search_has_not_its_turn_yet_says_what_it_waits_for():
    explained = {a.action: a for a in CopyingPipeline(flow()).tester.engine.explain(0).actions}
    assert "its successors are searched for first" in explained["first"].policy.words


def test_a_restart_goes_on_with_the_search():
    one, other = CopyingPipeline(flow()), CopyingPipeline(flow())
    for pipeline in (one, other):
        for _ in range(8):
            pipeline.wave(0.03)
    other.tester.restart()
    assert other.search("second").state == one.search("second").state
    for pipeline in (one, other):
        for _ in range(20):
            pipeline.wave(0.03)
    assert other.runs == one.runs
    assert other.search("first").state == one.search("first").state


def test_a_search_that_an_earlier_version_has_saved_goes_on():
    pipeline = CopyingPipeline(flow())
    for _ in range(8):
        pipeline.wave(0.03)
    engine = pipeline.tester.engine
    state = msgspec.msgpack.decode(zlib.decompress(engine.snapshot()))
    for action in state["actions"]:
        policy = action.pop("policy")
        action["search"] = None if policy is None else msgspec.msgpack.decode(policy[1])
    again = Engine(engine.spec, zlib.compress(msgspec.msgpack.encode(state)))
    for name in ("first", "second"):
        found, expected = again.actions[name].policy, engine.actions[name].policy
        assert isinstance(found, Searched)
        assert isinstance(expected, Searched)
        assert found.search.state == expected.search.state
        assert found.limits == expected.limits


def test_another_target_opens_the_search_again():
    pipeline = CopyingPipeline(flow())
    pipeline.until(lambda: pipeline.search("second").found, 0.04, 60)
    pipeline.tester.handle(SpecificationChanged(pipeline.tester.now, flow(0.1)))
    assert pipeline.search("second").state.target == 0.1
    assert not pipeline.search("second").found


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"output": ContainerId("nothing")}, "not declared"),
        ({"change": 0.0}, "always matters"),
        ({"against": 0.0}, "above 0"),
        ({"tolerance": 1.0}, "between 0 and 1"),
        ({"patience": 0}, "below 1"),
        ({"actions": ("feed",)}, "no action with bounds"),
        ({"actions": ("first",)}, "writes the output"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, words):
    spec = flow()
    wrong = msgspec.structs.replace(spec.significance, **changes)
    with pytest.raises(SpecificationError, match=words):
        check_specification(msgspec.structs.replace(spec, significance=wrong))


def test_an_output_of_opaque_values_has_no_change_to_measure():
    spec = flow()
    opaque = container("out", Codec(CodecName.OPAQUE))
    wrong = msgspec.structs.replace(spec, containers=(*spec.containers[:2], opaque))
    with pytest.raises(SpecificationError, match="give 'out' a codec"):
        check_specification(wrong)
