"""Every problem of a file is told with its place and its cure; ``▲`` marks the places."""

import pytest

from headgate.flows import DataflowErrors, Severity, load_dataflow, parse_dataflow

MARK = "▲"


def flow(action="", *, bound="", more="", containers="{c: t f:q, d: u f:q}"):
    """A file with one step, which may have a bound on ``c``."""
    when = f", when: {{c: {{{bound}}}}}" if bound else ""
    return (
        f"name: n\ncontainers: {containers}\nactions:\n"
        f"  feed: {{input: [c, d]}}\n  a: {{step: 'm:f'{when}{action}}}\n{more}"
    )


CASES = {
    # YAML
    "a tab indents": ("name: n\n▲\tactions: {}", "'\\t' that cannot", "indent with spaces"),
    "a bracket is open": ("name: n\nactions: {a: [b\n▲", "expected ',' or ']'", "close the list"),
    "a second document": ("a: 1\n▲---\nb: 2", "a second document", "one dataflow in one file"),
    "an empty file": ("▲", "the file is empty", "start with `name:`"),
    "a key twice": (flow(more="▲name: m"), "second time; the first is on line 1", "another name"),
    "a tag": (
        flow(", description: ▲!!python/name:os.system x"),
        "has no meaning here",
        "remove it",
    ),
    "a key that is a list": (flow(more="▲[a]: 1"), "can't be a key", "plain name"),
    "an alias of nothing": ("name: ▲*nobody", "refers to nothing", "`&nobody`"),
    "an alias of itself": ("name: &a [▲*a]", "refers to nothing that is complete", "`&a`"),
    "a control character": ("name: ▲\x07", "U+0007", "remove it"),
    "half a character": (
        flow(', parameters: {x: ▲"\\ud800"}'),
        "half of a character pair",
        "write it whole",
    ),
    "an escape out of range": ('▲name: "\\UFFFFFFFF"', "not YAML", "\\U"),
    # keys and types
    "no mapping at all": ("▲- name", "a list stands here instead of a dataflow", "a dataflow"),
    "a misspelt key": (flow(more="▲wave: mark"), "no key `wave`", "did you mean `waves`?"),
    "a missing key": ("▲name: n", "has no `actions`", "add `actions:`"),
    "a key of another tool": (flow(", ▲bounds: {}"), "no key `bounds`", "did you mean `when`?"),
    "a key without value": ("name: n\nactions:▲", "no value here", "or remove the key"),
    "no actions": ("name: n\nactions: ▲{}", "no action here", "actions by name"),
    "a mapping for a word": (flow(", own: ▲{}"), "a mapping stands here", "true or false"),
    "yes for true": (flow(", own: ▲yes"), "`yes` is not true or false", "write true or false"),
    "a number for a text": (flow(", timeout: 5, description: ▲5"), "as text", 'quotes: "5"'),
    "a misspelt word": (
        flow(", retries: ▲many", bound="time: 5"),
        "`many` is not a number of attempts",
        "a number of attempts",
    ),
    "no attempts": (flow(", retries: ▲0"), "`0` is not", "number of attempts"),
    "a misspelt wave": (flow(more="waves: ▲evry 5 s"), "`evry 5 s`", "`every 5 min`"),
    "a name of odd characters": ("name: n\nactions: {▲'a b': {step: 'm:f'}}", "`a b`", "letters"),
    # containers
    "a slash in a container": (flow(containers="{c: ▲t/f:q, d: u}"), "no container", "a space"),
    "a column without family": (
        flow(containers="{c: ▲t q, d: u}"),
        "a column has no family",
        "`t q:qualifier`",
    ),
    "table and column run together": (
        flow(containers="{c: 't', d: ▲'n:u:f:q'}"),
        "run together",
        "put a space",
    ),
    "two ways to say the column": (
        flow(containers="{c: {table: t, family: f, ▲column: 'f:q'}, d: u}"),
        "`column` can't stand beside `family`",
        "keep",
    ),
    "rows the wrong way round": (
        flow(containers="{c: {table: t, rows: [▲b, a]}, d: u}"),
        "no row lies from `b`",
        "smaller row first",
    ),
    "a lone backslash": (
        flow(containers="{c: {table: t, row: ▲a\\q}, d: u}"),
        "a lone backslash",
        "`\\\\`",
    ),
    "an item without table": (
        flow(containers="{c: {group: [▲{family: f}]}, d: u}"),
        "the item has no `table`",
        "add `table:`",
    ),
    "a codec that is none": (
        flow(containers="{c: {table: t, codec: ▲flaot64}, d: u}"),
        "this is no codec",
        "did you mean `float64`?",
    ),
    "another tool's codec": (
        flow(containers="{c: {table: t, codec: ▲double}, d: u}"),
        "a type is no codec",
        "Bytes.toBytes(double)",
    ),
    "a codec of a width that there is not": (
        flow(containers="{c: {table: t, codec: ▲int24}, d: u}"),
        "this is no codec",
        "possible: number, float64",
    ),
    "an unsigned codec": (
        flow(containers="{c: {table: t, codec: ▲uint32}, d: u}"),
        "no codec reads unsigned integers",
        "`opaque`",
    ),
    "a path whose quotes do not end": (
        flow(containers="{c: {table: t, codec: ▲'json $[\"a'}, d: u}"),
        "no path",
        "any key",
    ),
    # names
    "an unknown container": (
        "name: n\ncontainers: {zones: t}\nactions: {a: {step: 'm:f', reads: ▲zone}}",
        "there is no container `zone`",
        "did you mean `zones`?",
    ),
    "an unknown predecessor": (
        flow(", after: [feed, ▲fed]"),
        "there is no action `fed`",
        "did you mean `feed`?",
    ),
    "a bound on nothing": (
        flow(", when: {▲k1: {time: 5}}"),
        "doesn't say which it watches",
        "add `container:`",
    ),
    "a bound with a reserved name": (
        flow(", when: {▲or: {container: c, time: 5}}"),
        "a word of the condition algebra",
        "another name",
    ),
    # the graph
    "an action after itself": (
        flow(", after: ▲a"),
        "in a circle: `a` → `a`",
        "remove `a` from `after` of `a`",
    ),
    "a circle of three": (
        (
            "name: n\nactions: {a: {step: 'm:f', after: c}, b: {step: 'm:f', after: ▲a},"
            " c: {step: 'm:f', after: b}}"
        ),
        "`a` → `b` → `c` → `a`",
        "remove `a` from `after` of `b`",
    ),
    "an implied circle": (
        (
            "name: n\ncontainers: {x: t, y: u}\nactions: {a: {step: 'm:f', reads: x, writes: y},"
            " b: ▲{step: 'm:f', reads: y, writes: x}}"
        ),
        "in a circle",
        "because it reads what that writes",
    ),
    # actions
    "no launcher": (
        "name: n\nactions: {a: ▲{timeout: 5}}",
        "neither `input` nor `step`",
        "one of them",
    ),
    "two launchers": (flow(", ▲input: c"), "`input` can't stand beside `step`", "keep"),
    "an input with bounds": (
        "name: n\ncontainers: {c: t}\nactions: {a: {input: c, ▲when: {c: {time: 5}}}}",
        "`when` can't stand beside `input`",
        "keep",
    ),
    "a step that is a file": (
        "name: n\nactions: {a: {step: ▲steps.py}}",
        "a function, not a file",
        "`module:function`",
    ),
    "a step without colon": (
        "name: n\nactions: {a: {step: ▲air.steps.zones}}",
        "the function is missing",
        "`air.steps:zones`",
    ),
    "combine without bounds": (flow(", ▲combine: all"), "without bounds", "add `when:`"),
    "evaluated at the end of nothing": (
        flow(", after: [], evaluate: ▲action-end", bound="time: 5"),
        "no action precedes `a`",
        "add `after:`",
    ),
    "two periods": (
        flow(", evaluate: [every 5 s, ▲every 6 s]", bound="time: 5"),
        "a second period",
        "the shorter one",
    ),
    "backoff the wrong way round": (
        flow(", retries: {backoff: ▲[9 s, 1 s]}"),
        "longer than the longest",
        "[1 s, 9 s]",
    ),
    # bounds
    "a bound without limits": (
        flow(bound="container: c").replace("{container", "▲{container"),
        "the bound has none of `time`",
        "add at least one",
    ),
    "a negative time": (flow(bound="time: ▲-5 s"), "can't be negative", "above zero"),
    "no time": (flow(bound="time: ▲0"), "must be above zero", "`30 s`"),
    "a time in percent": (flow(bound="time: ▲5%"), "no percentage", "a duration"),
    "an unknown unit": (flow(bound="time: ▲5 parsecs"), "`parsecs` is no unit", "ms, s, min, h"),
    "a sequence of zero": (flow(bound="sequence: ▲0"), "always reached", "1 or more"),
    "half an update": (flow(bound="sequence: ▲1.5"), "counted whole", "whole number"),
    "a percentage of nothing": (flow(bound="sequence: ▲'%'"), "percentage of nothing", "`5%`"),
    "a negative percentage": (flow(bound="value: ▲-5%"), "can't be negative", "above zero"),
    "no percent": (flow(bound="value: ▲0%"), "always reached", "`sequence: 1`"),
    "no divergence": (flow(bound="value: ▲0"), "always reached", "`sequence: 1`"),
    "absolute in percent": (
        flow(bound="value: {absolute: ▲5%}"),
        "the values' own units",
        "`relative: 5%`",
    ),
    "relative without percent": (
        flow(bound="value: {relative: ▲5}"),
        "this metric is a percentage",
        "`5%`",
    ),
    "against without limit": (
        flow(bound="value: {▲against: 100}"),
        "`against` needs `limit`",
        "add `limit:`",
    ),
    "against nothing": (
        flow(bound="value: {against: ▲0, limit: 5%}"),
        "`0` is not a number above zero",
        "above zero",
    ),
    "two metrics": (
        flow(bound="value: {relative: 5%, ▲changed: 5%}"),
        "`changed` can't stand beside `relative`",
        "keep",
    ),
    "more changed than there is": (
        flow(bound="value: ▲101%"),
        "never more than 100%",
        "at most `100%`",
    ),
    "more distinct than there is": (
        flow(bound="sequence: {limit: ▲101%, count: distinct}"),
        "never more than 100%",
        "at most `100%`",
    ),
    "an interval backwards": (flow(bound="time: ▲[9 s, 1 s]"), "above the maximum", "[1 s, 9 s]"),
    "an interval of three": (flow(bound="time: ▲[1, 2, 3]"), "3 values", "[min, max]"),
    "an interval of two kinds": (flow(bound="sequence: ▲[5, 10%]"), "the other is not", "same way"),
    "numbers of opaque values": (
        flow(
            ", when: {▲c: {value: {relative: 5%}}}",
            containers="{c: {table: t, codec: opaque}, d: u}",
        ),
        "`relative` needs numbers",
        "`changed`",
    ),
    # expressions
    "an expression that ends early": (
        flow(", combine: c and▲", bound="time: 5"),
        "expected a bound or '(', found the end",
        "parentheses",
    ),
    "an unclosed parenthesis": (
        flow(", combine: (c▲", bound="time: 5"),
        "expected ')'",
        "parentheses",
    ),
    "two bounds side by side": (
        flow(", combine: c ▲c", bound="time: 5"),
        "expected 'and' or 'or'",
        "parentheses",
    ),
    "an unknown bound in quotes": (
        flow(', combine: "c or ▲cc"', bound="time: 5"),
        "`cc` is no bound",
        "did you mean `c`?",
    ),
    "parentheses without end": (
        flow(f", combine: ▲{'(' * 99}c{')' * 99}", bound="time: 5"),
        "parentheses lie in each other",
        "flatter",
    ),
    # profiles
    "a profile of an unknown action": (
        flow(bound="time: 5", more="profiles: {p: {▲b: {c: {time: 6}}}}"),
        "there is no action `b`",
        "`a`",
    ),
    "a profile of an unknown bound": (
        flow(bound="time: 5", more="profiles: {p: {a: {▲d: {time: 6}}}}"),
        "has no bound `d`",
        "`c`",
    ),
    "a profile that takes all away": (
        flow(bound="time: 5", more="profiles: {p: {a: {c: ▲{time: none}}}}"),
        "takes every limit",
        "leave at least one",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_is_an_error(case, problems):
    marked, message, cure = CASES[case]
    before = marked[: marked.index(MARK)]
    place = (before.count("\n") + 1, len(before) - before.rfind("\n"))

    found = problems(marked.replace(MARK, ""))

    at_place = [problem for problem in found if (problem.line, problem.column) == place]
    assert at_place, found
    assert any(message in one.message and cure in one.cure for one in at_place), at_place
    assert at_place[0].severity is Severity.ERROR


@pytest.mark.parametrize("case", CASES)
def test_is_told_alone(case, problems):
    errors = [
        problem
        for problem in problems(CASES[case][0].replace(MARK, ""))
        if problem.severity is Severity.ERROR
    ]

    assert len(errors) == 1


WARNINGS = {
    "a container that nothing uses": (
        flow(containers="{c: t, d: u, ▲spare: v}"),
        "no action uses container `spare`",
    ),
    "a bound on what nothing writes": (
        "name: n\ncontainers: {c: t}\nactions: {a: {step: 'm:f', when: {▲c: {time: 5}}}}",
        "no other action writes `c`",
    ),
    "an action that may come too early": (
        flow(", reads: r", containers="{c: t, d: u, r: u f:q}").replace("  a: {", "  a: ▲{"),
        "`a` reads `r`, of which `feed` writes a part as `d`",
    ),
    "an action that nothing starts": (
        "name: n\nactions: {a: ▲{step: 'm:f'}}",
        "nothing starts it",
    ),
    "a bound that decides nothing": (
        flow(", when: {c: {time: 5}, d: {time: 5}}, combine: ▲c"),
        "`d` is not in the expression",
    ),
}


@pytest.mark.parametrize("case", WARNINGS)
def test_is_a_warning(case):
    marked, message = WARNINGS[case]
    before = marked[: marked.index(MARK)]

    warnings = parse_dataflow(marked.replace(MARK, ""), "flow.yaml").warnings

    assert any(
        message in one.message
        and (one.line, one.column) == (before.count("\n") + 1, len(before) - before.rfind("\n"))
        and one.severity is Severity.WARNING
        for one in warnings
    ), warnings


def test_what_overlaps_a_written_container_counts_as_written():
    text = (
        "name: n\ncontainers: {row: {table: t, row: r}, column: t f:q}\n"
        "actions: {feed: {input: column}, a: {step: 'm:f', after: feed, when: {row: {time: 5}}}}"
    )

    assert parse_dataflow(text, "flow.yaml").warnings == ()


def test_coming_after_through_others_is_coming_after():
    text = (
        "name: n\ncontainers: {in: u, all: t, column: t f:q, other: t f:r}\n"
        "actions: {feed: {input: in}, a: {step: 'm:f', reads: in, writes: all},\n"
        "  b: {step: 'm:f', reads: all, writes: column}, c: {step: 'm:f', reads: column}}"
    )

    unused = "no action uses container `other`"
    assert [one.message for one in parse_dataflow(text, "flow.yaml").warnings] == [unused]


def test_all_problems_are_told_at_once_in_the_order_of_the_file(problems):
    text = (
        "name: n\nwave: mark\ncontainers: {c: t/q}\nactions:\n"
        "  a: {step: steps.py, when: {c: {time: 0, sequence: 0}}, after: b}\n"
    )

    assert [problem.line for problem in problems(text)] == [2, 3, 5, 5, 5, 5]


def test_an_unknown_profile_is_told_with_those_that_exist():
    text = flow(bound="time: 5", more="profiles: {cheap: {a: {c: {time: 6}}}}")

    with pytest.raises(DataflowErrors) as raised:
        parse_dataflow(text, "flow.yaml", "cheep")

    assert "there is no profile `cheep`" in raised.value.problems[0].message
    assert "did you mean `cheap`?" in raised.value.problems[0].cure


def test_a_problem_reads_like_a_compilers(problems):
    (problem,) = problems("name: n\nactions: {a: {step: steps.py}}")

    assert str(problem) == (
        "flow.yaml:2:21: error: `steps.py`: a step is a function, not a file\n"
        "    write `module:function`, such as `steps:zones`"
    )


def test_a_file_that_is_not_there_is_a_problem_of_it(tmp_path):
    with pytest.raises(DataflowErrors, match="can't be read"):
        load_dataflow(tmp_path / "absent.yaml")


def test_a_file_that_is_not_utf8_tells_where(tmp_path):
    path = tmp_path / "flow.yaml"
    path.write_bytes(b"name: n\ndescription: caf\xe9\n")

    with pytest.raises(DataflowErrors) as raised:
        load_dataflow(path)

    assert (raised.value.problems[0].line, raised.value.problems[0].column) == (2, 17)


def test_a_file_too_long_is_told_as_such(tmp_path):
    path = tmp_path / "flow.yaml"
    path.write_bytes(b"#" + "😀".encode() * (1 << 20))

    with pytest.raises(DataflowErrors, match="at most 1,048,576"):
        load_dataflow(path)


def test_a_byte_order_mark_is_no_problem(tmp_path):
    path = tmp_path / "flow.yaml"
    path.write_text(flow(), encoding="utf-8-sig")

    assert load_dataflow(path).name == "n"


def test_a_few_lines_of_aliases_cannot_fill_the_memory(problems):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]

    assert any("aliases counted" in problem.message for problem in problems("\n".join(lines)))


def test_lists_in_lists_have_an_end(problems):
    assert any("lie in each other" in one.message for one in problems("[" * 100_000))


def test_a_file_of_data_is_refused_before_it_is_read(problems):
    (problem,) = problems("x" * (1 << 20) + "xx")

    assert "at most 1,048,576" in problem.message
