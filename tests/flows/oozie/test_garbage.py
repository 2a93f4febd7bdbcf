"""Whatever is in the file, an import ends with a dataflow that is in order, or with problems."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.flows import (
    DataflowErrors,
    Problem,
    export_workflow,
    import_workflow,
    parse_dataflow,
)

WHOLE = """\
<workflow-app name="w" xmlns="uri:oozie:workflow:0.2">
  <start to="f"/>
  <fork name="f"><path start="a"/><path start="b"/></fork>
  <action name="a"><qod combine="k or t"><table id="k" name="t" time="5"/><row table="t" name="r"
    value="5"/></qod><java><arg>on</arg><arg>1e3</arg><arg>#</arg></java>
    <ok to="j"/><error to="x"/></action>
  <action name="b" retry-max="3"><error-bounds><reads><table name="u"/></reads><writes><table
    name="v" max-error="0.1" confidence="0.9"/></writes></error-bounds>
    <fs><mkdir path="${p}"/></fs><ok to="j"/><error to="x"/></action>
  <join name="j" to="d"/>
  <decision name="d"><switch><case to="end">${c}</case><default to="end"/></switch></decision>
  <kill name="x"><message>x</message></kill>
  <end name="end"/>
</workflow-app>
""".replace("k or t", "k or t-r")
PIECES = st.sampled_from(
    [
        *(
            '"',
            "'",
            "<",
            ">",
            "/>",
            "&",
            "&amp;",
            "&#0;",
            "&#133;",
            "]]>",
            "<!--",
            "-->",
            "<![CDATA[",
        ),
        *(
            "<!DOCTYPE w>",
            "<qod>",
            "</qod>",
            "<error-bounds>",
            "</reads>",
            "<?x?>",
            "\0",
            "\u2028",
            "\ufffe",
            "é",
            "\t",
            "\r",
            " ",
        ),
        *(
            'name="a"',
            'to="a"',
            'time="5"',
            'max-error="2"',
            'xmlns=""',
            "${x}",
            "0",
            "all",
            "a.b",
            "1e999",
        ),
    ]
)


@st.composite
def mutated(draw):
    text = WHOLE
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 40)))
        text = text[:start] + draw(PIECES | st.just("")) + text[end:]
    return text


@given(mutated() | st.text(max_size=40))
@settings(max_examples=4 * settings().max_examples)
def test_ends_with_a_dataflow_or_with_problems(text):
    problems: tuple[Problem, ...] = ()
    try:
        imported = import_workflow(text, "workflow.xml")
    except DataflowErrors as errors:
        problems = errors.problems
    else:
        export_workflow(parse_dataflow(imported.text, "flow.yaml"))

    assert all(one.message and one.cure and one.line > 0 for one in problems)
