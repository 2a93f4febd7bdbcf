"""What a workflow's import makes of it: actions, their order, their bounds."""

import pytest

from headgate.engine import (
    ActionRole,
    AtLeast,
    Bound,
    Codec,
    CodecName,
    Evaluation,
    Metric,
    RetryPolicy,
    SequenceBound,
    ValueBound,
    check_specification,
    parse_condition,
    write_condition,
)
from headgate.events import ContainerId, Item
from headgate.flows import ImportChoices, import_workflow, parse_dataflow

FORK = '<fork name="{name}">{paths}</fork>'
SWITCH = (
    '<decision name="{name}"><switch><case to="{case}">${{ok}}</case><default to="{other}"/>'
    "</switch></decision>"
)
SUB = "<sub-workflow><app-path>hdfs://apps/inner</app-path></sub-workflow>"


@pytest.fixture
def imported(workflow):
    """The dataflow that a workflow with these nodes becomes."""

    def dataflow(*nodes, start="a", version="0.2", name="w", choices=None):
        text = workflow(*nodes, start=start, version=version, name=name)
        imported = import_workflow(text, "workflow.xml", ImportChoices(**(choices or {})))
        return parse_dataflow(imported.text, "flow.yaml")

    return dataflow


@pytest.fixture
def bounds_of(imported, action):
    """The containers and the only action of a workflow, whose action has this ``qod``."""

    def of(inner, combine=""):
        dataflow = imported(action("a", qod=f"<qod{combine}>{inner}</qod>"))
        return dataflow.spec.containers, dataflow.spec.actions[0]

    return of


def after(dataflow):
    return {action.name: action.after for action in dataflow.spec.actions}


def fork(name, *paths):
    return FORK.format(name=name, paths="".join(f'<path start="{path}"/>' for path in paths))


def decision(name, case, other):
    return SWITCH.format(name=name, case=case, other=other)


# -- order ---------------------------------------------------------------------------------------


def test_actions_come_in_the_order_of_their_transitions(imported, action):
    dataflow = imported(action("b"), action("a", "b"))

    assert after(dataflow) == {"b": ("a",), "a": ()}


def test_what_comes_out_can_be_decided_on(imported, action):
    dataflow = imported(action("a", "b"), action("b", qod='<qod><table name="t" time="5"/></qod>'))

    check_specification(dataflow.spec)
    assert dataflow.warnings[0].message.endswith("so nothing starts it")


def test_a_forks_paths_come_after_what_comes_before_it_and_a_join_after_all(imported, action):
    dataflow = imported(
        action("a", "f"),
        fork("f", "b", "c"),
        action("b", "j"),
        action("c", "j"),
        '<join name="j" to="d"/>',
        action("d"),
    )

    assert after(dataflow) == {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}


def test_forks_lie_in_each_other_and_may_come_first(imported, action):
    dataflow = imported(
        fork("f", "g", "c"),
        fork("g", "a", "b"),
        action("a", "i"),
        action("b", "i"),
        '<join name="i" to="j"/>',
        action("c", "j"),
        '<join name="j" to="d"/>',
        action("d"),
        start="f",
    )

    assert after(dataflow) == {"a": (), "b": (), "c": (), "d": ("a", "b", "c")}


def test_a_decision_whose_branches_are_one_is_no_decision(imported, action):
    dataflow = imported(action("a", "x"), decision("x", "b", "b"), action("b"))

    assert after(dataflow) == {"a": (), "b": ("a",)}


def test_a_decision_takes_the_branch_that_was_chosen(imported, action):
    dataflow = imported(
        action("a", "x"),
        decision("x", "b", "c"),
        action("b", "c"),
        action("c"),
        choices={"decisions": {"x": "c"}},
    )

    assert after(dataflow) == {"a": (), "c": ("a",)}
    assert dataflow.oozie.decisions == {"x": "c"}


def test_a_decision_takes_all_branches_where_that_was_chosen(imported, action):
    dataflow = imported(
        action("a", "x"),
        decision("x", "b", "c"),
        action("b"),
        action("c"),
        choices={"decisions": {"x": "all"}},
    )

    assert after(dataflow) == {"a": (), "b": ("a",), "c": ("a",)}


def test_a_sub_workflow_runs_action_by_action_in_its_place(imported, action, workflow):
    inner = workflow(action("p", "f"), fork("f", "q", "r"), action("q"), action("r"), start="p")
    dataflow = imported(
        action("a", "s"),
        action("s", "b", body=SUB),
        action("b"),
        choices={"sub_workflows": {"s": (inner, "inner.xml")}},
    )

    assert after(dataflow) == {
        "a": (),
        "s.p": ("a",),
        "s.q": ("s.p",),
        "s.r": ("s.p",),
        "b": ("s.q", "s.r"),
    }
    assert dataflow.launchers["s.p"].step == "steps:s_p"


def test_a_sub_workflow_lies_in_another_and_has_decisions_of_its_own(imported, action, workflow):
    innermost = workflow(decision("x", "p", "q"), action("p"), action("q"), start="x")
    inner = workflow(action("t", body=SUB), start="t")
    dataflow = imported(
        action("a", body=SUB),
        choices={
            "sub_workflows": {"a": (inner, "inner.xml"), "a.t": (innermost, "innermost.xml")},
            "decisions": {"a.t.x": "q"},
        },
    )

    assert after(dataflow) == {"a.t.q": ()}


def test_what_is_wrong_inside_of_a_sub_workflow_is_told_at_its_place_once(workflow, action):
    qod = '<qod combine="t"><table name="t" time="5"/><table name="u" time="5"/></qod>'
    inner = workflow(action("p", qod=qod), action("q"), start="p")
    text = workflow(action("s", body=SUB), start="s")

    imported = import_workflow(
        text, "outer.xml", ImportChoices(sub_workflows={"s": (inner, "inner.xml")})
    )

    assert [(one.file, one.line) for one in imported.warnings] == [
        ("inner.xml", 3),
        ("inner.xml", 4),
    ]


def test_what_only_failures_lead_to_is_left_out_and_told(workflow, action):
    text = workflow(
        action("a", error="mail"),
        action("mail", "failed", body='<email xmlns="uri:oozie:email-action:0.1"/>'),
    )

    imported = import_workflow(text, "workflow.xml")

    assert tuple(parse_dataflow(imported.text, "f").launchers) == ("a",)
    assert [problem.message for problem in imported.warnings] == [
        "`a` has neither predecessors nor bounds, so nothing starts it",
        "after a failure of `a` the workflow goes on with `mail`",
        "only failures lead to `mail`, so it is left out of the dataflow",
    ]


@pytest.mark.parametrize("version", ["0.2", "0.2.5", "0.3", "0.4", "0.4.5", "0.5", "0.6", "1.0"])
def test_later_schemas_are_read_as_far_as_they_agree(imported, action, version):
    preamble = "<parameters><property><name>x</name></property></parameters><global/>"
    level = '<info xmlns="uri:oozie:sla:0.2"><nominal-time>${t}</nominal-time></info>'
    dataflow = imported(preamble, action("a"), level, version=version)

    assert tuple(dataflow.launchers) == ("a",)


# -- actions -------------------------------------------------------------------------------------


def test_what_an_action_says_is_among_the_parameters_of_its_step(imported, action):
    body = (
        '<spark xmlns="uri:oozie:spark-action:0.2"><prepare><delete path="${out}"/></prepare>'
        "<configuration><property><name>a.b</name><value>5</value></property></configuration>"
        "<master>yarn</master><jar>zones.py</jar><arg>x</arg><arg>on</arg><capture-output/></spark>"
    )
    launcher = imported(action("a", body=body)).launchers["a"]

    assert launcher.parameters == {
        "spark": {
            "prepare": {"delete": {"path": "${out}"}},
            "configuration": {"a.b": "5"},
            "master": "yarn",
            "jar": "zones.py",
            "arg": ["x", "on"],
            "capture-output": True,
        }
    }


def test_steps_are_functions_of_the_module_that_was_named(workflow, action):
    text = workflow(action("a-b", "a_b"), action("a_b", "import"), action("import"), start="a-b")

    imported = import_workflow(text, "w.xml", ImportChoices(module="air.steps"))

    assert imported.steps == ("air.steps:a_b", "air.steps:a_b_", "air.steps:import_")


@pytest.mark.parametrize(
    ("attributes", "retries"),
    [
        ('retry-max="4"', RetryPolicy(5)),
        ('retry-max="2" retry-interval="10"', RetryPolicy(3, 600, 600)),
        ('retry-interval="10"', RetryPolicy()),
    ],
)
def test_retries_are_attempts_with_a_fixed_wait(imported, action, attributes, retries):
    dataflow = imported(action("a", more=f" {attributes}"), version="0.3")

    assert dataflow.spec.actions[0].retry == retries


def test_an_action_that_something_outside_runs_fills_what_its_followers_watch(imported, action):
    dataflow = imported(
        action("a", "f"),
        fork("f", "b", "c"),
        action("b", qod='<qod><table name="t" time="5"/></qod>'),
        action("c", qod='<qod><table id="k" name="u" time="5"/></qod>'),
        choices={"inputs": ("a",)},
    )

    feed = dataflow.spec.actions[0]
    assert (feed.role, feed.writes) == (ActionRole.INPUT, ("t", "u"))
    assert dataflow.warnings == ()


def test_a_dataflow_is_named_as_its_workflow_or_as_it_is_told(imported, action):
    assert imported(action("a"), name="air").name == "air"
    assert imported(action("a"), name="${x}", choices={"name": "air"}).name == "air"


# -- bounds --------------------------------------------------------------------------------------

LIMITS = 'time="60.5" sequence="100" value="10"'


@pytest.mark.parametrize(
    ("element", "name", "items"),
    [
        (f'<table name="t" {LIMITS}/>', "t", (Item("t"),)),
        (f'<table name="ns:t" {LIMITS}/>', "ns-t", (Item("ns:t"),)),
        (f'<column table="t" name="f:q" {LIMITS}/>', "t-f-q", (Item("t", b"f", b"q"),)),
        (f'<column table="t" name="f:" {LIMITS}/>', "t-f", (Item("t", b"f"),)),
        (f'<row table="t" name="r" {LIMITS}/>', "t-r", (Item("t", start=b"r", stop=b"r\0"),)),
        (
            f'<row table="t" name="\\x00" {LIMITS}/>',
            "t--x00",
            (Item("t", start=b"\0", stop=b"\0\0"),),
        ),
        (
            (
                f'<group {LIMITS}><item table="t" column="f:q"/><item table="u" row="r"/>'
                '<item table="u" column="f:q" row="r"/></group>'
            ),
            "t-u-group",
            (
                Item("t", b"f", b"q"),
                Item("u", start=b"r", stop=b"r\0"),
                Item("u", b"f", b"q", b"r", b"r\0"),
            ),
        ),
    ],
)
def test_each_element_is_a_container_with_one_bound(bounds_of, element, name, items):
    (watched,), action = bounds_of(element)

    assert (watched.id, watched.container.items) == (name, items)
    assert watched.codec == Codec(CodecName.OPAQUE)
    assert action.bounds == (
        Bound(
            name,
            ContainerId(name),
            60.5,
            SequenceBound(100),
            ValueBound(Metric.CHANGED, 0.1),
        ),
    )


def test_limits_may_be_elements(bounds_of):
    _, action = bounds_of(
        '<table name="t"><time> 60 </time><sequence>7</sequence><value>1</value></table>'
    )

    assert action.bounds[0] == Bound(
        "t", ContainerId("t"), 60, SequenceBound(7), ValueBound(Metric.CHANGED, 0.01)
    )


def test_any_one_limit_is_enough(bounds_of):
    _, action = bounds_of('<table name="t" sequence="1"/>')

    assert action.bounds[0] == Bound("t", ContainerId("t"), None, SequenceBound(1))


def test_what_two_actions_watch_is_one_container(imported, action):
    qod = '<qod><column table="t" name="f:q" time="5"/></qod>'
    dataflow = imported(action("a", "b", qod=qod), action("b", qod=qod))

    assert [watched.id for watched in dataflow.spec.containers] == ["t-f-q"]


def test_two_bounds_of_one_container_have_two_names(bounds_of):
    watched, action = bounds_of('<table name="t" time="5"/><table name="t" sequence="2"/>')

    assert len(watched) == 1
    assert [(b.name, b.container) for b in action.bounds] == [("t", "t"), ("t-2", "t")]


def test_names_that_would_be_equal_are_told_apart(bounds_of):
    watched, _ = bounds_of('<table name="t-u" time="5"/><row table="t" name="u" time="5"/>')

    assert [one.id for one in watched] == ["t-u", "t-u-2"]


TWO = '<table name="t" time="5"/><table name="u" time="5"/>'


def test_all_bounds_have_to_be_reached_where_nothing_else_is_said(bounds_of):
    _, action = bounds_of(TWO)

    assert write_condition(action.effective_condition) == "t and u"


@pytest.mark.parametrize("word", ["all", "at-least-one", "majority"])
def test_a_word_combines_bounds(bounds_of, word):
    _, action = bounds_of(TWO, f' combine="{word}"')

    expected = {"all": "t and u", "at-least-one": "t or u"}
    condition = action.effective_condition
    if word == "majority":
        assert isinstance(condition, AtLeast)
        assert condition.number == 2
    else:
        assert write_condition(condition) == expected[word]


def test_an_expression_combines_bounds_by_their_ids(bounds_of):
    _, action = bounds_of(
        '<table id="k1" name="t" time="5"/><table id="k2" name="u" time="5"/>'
        '<table id="k3" name="v" time="5"/>',
        ' combine="k1 or\n  k2 and k3"',
    )

    assert action.condition == parse_condition("k1 or (k2 and k3)")


def test_bounds_of_a_first_action_are_looked_at_when_something_is_written(bounds_of):
    _, action = bounds_of('<table name="t" time="5"/>')

    assert action.effective_evaluation == Evaluation(write=True)


def test_bounds_may_be_written_by_properties_that_are_declared_or_given(imported, action):
    declared = (
        "<parameters><property><name>table</name><value>t</value></property>"
        "<property><name>n</name><value>5</value></property></parameters>"
    )
    qod = '<qod><table name="${table}" sequence="${n}"><time>${x.y}</time></table></qod>'
    choices = {"properties": {"x.y": "60.5", "n": "7"}}
    dataflow = imported(declared, action("a", qod=qod), version="0.4", choices=choices)

    (bound,) = dataflow.spec.actions[0].bounds
    assert (bound.container, bound.time, bound.sequence.limit) == ("t", 60.5, 7)
    assert "${table}" not in dataflow.oozie.workflow
