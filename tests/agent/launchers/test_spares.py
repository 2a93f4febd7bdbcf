"""Spare sessions, with a worker that speaks the protocol but starts no Spark."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from scripted_worker import write_worker

from headgate.agent.launchers.warm.pools import SessionPools
from headgate.agent.launchers.warm.sessions import WarmSession
from headgate.agent.launchers.warm.spares import SpareSessions
from headgate.agent.ports import Report, WorkerLost, WorkerState
from headgate.agent.supervision import Supervision
from headgate.spark import Ending, StartSession, StepEnded, StepRequest, Thrift2Address

WAIT = 300.0  # seconds, on the busiest machine, until something that must happen counts as missing
WORKER = """
for line in sys.stdin.buffer:
    request = heard(line)
    if request.type == "start":
        ready()
    elif request.type == "adopt":
        if "spark.sql.static" in request.conf:
            say("unfit", reason="static", detail="it cannot be changed")
            sys.exit(1)
        with open("adopted", "w") as told:
            told.write(request.directory)
        ready(0.0)
    else:
        started(request)
        ended(request)
"""
REQUEST = StepRequest("flow", "a", "run", 1, 1, "m:work", Thrift2Address("h", 1), "k:1")


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


def children() -> set[int]:
    """Return the processes that this one has started and that have not ended."""
    return {child.pid for child in psutil.Process().children()}


class SparesHarness:
    """Spare sessions, and dataflows that come to have one."""

    def __init__(self, directory: Path, number: int, start: StartSession) -> None:
        self._directory = directory
        self._python = write_worker(directory / "python", WORKER)
        self._supervision = Supervision(lambda _: None)
        self.spares = SpareSessions(
            number, start, directory / "spares", self._python, WAIT, self._supervision, 0.0
        )
        self._pools = SessionPools(directory / "pools", self._python, self.spares)
        self.sessions: list[WarmSession] = []
        # Such as the JVM of another test's Spark.
        self._others = children()

    def warm(self, number: int = 1) -> set[int]:
        """Wait for so many spares and return the processes of all workers."""
        until(lambda: self.spares.warm == number)
        return self.workers()

    def workers(self) -> set[int]:
        return children() - self._others

    def dataflow(self, start: StartSession) -> queue.Queue[Report]:
        reports: queue.Queue[Report] = queue.Queue()
        self.sessions.append(
            WarmSession(
                start,
                self._directory / f"flow-{len(self.sessions)}",
                self._python,
                WAIT,
                reports.put,
                self._supervision,
                self.spares,
            )
        )
        return reports

    def pooled(self, name: str) -> queue.Queue[Report]:
        reports: queue.Queue[Report] = queue.Queue()
        self.sessions.append(
            WarmSession(
                StartSession(pool="p"),
                self._directory / name,
                self._python,
                WAIT,
                reports.put,
                self._supervision,
                pools=self._pools,
            )
        )
        return reports

    def close(self) -> None:
        self.spares.close()
        for session in self.sessions:
            session.close()


@pytest.fixture
def make_harness(tmp_path: Path) -> Iterator[Callable[..., SparesHarness]]:
    made: list[SparesHarness] = []

    def make(number: int = 1, start: StartSession | None = None) -> SparesHarness:
        made.append(SparesHarness(tmp_path, number, start or StartSession({})))
        made[-1].spares.start()
        return made[-1]

    yield make
    for one in made:
        one.close()


def ready(reports: queue.Queue[Report]) -> int | None:
    while True:
        report = reports.get(timeout=WAIT)
        assert not isinstance(report, WorkerLost), report
        if isinstance(report, WorkerState) and report.ready:
            return report.pid


def test_a_dataflow_takes_a_spare_and_works_in_it(
    make_harness: Callable[..., SparesHarness], tmp_path: Path
) -> None:
    one = make_harness()
    spares = one.warm()

    reports = one.dataflow(StartSession({"spark.sql.shuffle.partitions": "4"}, ("/steps",)))

    assert ready(reports) in spares
    assert (tmp_path / "spares" / "1" / "adopted").read_text() == str(tmp_path / "flow-0")
    one.sessions[0].start(REQUEST)
    until(lambda: isinstance(reports.get(timeout=WAIT), StepEnded))


def test_a_pool_takes_one_spare_for_all_its_dataflows(
    make_harness: Callable[..., SparesHarness], tmp_path: Path
) -> None:
    one = make_harness(number=2)
    spares = one.warm(2)

    first, second = one.pooled("first"), one.pooled("second")

    pid = ready(first)
    assert pid in spares
    assert ready(second) == pid
    adopted = [p.read_text() for p in (tmp_path / "spares").rglob("adopted")]
    assert adopted == [str(tmp_path / "pools" / "p-0")]


def test_a_spare_that_was_taken_is_replaced(make_harness: Callable[..., SparesHarness]) -> None:
    one = make_harness()
    one.warm()

    first = ready(one.dataflow(StartSession({})))

    assert first not in one.warm() - {first}
    assert ready(one.dataflow(StartSession({}))) != first


def test_a_dataflow_with_other_settings_of_its_jvm_starts_its_own(
    make_harness: Callable[..., SparesHarness],
) -> None:
    one = make_harness(start=StartSession({"spark.driver.memory": "2g", "spark.sql.x": "1"}))
    spares = one.warm()

    assert ready(one.dataflow(StartSession({}))) not in spares
    assert one.spares.warm == 1
    assert ready(one.dataflow(StartSession({"spark.driver.memory": "2g"}))) in spares


def test_without_a_warm_spare_a_dataflow_starts_its_own(
    make_harness: Callable[..., SparesHarness],
) -> None:
    one = make_harness(number=0)

    assert ready(one.dataflow(StartSession({})))
    assert one.spares.warm == 0


def test_a_spare_that_ended_is_replaced_and_not_given_away(
    make_harness: Callable[..., SparesHarness],
) -> None:
    one = make_harness()
    (spare,) = one.warm()

    psutil.Process(spare).kill()
    until(lambda: one.spares.warm == 1 and spare not in one.workers())

    assert ready(one.dataflow(StartSession({}))) != spare


def test_a_setting_that_a_live_session_refuses_costs_no_attempt(
    make_harness: Callable[..., SparesHarness],
) -> None:
    one = make_harness()
    spares = one.warm()
    reports = one.dataflow(StartSession({"spark.sql.static": "1"}))
    one.sessions[0].start(REQUEST)

    assert ready(reports) not in spares
    ended = reports.get(timeout=WAIT)
    while not isinstance(ended, StepEnded):
        assert not isinstance(ended, WorkerLost), ended
        ended = reports.get(timeout=WAIT)
    assert ended.ending is Ending.COMMITTED


def test_nothing_is_left_of_closed_spares(make_harness: Callable[..., SparesHarness]) -> None:
    one = make_harness(number=2)
    spares = one.warm(2)
    assert len(spares) == 2

    one.spares.close()

    until(lambda: not spares & one.workers())
    assert ready(one.dataflow(StartSession({}))) not in spares
