"""The section ``significance``: steps without bounds get limits that are searched for."""

import pytest

from headgate.engine import SOUGHT_SEQUENCE, SOUGHT_VALUE, SignificanceSpec, check_specification
from headgate.events import ContainerId
from headgate.flows import DataflowErrors, parse_dataflow


def parsed(significance, *, second="", containers="in: t f:q, mid: u f:q, out: v f:q"):
    text = (
        f"name: n\ncontainers: {{{containers}}}\nactions:\n  feed: {{input: in}}\n"
        "  first: {step: 'm:f', reads: in, writes: mid}\n"
        f"  second: {{step: 'm:f', reads: [mid, out], writes: out{second}}}\n"
        "  aside: {step: 'm:f', reads: mid}\n"
        f"significance: {{{significance}}}\n"
    )
    spec = parse_dataflow(text, "flow.yaml").spec
    check_specification(spec)
    return spec, {action.name: action for action in spec.actions}


def test_steps_on_the_way_to_the_output_get_bounds_that_are_searched_for():
    spec, actions = parsed("output: out, change: 5%")
    assert spec.significance == SignificanceSpec(ContainerId("out"), 0.05, ("first", "second"))
    for name, container in (("first", "in"), ("second", "mid")):
        (bound,) = actions[name].bounds
        assert (bound.container, bound.time) == (container, 3600)
        assert (bound.sequence, bound.value) == (SOUGHT_SEQUENCE, SOUGHT_VALUE)
    assert actions["aside"].bounds == ()


def test_settings_are_taken():
    spec, actions = parsed(
        "output: out, change: 2%, against: 100, tolerance: 20%, patience: 8, time: 5 min"
    )
    found = spec.significance
    assert (found.change, found.against, found.tolerance, found.patience) == (0.02, 100, 0.2, 8)
    assert actions["first"].bounds[0].time == 300


def test_a_step_with_bounds_keeps_them():
    text_of_bounds = ", when: {mid: {sequence: 7}}"
    with pytest.raises(DataflowErrors, match="no step without bounds of its own writes `out`"):
        parsed("output: out, change: 5%", second=text_of_bounds)
    spec, actions = parsed("output: mid, change: 5%", second=text_of_bounds)
    assert spec.significance.actions == ("first",)
    assert actions["second"].bounds[0].sequence.limit == 7


@pytest.mark.parametrize(
    ("significance", "message", "cure"),
    [
        ("output: oud, change: 5%", "there is no container `oud`", "did you mean `out`"),
        ("output: out", "has no `change`", "change"),
        ("output: out, change: 0%", "`0%`", "above zero"),
        ("output: out, change: 5%, tolerance: 100%", "any change will do", "about `10%`"),
        ("output: out, change: 5%, patience: 0", "`0`", "runs"),
        ("output: in, change: 5%", "no step without bounds of its own writes `in`", "`writes`"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_cure(significance, message, cure):
    with pytest.raises(DataflowErrors) as caught:
        parsed(significance)
    problem = caught.value.problems[0]
    assert message in problem.message
    assert cure in problem.cure
    assert problem.line == 8


def test_an_output_of_opaque_values_is_refused():
    with pytest.raises(DataflowErrors, match="its values are opaque"):
        parsed(
            "output: out, change: 5%",
            containers="in: t f:q, mid: u f:q, out: {table: v, column: 'f:q', codec: opaque}",
        )
