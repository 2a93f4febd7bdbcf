"""The warm session, with a worker that speaks the protocol but starts no Spark."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from scripted_worker import write_worker

from headgate.agent.launchers.warm.resting import Rest
from headgate.agent.launchers.warm.sessions import WarmSession
from headgate.agent.ports import Report, WorkerLost, WorkerState
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
behaviour = heard(sys.stdin.buffer.readline()).conf.get("behaviour", "")
if behaviour == "unfit":
    say("unfit", reason="no Java", detail="Traceback: no Java")
    sys.exit(1)
if behaviour != "cold":
    ready()
for line in sys.stdin.buffer:
    request = heard(line)
    started(request)
    if request.entry == "m:die":
        os._exit(3)
    while request.entry == "m:wait" and not os.path.exists("{finish}"):
        time.sleep(0.01)
    if request.entry in ("m:work", "m:wait"):
        ended(request)
"""


class SessionHarness:
    """A session and what it reports."""

    def __init__(self, directory: Path, behaviour: str, patience: float, idle: float) -> None:
        self.finish = directory / "finish"
        python = write_worker(directory / "python", WORKER.format(finish=self.finish))
        self.reports: queue.Queue[Report] = queue.Queue()
        self.session = WarmSession(
            StartSession({"behaviour": behaviour}),
            directory / "work",
            python,
            patience,
            self.reports.put,
            Supervision(lambda _: None),
            rest=Rest(idle),
        )

    def until(self, kind: type[Report] | Callable[[Report], bool]) -> Report:
        while True:
            report = self.reports.get(timeout=WAIT)
            if isinstance(report, kind) if isinstance(kind, type) else kind(report):
                return report

    def rested(self) -> WorkerState:
        report = self.until(lambda r: isinstance(r, WorkerState) and "without a run" in r.words)
        assert isinstance(report, WorkerState)
        return report

    def ready(self) -> WorkerState:
        report = self.until(lambda r: isinstance(r, WorkerState) and r.ready)
        assert isinstance(report, WorkerState)
        return report


@pytest.fixture
def make_harness(tmp_path: Path) -> Iterator[Callable[..., SessionHarness]]:
    made: list[SessionHarness] = []

    def make(behaviour: str = "", patience: float = WAIT, idle: float = 0.0) -> SessionHarness:
        made.append(SessionHarness(tmp_path, behaviour, patience, idle))
        return made[-1]

    yield make
    for one in made:
        one.session.close()


def noted(report: Report, seen: list[Report]) -> Report:
    """Return it; ``seen`` has it from then on."""
    seen.append(report)
    return report


def request(entry: str, attempt: int = 1) -> StepRequest:
    return StepRequest("flow", "a", "run", attempt, 1, entry, Thrift2Address("h", 1), "k:1")


def test_an_attempt_is_handed_to_the_worker_once_it_is_warm(
    make_harness: Callable[..., SessionHarness],
) -> None:
    one = make_harness()
    one.session.start(request("m:work"))
    assert one.ready().pid
    assert one.until(StepStarted) == StepStarted("run", 1)
    ended = one.until(StepEnded)
    assert isinstance(ended, StepEnded)
    assert ended.ending is Ending.COMMITTED


def test_a_worker_that_ends_under_an_attempt_is_told_and_replaced(
    make_harness: Callable[..., SessionHarness],
) -> None:
    one = make_harness()
    first = one.ready().pid
    one.session.start(request("m:die"))
    lost = one.until(WorkerLost)
    assert isinstance(lost, WorkerLost)
    assert (lost.run, lost.attempt) == ("run", 1)
    assert "worker.log" in lost.reason
    assert one.ready().pid != first
    one.session.start(request("m:work", attempt=2))
    assert isinstance(one.until(StepEnded), StepEnded)


def test_a_killed_worker_gives_the_reason_for_which_it_was_killed(
    make_harness: Callable[..., SessionHarness],
) -> None:
    one = make_harness()
    one.ready()
    one.session.start(request("m:hang"))
    one.until(StepStarted)
    one.session.cancel("run", 1, "it took too long")
    lost = one.until(WorkerLost)
    assert isinstance(lost, WorkerLost)
    assert lost.reason == "it took too long"


def test_the_end_of_another_attempt_leaves_the_one_under_way_alone(
    make_harness: Callable[..., SessionHarness],
) -> None:
    one = make_harness()
    one.session.start(request("m:wait", attempt=2))
    one.until(StepStarted)
    one.session.cancel("another", 2, "its job has just ended")
    one.session.cancel("run", 1, "it took too long")
    one.finish.touch()
    ended = one.until(lambda r: isinstance(r, WorkerLost | StepEnded))
    assert isinstance(ended, StepEnded)


def test_an_attempt_that_is_ended_before_there_is_a_worker_is_not_begun(
    make_harness: Callable[..., SessionHarness],
) -> None:
    one = make_harness()
    one.ready()
    one.session.use(None)
    one.until(lambda r: isinstance(r, WorkerState) and "nothing is launched" in r.words)
    one.session.start(request("m:work"))
    one.session.cancel("run", 1, "it was cancelled by hand")
    one.session.use(StartSession({}))
    lost = one.until(lambda r: isinstance(r, WorkerLost | StepStarted))
    assert lost == WorkerLost("run", 1, "it was cancelled by hand")


def test_a_worker_that_ends_idle_is_replaced_without_a_lost_attempt(
    make_harness: Callable[..., SessionHarness],
) -> None:
    one = make_harness()
    psutil.Process(one.ready().pid).kill()
    one.ready()
    one.session.start(request("m:work"))
    seen: list[Report] = []
    one.until(lambda r: isinstance(noted(r, seen), StepEnded))
    assert not any(isinstance(r, WorkerLost) for r in seen)


def test_a_session_that_does_not_get_warm_fails_the_attempt_that_waits(
    make_harness: Callable[..., SessionHarness],
) -> None:
    one = make_harness("cold", 0.3)
    one.session.start(request("m:work"))
    lost = one.until(WorkerLost)
    assert isinstance(lost, WorkerLost)
    assert "not warm after 0.3 s" in lost.reason


def test_a_session_that_cannot_start_tells_why(make_harness: Callable[..., SessionHarness]) -> None:
    one = make_harness("unfit")
    one.session.start(request("m:work"))
    lost = one.until(WorkerLost)
    assert isinstance(lost, WorkerLost)
    assert (lost.reason, lost.detail) == ("no Java", "Traceback: no Java")


def test_another_configuration_is_used_by_another_worker(
    make_harness: Callable[..., SessionHarness],
) -> None:
    one = make_harness()
    first = one.ready().pid
    one.session.use(StartSession({"other": "setting"}))
    assert one.ready().pid != first
    one.session.start(request("m:work"))
    assert isinstance(one.until(StepEnded), StepEnded)


def test_another_configuration_waits_for_the_attempt_under_way(
    make_harness: Callable[..., SessionHarness],
) -> None:
    one = make_harness()
    first = one.ready().pid
    one.session.start(request("m:wait"))
    one.until(StepStarted)
    one.session.use(StartSession({"other": "setting"}))
    one.finish.touch()
    seen: list[Report] = []
    one.until(lambda r: isinstance(each := noted(r, seen), WorkerState) and each.ready)
    assert isinstance(seen[0], StepEnded)
    assert isinstance(seen[-1], WorkerState)
    assert seen[-1].pid != first


def test_an_attempt_that_waits_for_the_worker_is_made_before_there_is_none(
    make_harness: Callable[..., SessionHarness],
) -> None:
    one = make_harness()
    with one.session._lock:  # its thread has not looked at the configuration yet
        one.session._request = request("m:work")
        one.session._start = None
    one.session.use(None)
    assert isinstance(one.until(StepEnded), StepEnded)
    one.until(lambda r: isinstance(r, WorkerState) and r.words.startswith("none"))


def test_without_a_configuration_there_is_no_worker_until_there_is_one(
    make_harness: Callable[..., SessionHarness],
) -> None:
    one = make_harness()
    pid = one.ready().pid
    one.session.use(None)
    one.until(lambda r: isinstance(r, WorkerState) and r.words.startswith("none"))
    assert pid is not None
    assert not psutil.pid_exists(pid)
    one.session.use(StartSession({}))
    one.ready()


def test_a_worker_that_does_nothing_ends_and_starts_again_for_the_next_attempt(
    make_harness: Callable[..., SessionHarness],
) -> None:
    one = make_harness(idle=0.05)
    first = one.ready().pid
    assert not one.rested().ready
    assert first is not None
    assert not psutil.pid_exists(first)
    assert one.reports.empty()  # and none is started for nothing

    one.session.start(request("m:work"))

    assert one.ready().pid != first
    seen: list[Report] = []
    one.until(lambda r: isinstance(noted(r, seen), StepEnded))
    assert not any(isinstance(r, WorkerLost) for r in seen)
    one.rested()


def test_a_worker_with_an_attempt_does_not_rest(
    make_harness: Callable[..., SessionHarness],
) -> None:
    one = make_harness(idle=0.05)
    one.ready()
    one.session.start(request("m:wait"))
    one.until(StepStarted)
    one.session.expect(None)  # has the session look at its clock again
    with pytest.raises(queue.Empty):
        one.reports.get(timeout=0.3)
    one.finish.touch()
    assert isinstance(one.until(StepEnded), StepEnded)
    one.rested()


def test_a_worker_that_rests_starts_again_ahead_of_a_run_that_is_foreseen(
    make_harness: Callable[..., SessionHarness],
) -> None:
    one = make_harness(idle=0.05)
    first = one.ready().pid
    one.rested()
    one.session.expect(4.0)  # nearer than the least lead
    assert one.ready().pid != first
    one.session.expect(None)  # it is not awaited any more
    one.rested()


def test_nothing_is_left_of_a_session_that_rests(
    make_harness: Callable[..., SessionHarness],
) -> None:
    one = make_harness(idle=0.05)
    one.ready()
    one.rested()
    one.session.close()
    one.session.close()


def test_nothing_is_left_of_a_closed_session(make_harness: Callable[..., SessionHarness]) -> None:
    one = make_harness()
    pid = one.ready().pid
    one.session.start(request("m:hang"))
    one.until(StepStarted)
    one.session.close()
    assert pid is not None
    assert not psutil.pid_exists(pid)
