"""Runnables in Python: when they are asked, what holds of an answer, and what a failure leaves."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from headgate.engine import (
    LARGEST_STATE,
    PYTHON_RUNNABLE,
    ActionFlows,
    ActionSpec,
    Bound,
    Consult,
    Consulted,
    DataflowSpec,
    EngineTester,
    FlowId,
    HowMany,
    Paused,
    Produced,
    Resumed,
    RetryPolicy,
    RetryRequested,
    RunnableAnswer,
    RunnableQuestion,
    RunnableSpec,
    SequenceBound,
    SpecificationChanged,
    WatchedContainer,
    launched,
)
from headgate.events import Container, ContainerId, Item

IN = ContainerId("in")
ONCE = RetryPolicy(attempts=1)
EACH = Bound("k", IN, sequence=SequenceBound(1))
MADE = ActionSpec("a", bounds=(EACH,), stage=ActionFlows(outputs=("x", "y", "z")), retry=ONCE)
"""Nobody reads ``z``, so that it is never held."""


def asking(entry: str = "m:f", **changes) -> ActionSpec:
    flows = ActionFlows(
        {"x": FlowId("a", "x"), "y": FlowId("a", "y")}, (), RunnableSpec("python", entry)
    )
    return ActionSpec("b", stage=flows, retry=ONCE, **changes)


def driven(*actions: ActionSpec) -> EngineTester:
    watched = WatchedContainer(Container(IN, (Item("in"),)))
    return EngineTester(DataflowSpec("flow", (watched,), actions or (MADE, asking())))


def come(tester: EngineTester, *flows: str, key: str | None = None) -> list[str]:
    """Let increments come, one of each flow named; return what is launched."""
    tester.write("in", {b"r": {b"f:q": b"1"}})
    number = len(tester.launches("a"))
    made = [Produced(flow, f"{flow}-{number}-{n}", key, 5) for n, flow in enumerate(flows)]
    return launched(tester.finish("a", *made))


def say(tester: EngineTester, *, state: str = "null", **reads) -> list[str]:
    answer = RunnableAnswer(tester.questions()[-1].number, reads, state=state)
    return launched(tester.say("b", answer))


def read(tester: EngineTester) -> dict[str, list[int]]:
    """The indexes of what the last run reads, by flow."""
    taken = tester.launches("b")[-1].work.taken
    return {flow: [one.index for one in part.read] for flow, part in taken.items()}


def waits(tester: EngineTester) -> Mapping[str, list[int]]:
    stage = tester.engine.stages["b"]
    return {name: [i.index for i in one.waiting] for name, one in stage.connectors.items()}


def explained(tester: EngineTester):
    return next(one for one in tester.engine.explain(tester.now).actions if one.action == "b")


def test_it_is_asked_of_what_waits_and_what_it_says_is_read() -> None:
    tester = driven()
    assert come(tester, "x", "x", "y") == []
    question = tester.questions()[-1]
    assert (question.entry, question.state) == ("m:f", "null")
    assert [(i.index, i.key, i.rows) for i in question.flows["x"].increments] == [
        (0, 0, 5),
        (1, 1, 5),
    ]
    assert explained(tester).missing == "waits for what `m:f` says is to be read"

    assert say(tester, x=2, state='{"n": 1}') == ["b"]
    assert read(tester) == {"x": [0, 1]}
    assert tester.launches("b")[-1].cause.words.startswith("increments wait: 2 of `x`")
    tester.finish("b")
    assert tester.questions()[-1].state == '{"n": 1}'
    assert say(tester, y="all") == ["b"]
    assert read(tester) == {"y": [0]}


def test_where_nothing_waits_nobody_is_asked() -> None:
    tester = driven()
    come(tester)
    assert tester.questions() == []
    assert explained(tester).missing == "needs an increment of `x` or `y`"


def test_what_it_says_to_read_holds_though_more_has_come_meanwhile() -> None:
    tester = driven()
    come(tester, "x")
    come(tester, "x", "y")

    assert len(tester.questions()) == 1
    assert say(tester, x="all") == ["b"]
    assert read(tester) == {"x": [0]}


def test_that_nothing_may_run_is_asked_again_when_more_comes() -> None:
    tester = driven()
    come(tester, "x")
    assert say(tester) == []
    assert explained(tester).missing == "needs more than waits, of which `m:f` reads nothing"
    tester.restart()
    tester.pass_time(100)
    assert len(tester.questions()) == 1, "nothing else waits"

    come(tester, "y")
    assert len(tester.questions()) == 2
    come(tester, "y")
    assert say(tester) == [], "of what has come since it was asked it has not heard"
    assert len(tester.questions()) == 3
    assert say(tester, x=1, y=2) == ["b"]


def test_a_stage_that_reads_nothing_of_what_waits_holds_nobody_who_feeds_it() -> None:
    tester = driven(structs.replace(MADE, stage=ActionFlows(outputs=("x", "y"))), asking())
    come(tester, "x", "y")
    tester.write("in", {b"r": {b"f:q": b"2"}})
    assert len(tester.launches("a")) == 1, "what waits there may be all that it needs"
    say(tester)
    assert len(tester.launches("a")) == 2


def test_a_run_that_fails_puts_back_increments_and_state() -> None:
    tester = driven()
    come(tester, "x", "x", "y")
    say(tester, x=1, state="1")
    tester.finish("b")
    before = waits(tester), tester.questions()[-1].state
    say(tester, x=1, y=1, state="2")
    tester.fail("b")
    tester.release("b")

    assert waits(tester) == before[0]
    assert tester.questions()[-1].state == before[1] == "1"
    say(tester, x=1, y=1, state="2")
    assert read(tester) == {"x": [1], "y": [0]}


def test_a_table_stays_until_another_is_there() -> None:
    tester = driven()
    come(tester, "x", "y")
    answer = RunnableAnswer(1, {"x": 1, "y": 1}, {"x": 1})
    assert launched(tester.say("b", answer)) == ["b"]
    tester.finish("b")
    come(tester, "x")
    assert tester.questions()[-1].flows["y"].read == 1
    assert launched(tester.say("b", RunnableAnswer(2, {"x": 1, "y": 1}, {"x": 1}))) == ["b"]
    assert read(tester) == {"x": [1], "y": [0]}
    tester.finish("b")

    come(tester, "x", "y")
    assert launched(tester.say("b", RunnableAnswer(3, {"x": 1, "y": (1, 2)}, {"x": 1, "y": 1})))
    assert read(tester) == {"x": [2], "y": [1]}
    assert waits(tester) == {"x": [], "y": [1]}


def test_bounds_say_when_and_the_function_what() -> None:
    tester = driven(MADE, asking(bounds=(Bound("k", IN, sequence=SequenceBound(3)),)))
    come(tester, "x")
    come(tester, "x")
    assert tester.questions() == []
    come(tester, "x")
    assert len(tester.questions()) == 1
    assert say(tester, x="all") == ["b"]
    assert read(tester) == {"x": [0, 1]}


def test_a_question_is_asked_again_by_who_takes_over_and_its_first_answer_is_left_aside() -> None:
    tester = driven()
    come(tester, "x")
    tester.restart()
    first, second = tester.questions()
    assert structs.replace(first, number=second.number) == second

    assert launched(tester.say("b", RunnableAnswer(first.number, {"x": 1}))) == []
    assert launched(tester.say("b", RunnableAnswer(second.number, {"x": 1}))) == ["b"]
    assert launched(tester.say("b", RunnableAnswer(second.number, {"x": 1}))) == []


def test_an_answer_that_cannot_be_followed_yet_is_kept() -> None:
    tester = driven()
    come(tester, "x")
    tester.handle(Paused(tester.now))
    assert say(tester, x=1) == []
    tester.restart()
    assert launched(tester.handle(Resumed(tester.now))) == ["b"]
    assert len(tester.questions()) == 1


def test_another_function_is_asked_anew_without_the_state_of_the_first() -> None:
    tester = driven()
    come(tester, "x", "x")
    say(tester, x=1, state="7")
    tester.finish("b")
    old = tester.questions()[-1].number
    actions = (MADE, asking("m:g"))
    tester.spec = structs.replace(tester.spec, actions=actions)
    tester.handle(SpecificationChanged(tester.now, tester.spec))

    asked = tester.questions()[-1]
    assert (asked.entry, asked.state) == ("m:g", "null")
    assert launched(tester.say("b", RunnableAnswer(old, {"x": 1}))) == []
    assert say(tester, x=1) == ["b"]


@pytest.mark.parametrize("answer", [RunnableAnswer(1, failure="raised Oh"), RunnableAnswer(1)])
def test_with_another_definition_the_same_function_is_asked_anew(answer: RunnableAnswer) -> None:
    tester = driven()
    come(tester, "x")
    tester.say("b", answer)
    tester.handle(SpecificationChanged(tester.now, tester.spec))
    assert len(tester.questions()) == 2
    assert say(tester, x=1) == ["b"]


def test_who_rebuilds_asks_nobody_and_an_answer_of_before_is_left_aside() -> None:
    tester = driven()
    come(tester, "x")
    tester.rebuild("b", with_sources=True)
    assert say(tester, x=1) == []
    made = [Produced(flow, f"{flow}-anew", None, 5) for flow in ("x", "y")]
    assert launched(tester.finish("a", *made)) == ["b"]
    assert read(tester) == {"x": [1], "y": [0]}


def test_a_run_that_somebody_asked_for_reads_what_the_function_says() -> None:
    tester = driven(MADE, asking(bounds=(Bound("k", IN, sequence=SequenceBound(9)),)))
    come(tester, "x")
    assert launched(tester.request("b")) == []
    assert say(tester, x=1) == ["b"]
    assert read(tester) == {"x": [0]}


def alternating(question: RunnableQuestion) -> RunnableAnswer:
    """One of ``x`` and one of ``y`` in turn, or two of ``x`` where both wait."""
    turn = int(question.state) if question.state != "null" else 0
    x, y = (len(question.flows[name].increments) for name in ("x", "y"))
    reads: dict[str, HowMany] = {"y": min(1, y)} if turn % 2 else {"x": min(1 + bool(y), x)}
    return RunnableAnswer(question.number, reads, state=str(turn + 1))


steps = st.sampled_from(["x", "y", "xx", "xy", "finish", "fail"])


@given(st.lists(st.tuples(steps, st.booleans()), max_size=25))
def test_who_is_restarted_at_any_point_reads_what_one_reads_that_never_was(happens) -> None:
    runs = []
    for restarts in (0, 3):  # of more under one run that would be to blame
        tester = driven()
        tester.runnable = alternating
        for what, restart in happens:
            if what in {"finish", "fail"}:
                if tester.engine.actions["b"].run is not None:
                    getattr(tester, what)("b")
                if what == "fail" and tester.engine.actions["b"].run is None:
                    tester.release("b")
            else:
                come(tester, *what)
            if restart and restarts:
                restarts -= 1
                tester.restart()
                tester.pass_time(0)
        runs.append({(i.run, str(i.work.taken)) for i in tester.launches("b")})
    assert runs[0] == runs[1]


HUGE = '"' + LARGEST_STATE * "x" + '"'
NONSENSE = {
    "more than waits": (RunnableAnswer(1, {"x": 3}), "reads 3 increments of `x`, of which 2"),
    "removes more": (RunnableAnswer(1, {"x": 1}, {"y": 1}), "removes 1 increments of `y`"),
    "a flow of nobody": (RunnableAnswer(1, {"z": 1}), "names `z`, which is no input flow"),
    "less than none": (RunnableAnswer(1, {"x": -1}), "reads -1 of `x`"),
    "backwards": (RunnableAnswer(1, {"x": (2, 1)}), "reads (2, 1) of `x`"),
    "a hole": (RunnableAnswer(1, {"x": (1, 2)}), "reads `x` from 1 on"),
    "not the oldest": (RunnableAnswer(1, {}, {"x": (0, 1)}), "only the oldest can be removed"),
    "a large state": (RunnableAnswer(1, {"x": 1}, state=HUGE), "bytes, of 16384 at most"),
    "its own failure": (RunnableAnswer(1, failure="raised Oh", traceback="line 7"), "raised Oh"),
}


@pytest.mark.parametrize(("answer", "words"), NONSENSE.values(), ids=NONSENSE.keys())
def test_an_answer_that_makes_no_sense_takes_nothing_and_is_shown(
    answer: RunnableAnswer, words: str
) -> None:
    tester = driven()
    come(tester, "x", "x")

    assert launched(tester.say("b", answer)) == []
    shown = explained(tester)
    assert words in shown.missing
    assert shown.runnable_failure.startswith("`m:f` ")
    assert answer.traceback in shown.runnable_failure
    assert waits(tester) == {"x": [0, 1], "y": []}
    tester.pass_time(1000)
    tester.restart()
    assert len(tester.questions()) == 1, "the same again would fail again"


def test_who_reads_only_what_was_read_is_told_that_this_has_no_end() -> None:
    tester = driven()
    come(tester, "x")
    tester.say("b", RunnableAnswer(1, {"x": 1}, {}))
    tester.finish("b")
    come(tester, "y")
    assert launched(tester.say("b", RunnableAnswer(2, {"x": 1}, {}))) == []
    assert "would go on for ever" in explained(tester).missing


@pytest.mark.parametrize("answer", [b"", b"\xc1", b"\x93\x01\x02\x03", None])
def test_damaged_and_missing_answers_are_failures(answer: bytes | None) -> None:
    tester = driven()
    come(tester, "x")
    tester.handle(Consulted(tester.now, "b", PYTHON_RUNNABLE, answer, "nobody is there"))
    assert explained(tester).runnable_failure
    assert waits(tester)["x"] == [0]


@pytest.mark.parametrize("again", ["retry", "more", "run"])
def test_a_function_that_failed_is_asked_again_after_a_retry_or_when_more_waits(
    again: str,
) -> None:
    tester = driven()
    come(tester, "x")
    tester.say("b", RunnableAnswer(1, failure="raised Oh"))
    if again == "retry":
        tester.handle(RetryRequested(tester.now, "b"))
    elif again == "more":
        come(tester, "x")
    else:
        assert launched(tester.request("b")) == ["b"], "it reads nothing"
        assert read(tester) == {}
        tester.finish("b")
    assert len(tester.questions()) == 2
    assert say(tester, x="all") == ["b"]
    assert explained(tester).runnable_failure == ""


def test_the_question_of_a_bound_and_that_of_a_runnable_are_told_apart() -> None:
    tester = driven()
    come(tester, "x")
    [consult] = [i for i in tester.instructions if isinstance(i, Consult)]
    kind = tester.engine.actions["b"].policy.kind
    tester.handle(Consulted(tester.now, consult.action, kind, consult.question))
    assert explained(tester).missing == "waits for what `m:f` says is to be read"


def test_states_of_before_have_no_questions_and_are_read() -> None:
    tester = driven()
    come(tester, "x")
    saved = msgspec.msgpack.decode(zlib.decompress(tester.engine.snapshot()))
    for action in saved["actions"]:
        if action["stage"] is not None:
            for field in ("questions", "asked", "answered"):
                del action["stage"][field]
    engine = type(tester.engine)(tester.spec, zlib.compress(msgspec.msgpack.encode(saved)))
    tester.engine = engine
    tester.pass_time(1)
    assert waits(tester)["x"] == [0]
    come(tester, "y")
    assert say(tester, x=1, y=1) == ["b"]
