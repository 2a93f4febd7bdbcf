"""What outputs reflect, as an engine keeps it over launches, commits, failures and restarts."""

from __future__ import annotations

import pytest

from headgate.engine import (
    ActionFlows,
    ActionRole,
    ActionSpec,
    DataflowSpec,
    EngineTester,
    FlowId,
    Produced,
    RetryPolicy,
    SpecificationChanged,
    WatchedContainer,
)
from headgate.events import Container, ContainerId, Cut, Item, updates_topic

IN, MID, OUT = (ContainerId(name) for name in ("in", "mid", "out"))
CONTAINERS = tuple(WatchedContainer(Container(one, (Item(one),))) for one in (IN, MID, OUT))
FEED = ActionSpec("feed", ActionRole.INPUT, writes=(IN,))
FIRST = ActionSpec("first", after=("feed",), reads=(IN,), writes=(MID,), retry=RetryPolicy(1))
SECOND = ActionSpec("second", after=("first",), reads=(IN, MID), writes=(OUT,))
CHAIN = DataflowSpec("flow", CONTAINERS, (FEED, FIRST, SECOND))


@pytest.fixture
def tester() -> EngineTester:
    return EngineTester(CHAIN)


def wave(tester: EngineTester, row: bytes) -> None:
    tester.write("in", {row: {b"f:x": b"1"}})
    tester.wave("feed")


def reflected(tester: EngineTester) -> dict[str, dict[str, tuple[str, str]]]:
    """Return, by action, the inputs of the run that its outputs reflect."""
    value = tester.engine.reflections
    return {
        action: {maker: (s.first, s.last) for maker, s in value.runs[run].inputs.items()}
        for action, run in value.last.items()
    }


def test_outputs_reflect_committed_runs_and_these_their_inputs(tester: EngineTester) -> None:
    assert reflected(tester) == {}
    wave(tester, b"1")
    assert reflected(tester) == {}
    tester.finish("first")
    assert reflected(tester) == {"first": {}}
    tester.finish("second")
    assert reflected(tester) == {"first": {}, "second": {"first": ("flow-first-1",) * 2}}


def test_both_ends_of_a_run_are_kept(tester: EngineTester) -> None:
    wave(tester, b"1")
    tester.finish("first")
    wave(tester, b"2")
    tester.finish("first")
    tester.finish("second")
    assert reflected(tester)["second"] == {"first": ("flow-first-1", "flow-first-2")}
    run = tester.engine.reflections.runs["flow-second-1"]
    topic = updates_topic("in")
    assert (run.launched, run.ended) == (Cut({topic: (1,)}), Cut({topic: (2,)}))


def test_a_run_that_was_given_up_is_not_reflected(tester: EngineTester) -> None:
    wave(tester, b"1")
    tester.fail("first")
    assert tester.engine.reflections.runs == {}
    assert tester.engine.reflections.launched == {}


def test_what_outputs_reflect_outlives_the_engine(tester: EngineTester) -> None:
    wave(tester, b"1")
    tester.finish("first")
    before = tester.engine.reflections
    assert before.launched == {"second": {"first": "flow-first-1"}}
    tester.restart()
    assert tester.engine.reflections == before
    checkpoint = tester.engine.checkpoint(1000)
    assert checkpoint.head
    tester.pass_time(1)
    tester.finish("second")
    assert reflected(tester)["second"] == {"first": ("flow-first-1",) * 2}


def test_what_an_action_that_is_gone_has_written_is_not_reflected(tester: EngineTester) -> None:
    wave(tester, b"1")
    tester.finish("first")
    tester.finish("second")
    fewer = DataflowSpec("flow", CONTAINERS, (FEED, FIRST))
    tester.spec = fewer
    tester.handle(SpecificationChanged(tester.now, fewer))
    assert reflected(tester) == {"first": {}}


def test_explanations_show_it(tester: EngineTester) -> None:
    wave(tester, b"1")
    tester.finish("first")
    assert tester.engine.explain(tester.now).reflects is tester.engine.reflections


def test_of_flows_the_increments_count_that_were_read() -> None:
    maker = ActionSpec("maker", after=("feed",), reads=(IN,), stage=ActionFlows({}, ("out",)))
    reader = ActionSpec("reader", stage=ActionFlows({"in": FlowId("maker", "out")}))
    tester = EngineTester(DataflowSpec("flow", CONTAINERS[:1], (FEED, maker, reader)))
    for number in (1, 2):
        wave(tester, b"%d" % number)
        tester.finish("maker", Produced("out", f"increment-{number}", None, 1))
    assert reflected(tester) == {"maker": {}}
    tester.finish("reader")
    assert reflected(tester)["reader"] == {"maker": ("flow-maker-1",) * 2}
    tester.finish("reader")
    assert reflected(tester)["reader"] == {"maker": ("flow-maker-2",) * 2}
    for number in range(3, 60):
        wave(tester, b"%d" % number)
        tester.finish("maker", Produced("out", f"increment-{number}", None, 1))
        tester.finish("reader")
        assert len(tester.engine.reflections.made) < 20, "those that were read are forgotten"
