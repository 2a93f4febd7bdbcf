"""Stages in an engine: when they run, on which increments, and what a failure puts back."""

from __future__ import annotations

import pytest
from msgspec import structs

from headgate.engine import (
    ActionFlows,
    ActionSpec,
    Bound,
    DataflowSpec,
    DecisionKind,
    EngineTester,
    FlowId,
    Produced,
    RetryPolicy,
    RunnableSpec,
    RunRehearsed,
    SequenceBound,
    SpecificationChanged,
    SpecificationError,
    WatchedContainer,
    launched,
)
from headgate.events import Container, ContainerId, Item

IN = ContainerId("in")
ONCE = RetryPolicy(attempts=1)
EACH = Bound("k", IN, sequence=SequenceBound(1))
"""Reached by each update."""


def source(name: str, *outputs: str, bound: Bound = EACH) -> ActionSpec:
    """A stage that makes increments of what is written to the container."""
    return ActionSpec(name, bounds=(bound,), stage=ActionFlows(outputs=outputs), retry=ONCE)


def stage(
    name: str,
    inputs: dict[str, str],
    *outputs: str,
    runnable: RunnableSpec | None = None,
    backlog: int = 100,
    **changes,
) -> ActionSpec:
    """A stage that reads flows given as ``action.flow``."""
    flows = {flow: FlowId(*made.split(".")) for flow, made in inputs.items()}
    spec = ActionFlows(flows, outputs, runnable or RunnableSpec(), backlog)
    return ActionSpec(name, stage=spec, retry=ONCE, **changes)


def driven(*actions: ActionSpec) -> EngineTester:
    watched = WatchedContainer(Container(IN, (Item("in"),)))
    return EngineTester(DataflowSpec("flow", (watched,), actions))


def write(tester: EngineTester, row: bytes = b"r") -> list[str]:
    return launched(tester.write("in", {row: {b"f:q": b"1"}}))


def made(flow: str, number: int, *, key: str | None = None) -> Produced:
    return Produced(flow, f"{flow}-{number}", key, 5)


def names(tester: EngineTester, action: str) -> dict[str, list[str]]:
    """What the last launch of an action reads, by flow."""
    taken = tester.launches(action)[-1].work.taken
    return {flow: [one.name for one in part.read] for flow, part in taken.items()}


CHAIN = (source("a", "u"), stage("b", {"x": "a.u"}, "v"), stage("c", {"y": "b.v"}))


def test_a_stage_runs_on_what_was_made_for_it():
    tester = driven(*CHAIN)
    assert write(tester) == ["a"]

    assert launched(tester.finish("a", made("u", 0))) == ["b"]
    assert names(tester, "b") == {"x": ["u-0"]}
    assert tester.launches("b")[0].cause.words.startswith("an increment of `x` waits")
    assert launched(tester.finish("b", made("v", 0))) == ["c"]


def test_a_run_that_makes_nothing_wakes_nobody():
    tester = driven(*CHAIN)
    write(tester)

    assert launched(tester.finish("a")) == []


def test_what_waits_is_read_one_by_one_in_order():
    tester = driven(*CHAIN)
    write(tester)
    tester.finish("a", made("u", 0), made("u", 1))

    assert names(tester, "b") == {"x": ["u-0"]}
    assert launched(tester.finish("b")) == ["b"]
    assert names(tester, "b") == {"x": ["u-1"]}
    assert launched(tester.finish("b")) == []


def test_a_failed_run_puts_back_what_it_took_before_what_has_come():
    tester = driven(*CHAIN)
    write(tester)
    tester.finish("a", made("u", 0))
    write(tester)
    tester.finish("a", made("u", 1))

    tester.fail("b")
    assert launched(tester.release("b")) == ["b"]

    assert names(tester, "b") == {"x": ["u-0"]}


def test_a_further_attempt_has_the_same_increments():
    tester = driven(CHAIN[0], structs.replace(CHAIN[1], retry=RetryPolicy(3)))
    write(tester)
    tester.finish("a", made("u", 0))

    tester.fail("b")
    tester.pass_time(5)

    first, second = tester.launches("b")
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.work == second.work


def test_a_failed_run_puts_back_what_the_runnable_remembered():
    turns = RunnableSpec("prefer", {"q": 1, "u": 1})
    tester = driven(source("a", "u", "q"), stage("b", {"u": "a.u", "q": "a.q"}, runnable=turns))
    write(tester)
    tester.finish("a", made("u", 0), made("q", 0), made("q", 1))
    assert names(tester, "b") == {"q": ["q-0"]}

    tester.fail("b")
    tester.release("b")

    assert names(tester, "b") == {"q": ["q-0"]}
    tester.finish("b")
    assert names(tester, "b") == {"u": ["u-0"]}


def test_bounds_say_when_and_the_runnable_says_what():
    slow = Bound("slow", IN, sequence=SequenceBound(3))
    tester = driven(source("a", "u"), stage("b", {"x": "a.u"}, bounds=(slow,)))
    write(tester)
    assert launched(tester.finish("a", made("u", 0))) == []  # one of three updates

    assert write(tester) == []
    assert write(tester) == ["b", "a"]  # `a` was held for what `b` had not read
    assert names(tester, "b") == {"x": ["u-0"]}


def test_a_bound_that_is_reached_waits_for_an_increment():
    tester = driven(source("a", "u"), stage("b", {"x": "a.u"}, bounds=(EACH,)))

    assert write(tester) == ["a"]
    explanation = tester.engine.explain(tester.now).actions[1]
    assert explanation.missing == "needs an increment of `x`"
    assert launched(tester.finish("a", made("u", 0))) == ["b"]


def test_two_consumers_read_a_flow_each_at_its_own_pace():
    tester = driven(source("a", "u"), stage("b", {"x": "a.u"}), stage("c", {"y": "a.u"}))
    write(tester)
    assert launched(tester.finish("a", made("u", 0))) == ["b", "c"]
    tester.finish("b")

    assert tester.engine.needed_increments() == {"u-0"}
    assert tester.engine.needed_increments("a") == {"u-0"}
    assert tester.engine.needed_increments("b") == set()
    tester.finish("c")
    assert tester.engine.needed_increments() == set()


def test_a_stage_is_held_while_what_it_made_is_unread():
    tester = driven(*CHAIN)
    write(tester)
    tester.finish("a", made("u", 0))  # b takes it
    write(tester)
    tester.finish("a", made("u", 1))

    assert write(tester) == []
    a = tester.engine.explain(tester.now).actions[0]
    assert a.held_by == ("b",)
    assert a.missing == "is held: `u` is unread by `b`"
    assert launched(tester.finish("b")) == ["b", "a"]


def test_a_consumer_that_never_reads_holds_its_producer_by_its_backlog():
    never = stage("b", {"x": "a.u", "z": "z.w"}, backlog=3)
    quick = stage("c", {"y": "a.u"})
    tester = driven(source("a", "u"), ActionSpec("z", stage=ActionFlows({}, ("w",))), never, quick)
    for number in range(3):
        assert write(tester) == ["a"]
        tester.finish("a", made("u", number))
        tester.finish("c")

    assert write(tester) == []
    words = "is held: `b` has 3 increments of `u` unread, and its backlog is 3"
    [a] = [one for one in tester.engine.explain(tester.now).actions if one.action == "a"]
    assert a.missing == words
    assert [(f.flow, f.source, f.unread, f.rows) for f in tester.engine.explain(0).actions[2].flows]


def test_a_stage_without_flows_bounds_or_predecessors_has_to_be_asked_for():
    tester = driven(ActionSpec("z", stage=ActionFlows({}, ("w",))), stage("b", {"x": "z.w"}))

    assert tester.launches() == []
    assert "somebody to ask for it" in tester.engine.explain(tester.now).actions[0].missing
    tester.request("z")
    assert launched(tester.finish("z", made("w", 0))) == ["b"]


MEDIAN = (
    source("in", "numbers"),
    stage(
        "tree",
        {"numbers": "in.numbers", "medians": "median.place"},
        "counts",
        "value",
        runnable=RunnableSpec("lag", 1),
    ),
    stage("median", {"counts": "tree.counts"}, "place"),
    stage("out", {"value": "tree.value"}),
)


def test_the_loop_of_the_median_starts_and_keeps_step():
    tester = driven(*MEDIAN)
    write(tester)
    tester.finish("in", made("numbers", 0), made("numbers", 1))
    assert names(tester, "tree") == {"numbers": ["numbers-0"]}

    # Increment 1 waits for what the median has made of increment 0.
    assert launched(tester.finish("tree", made("counts", 0))) == ["median"]
    tree = next(a for a in tester.engine.explain(tester.now).actions if a.action == "tree")
    assert tree.missing == "needs an increment of `medians` for its run 1"

    assert launched(tester.finish("median", made("place", 0))) == ["tree"]
    assert names(tester, "tree") == {"numbers": ["numbers-1"], "medians": ["place-0"]}


def test_a_table_is_read_in_each_run_until_a_newer_one_takes_its_place():
    by_table = RunnableSpec("lookup", ("table",))
    reader = stage("b", {"x": "a.u", "table": "t.k"}, runnable=by_table)
    tester = driven(source("a", "u"), source("t", "k"), reader)
    write(tester)
    assert launched(tester.finish("a", made("u", 0), made("u", 1))) == []
    assert launched(tester.finish("t", made("k", 0))) == ["b"]
    assert names(tester, "b") == {"x": ["u-0"], "table": ["k-0"]}
    assert launched(tester.finish("b")) == ["b"]
    assert names(tester, "b") == {"x": ["u-1"], "table": ["k-0"]}
    assert launched(tester.finish("b")) == []

    write(tester)
    assert launched(tester.finish("t", made("k", 1), made("k", 2))) == []  # it makes no run
    assert launched(tester.finish("a", made("u", 2))) == ["b"]
    assert names(tester, "b") == {"x": ["u-2"], "table": ["k-2"]}
    tester.fail("b")
    tester.restart()
    tester.release("b")
    assert names(tester, "b") == {"x": ["u-2"], "table": ["k-2"]}
    tester.finish("b")
    read = tester.engine.stages["b"]
    assert [one.name for one in read.connectors["table"].waiting] == ["k-2"]


def test_a_loop_that_nobody_starts_says_so_and_can_be_started_by_hand():
    loop = (stage("b", {"x": "c.w"}, "v"), stage("c", {"y": "b.v"}, "w"))
    tester = driven(*loop)
    assert tester.launches() == []
    assert [a.missing for a in tester.engine.explain(tester.now).actions] == [
        "needs an increment of `x`",
        "needs an increment of `y`",
    ]

    tester.request("b")
    assert names(tester, "b") == {}
    assert launched(tester.finish("b", made("v", 0))) == ["c"]
    assert launched(tester.finish("c", made("w", 0))) == ["b"]


def test_stages_that_hold_each_other_go_on():
    loop = (stage("b", {"x": "c.w"}, "v"), stage("c", {"y": "b.v"}, "w"))
    tester = driven(*loop)
    tester.request("b")
    tester.request("c")
    tester.finish("b", made("v", 0))

    # Each has something unread of the other, and neither has run on it yet.
    assert launched(tester.finish("c", made("w", 0))) == ["b", "c"]


def test_a_frame_is_read_once_another_key_has_come():
    tester = driven(source("a", "u"), stage("b", {"x": "a.u"}))
    write(tester)
    assert launched(tester.finish("a", made("u", 0, key="mon"))) == []
    write(tester)

    assert launched(tester.finish("a", made("u", 1, key="mon"), made("u", 2, key="tue"))) == ["b"]
    assert names(tester, "b") == {"x": ["u-0", "u-1"]}


def test_increments_of_an_unknown_flow_are_refused_in_words():
    tester = driven(*CHAIN)
    write(tester)

    tester.finish("a", made("w", 0))

    refused = [d for d in tester.decisions() if d.kind is DecisionKind.REFUSED]
    assert [d.words for d in refused] == ["increments of 'w', which are no flows of it"]


def test_a_rehearsed_run_takes_nothing():
    tester = driven(*CHAIN)
    write(tester)
    tester.finish("a", made("u", 0))
    run = tester.launches("b")[0]

    assert launched(tester.handle(RunRehearsed(tester.now, "b", run.run, 1))) == []

    assert tester.engine.needed_increments() == {"u-0"}


def test_a_restored_engine_goes_on_with_what_waits():
    tester = driven(*MEDIAN)
    write(tester)
    tester.finish("in", made("numbers", 0), made("numbers", 1))
    tester.finish("tree", made("counts", 0))

    tester.restart()
    tester.pass_time(1)
    assert launched(tester.finish("median", made("place", 0))) == ["tree"]

    assert names(tester, "tree") == {"numbers": ["numbers-1"], "medians": ["place-0"]}


def test_what_another_specification_still_has_keeps_waiting():
    # `b` is paused by a predecessor that never runs, so that its increment waits.
    idle = ActionSpec("idle")
    tester = driven(source("a", "u"), idle, stage("b", {"x": "a.u"}, after=("idle",)))
    write(tester)
    tester.finish("a", made("u", 0))
    other = driven(source("a", "u"), stage("b", {"x": "a.u"})).spec

    tester.handle(SpecificationChanged(tester.now, other))

    assert names(tester, "b") == {"x": ["u-0"]}
    tester.finish("b")
    write(tester)
    tester.finish("a", made("u", 1))
    assert tester.launches("b")[-1].work.taken["x"].read[0].index == 1  # numbered on


def test_a_wrong_runnable_is_refused_with_its_stage():
    with pytest.raises(SpecificationError, match=r"action 'b': there is no runnable 'most'"):
        driven(source("a", "u"), stage("b", {"x": "a.u"}, runnable=RunnableSpec("most")))


def test_what_says_when_is_known_by_its_own_kind():
    tester = driven(source("a", "u"), stage("b", {"x": "a.u"}))
    a, b = (tester.engine.actions[name] for name in "ab")

    assert (a.policy.kind, b.policy.kind) == ("bounds", "runnable")
    assert (a.trigger.kind, a.trigger is a.policy) == ("bounds", False)
    assert a.foresees is a.trigger, "whoever is within a stage keeps its facets"
    assert b.foresees is None
