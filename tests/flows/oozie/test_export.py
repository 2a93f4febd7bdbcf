"""What was imported is given back as it was, without what Oozie doesn't know."""

import gzip
import json
import re
from graphlib import TopologicalSorter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.flows import (
    DataflowErrors,
    ImportChoices,
    export_workflow,
    import_workflow,
    load_workflow_text,
    parse_dataflow,
    plain_workflow,
)
from headgate.flows.sections.actions.graph import ancestors

REAL = Path(__file__).parents[4] / "shared" / "data" / "workflows" / "opmw_templates.json.gz"

QOD = """\
<qod combine="t or u">
      <table name="t" time="5.5" sequence="10" value="5"/>
      <column table="u" name="f:q"><time>60</time></column>
    </qod>"""

COMMENTED = """\
<?xml version="1.0" encoding="UTF-8"?>
<!-- Ölstände: what stands outside -->
<wf:workflow-app xmlns:wf="uri:oozie:workflow:0.5" name="levels">
  <wf:start to="a"/>
  <wf:action name="a"><!-- before -->{first}
    <shell xmlns="uri:oozie:shell-action:0.3">
      <exec>run.sh</exec>\t
      <argument><![CDATA[a < b && "c" ❄]]></argument>
    </shell>
    <wf:ok to='b'/><wf:error to="failed"/>
  </wf:action>
  <wf:action name="b">{second}<wf:pig><wf:script>b.pig</wf:script></wf:pig>
    <wf:ok to="end"/>
    <wf:error to="failed"/>
  </wf:action>
  <wf:kill name="failed"><wf:message>[${{wf:errorMessage(n)}}]</wf:message></wf:kill>
  <wf:end name="end"/>
</wf:workflow-app>
"""
PREFIXED = QOD.replace("<", "<wf:").replace("<wf:/", "</wf:")


def exported(text, **choices):
    imported = import_workflow(text, "workflow.xml", ImportChoices(**choices))
    return export_workflow(parse_dataflow(imported.text, "flow.yaml"))


def canonical(text):
    return ElementTree.canonicalize(text, strip_text=True)


@pytest.mark.parametrize(
    "second", ["", PREFIXED, "\n    <wf:qod><wf:table name='t' time='5'/></wf:qod>"]
)
@pytest.mark.parametrize("first", ["", f"\n    {PREFIXED}", PREFIXED, f"\n\t{PREFIXED}\n"])
def test_every_character_but_those_of_qod_is_as_it_was(first, second):
    text = COMMENTED.format(first=first, second=second).replace("t or u", "t or u-f-q")
    plain = COMMENTED.format(first="", second="")

    assert exported(text).split() == plain.split()
    assert canonical(exported(text)) == canonical(plain)
    assert exported(plain) == plain


def test_what_was_exported_can_be_imported_and_exported_again():
    text = COMMENTED.format(first=QOD, second="").replace("<qod", '<qod xmlns=""')
    once = exported(text.replace("t or u", "t or u-f-q"))

    assert exported(once) == once


def test_the_same_workflow_becomes_the_same_file():
    text = COMMENTED.format(first=PREFIXED.replace("t or u", "all"), second="")

    assert import_workflow(text, "w.xml").text == import_workflow(text, "w.xml").text


def test_a_workflow_itself_is_exported_without_what_was_added():
    text = COMMENTED.format(first=f"\n    {PREFIXED}", second="")

    assert plain_workflow(text, "workflow.xml") == COMMENTED.format(first="", second="")


def test_line_ends_of_another_system_are_read(tmp_path):
    path = tmp_path / "workflow.xml"
    path.write_bytes(
        COMMENTED.format(first="", second="").replace("\n", "\r\n").encode("utf-8-sig")
    )

    assert exported(load_workflow_text(path)) == COMMENTED.format(first="", second="")


def test_the_workflow_stands_in_the_file_in_lines_of_its_own():
    text = COMMENTED.format(first="", second="")

    imported = import_workflow(text, "workflow.xml").text

    assert imported.endswith(
        "oozie:\n  workflow: |\n" + "".join(f"    {line}\n" for line in text.splitlines())
    )


def test_characters_that_yaml_has_otherwise_survive(workflow, action):
    text = workflow(action("a", body="<java><arg>\u0085\u2028\x7f\ufeff \u00a0</arg></java>"))

    assert exported(text) == text


def refused(source, name="flow.yaml"):
    with pytest.raises(DataflowErrors) as raised:
        export_workflow(parse_dataflow(source, name))
    return raised.value.problems


def test_a_dataflow_that_never_was_a_workflow_is_refused():
    (problem,) = refused("name: n\nactions: {a: {step: 'm:f', after: b}, b: {step: 'm:f'}}")

    assert problem.message == "dataflow `n` was not imported from a workflow"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("after: [a]", "after: []", "`b` comes after none here, in the workflow after `a`"),
        ("  b:\n", "  c:\n    step: steps:c\n  b:\n", "the workflow has no action `c`"),
        ("  b:\n", "  c:\n", "the dataflow has no action `b` of the workflow any more"),
        ('start to="a"', 'start to="x"', "start leads to `x`, which is no node"),
    ],
)
def test_a_dataflow_whose_graph_is_no_longer_the_workflows_is_refused(
    workflow, action, old, new, message
):
    source = import_workflow(workflow(action("a", "b"), action("b")), "workflow.xml").text
    assert source.count(old) == 1

    assert message in [one.message for one in refused(source.replace(old, new))]


def test_bounds_parameters_and_names_may_be_changed_before_the_export(workflow, action):
    text = workflow(action("a", "b"), action("b", qod='<qod><table name="t" time="5"/></qod>'))
    source = import_workflow(text, "workflow.xml").text
    changed = source.replace("{time: 5}", "{sequence: 20%}").replace("name: w", "name: v")

    assert "<qod" not in export_workflow(parse_dataflow(changed, "flow.yaml"))


# -- graphs --------------------------------------------------------------------------------------


def as_workflow(after):
    """A workflow of levels, forks between them, in which each action comes after its own."""
    sorter = TopologicalSorter(after)
    sorter.prepare()
    levels = []
    while sorter.is_active():
        levels.append(sorted(sorter.get_ready()))
        sorter.done(*levels[-1])
    nodes = []
    entries = [f"fork-{n}" if len(level) > 1 else level[0] for n, level in enumerate(levels)]
    for n, level in enumerate(levels):
        following = entries[n + 1] if n + 1 < len(levels) else "end"
        if len(level) > 1:
            paths = "".join(f'<path start="{name}"/>' for name in level)
            nodes += [f'<fork name="fork-{n}">{paths}</fork>']
            nodes += [f'<join name="join-{n}" to="{following}"/>']
        nodes += [
            f'<action name="{name}"><qod><table name="{name}" sequence="1"/></qod><java/>'
            f'<ok to="{f"join-{n}" if len(level) > 1 else following}"/><error to="x"/></action>'
            for name in level
        ]
    inner = "\n".join(nodes)
    return (
        f'<workflow-app xmlns="uri:oozie:workflow:0.5" name="g"><start to="{entries[0]}"/>\n{inner}'
        '\n<kill name="x"><message/></kill><end name="end"/></workflow-app>\n'
    )


def check_graph(after):
    text = as_workflow(after)

    dataflow = parse_dataflow(import_workflow(text, "workflow.xml").text, "flow.yaml")
    imported = {action.name: action.after for action in dataflow.spec.actions}

    assert imported.keys() == after.keys()
    assert all(set(after[name]) <= ancestors(name, imported) for name in after)
    assert canonical(export_workflow(dataflow)) == canonical(re.sub("<qod>.*?</qod>", "", text))


@given(st.lists(st.sets(st.integers(0, 8), max_size=3), min_size=1, max_size=9))
@settings(max_examples=60, deadline=None)
def test_no_action_loses_what_comes_before_it(edges):
    after = {f"n{i}": tuple(f"n{j}" for j in before if j < i) for i, before in enumerate(edges)}

    check_graph(after)


@pytest.mark.skipif(not REAL.is_file(), reason="the templates of real workflows are not here")
def test_graphs_of_real_workflows_keep_their_order():
    templates = json.loads(gzip.decompress(REAL.read_bytes()))
    for template in templates:
        names = {node: f"n{i}" for i, node in enumerate(template["nodes"])}
        after: dict[str, set[str]] = {name: set() for name in names.values()}
        for link in template["links"]:
            if link["from"] in names and link["to"] in names and link["from"] != link["to"]:
                after[names[link["to"]]].add(names[link["from"]])
        if after:
            check_graph({name: tuple(sorted(before)) for name, before in after.items()})

    assert len(templates) == 70
