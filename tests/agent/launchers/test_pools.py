"""Sessions that dataflows share, with a worker that speaks the protocol but starts no Spark."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from scripted_worker import write_worker

from headgate.agent.launchers.warm.pools import SessionPools
from headgate.agent.launchers.warm.resting import Rest
from headgate.agent.launchers.warm.sessions import WarmSession
from headgate.agent.ports import AttemptDisplaced, Report, WorkerLost, WorkerState
from headgate.agent.supervision import Supervision
from headgate.spark import (
    Ending,
    StartSession,
    StepEnded,
    StepRequest,
    StepStarted,
    Thrift2Address,
)

WAIT = 300.0  # seconds, on the busiest machine, until something that must happen counts as missing
WORKER = """
if "unfit" in heard(sys.stdin.buffer.readline()).conf:
    say("unfit", reason="no Java", detail="")
    sys.exit(1)
ready()
held = {}
for line in sys.stdin.buffer:
    request = heard(line)
    if request.type == "step":
        started(request)
        if request.entry == "m:die":
            os._exit(3)
        if request.entry in ("m:wait", "m:stuck"):
            held[request.space, request.run] = request
        if request.entry == "m:release":
            for one in held.values():
                ended(one)
            held.clear()
        if request.entry in ("m:work", "m:release"):
            ended(request, log=request.directory)
    elif request.type == "cancel":
        if held[request.space, request.run].entry == "m:wait":
            del held[request.space, request.run]
            ended(request, "cancelled")
    elif request.type == "close":
        with open("closed", "a") as closed:
            closed.write(request.space + "\\n")
"""


class Flow:
    """A dataflow with a seat in a pool."""

    def __init__(self, name: str, session: Callable[..., WarmSession]) -> None:
        self.name = name
        self.reports: queue.Queue[Report] = queue.Queue()
        self.seen: list[Report] = []
        self.session = session(self.reports.put)

    def start(self, entry: str, attempt: int = 1) -> None:
        to = Thrift2Address("h", 1)
        self.session.start(StepRequest(self.name, "a", "run", attempt, 1, entry, to, "k:1"))

    def until(self, *kinds: type[Report]) -> Report:
        while True:
            report = self.reports.get(timeout=WAIT)
            self.seen.append(report)
            if isinstance(report, kinds):
                return report

    def ready(self) -> int:
        while True:
            report = self.until(WorkerState)
            if isinstance(report, WorkerState) and report.ready:
                assert report.pid is not None
                return report.pid

    def committed(self) -> StepEnded:
        ended = self.until(StepEnded, WorkerLost, AttemptDisplaced)
        assert isinstance(ended, StepEnded), ended
        assert ended.ending is Ending.COMMITTED
        return ended


class PoolsHarness:
    """Pools of sessions, and dataflows that have seats in them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._python = write_worker(directory / "python", WORKER)
        self._supervision = Supervision(lambda _: None)
        self._pools = SessionPools(directory / "pools", self._python, None)
        self.flows: list[Flow] = []

    def flow(self, name: str, start: StartSession | None = None, idle: float = 0.0) -> Flow:
        self.flows.append(
            Flow(
                name,
                lambda report: WarmSession(
                    start or StartSession(pool="p"),
                    self.directory / name,
                    self._python,
                    WAIT,
                    report,
                    self._supervision,
                    rest=Rest(idle),
                    pools=self._pools,
                ),
            )
        )
        return self.flows[-1]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[PoolsHarness]:
    # Such as the JVM of another test's Spark.
    others = psutil.Process().children()
    made = PoolsHarness(tmp_path)
    yield made
    for flow in made.flows:
        flow.session.close()
    assert not set(psutil.Process().children()) - set(others)


def test_dataflows_of_a_pool_share_a_process_and_keep_their_logs_apart(
    harness: PoolsHarness,
) -> None:
    one, two = harness.flow("one"), harness.flow("two")
    assert one.ready() == two.ready()
    one.start("m:work")
    two.start("m:work")
    assert one.committed().log == str(harness.directory / "one")
    assert two.committed().log == str(harness.directory / "two")


def test_other_pools_and_other_settings_have_processes_of_their_own(harness: PoolsHarness) -> None:
    pids = {
        harness.flow("one").ready(),
        harness.flow("two", StartSession(pool="q")).ready(),
        harness.flow("three", StartSession({"a": "b"}, pool="p")).ready(),
        harness.flow("four", StartSession(python_path=("/x",), pool="p")).ready(),
        harness.flow("five", StartSession()).ready(),
    }
    assert len(pids) == 5


def test_a_run_alone_that_ends_the_session_has_failed(harness: PoolsHarness) -> None:
    one, two = harness.flow("one"), harness.flow("two")
    first = one.ready()
    two.ready()
    one.start("m:die")
    lost = one.until(WorkerLost, AttemptDisplaced)
    assert isinstance(lost, WorkerLost)
    assert one.ready() == two.ready() != first
    two.start("m:work")
    two.committed()
    assert not any(isinstance(r, WorkerLost | AttemptDisplaced) for r in two.seen)


def test_of_several_the_innocent_are_begun_again_and_the_culprit_fails_alone(
    harness: PoolsHarness,
) -> None:
    one, two = harness.flow("one"), harness.flow("two")
    one.ready()
    two.ready()
    two.start("m:wait")
    two.until(StepStarted)
    one.start("m:die")
    for flow in (one, two):
        displaced = flow.until(WorkerLost, AttemptDisplaced)
        assert isinstance(displaced, AttemptDisplaced), displaced
        assert "one, two" in displaced.reason
        assert "alone" in displaced.reason
    one.start("m:die")
    two.start("m:work")
    assert isinstance(one.until(WorkerLost, AttemptDisplaced), WorkerLost)
    ended = two.until(StepEnded, WorkerLost, AttemptDisplaced)
    if isinstance(ended, AttemptDisplaced):  # it had to wait for the culprit's turn
        two.start("m:work")
        ended = two.until(StepEnded, WorkerLost, AttemptDisplaced)
    assert isinstance(ended, StepEnded)


def test_a_cancelled_run_ends_and_leaves_the_others_alone(harness: PoolsHarness) -> None:
    one, two = harness.flow("one"), harness.flow("two")
    pid = one.ready()
    two.ready()
    for flow in (one, two):
        flow.start("m:wait")
        flow.until(StepStarted)
    one.session.cancel("run", 1, "it took too long")
    lost = one.until(WorkerLost, AttemptDisplaced, StepEnded)
    assert isinstance(lost, WorkerLost)
    assert lost.reason == "it took too long"
    assert one.ready() == pid
    one.start("m:release", attempt=2)
    one.committed()
    two.committed()


def test_a_step_that_does_not_let_go_costs_the_others_no_failure(harness: PoolsHarness) -> None:
    one, two = harness.flow("one"), harness.flow("two")
    pid = one.ready()
    two.ready()
    two.start("m:wait")
    two.until(StepStarted)
    one.start("m:stuck")
    one.until(StepStarted)
    one.session.cancel("run", 1, "it was cancelled by hand")
    lost = one.until(WorkerLost, AttemptDisplaced, StepEnded)
    assert isinstance(lost, WorkerLost)
    assert lost.reason == "it was cancelled by hand"
    displaced = two.until(WorkerLost, AttemptDisplaced, StepEnded)
    assert isinstance(displaced, AttemptDisplaced)
    assert "by a run of one" in displaced.reason
    assert two.ready() == one.ready() != pid


def test_the_end_of_a_dataflow_here_ends_its_runs_alone(harness: PoolsHarness) -> None:
    one, two = harness.flow("one"), harness.flow("two")
    pid = one.ready()
    two.ready()
    for flow in (one, two):
        flow.start("m:wait")
        flow.until(StepStarted)
    one.session.close()
    assert psutil.pid_exists(pid)
    three = harness.flow("three")
    assert three.ready() == pid
    three.start("m:release")
    two.committed()
    closed = next((harness.directory / "pools").rglob("closed")).read_text()
    assert "one" in closed
    assert "two" not in closed


def test_a_pool_nobody_has_a_seat_in_has_no_process(harness: PoolsHarness) -> None:
    one, two = harness.flow("one", idle=0.05), harness.flow("two", idle=0.05)
    pid = one.ready()
    two.ready()
    for flow in (one, two):
        while "without a run" not in getattr(flow.until(WorkerState), "words", ""):
            pass
    assert not psutil.pid_exists(pid)
    one.start("m:work")
    one.committed()


def test_a_session_that_cannot_start_fails_what_waits_for_it(harness: PoolsHarness) -> None:
    one = harness.flow("one", StartSession({"unfit": ""}, pool="p"))
    one.start("m:work")
    lost = one.until(WorkerLost, AttemptDisplaced)
    assert isinstance(lost, WorkerLost)
    assert lost.reason == "no Java"
