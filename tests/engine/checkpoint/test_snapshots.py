"""State as bytes, restarts, and specifications that change."""

import zlib

import msgspec
import pytest
from msgspec.structs import replace

from headgate.engine import (
    ActionSpec,
    Bound,
    ContainerScanned,
    DecisionKind,
    Engine,
    Evaluation,
    Metric,
    RunState,
    ScanContainer,
    SequenceBound,
    SequenceUnit,
    SnapshotError,
    SpecificationChanged,
    ValueBound,
    launched,
)
from headgate.engine.checkpoint.snapshot import read_snapshot
from headgate.engine.protocol.stimuli import Paused, Resumed
from headgate.events import ContainerId, Cut

IN = ContainerId("in")

THREE = Bound("k", IN, sequence=SequenceBound(3))
FULL = Bound(
    "k",
    IN,
    60.0,
    SequenceBound(90, SequenceUnit.PERCENT, distinct=True),
    ValueBound(Metric.RELATIVE, 0.9),
)


def test_a_restored_engine_has_the_same_snapshot(pair, rows):
    tester = pair(FULL)
    tester.write("in", rows(4, 10))
    tester.wave("a")
    tester.write("in", rows(2, 11))
    again = Engine(tester.spec, tester.engine.snapshot())
    assert read_snapshot(again.snapshot()) == read_snapshot(tester.engine.snapshot())


def test_a_snapshot_takes_less_room_than_what_it_says(pair, rows):
    tester = pair(FULL)
    tester.write("in", rows(300, 10))
    state = tester.engine.snapshot()
    assert len(state) < len(zlib.decompress(state)) / 3


def test_counts_survive_a_restart(pair, rows):
    tester = pair(THREE)
    tester.write("in", rows(2))
    tester.restart()
    tester.write("in", rows(1))
    assert launched(tester.wave("a")) == ["b"]


def test_a_run_that_was_active_is_launched_again(pair, rows):
    tester = pair(THREE)
    tester.write("in", rows(3))
    tester.wave("a")
    tester.restart()
    first, second = tester.launches()
    assert (second.run, second.cut, second.attempt) == (first.run, first.cut, 2)


def test_a_restart_is_no_failure_of_the_run_nor_are_three(pair, rows):
    tester = pair(THREE)
    tester.write("in", rows(3))
    tester.wave("a")
    for _ in range(3):
        tester.restart()
    assert tester.engine.explain(0).actions[1].state is RunState.LAUNCHED


def test_backoff_goes_on_after_a_restart(pair, rows):
    tester = pair(THREE)
    tester.write("in", rows(3))
    tester.wave("a")
    tester.fail("b")
    assert launched(tester.restart()) == []
    assert launched(tester.pass_time(1)) == ["b"]


def test_timers_go_on_after_a_restart(pair, rows):
    tester = pair(Bound("k", IN, time=60.0))
    tester.write("in", rows(1))
    tester.pass_time(30)
    tester.notify_at = None
    tester.restart()
    assert launched(tester.pass_time(30)) == ["b"]


def test_a_restart_makes_no_evaluation_of_its_own(pair, rows):
    late = Bound("late", IN, time=60.0)
    tester = pair(late, THREE)
    tester.write("in", rows(1))
    tester.pass_time(100)
    tester.write("in", rows(2))
    assert launched(tester.restart()) == []
    assert launched(tester.pass_time(100)) == []
    assert launched(tester.wave("a")) == ["b"]


def test_a_pause_survives_a_restart(pair, rows):
    tester = pair(THREE)
    tester.handle(Paused(tester.now))
    tester.restart()
    tester.write("in", rows(3))
    assert launched(tester.wave("a")) == []


def test_a_run_that_was_asked_for_during_a_pause_survives_a_restart(pair, rows):
    tester = pair(THREE)
    tester.write("in", rows(1))
    tester.handle(Paused(tester.now))
    tester.request("b")
    tester.restart()
    assert launched(tester.handle(Resumed(tester.now))) == ["b"]


def test_an_open_scan_is_asked_for_again(pair):
    tester = pair(FULL, answering=False)
    assert any(isinstance(i, ScanContainer) for i in tester.restart())


@pytest.mark.parametrize("data", [b"", b"nonsense"])
def test_what_is_no_snapshot_is_refused(pair, data):
    with pytest.raises(SnapshotError, match="not a snapshot"):
        Engine(pair().spec, data)


def test_a_snapshot_of_a_later_version_says_so(pair):
    tester = pair()
    later = replace(read_snapshot(tester.engine.snapshot()), version=99)
    with pytest.raises(SnapshotError, match="upgrade"):
        Engine(tester.spec, zlib.compress(msgspec.msgpack.encode(later)))


def test_a_state_that_does_not_say_whether_updates_are_missing_misses_none(pair, rows):
    tester = pair(THREE)
    tester.write("in", rows(2))
    state = msgspec.msgpack.decode(zlib.decompress(tester.engine.snapshot()))
    for cells in state["cells"]:
        for pending in cells["pendings"]:
            del pending["now"]["uncounted"]
    tester.engine = Engine(tester.spec, zlib.compress(msgspec.msgpack.encode(state)))
    assert launched(tester.wave("a")) == []


@pytest.mark.parametrize("ran", [True, False])
def test_a_state_that_does_not_say_what_was_seen_has_seen_what_its_last_run_has(pair, rows, ran):
    tester = pair(THREE)
    if ran:
        tester.write("in", rows(3))
        tester.wave("a")
        tester.finish("b")
    before = tester.engine.actions["b"].last
    state = msgspec.msgpack.decode(zlib.decompress(tester.engine.snapshot()))
    for action in state["actions"]:
        del action["seen"], action["seen_at"]
    again = Engine(tester.spec, zlib.compress(msgspec.msgpack.encode(state))).actions["b"]
    assert again.seen == (before.cut if ran else Cut())
    assert again.seen_at == (before.launched_at if ran else None)


def with_bounds(spec, *bounds, **changes):
    a, b = spec.actions[:2]
    return replace(spec, actions=(a, replace(b, bounds=bounds, **changes)))


def test_another_limit_keeps_the_counts(pair, rows):
    tester = pair(THREE)
    tester.write("in", rows(2))
    tester.wave("a")
    spec = with_bounds(tester.spec, Bound("k", IN, sequence=SequenceBound(2)))
    tester.handle(SpecificationChanged(tester.now, spec))
    assert tester.decisions()[-1].kind == DecisionKind.SPECIFICATION_CHANGED
    assert launched(tester.wave("a")) == ["b"]


def test_a_limit_that_is_reached_already_launches_at_once_where_writes_are_looked_at(pair, rows):
    tester = pair(THREE, evaluation=Evaluation(write=True))
    tester.write("in", rows(2))
    spec = with_bounds(tester.spec, Bound("k", IN, sequence=SequenceBound(2)))
    told = tester.handle(SpecificationChanged(tester.now, spec))
    assert launched(told) == ["b"]
    assert tester.launches()[-1].cause.moment == "change of the dataflow"


def test_a_time_that_has_passed_already_launches_at_once(pair, rows):
    def both(second):
        return (Bound("k", IN, time=50.0), Bound("l", IN, time=second))

    tester = pair(*both(200.0))
    tester.write("in", rows(1))
    assert launched(tester.pass_time(60)) == []
    tester.handle(SpecificationChanged(tester.now, with_bounds(tester.spec, *both(40.0))))
    assert launched(tester.pass_time(0)) == ["b"]


def test_an_action_that_did_not_change_keeps_its_state_beside_one_that_did(pair, rows):
    tester = pair(THREE)
    tester.write("in", rows(2))
    tester.wave("a")
    more = ActionSpec("c", after=("a",), bounds=(Bound("k", IN, sequence=SequenceBound(1)),))
    spec = replace(tester.spec, actions=(*tester.spec.actions, more))
    tester.handle(SpecificationChanged(tester.now, spec))
    tester.write("in", rows(1))
    assert launched(tester.wave("a")) == ["b", "c"]


def test_a_run_goes_on_under_another_specification(pair, rows):
    tester = pair(THREE)
    tester.write("in", rows(3))
    tester.wave("a")
    spec = with_bounds(tester.spec, Bound("k", IN, sequence=SequenceBound(5)))
    tester.handle(SpecificationChanged(tester.now, spec))
    tester.finish("b")
    assert tester.engine.explain(0).actions[1].last.run == "flow-b-1"


def test_a_bound_that_needs_more_is_scanned_first(pair, rows):
    tester = pair(THREE)
    tester.write("in", rows(3, 10))
    tester.wave("a")
    tester.finish("b")
    told = tester.handle(SpecificationChanged(tester.now, with_bounds(tester.spec, FULL)))
    assert any(isinstance(i, ScanContainer) for i in told)
    tester.write("in", rows(1, 11))
    result = tester.engine.explain(tester.now).actions[1].result
    values = [vector.value for vector in result.parts[0].vectors]
    assert values[1:] == [pytest.approx(100 / 3), pytest.approx(1 / 30)]


def test_a_scan_under_way_is_not_asked_for_twice(pair, rows):
    tester = pair(FULL, answering=False)
    tester.write("in", rows(1, 7))
    spec = with_bounds(tester.spec, FULL, own=True)
    told = tester.handle(SpecificationChanged(tester.now, spec))
    assert not any(isinstance(i, ScanContainer) for i in told)
    tester.handle(ContainerScanned(tester.now, IN, "in", [b"r0"], [b"f:x"], [b"1"]))
    assert list(tester.engine.cells[IN, "in"].columns.contents().values()) == [7.0]


def test_an_action_that_is_gone_takes_its_run_along(pair, rows):
    tester = pair(THREE)
    tester.write("in", rows(3))
    tester.wave("a")
    spec = replace(tester.spec, actions=tester.spec.actions[:1])
    tester.handle(SpecificationChanged(tester.now, spec))
    assert tester.engine.busy == ()


def test_a_new_action_can_run_when_its_predecessors_have(pair, rows):
    tester = pair(THREE)
    tester.write("in", rows(1))
    spec = replace(tester.spec, actions=(*tester.spec.actions, ActionSpec("c", after=("a",))))
    tester.handle(SpecificationChanged(tester.now, spec))
    assert launched(tester.wave("a")) == ["c"]


def test_a_snapshot_is_read_under_another_specification(pair, rows):
    tester = pair(THREE)
    tester.write("in", rows(2))
    tester.spec = with_bounds(tester.spec, Bound("k", IN, sequence=SequenceBound(2)))
    tester.restart()
    assert launched(tester.wave("a")) == ["b"]
