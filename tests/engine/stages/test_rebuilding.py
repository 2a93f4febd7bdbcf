"""Stages whose state is made anew, and runs that only maintain a state."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.engine import (
    ActionFlows,
    ActionSpec,
    Bound,
    DataflowSpec,
    DecisionKind,
    EngineTester,
    FlowId,
    Launch,
    Produced,
    RetryPolicy,
    RunnableSpec,
    RunPurpose,
    SequenceBound,
    WatchedContainer,
    launched,
)
from headgate.engine.protocol.work import Maintain
from headgate.events import Container, ContainerId, Item

IN = ContainerId("in")
EACH = Bound("k", IN, sequence=SequenceBound(1))
TWICE = RetryPolicy(attempts=2)


def source(name: str) -> ActionSpec:
    return ActionSpec(name, bounds=(EACH,), stage=ActionFlows(outputs=("u",)), retry=TWICE)


def reader(
    name: str, *makers: str, rule: str = "all", setting: tuple[str, ...] | None = None
) -> ActionSpec:
    inputs = {f"of_{maker}": FlowId(maker, "u") for maker in makers}
    flows = ActionFlows(inputs, ("u",), RunnableSpec(rule, setting))
    return ActionSpec(name, stage=flows, retry=TWICE)


def driven(*actions: ActionSpec) -> EngineTester:
    watched = WatchedContainer(Container(IN, (Item("in"),)))
    return EngineTester(DataflowSpec("flow", (watched,), actions))


def write(tester: EngineTester) -> list[str]:
    return launched(tester.write("in", {b"r": {b"f:q": b"1"}}))


def finish(tester: EngineTester, name: str, made: str, result: str = "state") -> list[str]:
    return launched(tester.finish(name, Produced("u", made, None, 1), result=result))


def last(tester: EngineTester, name: str) -> Launch:
    return tester.launches(name)[-1]


def reads(tester: EngineTester, name: str) -> dict[str, list[str]]:
    taken = last(tester, name).work.taken
    return {flow: [one.name for one in part.read] for flow, part in taken.items() if part.read}


@pytest.fixture
def chain() -> EngineTester:
    """``a`` and ``b``, which reads it, with a run of each, and an increment that waits."""
    tester = driven(source("a"), reader("b", "a"))
    write(tester)
    finish(tester, "a", "a1")
    finish(tester, "b", "b1")
    return tester


def test_a_rebuild_runs_at_once_with_everything_and_whatever_the_bounds_say(chain: EngineTester):
    assert launched(chain.rebuild("a")) == ["a"]
    assert last(chain, "a").work.purpose is RunPurpose.REBUILD


def test_who_reads_a_rebuilt_stage_begins_anew_with_what_it_makes_anew(chain: EngineTester):
    write(chain)
    finish(chain, "a", "a2")  # `b` runs on it
    write(chain)
    finish(chain, "a", "a3")  # and this waits
    chain.rebuild("a")
    finish(chain, "b", "b2")
    assert finish(chain, "a", "whole") == ["b"]
    assert reads(chain, "b") == {"of_a": ["whole"]}
    assert last(chain, "b").work.purpose is RunPurpose.REBUILD
    finish(chain, "b", "b3")
    write(chain)
    finish(chain, "a", "a5")
    assert last(chain, "b").work.purpose is RunPurpose.ADVANCE


def test_a_run_under_way_ends_first_and_what_it_makes_is_not_read_beside_everything(
    chain: EngineTester,
):
    write(chain)
    assert launched(chain.rebuild("a")) == []
    assert finish(chain, "a", "before") == ["a"]
    assert last(chain, "a").work.purpose is RunPurpose.REBUILD
    finish(chain, "a", "whole")
    assert reads(chain, "b") == {"of_a": ["whole"]}


def test_a_run_that_waits_for_its_next_attempt_is_not_tried_again(chain: EngineTester):
    write(chain)
    failed = last(chain, "a").run
    chain.fail("a")
    assert launched(chain.rebuild("a")) == ["a"]
    assert last(chain, "a").run != failed
    assert chain.engine.actions["a"].failure == "it failed"


def test_a_run_that_fails_while_a_rebuild_waits_for_its_end_gives_way(chain: EngineTester):
    write(chain)
    chain.rebuild("a")
    assert launched(chain.fail("a")) == ["a"]
    assert last(chain, "a").work.purpose is RunPurpose.REBUILD


def test_a_rebuild_lets_out_of_quarantine(chain: EngineTester):
    write(chain)
    for _ in range(2):
        chain.fail("a")
        chain.pass_time(1000)
    assert chain.engine.actions["a"].run is None
    assert launched(chain.rebuild("a")) == ["a"]


def test_a_rebuild_that_is_given_up_is_what_the_next_run_is(chain: EngineTester):
    chain.rebuild("a")
    for _ in range(2):
        chain.fail("a")
        chain.pass_time(1000)
    chain.release("a")
    write(chain)
    assert last(chain, "a").work.purpose is RunPurpose.REBUILD
    finish(chain, "a", "whole")
    assert reads(chain, "b") == {"of_a": ["whole"]}


def test_a_join_is_rebuilt_once_both_sides_are_whatever_its_rule_would_run_on():
    tester = driven(source("l"), source("r"), reader("j", "l", "r", rule="any"))
    write(tester)
    finish(tester, "l", "l1")
    finish(tester, "j", "j1")
    finish(tester, "r", "r1")
    finish(tester, "j", "j2")
    tester.rebuild("j", with_sources=True)
    assert finish(tester, "l", "l-whole") == []
    assert finish(tester, "r", "r-whole") == ["j"]
    assert reads(tester, "j") == {"of_l": ["l-whole"], "of_r": ["r-whole"]}


def test_a_rebuild_that_cannot_be_is_refused(chain: EngineTester):
    assert launched(chain.rebuild("b")) == []
    assert "--with-sources" in chain.decisions()[-1].words
    assert chain.decisions()[-1].kind is DecisionKind.REFUSED


def test_a_rebuild_outlives_its_agent(chain: EngineTester):
    write(chain)
    chain.rebuild("a")
    chain.restart()
    chain.pass_time(1)
    finish(chain, "a", "before")
    chain.restart()
    chain.pass_time(1)
    assert last(chain, "a").work.purpose is RunPurpose.REBUILD
    finish(chain, "a", "whole")
    assert reads(chain, "b") == {"of_a": ["whole"]}


KINDS = ["write", "finish", "fail", "rebuild", "restart", "compact", "upkeep"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(KINDS),
            st.sampled_from("abcd"),
        ),
        max_size=40,
    )
)
def test_whatever_happens_a_stage_reads_all_since_the_last_rebuild_of_its_maker_once(happens):
    graph = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
    tester = driven(*(reader(n, *of) if of else source(n) for n, of in graph.items()))
    actions = tester.engine.actions
    made: dict[str, list[str]] = {name: [] for name in graph}
    read: dict[tuple[str, str], list[str]] = {}

    def end(name: str) -> None:
        run = tester.engine.actions[name].run
        if run is None:
            return
        if run.retry_at is not None:
            tester.pass_time(1000)
            run = tester.engine.actions[name].run
        if run is None or run.retry_at is not None:
            return
        if run.work.purpose is RunPurpose.REBUILD:
            made[name].clear()
        for flow in (f"of_{maker}" for maker in graph[name]):
            if run.work.purpose is RunPurpose.REBUILD:
                read[name, flow] = []
            taken = run.work.taken[flow].read if flow in run.work.taken else ()
            read.setdefault((name, flow), []).extend(one.name for one in taken)
        if run.work.purpose.maintains:
            tester.finish(name, result="compacted")
            return
        made[name].append(run.run)
        finish(tester, name, run.run)

    for kind, name in happens:
        match kind:
            case "write":
                write(tester)
            case "finish":
                end(name)
            case "fail" if (run := actions[name].run) is not None and run.retry_at is None:
                tester.fail(name)
            case "rebuild":
                tester.rebuild(name, with_sources=True)
            case "compact" | "upkeep":
                tester.compact(name, wholly=kind == "compact")
            case "restart":
                tester.restart()
                actions = tester.engine.actions
                tester.pass_time(1)
    for _ in range(200):
        for name, action in tester.engine.actions.items():
            if action.failure and action.run is None:
                tester.release(name)
        running = [name for name, action in tester.engine.actions.items() if action.run]
        if not running:
            break
        end(running[0])
    for name, of in graph.items():
        for maker in of:
            got = read.get((name, f"of_{maker}"), [])
            assert got == made[maker][: len(got)]
            stage = tester.engine.stages[name]
            waiting = stage.connectors[f"of_{maker}"].waiting
            assert got + [one.name for one in waiting] == made[maker]


# -- maintenance ---------------------------------------------------------------------------------


def test_a_compaction_reads_nothing_and_gives_the_state_another_name(chain: EngineTester):
    assert launched(chain.compact("b")) == ["b"]
    launch = last(chain, "b")
    assert (launch.work, launch.previous) == (Maintain(wholly=True), "state")
    chain.finish("b", result="compacted")
    write(chain)
    finish(chain, "a", "a2")
    assert (last(chain, "b").previous, reads(chain, "b")) == ("compacted", {"of_a": ["a2"]})


def test_what_comes_during_a_compaction_waits_for_its_end(chain: EngineTester):
    chain.compact("a")
    assert write(chain) == []
    assert launched(chain.finish("a", result="compacted")) == ["a"]
    assert last(chain, "a").work.purpose is RunPurpose.ADVANCE


def test_a_compaction_that_is_given_up_leaves_the_stage_as_it_was(chain: EngineTester):
    chain.compact("a")
    for _ in range(2):
        chain.fail("a")
        chain.pass_time(1000)
    assert chain.engine.actions["a"].run is None
    assert write(chain) == ["a"]
    assert last(chain, "a").previous == "state"


def test_a_compaction_counts_for_nobody_as_a_run(chain: EngineTester):
    tester = driven(source("a"), ActionSpec("after", after=("a",), retry=TWICE))
    write(tester)
    tester.finish("a", result="state")
    tester.finish("after")
    tester.compact("a")
    assert launched(tester.finish("a", result="compacted")) == []


def test_a_stage_without_state_is_not_compacted():
    tester = driven(source("a"))
    assert launched(tester.compact("a")) == []
    assert tester.decisions()[-1].words == "it has no state yet"


def test_upkeep_that_a_run_asks_for_is_a_run_of_its_own_once_nothing_is_active(
    chain: EngineTester,
):
    assert launched(chain.compact("b", wholly=False)) == ["b"]
    launch = last(chain, "b")
    assert (launch.work, launch.previous) == (Maintain(wholly=False), "state")
    assert "its last run asked" in launch.cause.words
    assert launched(chain.finish("b")) == []  # there was nothing to do
    chain.compact("b")
    assert last(chain, "b").previous == "state"


def test_upkeep_gives_way_to_what_people_have_asked_for(chain: EngineTester):
    write(chain)  # `a` runs
    chain.compact("a")
    chain.compact("a", wholly=False)
    assert launched(chain.finish("a", result="state")) == ["a"]
    assert last(chain, "a").work.purpose is RunPurpose.COMPACT


# -- what the first run of a rebuilt stage reads ---------------------------------------------------


def framed(tester: EngineTester, name: str, *keys: str) -> None:
    """End a run that has made an increment for each of these framing keys."""
    made = [Produced("u", f"{name}-{key}", key, 1) for key in keys]
    tester.finish(name, *made, result="state")


def test_a_table_to_look_things_up_in_stays_after_a_rebuild():
    tester = driven(
        source("t"), source("q"), reader("j", "t", "q", rule="lookup", setting=("of_t",))
    )
    write(tester)
    finish(tester, "t", "t1")
    finish(tester, "q", "q1")
    finish(tester, "j", "j1")
    tester.rebuild("j", with_sources=True)
    finish(tester, "t", "t-whole")
    finish(tester, "q", "q-whole")
    assert reads(tester, "j") == {"of_t": ["t-whole"], "of_q": ["q-whole"]}
    finish(tester, "j", "j2")
    write(tester)
    assert finish(tester, "q", "q3") == ["j"]
    assert reads(tester, "j") == {"of_t": ["t-whole"], "of_q": ["q3"]}


def test_a_rebuilt_stage_reads_only_frames_that_belong_together():
    tester = driven(source("l"), source("r"), reader("j", "l", "r", rule="aligned"))
    write(tester)
    framed(tester, "l", "1")
    framed(tester, "r", "1")
    tester.rebuild("j", with_sources=True)
    framed(tester, "l", "1", "2", "3")
    framed(tester, "r", "2", "3")
    finish(tester, "j", "j1")
    taken = [launch.work.taken for launch in tester.launches("j")]
    keys = [[one.read[0].key for one in run.values() if one.read] for run in taken]
    assert ["2", "2"] in keys
    assert all(len(set(of_run)) <= 1 for of_run in keys)


def test_a_stage_whose_maker_has_one_framing_key_is_rebuilt_with_nothing():
    tester = driven(source("a"), reader("b", "a"))
    write(tester)
    framed(tester, "a", "1", "2")
    finish(tester, "b", "b1")
    tester.rebuild("b", with_sources=True)
    framed(tester, "a", "1")
    assert last(tester, "b").work.purpose is RunPurpose.REBUILD
    assert reads(tester, "b") == {}
