"""A run goes on from the result of the action's last committed run that had one."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    DataflowSpec,
    Engine,
    EngineTester,
    Launch,
    RetryPolicy,
    RunFinished,
    RunRehearsed,
    RunState,
    SavedEngine,
    SequenceBound,
    SpecificationChanged,
    WatchedContainer,
)
from headgate.events import Container, ContainerId, Item

IN = ContainerId("in")
LOGGED = -1  # cells up to which a checkpoint is the whole state: a log is always beside it


def spec(limit: int = 2, attempts: int = 3) -> DataflowSpec:
    retry = RetryPolicy(attempts=attempts, first=10.0, maximum=10.0)
    bound = Bound("k", IN, sequence=SequenceBound(limit))
    return DataflowSpec(
        "flow",
        (WatchedContainer(Container(IN, (Item("in"),))),),
        (
            ActionSpec("a", ActionRole.INPUT, writes=(IN,)),
            ActionSpec("b", after=("a",), reads=(IN,), bounds=(bound,), retry=retry),
        ),
    )


@pytest.fixture
def tester() -> EngineTester:
    return EngineTester(spec())


def launch(tester: EngineTester) -> Launch:
    """Have the step's next run launched."""
    before = len(tester.launches())
    tester.write("in", {b"r0": {b"f:x": b"1"}, b"r1": {b"f:x": b"1"}})
    tester.wave("a")
    (launched,) = tester.launches()[before:]
    return launched


def committed(tester: EngineTester, *results: str) -> None:
    """Have runs commit, one after the other, with these results."""
    for result in results:
        launch(tester)
        tester.finish("b", result=result)


def test_a_first_run_goes_on_from_nothing(tester):
    assert launch(tester).previous == ""


def test_a_run_goes_on_from_the_result_of_the_one_before(tester):
    committed(tester, "m1")
    assert launch(tester).previous == "m1"
    tester.finish("b", result="m2")
    assert launch(tester).previous == "m2"


def test_a_run_that_names_nothing_leaves_what_stood(tester):
    committed(tester, "m1", "", "")
    assert launch(tester).previous == "m1"


def test_all_attempts_of_a_run_go_on_from_the_same(tester):
    committed(tester, "m1")
    launch(tester)
    for _ in range(2):
        tester.fail("b")
        tester.pass_time(10)
    first, second, third = tester.launches()[1:]
    assert (first.attempt, second.attempt, third.attempt) == (1, 2, 3)
    assert first.previous == second.previous == third.previous == "m1"


def test_a_run_that_is_given_up_changes_nothing(tester):
    committed(tester, "m1")
    launch(tester)
    for _ in range(3):
        tester.fail("b")
        tester.pass_time(10)
    assert tester.engine.actions["b"].state is RunState.QUARANTINED
    tester.restart()
    tester.release("b")
    assert tester.launches()[-1].attempt == 1
    assert tester.launches()[-1].previous == "m1"


def test_an_attempt_that_committed_after_all_has_its_result(tester):
    run = launch(tester).run
    tester.fail("b")
    tester.handle(RunFinished(tester.now, "b", run, 1, "m1"))
    assert launch(tester).previous == "m1"


def test_what_is_said_of_another_run_names_nothing(tester):
    committed(tester, "m1")
    launch(tester)
    tester.handle(RunFinished(tester.now, "b", "flow-b-1", 1, "stale"))
    tester.finish("b")
    assert launch(tester).previous == "m1"


def test_rehearsed_runs_leave_what_stood(tester):
    committed(tester, "m1")
    for _ in range(2):
        run = launch(tester)
        assert run.previous == "m1"
        tester.handle(RunRehearsed(tester.now, "b", run.run, run.attempt))
    assert launch(tester).previous == "m1"


def test_another_specification_keeps_the_result_of_an_action_that_stays(tester):
    committed(tester, "m1")
    launch(tester)
    tester.handle(SpecificationChanged(tester.now, spec(limit=1)))
    tester.fail("b")
    tester.pass_time(10)
    assert tester.launches()[-1].previous == "m1"
    tester.finish("b", result="m2")
    tester.handle(SpecificationChanged(tester.now, spec()))
    assert launch(tester).previous == "m2"


def test_an_action_that_went_and_came_back_goes_on_from_nothing(tester):
    committed(tester, "m1")
    without = replace(tester.spec, actions=tester.spec.actions[:1])
    tester.handle(SpecificationChanged(tester.now, without))
    tester.handle(SpecificationChanged(tester.now, tester.spec))
    assert launch(tester).previous == ""


def test_a_checkpoint_with_a_log_has_it_too(tester):
    committed(tester, "m1")
    tester.engine.checkpoint(LOGGED)
    committed(tester, "m2")
    saved = tester.engine.checkpoint(LOGGED)
    segments = [segment.data for segment in saved.log.written]
    tester.engine = Engine(tester.spec, SavedEngine(saved.head, (), segments))
    assert launch(tester).previous == "m2"


MOVES = (
    *("wave", "name", "finish", "fail", "late", "wait"),
    *("restart", "rehearse", "release", "edit", "leap"),
)


@given(st.lists(st.sampled_from(MOVES), max_size=40))
@example(["wave", "name", "wave", "finish", "wave"])
@example(["wave", "name", "restart", "wave", "fail", "restart", "late", "wave"])
@example(["wave", "name", *["wave", *["fail", "wait"] * 2] * 2, "release", "restart", "name"])
def test_it_stands_whatever_happens_until_a_run_names_another(moves):
    """Each launch has what a model of one variable has, and so has each further attempt."""
    tester = EngineTester(spec(attempts=2))
    standing, looked, named, limit = "", 0, 0, 2

    def check() -> None:
        nonlocal looked
        for one in tester.launches()[looked:]:
            assert one.previous == standing, one
        looked = len(tester.launches())

    for move in moves:
        run = tester.engine.actions["b"].run
        at_work = tester.engine.actions["b"].state in {RunState.LAUNCHED, RunState.RUNNING}
        match move:
            case "wave":
                tester.write("in", {b"r0": {b"f:x": b"1"}, b"r1": {b"f:x": b"1"}})
                tester.wave("a")
            case "name" | "late" if run is not None and (at_work or move == "late"):
                named += 1
                standing = f"m{named}"
                tester.handle(RunFinished(tester.now, "b", run.run, 1, standing))
            case "finish" if at_work:
                tester.finish("b")
            case "rehearse" if run is not None and at_work:
                tester.handle(RunRehearsed(tester.now, "b", run.run, run.attempt))
            case "fail" if at_work:
                tester.fail("b")
            case "wait":
                tester.pass_time(10)
            case "restart":
                tester.restart()
            case "release":
                tester.release("b")
            case "edit":
                limit = 3 - limit
                tester.spec = spec(limit, attempts=2)
                tester.handle(SpecificationChanged(tester.now, tester.spec))
            case "leap":
                tester.leap(-5)
        check()
