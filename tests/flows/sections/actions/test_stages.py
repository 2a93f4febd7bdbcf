"""Stages in dataflow files: flows between actions, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.engine import DEFAULT_BACKLOG, ActionFlows, FlowId, OnChange, RunnableSpec
from headgate.flows import (
    ConnectLauncher,
    Dataflow,
    Problem,
    SessionLauncher,
    Severity,
    changes,
    parse_dataflow,
)

Problems = Callable[[str], tuple[Problem, ...]]

MARK = "▲"


def flow(*, a: str = "out: x", b: str = "in: {x: a.x}", more: str = "", top: str = "") -> str:
    """Two stages: ``a`` reads a container, ``b`` what ``a`` makes."""
    return (
        f"name: n\n{top}\ncontainers: {{c: t f:q, d: u f:q}}\nactions:\n"
        f"  feed: {{input: c}}\n"
        f"  a: {{stage: 'm:a', reads: c, {a}}}\n"
        f"  b: {{stage: 'm:b', writes: d, {b}}}\n{more}"
    )


def stage(text: str, action: str) -> ActionFlows | None:
    dataflow = parse_dataflow(text, "f.yaml")
    return next(one.stage for one in dataflow.spec.actions if one.name == action)


def parsed(text: str) -> Dataflow:
    return parse_dataflow(text, "f.yaml")


def test_a_stage_has_flows() -> None:
    assert stage(flow(), "a") == ActionFlows({}, ("x",), RunnableSpec(), DEFAULT_BACKLOG)
    assert stage(flow(), "b") == ActionFlows({"x": FlowId("a", "x")})


def test_a_step_is_no_stage() -> None:
    assert stage("name: n\ncontainers: {c: t}\nactions: {a: {step: 'm:f', reads: c}}", "a") is None


def test_a_stage_is_run_by_what_runs_steps() -> None:
    assert parsed(flow()).launchers["b"] == SessionLauncher("m:b")
    text = flow(b="in: {x: a.x}, launcher: connect")
    assert parsed(text).launchers["b"] == ConnectLauncher("m:b")


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (flow(top="concurrency: 3"), 1),
        (flow(b="in: {x: a.x}, launcher: connect", top="concurrency: 3"), 3),
        ("name: n\ncontainers: {c: t}\nactions: {a: {step: 'm:f', reads: c}}", None),
    ],
)
def test_stages_have_the_places_of_their_launchers(text: str, places: int | None) -> None:
    assert parsed(text).spec.places == places


@pytest.mark.parametrize(
    ("written", "runnable"),
    [
        ("any", RunnableSpec("any")),
        ("aligned", RunnableSpec("aligned")),
        ("{prefer: {x: 4, y: 1}}", RunnableSpec("prefer", {"x": 4, "y": 1})),
        ("{lag: {y: 2}}", RunnableSpec("lag", {"y": 2})),
        ("{lookup: y}", RunnableSpec("lookup", ("y",))),
        ("{lookup: [x]}", RunnableSpec("lookup", ("x",))),
        ("{python: 'stages:turns'}", RunnableSpec("python", "stages:turns")),
    ],
)
def test_a_runnable_says_what_is_read(written: str, runnable: RunnableSpec) -> None:
    text = flow(a="out: [x, y]", b=f"in: {{x: a.x, y: a.y}}, backlog: 7, runnable: {written}")
    found = stage(text, "b")
    assert found is not None
    assert (found.runnable, found.backlog) == (runnable, 7)


def test_a_dataflow_says_which_runnables_are_code_of_its_users() -> None:
    text = flow(b="in: {x: a.x}, runnable: {python: 'own:turns'}")
    assert parsed(text).user_runnables == ("own:turns",)
    assert parsed(flow()).user_runnables == ()


def test_a_lag_of_all_flows_that_come_round_is_a_number() -> None:
    found = stage(flow(b="out: y, in: {x: a.x, y: b.y}, runnable: {lag: 1}"), "b")
    assert found is not None
    assert found.runnable == RunnableSpec("lag", 1)


def test_names_with_dots_are_told_apart_by_what_there_is() -> None:
    text = flow(b="in: {x: a.x, y: c.d.e}", more="  c.d: {stage: 'm:c', reads: c, out: [e]}\n")
    found = stage(text, "b")
    assert found is not None
    assert found.inputs["y"] == FlowId("c.d", "e")


def test_the_dataflow_says_where_states_are_and_what_becomes_of_old_ones() -> None:
    dataflow = parsed(flow(b="in: {x: a.x}, on_change: keep", top="state: s3://bucket/stages"))
    assert dataflow.state == "s3://bucket/stages"
    assert dataflow.actions["a"].on_change is OnChange.REFUSE
    assert dataflow.actions["b"].on_change is OnChange.KEEP


CASES = {
    "a runnable that is a file": (
        flow(b="in: {x: a.x}, runnable: {python: ▲turns.py}"),
        "`turns.py` can't be",
        "a colon, the function",
    ),
    "two runnables": (
        flow(b="in: {x: a.x}, runnable: {python: 'm:f', ▲prefer: {x: 1}}"),
        "`prefer` can't stand beside `python`",
        "keep",
    ),
    "a runnable of nothing": (
        flow(a="out: x, ▲runnable: {python: 'm:f'}"),
        "runnable 'python' needs input flows",
        "correct",
    ),
    "a flow of nobody": (flow(b="in: {x: ▲aa.x}"), "no action `aa`", "did you mean `a`?"),
    "a flow that is not made": (flow(b="in: {x: ▲a.z}"), "no output flow `z`", "`x`"),
    "a flow of what makes none": (flow(b="in: {x: ▲feed.x}"), "no output flow", "add `out: x`"),
    "a flow without action": (flow(b="in: {x: ▲x}"), "`x` can't be", "a dot, the flow"),
    "a dot that is two": (
        flow(b="in: {x: a.x, y: ▲a.y.z}", more="  a.y: {stage: 'm:c', out: z, reads: c}\n").replace(
            "out: x}", "out: [x, y.z]}"
        ),
        "flow `y.z` of `a` and flow `z` of `a.y`",
        "rename",
    ),
    "no input flow": (flow(b="in: ▲{}"), "no input flow here", "flows by the name"),
    "a name that is none": (flow(b="in: {▲'x y': a.x}"), "can't name a input flow", "letters"),
    "a flow and a container": (
        flow(b="reads: c, in: {▲c: a.x}"),
        "an input flow here and a container",
        "otherwise",
    ),
    "flows of a step": (
        flow(more="  s: {step: 'm:f', ▲in: {x: a.x}}\n"),
        "`in` needs `stage` beside it",
        "add `stage:`",
    ),
    "outputs of a command": (flow(more="  s: {command: x, ▲out: y}\n"), "needs `stage`", "add"),
    "a stage and a step": (flow(b="▲step: 'm:f', in: {x: a.x}"), "can't stand beside", "keep"),
    "a stage in a file": (
        flow(more="  s: {stage: ▲stages.py, reads: c}\n"),
        "not a file",
        "`stages:counts`",
    ),
    "an output twice": (flow(a="out: [x, ▲x]"), "`x` is named twice", "remove one"),
    "too many outputs": (
        flow(a="out: ▲[x, " + ", ".join(f"flow{n:02d}" for n in range(30)) + "]"),
        "characters of what its runs commit",
        "shorter",
    ),
    "an unknown runnable": (
        flow(b="in: {x: a.x}, runnable: ▲some"),
        "`some` is not `all`, `any`",
        "`aligned`",
    ),
    "a turn that never comes": (
        flow(b="in: {x: a.x}, runnable: {prefer: {x: ▲0}}"),
        "`0` is not a number of turns",
        "above 0",
    ),
    "turns of another flow": (
        flow(b="in: {x: a.x}, ▲runnable: {prefer: {y: 2}}"),
        "needs a number of turns for each input flow (x)",
        "correct `runnable`",
    ),
    "a lag without loop": (
        flow(b="in: {x: a.x}, ▲runnable: {lag: 1}"),
        "flows of a loop",
        "correct `runnable`",
    ),
    "a table that is no flow": (
        flow(b="in: {x: a.x}, ▲runnable: {lookup: y}"),
        "needs some of the input flows (x), not ('y',)",
        "correct `runnable`",
    ),
    "nothing but tables": (
        flow(b="in: {x: a.x}, ▲runnable: {lookup: x}"),
        "only tables",
        "correct `runnable`",
    ),
    "a runnable without flows": (
        flow(a="out: x, ▲runnable: any"),
        "needs input flows",
        "correct `runnable`",
    ),
    "no backlog": (flow(b="in: {x: a.x}, backlog: ▲0"), "`0` is not", "above 0"),
    "an unknown change": (flow(b="in: {x: a.x}, on_change: ▲drop"), "`drop`", "`rebuild`"),
    "no place": (flow(top="state: ▲''"), "is not a directory or a URI", "a directory or a URI"),
    "a circle over containers": (
        flow(a="out: x, reads: d, in: {y: b.y}", b="out: y, reads: c, in: {x: a.x}").replace(
            "  a: {stage: 'm:a', reads: c, ", "  a: ▲{stage: 'm:a', "
        ),
        "`a` comes after `b`, which depends on flows of `a`",
        "only flows may lead in a circle",
    ),
    "a circle over after": (
        flow(a="out: x, after: ▲b"),
        "`a` comes after `b`, which depends on flows of `a`",
        "read a flow of `b`",
    ),
    "combine without bounds": (
        flow(b="in: {x: a.x}, ▲combine: all"),
        "says nothing without bounds",
        "add `when:`",
    ),
    "other people's keys": (flow(b="in: {x: a.x}, ▲outputs: y"), "no key `outputs`", "`out`"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_with_flows_is_told_with_place_and_cure(
    case: str, problems: Problems
) -> None:
    text, message, cure = CASES[case]
    before, _, after = text.partition(MARK)
    place = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    errors = [p for p in problems(before + after) if p.severity is Severity.ERROR]
    assert [(p.line, p.column) for p in errors] == [place], errors
    assert message in errors[0].message
    assert cure in errors[0].cure


def warnings(problems: tuple[Problem, ...]) -> list[str]:
    assert all(p.severity is Severity.WARNING for p in problems), problems
    return [p.message for p in problems]


def test_two_stages_in_a_row_are_in_order(problems: Problems) -> None:
    assert problems(flow()) == ()


def test_a_flow_that_nobody_reads_is_told(problems: Problems) -> None:
    assert warnings(problems(flow(a="out: [x, y]"))) == ["no stage reads flow `y` of `a`"]


LOOP = "out: y, in: {x: a.x, y: c.y}"
BACK = "  c: {stage: 'm:c', in: {y: b.y}, out: y}\n"


def test_a_loop_that_nobody_starts_is_told(problems: Problems) -> None:
    [words] = warnings(problems(flow(b=LOOP, more=BACK)))
    assert words.startswith("nothing starts the loop of `b`, `c`")


@pytest.mark.parametrize("runnable", ["any", "{lag: 1}", "{prefer: {x: 1, y: 1}}"])
def test_a_loop_that_somebody_starts_is_in_order(runnable: str, problems: Problems) -> None:
    assert problems(flow(b=f"{LOOP}, runnable: {runnable}", more=BACK)) == ()


def test_a_stage_with_flows_may_say_how_often_it_is_looked_at(problems: Problems) -> None:
    assert problems(flow(b="in: {x: a.x}, evaluate: every 5 s")) == ()


@pytest.mark.parametrize(
    ("changed", "part", "words"),
    [
        (flow(b="in: {x: a.x}, backlog: 3"), "action `b`", "`stage`"),
        (flow(b="in: {x: a.x}, on_change: keep"), "action `b`", "`on_change`"),
        (flow(top="state: there"), "state", "the agent's directory → there"),
    ],
)
def test_an_update_says_what_becomes_of_stages(changed: str, part: str, words: str) -> None:
    [change] = changes(parsed(flow()), parsed(changed))
    assert change.part == part
    assert words in change.words
