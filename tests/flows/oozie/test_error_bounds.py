"""``error-bounds`` become the section ``learned``; ``▲`` marks the places of problems."""

import pytest

from headgate.engine import ActionRole, Codec
from headgate.flows import (
    DataflowErrors,
    ImportChoices,
    Severity,
    export_workflow,
    import_workflow,
    parse_dataflow,
)
from headgate.learning import LEARNED, OutputSettings, settings_of

MARK = "▲"


def table(name, limits="", inner=""):
    return f'<table name="{name}"{limits}>{inner}</table>'


def bounds(reads="", writes="", mark=""):
    parts = [f"<{n}>{c}</{n}>" for n, c in (("reads", reads), ("writes", writes)) if c]
    return f"{mark}<error-bounds>{''.join(parts)}</error-bounds>"


BOUND = ' max-error="0.05"'
FIRST = bounds(table("in"), table("mid"))
SECOND = bounds(table("mid"), table("out", BOUND))


@pytest.fixture
def chain(workflow, action):
    """A workflow of ``feed``, ``a`` and ``b``, one after the other, with these elements."""

    def text(first=FIRST, second=SECOND, fed="", *more):
        return workflow(
            action("feed", "a", qod=fed),
            action("a", "b", qod=first),
            action("b", "end" if not more else "c", qod=second),
            *more,
            start="feed",
        )

    return text


def imported(text, inputs=("feed",), **choices):
    found = import_workflow(text, "workflow.xml", ImportChoices(inputs=inputs, **choices))
    return found, parse_dataflow(found.text, "flow.yaml")


def problems_of(text, inputs=("feed",), **choices):
    with pytest.raises(DataflowErrors) as caught:
        imported(text, inputs, **choices)
    return caught.value.problems


def outputs_of(dataflow):
    return settings_of([a for a in dataflow.spec.actions if a.trigger is not None]).outputs


# -- what becomes of it --------------------------------------------------------------------------


def test_a_bound_decides_on_all_actions_that_lead_to_its_container(chain):
    found, dataflow = imported(chain())

    feed, a, b = dataflow.spec.actions
    assert found.warnings == ()
    assert (feed.role, feed.writes) == (ActionRole.INPUT, ("in",))
    assert (a.after, a.reads, a.writes) == (("feed",), ("in",), ("mid",))
    assert (b.after, b.reads, b.writes) == (("a",), ("mid",), ("out",))
    assert a.trigger == b.trigger
    assert b.trigger is not None
    assert b.trigger.kind == LEARNED
    assert outputs_of(dataflow) == {"out": OutputSettings(0.05)}
    assert {watched.codec for watched in dataflow.spec.containers} == {Codec()}
    assert "  outputs: {out: 5%}\n" in found.text


@pytest.mark.parametrize(
    ("limits", "inner", "expected"),
    [
        (' max-error="0.125"', "", OutputSettings(0.125)),
        (' max-error=".0005"', "", OutputSettings(0.0005)),
        (' max-error="+0.1" confidence="0.995"', "", OutputSettings(0.1, confidence=0.995)),
        (
            ' confidence="0.5"',
            "<max-error> 0.999 </max-error>",
            OutputSettings(0.999, confidence=0.5),
        ),
    ],
)
def test_shares_become_percentages(chain, limits, inner, expected):
    _, dataflow = imported(chain(second=bounds(table("mid"), table("out", limits, inner))))

    assert outputs_of(dataflow)["out"].bound == pytest.approx(expected.bound, abs=1e-15)
    assert outputs_of(dataflow)["out"].confidence == pytest.approx(expected.confidence, abs=1e-15)


def test_each_kind_of_container_may_be_bounded(chain):
    writes = (
        f'<column table="o" name="f:q"{BOUND}/><row table="o" name="r"{BOUND}/>'
        f'<group{BOUND}><item table="p" column="f:q"/><item table="q"/></group>'
    )
    _, dataflow = imported(chain(second=bounds(table("mid"), writes)))

    assert set(outputs_of(dataflow)) == {"o-f-q", "o-r", "p-q-group"}


def test_properties_of_the_job_stand_in_bounds(chain):
    second = bounds(table("mid"), table("${out}", ' max-error="${error}"'))
    _, dataflow = imported(chain(second=second), properties={"out": "out", "error": "0.05"})

    assert outputs_of(dataflow) == {"out": OutputSettings(0.05)}


def test_an_action_aside_runs_as_its_qod_says_and_may_say_what_it_reads(chain, action):
    aside = '<qod><table name="mid" sequence="5"/></qod>' + bounds(table("mid"), table("x"))
    _, dataflow = imported(chain(FIRST, SECOND, "", action("c", qod=aside)))

    c = dataflow.spec.actions[-1]
    assert (c.trigger, c.after, len(c.bounds)) == (None, ("b",), 1)
    assert c.writes == ("x",)


def test_an_action_comes_after_all_whose_output_it_reads_and_is_exported_all_the_same(chain):
    text = chain(second=bounds(table("mid") + table("in"), table("out", BOUND)))
    _, dataflow = imported(text)

    assert dataflow.spec.actions[-1].after == ("feed", "a")
    plain = chain(first="", second="")
    assert export_workflow(dataflow) == plain


def test_an_input_writes_what_it_says_and_what_nobody_else_writes(chain):
    _, dataflow = imported(chain(fed=bounds(writes=table("other"))))

    assert dataflow.spec.actions[0].writes == ("other", "in")


def test_inputs_do_not_write_what_another_action_writes(workflow, action):
    fork = '<fork name="f"><path start="feed"/><path start="a"/></fork><join name="j" to="b"/>'
    text = workflow(
        fork,
        action("feed", "j"),
        action("a", "j", qod=bounds(table("in"), table("mid"))),
        action("b", qod=bounds(table("mid") + table("fed"), table("out", BOUND))),
        start="f",
    )
    _, dataflow = imported(text)

    actions = {one.name: one for one in dataflow.spec.actions}
    assert actions["feed"].writes == ("fed",)
    assert set(actions["b"].after) == {"feed", "a"}


def test_without_any_bound_nothing_is_learned_and_a_warning_says_so(chain):
    found, dataflow = imported(chain(second=bounds(table("mid"), table("out"))))

    assert all(one.trigger is None for one in dataflow.spec.actions)
    (warning,) = [one for one in found.warnings if "nothing is learned" in one.message]
    assert (warning.line, warning.severity) == (4, Severity.WARNING)


# -- export --------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "wf:"])
def test_every_character_but_those_of_error_bounds_is_as_it_was(prefix, chain):
    def named(text):
        tags = text.replace("<", f"<{prefix}").replace(f"<{prefix}/", f"</{prefix}")
        return tags.replace("xmlns=", f"xmlns:{prefix[:-1]}=") if prefix else text

    text, plain = named(chain()), named(chain(first="", second=""))

    found, dataflow = imported(text)
    assert LEARNED in found.text
    assert export_workflow(dataflow) == plain


# -- problems ------------------------------------------------------------------------------------


def out(limits):
    return bounds(table("mid"), MARK + table("out", limits))


CASES = {
    "two of them": (SECOND + bounds(table("mid"), mark=MARK), "a second `error-bounds`", "keep"),
    "an empty one": (f"{MARK}<error-bounds/>", "names no container", "`<reads>`"),
    "an empty part": (f"<error-bounds>{MARK}<writes/></error-bounds>", "`writes` names no", "add"),
    "an unknown part": (
        f"<error-bounds>{MARK}<read/></error-bounds>",
        "no element `read`",
        "did you mean `reads`?",
    ),
    "an attribute": (
        f'{MARK}<error-bounds combine="all"><reads>{table("mid")}</reads></error-bounds>',
        "no attribute `combine`",
        "",
    ),
    "an unknown container": (
        bounds(f'{MARK}<tabel name="mid"/>'),
        "`reads` has no element `tabel`",
        "did you mean `table`?",
    ),
    "a container without name": (bounds(f"{MARK}<table/>"), "`table` has no `name`", "name="),
    "a limit of qod": (
        bounds(table("mid"), f'{MARK}<table name="out" max-error="0.1" time="5"/>'),
        "no attribute `time`",
        "`max-error`",
    ),
    "a bound of what is read": (
        bounds(f"{MARK}{table('mid', BOUND)}", table("out", BOUND)),
        "`max-error` stands at a container that the action reads",
        "`<writes>` of the action that writes",
    ),
    "a confidence alone": (
        out(' confidence="0.9"'),
        "`confidence` says nothing without `max-error`",
        'max-error="0.05"',
    ),
    "a bound in percent": (
        out(' max-error="5%"'),
        "`max-error` is `5%`",
        "such as `0.05`",
    ),
    "no error": (
        out(' max-error="0.0"'),
        "above 0 and below 1",
        "such as `0.05`",
    ),
    "an error of all": (
        bounds(table("mid"), table("out", "", f"{MARK}<max-error>1</max-error>")),
        "`max-error` is `1`: it has to be a relative error above 0 and below 1",
        "such as `0.05`",
    ),
    "an expression": (
        out(' max-error="${e}"'),
        "`max-error` is `${e}`",
        "`--property NAME=VALUE`",
    ),
    "certainty": (
        out(BOUND + ' confidence="1"'),
        "0.5 or more and below 1",
        "such as `0.95`",
    ),
    "less than a coin": (
        out(BOUND + ' confidence="0.49"'),
        "0.5 or more and below 1",
        "such as `0.95`",
    ),
    "a bound twice": (
        bounds(table("mid"), table("out", BOUND, "<max-error>0.1</max-error>").replace(
            "<max-error>", f"{MARK}<max-error>")),
        "`max-error` is given twice",
        "write it once",
    ),
    "a container twice": (
        bounds(table("mid"), table("out", BOUND) + MARK + table("out", BOUND)),
        "`out` is bounded for the second time; the first is on line 5",
        "keep one",
    ),
    "bounds of changes and of errors": (
        f'{MARK}<qod><table name="mid" time="5"/></qod>{SECOND}',
        "`b` has a `qod`, and leads to `out`, whose bound on line 5 decides when it runs",
        "remove this `qod`, or the `max-error` there",
    ),
    "nothing of what comes before": (
        bounds(table("other"), table("out", BOUND), mark=MARK),
        "`b` comes after `a` and reads nothing that it writes",
        "name the same container in `<writes>` of `a` and in `<reads>` of `b`",
    ),
    "what another writes": (
        bounds(table("mid"), table("mid") + table("out", BOUND), mark=MARK),
        "`b` writes `mid`, which `a` on line 4 writes too",
        "the columns or rows that only this action writes",
    ),
}  # fmt: skip


def place_of(marked):
    before = marked[: marked.index(MARK)]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


@pytest.mark.parametrize("case", CASES)
def test_is_reported_with_its_place_and_cure(chain, case):
    second, message, cure = CASES[case]
    marked = chain(second=second)

    problems = problems_of(marked.replace(MARK, ""))

    assert any(
        message in one.message
        and cure in one.cure
        and (one.line, one.column) == place_of(marked)
        and one.severity is Severity.ERROR
        for one in problems
    ), problems


def test_a_qod_above_the_bounded_container_is_refused_with_both_places(chain):
    problems = problems_of(chain(first='<qod><table name="in" time="5"/></qod>' + FIRST))

    assert [(p.line, p.message) for p in problems] == [
        (4, "`a` has a `qod`, and leads to `out`, whose bound on line 5 decides when it runs")
    ]


def test_a_container_that_two_actions_bound_is_refused_at_the_second(chain):
    first = bounds(table("in"), table("mid") + table("out", BOUND))
    problems = problems_of(chain(first=first))

    assert (5, "`out` is bounded for the second time; the first is on line 4") in [
        (p.line, p.message) for p in problems
    ]


def test_an_action_that_reads_what_is_written_after_it_is_refused(chain):
    problems = problems_of(
        chain(first=bounds(table("in") + table("late"), table("mid")),
              second=bounds(table("mid"), table("out", BOUND) + table("late")))
    )  # fmt: skip

    assert "`a` reads `late`, which `b` writes, and does not come after it" in [
        p.message for p in problems
    ]


def test_a_first_action_is_not_guessed_to_be_an_input(chain):
    (problem,) = problems_of(chain(), inputs=())

    assert problem.line == 4
    assert "`a` comes after `feed` and reads nothing that it writes" in problem.message
    assert "import with `--input feed`" in problem.cure


def test_a_first_action_that_reads_nothing_is_refused(workflow, action):
    text = workflow(action("a", qod=bounds(writes=table("out", BOUND))))
    (problem,) = problems_of(text, inputs=())

    assert "reads nothing, so that nothing can be predicted" in problem.message
    assert problem.line == 3


def test_an_input_that_reads_is_refused(chain):
    problems = problems_of(chain(fed=bounds(table("x"))))

    assert "`feed` can't be an input" in problems[0].message
    assert problems[0].line == 3


SUB = "<sub-workflow><app-path>x</app-path></sub-workflow>"


def test_a_bound_inside_of_a_sub_workflow_is_named_with_its_file(workflow, action):
    inner = workflow(action("p", qod=SECOND), start="p")
    text = workflow(
        action("feed", "a"),
        action("a", "s", qod='<qod><table name="in" time="5"/></qod>' + FIRST),
        action("s", body=SUB),
        start="feed",
    )
    problems = problems_of(text, sub_workflows={"s": (inner, "inner.xml")})

    assert ("workflow.xml", 4) in [(p.file, p.line) for p in problems]
    assert any("whose bound on line 3 of inner.xml decides" in p.message for p in problems)


def test_a_sub_workflow_itself_has_no_bounds(workflow, action):
    inner = workflow(action("p"), start="p")
    text = workflow(action("feed", "s"), action("s", qod=SECOND, body=SUB), start="feed")
    problems = problems_of(text, sub_workflows={"s": (inner, "inner.xml")})

    (problem,) = [p for p in problems if "is a workflow, whose actions run" in p.message]
    assert "put the `error-bounds` on the actions inside of it" in problem.cure
