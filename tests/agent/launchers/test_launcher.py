"""What happens to jobs is reported as their attempts', with jobs that move by hand."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from headgate.agent.launchers.job import Job, JobKey
from headgate.agent.launchers.launcher import JobsLauncher
from headgate.agent.launchers.local_jobs import Gone, JobState, Over, Underway
from headgate.agent.ports import Report, WorkerLost
from headgate.agent.supervision import Supervision
from headgate.flows import CommandLauncher
from headgate.spark import Ending, StepEnded, StepStarted

WAIT = 30.0  # seconds until something that must happen counts as missing
KEY = JobKey("r 1", 2)


class Jobs:
    def __init__(self) -> None:
        self.states: dict[JobKey, JobState] = {}
        self.launched: list[JobKey] = []
        self.found: Job | None = None
        self.cancelled: set[JobKey] = set()

    def launch(self, job: Job) -> None:
        self.launched.append(job.key)
        self.states.setdefault(job.key, Underway(claimed=False))

    def find(self, run: str, before: int) -> Job | None:
        return self.found

    def poll(self, key: JobKey) -> JobState:
        return self.states[key]

    def cancel(self, key: JobKey) -> None:
        self.cancelled.add(key)
        self.end(key, Ending.CANCELLED)

    def kill(self, key: JobKey) -> None:
        self.cancel(key)

    def log(self, key: JobKey) -> Path | None:
        return Path(f"{key.attempt}.log") if key in self.states else None

    def leaving(self) -> bool:
        return False

    def end(self, key: JobKey, ending: Ending) -> None:
        self.states[key] = Over(StepEnded(key.run, key.attempt, ending, 1.0), claimed=True)


class JobsHarness:
    """A launcher of jobs that move by hand, and what it reports."""

    def __init__(self) -> None:
        self.jobs = Jobs()
        self.reports: queue.Queue[Report] = queue.Queue()
        self.launcher = JobsLauncher(
            self.jobs, self.reports.put, Supervision(lambda _: None), "flow"
        )

    def next(self) -> Report:
        return self.reports.get(timeout=WAIT)


@pytest.fixture
def harness() -> Iterator[JobsHarness]:
    harness = JobsHarness()
    yield harness
    harness.launcher.close()


@pytest.fixture
def job(make_job: Any) -> Job:
    made: Job = make_job(CommandLauncher(("true",)))[1]
    return made


def test_a_job_has_started_when_its_run_is_claimed(harness: JobsHarness, job: Job) -> None:
    harness.launcher.start(job)
    harness.jobs.states[KEY] = Underway(claimed=True)
    assert harness.next() == StepStarted("r 1", 2)
    harness.jobs.end(KEY, Ending.COMMITTED)
    ended = harness.next()
    assert isinstance(ended, StepEnded)
    assert (ended.attempt, ended.ending) == (2, Ending.COMMITTED)


def test_a_job_that_outlived_its_agent_is_reported_under_the_new_number(
    harness: JobsHarness, job: Job
) -> None:
    harness.jobs.found = job
    harness.jobs.states[KEY] = Underway(claimed=True)
    assert harness.launcher.recover("r 1", 3)
    assert harness.next() == StepStarted("r 1", 3)
    told = StepEnded("r 1", 2, Ending.COMMITTED, 1.0, result="manifest-2")
    harness.jobs.states[KEY] = Over(told, claimed=True)
    ended = harness.next()
    assert isinstance(ended, StepEnded)
    assert (ended.attempt, ended.result) == (3, "manifest-2")
    assert harness.launcher.log("r 1", 3) == Path("2.log")


def test_nothing_is_recovered_where_nothing_is_left(harness: JobsHarness) -> None:
    assert not harness.launcher.recover("r 1", 3)


def test_a_job_whose_processes_were_killed_is_lost(harness: JobsHarness, job: Job) -> None:
    harness.launcher.start(job)
    harness.jobs.states[KEY] = Gone("it was killed")
    assert harness.next() == WorkerLost("r 1", 2, "it was killed")


def test_a_cancelled_job_tells_why(harness: JobsHarness, job: Job) -> None:
    harness.launcher.start(job)
    assert harness.launcher.cancel("r 1", 2, "it took too long")
    assert harness.next() == StepStarted("r 1", 2)
    assert harness.next() == WorkerLost("r 1", 2, "it took too long")
    assert not harness.launcher.cancel("r 1", 2, "again")


def test_a_job_that_commits_while_it_is_cancelled_has_committed(
    harness: JobsHarness, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness.jobs, "cancel", lambda key: harness.jobs.end(key, Ending.COMMITTED))
    harness.launcher.start(job)
    harness.launcher.cancel("r 1", 2, "it took too long")
    assert harness.next() == StepStarted("r 1", 2)
    ended = harness.next()
    assert isinstance(ended, StepEnded)
    assert ended.ending is Ending.COMMITTED


def test_cancelling_all_ends_every_job(harness: JobsHarness, job: Job) -> None:
    harness.launcher.start(job)
    other = structs.replace(job, request=structs.replace(job.request, run="other"))
    harness.launcher.start(other)
    harness.launcher.cancel_all("the dataflow was removed")
    assert harness.jobs.cancelled == {KEY, JobKey("other", 2)}


def test_a_runner_that_cannot_be_started_loses_the_attempt(
    harness: JobsHarness, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(job: Job) -> None:
        message = "disk full"
        raise OSError(message)

    monkeypatch.setattr(harness.jobs, "launch", refuse)
    harness.launcher.start(job)
    lost = harness.next()
    assert isinstance(lost, WorkerLost)
    assert "disk full" in lost.reason
