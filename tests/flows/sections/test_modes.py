"""The mode of a dataflow."""

import pytest

from headgate.flows import Deletes, FoundBy, Mode, ScanSpec, changes, parse_dataflow

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


def test_observer_mode_is_scanned_by_default_every_ten_seconds():
    assert (parsed("mode: observer").mode, parsed("mode: observer").scans) == (
        Mode.OBSERVER,
        ScanSpec(10.0, 3600.0, FoundBy.TIMES),
    )


def test_scans_are_as_written():
    scans = parsed("mode: observer\nscans: {every: 1 min, whole: 2 h, by: notify}").scans
    assert scans == ScanSpec(60.0, 7200.0, FoundBy.NOTIFY)


@pytest.mark.parametrize("deletes", Deletes)
def test_keys_are_kept_where_deletes_count(deletes):
    dataflow = parsed(f"mode: observer\nscans: {{deletes: {deletes}}}")
    assert dataflow.scans.deletes is deletes
    assert dataflow.spec.keeps_keys is (deletes is Deletes.COUNTED)


def test_scans_outside_of_observer_mode_are_refused(problems):
    (problem,) = problems(f"name: n\nmode: isolation\nscans: {{every: 1 s}}\n{ACTIONS}")
    assert "`scans` says nothing in mode `isolation`" in problem.message
    assert "mode: observer" in problem.cure


def test_other_scans_are_told():
    old, new = (parsed(f"mode: observer\nscans: {{every: {n} s}}") for n in (1, 2))
    (change,) = changes(old, new)
    assert str(change) == "scans: changed, from the next one"


def test_a_bound_may_hold_writers_back():
    bounds = ("sequence: 3", "sequence: 3, block: true")
    old, new = (
        parse_dataflow(
            "name: n\n" + ACTIONS.replace("reads: in}", f"when: {{in: {{{bound}}}}}}}"), "flow.yaml"
        )
        for bound in bounds
    )
    assert [d.spec.actions[1].bounds[0].block for d in (old, new)] == [False, True]
    (change,) = changes(old, new)
    assert change.words == "sequence 3 → sequence 3, block; it keeps what was counted"
