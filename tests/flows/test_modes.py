"""The mode of a dataflow."""

import pytest

from headgate.flows import Mode, changes, parse_dataflow

ACTIONS = "containers: {in: t f:q}\nactions:\n  feed: {input: in}\n  s: {step: 'm:f', reads: in}\n"


def parsed(text):
    return parse_dataflow(f"name: n\n{text}\n{ACTIONS}", "flow.yaml")


def test_everybodys_updates_count_by_default():
    assert (parsed("").mode, parsed("").spec.feeders) == (Mode.NORMAL, None)


@pytest.mark.parametrize(
    ("written", "feeders"),
    [("", ()), ("feeders: collector", ("collector",)), ("feeders: [a, b/c]", ("a", "b/c"))],
)
def test_isolation_counts_what_the_feeders_write(written, feeders):
    dataflow = parsed(f"mode: isolation\n{written}")
    assert (dataflow.mode, dataflow.spec.feeders) == (Mode.ISOLATION, feeders)


def test_feeders_without_isolation_are_refused(problems):
    (problem,) = problems(f"name: n\nfeeders: collector\n{ACTIONS}")
    assert problem.line == 2
    assert "says nothing in mode `normal`" in problem.message
    assert "mode: isolation" in problem.cure


def test_another_mode_is_told():
    (change,) = changes(parsed(""), parsed("mode: isolation"))
    assert str(change) == "mode: changed, normal → isolation; what was counted is kept"
