"""Whatever a file holds, reading it gives a dataflow or problems, never another error."""

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.engine import check_specification
from headgate.flows import DataflowErrors, parse_dataflow

TEXT = """\
name: air
waves: quiet 30 s
containers:
  readings: detectors s:o3 s:pm25
  zones: {table: zones, column: "c:concentration", rows: [a, b], codec: json $.a}
actions:
  feed: {input: readings}
  zones: &step
    step: steps:zones
    when: {readings: {time: [1 s, 5 min], sequence: 20%, value: {relative: 5%}}}
    combine: (readings or readings) and readings
    evaluate: [write, every 5 s]
    writes: zones
profiles:
  cheap: {zones: {readings: {time: none}}}
"""

TOKENS = st.sampled_from(
    [
        *(
            ":",
            " ",
            "\n",
            "  ",
            "- ",
            "[",
            "]",
            "{",
            "}",
            ",",
            "&a ",
            "*a",
            "*step",
            "!!str ",
            "|\n",
        ),
        *("%", "'", '"', "#", "---", "...", "?", "<<", "0", "-1", "1e999", "null", "true", "\t"),
        *("\\x0", "\\ud800", '"\\ud800"', '"\\UFFFFFFFF"', "%YAML 1.1\n", "\x00", "\x85", "\u2028"),
        *("\ufeff", "é", "😀", "9" * 5000, "(" * 200, "and", "or", "zones", "readings", "5%"),
    ]
)


@st.composite
def mutated_texts(draw):
    text = TEXT
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 20)))
        text = text[:start] + draw(TOKENS | st.text(max_size=5)) + text[end:]
    return text


def read(text):
    try:
        dataflow = parse_dataflow(text, "flow.yaml", "cheap")
    except DataflowErrors as errors:
        problems = errors.problems
        lines = text.count("\n") + text.count("\r") + text.count("\x85") + text.count("\u2028") + 2
        for problem in problems:
            assert 1 <= problem.line <= lines + text.count("\u2029")
            assert problem.column >= 1
            assert problem.message
            assert problem.cure
        assert problems
    else:
        check_specification(dataflow.spec)


@given(mutated_texts())
@settings(max_examples=3 * settings().max_examples)
@example("[" * 5000)
@example("{a: " * 5000)
@example("- " * 5000)
@example("? " * 5000)
@example("%YAML 1." + "9" * 5000 + "\n--- a")
@example("name: " + "9" * 5000)
@example(TEXT.replace("(readings", "(" * 5000 + "readings"))
def test_a_mutated_file_gives_problems_or_a_dataflow(text):
    read(text)


@given(st.text())
@settings(max_examples=2 * settings().max_examples)
def test_any_text_gives_problems(text):
    read(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "actions", "containers", "when", "step", "input", "profiles"])
            | st.text(max_size=5),
            inner,
            max_size=3,
        )
    ),
)


@given(st.dictionaries(st.sampled_from(["name", "actions", "containers", "spark"]), JSON))
@settings(max_examples=2 * settings().max_examples)
def test_any_json_gives_problems(document):
    read(json.dumps(document))
