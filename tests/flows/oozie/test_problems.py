"""Every problem of a workflow is told with its place and its cure; ``▲`` marks the places."""

import pytest

from headgate.flows import DataflowErrors, ImportChoices, Severity, import_workflow

MARK = "▲"
JAVA = "<java><main-class>M</main-class></java>"
TO = '<ok to="end"/><error to="failed"/>'
HEAD = '<workflow-app name="w" xmlns="uri:oozie:workflow:0.2">'
ENDS = '<kill name="failed"><message/></kill><end name="end"/>'


def flow(*nodes, start='<start to="a"/>', head=HEAD, ends=ENDS):
    return "\n".join((head, start, *nodes, ends, "</workflow-app>"))


def act(name="a", inner=JAVA, to=TO, mark=""):
    return f'{mark}<action name="{name}">{inner}{to}</action>'


def qod(inner, combine="", mark=""):
    return flow(act(inner=f"{mark}<qod{combine}>\n{inner}</qod>{JAVA}"))


def table(limits, inner="", mark=MARK):
    return qod(f'{mark}<table name="t" {limits}>{inner}</table>')


CHOICE = (
    '<decision name="d"><switch><case to="a">${x}</case><default to="end"/></switch></decision>'
)
CASES = {
    # XML
    "no XML": ("▲name: aqhi", "not XML: syntax error", "check the tags"),
    "an open tag": (
        flow(act() + "<fork>").replace("</workflow-app>", "</▲workflow-app>"),
        "mismatched tag",
        "</tag>",
    ),
    "a document type": (
        f'▲<!DOCTYPE workflow-app SYSTEM "file:///etc/passwd">\n{flow(act())}',
        "no document type",
        "remove the `<!DOCTYPE",
    ),
    "entities of its own": (
        f'▲<!DOCTYPE w [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>\n{flow(act())}',
        "entities of its own are never read",
        "remove",
    ),
    "an entity that is none": (flow(act(inner="<java>▲&x;</java>")), "undefined entity", "check"),
    "elements without end": (
        flow(act(inner="<x>" * 62 + "▲<x>" + "</x>" * 63)),
        "more than 64 elements",
        "flatter",
    ),
    # the workflow
    "another document": (
        '▲<coordinator-app xmlns="uri:oozie:coordinator:0.2"/>',
        "not a workflow",
        "workflow.xml",
    ),
    "a schema of another time": (
        flow(act(), head='▲<workflow-app name="w" xmlns="uri:oozie:workflow:2.0">'),
        "`uri:oozie:workflow:2.0` is none",
        'xmlns="uri:oozie:workflow:0.2"',
    ),
    "no name": (flow(act(), head=f"▲{HEAD}".replace(' name="w"', "")), "no name", 'name="…"'),
    "no start": (flow(act(), head=f"▲{HEAD}", start=""), "has no start", "<start"),
    "two starts": (flow('▲<start to="a"/>', act()), "a second start", "keep one"),
    "no end": (
        flow(
            act(to='<ok to="failed"/><error to="failed"/>'),
            head=f"▲{HEAD}",
            ends='<kill name="failed"/>',
        ),
        "has no end",
        "<end",
    ),
    "an unknown element": (
        flow(act(), '▲<forc name="x"/>'),
        "`forc` is no element",
        "did you mean `fork`?",
    ),
    "a foreign element": (
        flow(act(), '▲<fork xmlns="x:y" name="x"/>'),
        "no element of a workflow",
        "`fork`",
    ),
    "a node without name": (flow(act(), "▲<kill/>"), "`kill` has no `name`", 'name="…"'),
    "a name twice": (
        flow(act(), act(mark=MARK)),
        "second time; the first is on line 3",
        "another name",
    ),
    "a name of odd characters": (flow(act(), act("a b", mark=MARK)), "`a b` can't name", "letters"),
    "a fork of one": (
        flow(act(), '▲<fork name="f"><path start="a"/></fork>'),
        "fewer than two",
        "path",
    ),
    "a path to nothing": (
        flow(act(), '<fork name="f"><path start="a"/>▲<path/></fork>'),
        "`path` has no `start`",
        "start",
    ),
    "no default": (
        flow(act(), '▲<decision name="d"><switch><case to="a">x</case></switch></decision>'),
        "no default",
        "<default",
    ),
    # actions
    "nothing to do": (flow(act(inner="", mark=MARK)), "has nothing to do", "java"),
    "two things to do": (flow(act(inner=f"{JAVA}▲<pig/>")), "`java` and `pig`", "one of"),
    "no ok": (flow(act(to='<error to="failed"/>', mark=MARK)), "has no `ok`", "<ok"),
    "no error": (flow(act(to='<ok to="end"/>', mark=MARK)), "has no `error`", "<error"),
    "two oks": (flow(act(to=f'<ok to="end"/>▲{TO}')), "a second `ok`", "keep one"),
    # transitions
    "a transition to nowhere": (
        flow(act(to='<ok to="edn"/><error to="failed"/>', mark=MARK)),
        "`ok` of `a` leads to `edn`",
        "did you mean `end`?",
    ),
    "a start to nowhere": (
        flow(act(), head=f"▲{HEAD}", start='<start to="b"/>'),
        "leads to `b`",
        "`a`",
    ),
    "an error to nowhere": (
        flow(act(to='<ok to="end"/>▲<error to="fail"/>')),
        "`error` of `a` leads to `fail`",
        "kill",
    ),
    "a circle": (
        flow(
            act(to='<ok to="b"/><error to="failed"/>', mark=MARK),
            act("b", to='<ok to="a"/><error to="failed"/>'),
        ),
        "in a circle: `a` → `b` → `a`",
        "no loops",
    ),
    "a decision": (
        flow(
            f"▲{CHOICE}",
            act(),
            start='<start to="d"/>',
        ),
        "decision `d` can't be mapped",
        "`--decision d=all`",
    ),
    "a sub-workflow": (
        flow(act(inner="▲<sub-workflow><app-path>${p}/x</app-path></sub-workflow>")),
        "the workflow at `${p}/x`",
        "`--sub-workflow a=FILE`",
    ),
    # bounds
    "two qods": (
        flow(act(inner=f'<qod><table name="t" time="1"/></qod>▲<qod/>{JAVA}')),
        "a second `qod`",
        "keep one",
    ),
    "an empty qod": (qod("", mark=MARK), "`qod` has no container", "<table"),
    "a qod of something": (
        qod('▲<colum table="t"/>'),
        "no element `colum`",
        "did you mean `column`?",
    ),
    "an unknown attribute of qod": (
        qod('<table name="t" time="1"/>', ' combin="all"', MARK),
        "no attribute `combin`",
        "did you mean `combine`?",
    ),
    "no condition": (
        qod('<table name="t" time="1"/>', ' combine="t or"', MARK),
        "`t or` is no condition",
        "at-least-one",
    ),
    "a condition on what is no bound": (
        qod('<table name="t" time="1"/>', ' combine="t or u"', MARK),
        "`u` is no bound",
        "`t`",
    ),
    "no limit": (table(""), "none of `time`, `sequence`, `value`", 'sequence="100"'),
    "a limit twice": (
        qod('<table name="t" time="5">▲<time>6</time></table>'),
        "`time` is given twice",
        "write it once",
    ),
    "a time with a unit": (table('time="5 min"'), "`time` is `5 min`", "`60.0`"),
    "no time": (table('time="0.0"'), "above zero", "`60.0`"),
    "half an update": (table('sequence="0.5"'), "`sequence` is `0.5`", "`100`"),
    "no update": (table('sequence="0"'), "1 or more", "`100`"),
    "a value with a sign": (table('value="5%"'), "a whole percentage", "`10`"),
    "a value above all": (table('value="101"'), "from 1 to 100", "`10`"),
    "an expression for a limit": (
        table('sequence="${n}"'),
        "a whole number of updates",
        "`--property NAME=VALUE`",
    ),
    "a table without name": (qod('▲<table time="5"/>'), "`table` has no `name`", 'name="…"'),
    "a column without table": (qod('▲<column name="f:q" time="5"/>'), "no `table`", 'table="…"'),
    "a column without family": (
        qod('▲<column table="t" name="q" time="5"/>'),
        "`q` is no column",
        "`family:qualifier`",
    ),
    "an expression for a table": (
        qod('▲<table name="${t}" time="5"/>'),
        "`${t}` is no table",
        "`--property NAME=VALUE`",
    ),
    "a row with a lone backslash": (
        qod('▲<row table="t" name="\\q" time="5"/>'),
        "a lone backslash",
        "`\\\\`",
    ),
    "a group of nothing": (qod('▲<group time="5"/>'), "`group` has no item", "<item"),
    "an item with a limit": (
        qod('<group time="5">▲<item table="t" time="5"/></group>'),
        "`item` has no attribute `time`",
        "possible",
    ),
    "an item with a limit inside": (
        qod('<group time="5"><item table="t">▲<time>5</time></item></group>'),
        "`item` has no element `time`",
        "at the group",
    ),
    "a bound named and": (
        qod('▲<table id="and" name="t" time="5"/>'),
        "`and` can't name",
        "letters",
    ),
    "a bound twice": (
        qod('<table id="k" name="t" time="5"/>\n▲<table id="k" name="u" time="5"/>'),
        "a second bound `k`",
        "another `id`",
    ),
}


def place_of(marked):
    before = marked[: marked.index(MARK)]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def problems_of(text, **choices):
    try:
        return import_workflow(text, "workflow.xml", ImportChoices(**choices)).warnings
    except DataflowErrors as errors:
        return errors.problems


@pytest.mark.parametrize("case", CASES)
def test_is_told_with_its_place_and_cure(case):
    marked, message, cure = CASES[case]

    problems = problems_of(marked.replace(MARK, ""))

    assert any(
        message in one.message
        and cure in one.cure
        and (one.line, one.column) == place_of(marked)
        and one.severity is Severity.ERROR
        for one in problems
    ), problems


WARNINGS = {
    "what a failure leads to": (
        flow(act(to='<ok to="end"/>▲<error to="end"/>')),
        "goes on with `end`",
    ),
    "what nothing leads to": (flow(act(), act("b", mark=MARK)), "nothing leads to `b`"),
    "what nothing starts": (flow(act(mark=MARK)), "nothing starts it"),
    "retries that only a job knows": (
        flow('▲<action name="a" retry-max="${n}">' + JAVA + TO + "</action>"),
        "`retry-max` is `${n}`",
    ),
    "a bound that decides nothing": (
        qod('<table name="t" time="1"/><table name="u" time="1"/>', ' combine="t"', MARK),
        "`u` is not in the expression",
    ),
}


@pytest.mark.parametrize("case", WARNINGS)
def test_is_a_warning(case):
    marked, message = WARNINGS[case]

    problems = problems_of(marked.replace(MARK, ""))

    assert all(one.severity is Severity.WARNING for one in problems)
    assert any(
        message in one.message and (one.line, one.column) == place_of(marked) for one in problems
    ), problems


SUB = "<sub-workflow><app-path>x</app-path></sub-workflow>"
WATCHING = '<qod><table name="t" time="1"/></qod>'


@pytest.mark.parametrize(
    ("text", "choices", "message"),
    [
        (flow(act()), {"decisions": {"x": "all"}}, "`--decision` names `x`"),
        (flow(act()), {"sub_workflows": {"x": ("", "x.xml")}}, "`--sub-workflow` names `x`"),
        (flow(act()), {"inputs": ("x",)}, "`--input` names `x`"),
        (flow(act()), {"inputs": ("a",)}, "no action after it watches"),
        (flow(act(inner=WATCHING + JAVA)), {"inputs": ("a",)}, "bounds of its own"),
        (flow(act()), {"name": "a b"}, "`a b` can't name a dataflow"),
        (flow(act()), {"module": "a b"}, "this is not `module:function`"),
        (
            flow(act(inner=WATCHING + SUB)),
            {"sub_workflows": {"a": (flow(act()), "x.xml")}},
            "`a` is a workflow, whose actions run one by one",
        ),
        (
            flow(act(inner=SUB)),
            {"sub_workflows": {"a": (flow(start='<start to="end"/>'), "x.xml")}},
            "this workflow has no action",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "\n" not in value else "",
)
def test_choices_that_do_not_fit_are_told(text, choices, message):
    assert any(message in one.message for one in problems_of(text, **choices))


def test_a_branch_that_a_decision_lacks_is_told_with_those_that_it_has():
    text = flow(
        CHOICE,
        act(),
        start='<start to="d"/>',
    )

    (problem,) = problems_of(text, decisions={"d": "b"})

    assert problem.message == "decision `d` has no branch `b`"
    assert problem.cure == "choose one of `a`, `end`, or `all`"


def test_a_problem_in_a_sub_workflow_names_its_file():
    inner = flow(act(to='<ok to="nowhere"/><error to="failed"/>'))

    (problem,) = problems_of(flow(act(inner=SUB)), sub_workflows={"a": (inner, "inner.xml")})

    assert (problem.file, problem.line) == ("inner.xml", 3)


def test_a_workflow_of_enormous_length_is_not_read():
    (problem,) = problems_of("<a>" + " " * (1 << 20))

    assert "at most 524,288" in problem.message


def test_all_problems_are_told_at_once_in_the_order_of_the_file():
    text = flow(act(inner="<qod>\n<table/>\n<row/>\n</qod>" + JAVA), act("a"), "<fork/>")

    assert [one.line for one in problems_of(text)] == sorted(one.line for one in problems_of(text))
    assert len({one.line for one in problems_of(text)}) >= 4
