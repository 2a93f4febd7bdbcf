"""Runnables: what is read of which flow, and what is waited for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine.protocol.increments import FramingKey
from headgate.engine.spec.dataflow import SpecificationError
from headgate.engine.spec.stages import ActionFlows, FlowId, RunnableSpec
from headgate.engine.stages.connector import FlowView, Portion, Take
from headgate.engine.stages.runnables.runnable import PureRunnable, RunnableState, Waits
from headgate.engine.stages.runnables.table import make_runnable

NOTHING = FlowView(None, 0, 0)
READ = FlowView(3, 1, 0)


def waiting(key: FramingKey = 0, number: int = 1) -> FlowView:
    return FlowView(key, number, number)


def runnable(
    kind: str,
    *flows: str,
    setting: int | tuple[str, ...] | dict[str, int] | None = None,
    looped: tuple[str, ...] = (),
) -> PureRunnable:
    inputs = {name: FlowId("source", name) for name in flows}
    spec = ActionFlows(inputs, runnable=RunnableSpec(kind, setting))
    made = make_runnable("stage", spec, looped)
    assert isinstance(made, PureRunnable)
    return made


def reads(answer: Take | Waits) -> tuple[str, ...]:
    assert isinstance(answer, Take), answer.words
    assert answer.removes == answer.reads
    return answer.reads


def test_all_reads_one_of_each():
    answer = runnable("all", "a", "b").judge({"a": waiting(), "b": waiting(number=9)}, {})

    assert reads(answer) == ("a", "b")


def test_all_says_which_flows_are_empty():
    answer = runnable("all", "a", "b", "c").judge({"a": waiting(), "b": NOTHING, "c": READ}, {})

    assert answer == Waits("an increment of `b` and `c`", ("b", "c"))


def test_all_of_no_flows_can_always_run():
    assert reads(runnable("all").judge({}, {})) == ()


def test_any_reads_one_of_each_that_has_one():
    answer = runnable("any", "a", "b", "c").judge(
        {"a": waiting(), "b": NOTHING, "c": waiting()}, {}
    )

    assert reads(answer) == ("a", "c")


def test_any_waits_while_all_are_empty():
    answer = runnable("any", "a", "b").judge({"a": NOTHING, "b": READ}, {})

    assert answer == Waits("an increment of `a` or `b`", ("a", "b"))


def test_aligned_reads_both_where_the_keys_are_equal():
    flows = {"a": waiting("2024-05-01"), "b": waiting("2024-05-01")}

    assert reads(runnable("aligned", "a", "b").judge(flows, {})) == ("a", "b")


def test_aligned_reads_only_the_smaller_key():
    flows = {"a": waiting("2024-05-02"), "b": waiting("2024-05-01"), "c": waiting("2024-05-01")}

    assert reads(runnable("aligned", "a", "b", "c").judge(flows, {})) == ("b", "c")


def test_aligned_compares_numbers_as_numbers():
    flows = {"a": waiting(10), "b": waiting(9)}

    assert reads(runnable("aligned", "a", "b").judge(flows, {})) == ("b",)


def test_aligned_waits_for_a_flow_that_may_have_a_smaller_key():
    answer = runnable("aligned", "a", "b").judge({"a": waiting(1), "b": NOTHING}, {})

    assert isinstance(answer, Waits)
    assert answer.flows == ("b",)


def test_aligned_refuses_keys_that_cannot_be_compared_in_words():
    answer = runnable("aligned", "a", "b").judge({"a": waiting(1), "b": waiting("1")}, {})

    assert isinstance(answer, Waits)
    assert "give both the same framing" in answer.words


def order(rule: PureRunnable, has: list[tuple[str, ...]], *flows: str) -> list[str]:
    """The flow that is read in each step, where these have something waiting."""
    state: RunnableState = {}
    chosen = []
    for names in has:
        answer = rule.judge({f: waiting() if f in names else NOTHING for f in flows}, state)
        [flow] = reads(answer)
        assert isinstance(answer, Take)
        chosen.append(flow)
        state = answer.state
    return chosen


TURNS = {"updates": 1, "queries": 4}


def test_four_queries_come_before_an_update():
    rule = runnable("prefer", *TURNS, setting=TURNS)

    chosen = order(rule, [tuple(TURNS)] * 10, *TURNS)

    assert chosen == [*["queries"] * 4, "updates"] * 2


def test_updates_are_not_held_for_queries_that_nobody_asks():
    rule = runnable("prefer", *TURNS, setting=TURNS)

    assert order(rule, [("updates",)] * 3, *TURNS) == ["updates"] * 3


def test_queries_do_not_wait_for_updates_that_do_not_come():
    rule = runnable("prefer", *TURNS, setting=TURNS)

    assert order(rule, [("queries",)] * 9, *TURNS) == ["queries"] * 9


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 5), min_size=1),
    st.lists(st.sets(st.sampled_from("abcd")), max_size=60),
)
def test_nobody_waits_longer_than_two_rounds_of_the_others(turns, arrivals):
    rule = runnable("prefer", *turns, setting=turns)
    has = [tuple(f for f in turns if f in names) for names in arrivals]
    has = [names for names in has if names]
    waits = dict.fromkeys(turns, 0)
    for names, chosen in zip(has, order(rule, has, *turns), strict=True):
        for name in turns:
            waits[name] = waits[name] + 1 if name in names and name != chosen else 0
            assert waits[name] <= 2 * sum(t for other, t in turns.items() if other != name)


def test_a_loop_starts_by_itself_and_then_keeps_its_lag():
    rule = runnable("lag", "numbers", "medians", setting=1, looped=("medians",))
    numbers, medians = waiting(), waiting()

    first = rule.judge({"numbers": numbers, "medians": NOTHING}, {})
    assert isinstance(first, Take)
    assert reads(first) == ("numbers",)

    early = rule.judge({"numbers": numbers, "medians": NOTHING}, first.state)
    assert early == Waits("an increment of `medians` for its run 1", ("medians",))

    second = rule.judge({"numbers": numbers, "medians": medians}, first.state)
    assert reads(second) == ("numbers", "medians")


def test_a_lag_of_two_lets_two_runs_go_ahead():
    rule = runnable("lag", "in", "back", setting={"back": 2})
    state: RunnableState = {}
    for _ in range(2):
        answer = rule.judge({"in": waiting(), "back": waiting()}, state)
        assert isinstance(answer, Take)
        assert reads(answer) == ("in",)
        state = answer.state

    assert reads(rule.judge({"in": waiting(), "back": waiting()}, state)) == ("in", "back")


@pytest.mark.parametrize(
    ("kind", "flows", "setting", "words"),
    [
        ("most", ("a",), None, "take one of all, any, aligned, prefer, lag"),
        ("all", ("a",), 1, "takes no setting"),
        ("any", (), None, "needs input flows"),
        ("prefer", ("a", "b"), {"a": 1}, "a number of turns for each input flow"),
        ("prefer", ("a", "b"), {"a": 1, "b": 0}, "without turns"),
        ("prefer", ("a",), None, "a number of turns"),
        ("lag", ("a", "b"), 1, "none comes back"),
        ("lag", ("a", "b"), {"c": 1}, "some of its input flows"),
        ("lag", ("a", "b"), {}, "some of its input flows"),
        ("lag", ("a", "b"), {"a": 0}, "must be 1 or more"),
        ("lag", ("a", "b"), {"a": 1, "b": 1}, "only flows that are behind"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(kind, flows, setting, words):
    with pytest.raises(SpecificationError, match=words):
        runnable(kind, *flows, setting=setting)


TABLE = FlowView("k", 1, 0)
"""A table that was read before."""


def test_a_table_is_read_and_stays():
    rule = runnable("lookup", "changes", "table", setting=("table",))

    answer = rule.judge({"changes": waiting(), "table": TABLE}, {})

    assert answer == Take({"changes": Portion(0, 1, 1), "table": Portion(0, 1, 0)}, {})


def test_a_newer_table_replaces_all_before_it():
    rule = runnable("lookup", "changes", "table", setting=("table",))

    answer = rule.judge({"changes": waiting(), "table": FlowView("k", 4, 3)}, {})

    assert isinstance(answer, Take)
    assert answer.portions["table"] == Portion(start=3, stop=4, removed=3)


@pytest.mark.parametrize(
    ("changes", "table", "empty"),
    [(NOTHING, TABLE, "changes"), (READ, TABLE, "changes"), (waiting(), NOTHING, "table")],
)
def test_a_table_makes_no_run_and_is_waited_for(changes, table, empty):
    rule = runnable("lookup", "changes", "table", setting=("table",))

    answer = rule.judge({"changes": changes, "table": table}, {})

    assert answer == Waits(f"an increment of `{empty}`", (empty,))
