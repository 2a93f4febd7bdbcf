"""The process that claims a run, has it carried out and notes how it ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from headgate import incremental
from headgate.agent.launchers import job_runner
from headgate.agent.launchers.job_runner import JobRunner
from headgate.client import Columns, ConnectionFailed
from headgate.engine import FilesSpec
from headgate.flows import CommandLauncher, ConnectLauncher
from headgate.incremental import StateError, UnsentIncrement
from headgate.spark import Committed, Ending, KafkaAddress, RunLedger, StageRequest


class Rows:
    """A table for the ledger of one run, and the connection to it."""

    def __init__(self) -> None:
        self.value: bytes | None = None
        self.named: dict[bytes, bytes] = {}
        """What programs have named, by attempt."""
        self.lost = 0
        """How many of the next moves are answered by nobody."""

    def __call__(self, host: str, port: int) -> Rows:
        return self

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def get(self, table: str, row: bytes, columns: Any = ()) -> dict[bytes, bytes]:
        if row.startswith(b"result/"):
            return self.named
        return {} if self.value is None else {b"run:state": self.value}

    def check_and_put(
        self, table: str, row: bytes, column: bytes, expected: bytes | None, put: Columns, **_: Any
    ) -> bool:
        if self.value != expected:
            return False
        self.value = put[column]
        if self.lost:
            self.lost -= 1
            raise ConnectionFailed("no reply")
        return True


class Ended:
    """Work that is over as soon as it began, and noted its code."""

    def __init__(self, files: Any, failure: str) -> None:
        self._files = files
        self._failure = failure

    def start(self) -> None:
        self._files.log.write_text("")
        self._files.code.write_text("ab12")

    def outcome(self) -> str:
        return self._failure

    def stop(self) -> None:
        pass


@pytest.mark.parametrize(
    ("failure", "ending"), [("", Ending.COMMITTED), ("status 1", Ending.FAILED)]
)
def test_how_a_job_ended_names_the_code_that_it_ran(
    make_job: Any, monkeypatch: pytest.MonkeyPatch, failure: str, ending: Ending
) -> None:
    monkeypatch.setattr(job_runner, "Thrift2Connection", Rows())
    files, job = make_job(ConnectLauncher("steps:zones"))
    JobRunner(files, job, lambda: Ended(files, failure)).run()
    ended = files.ended()
    assert ended is not None
    assert (ended.ending, ended.code) == (ending, "ab12")


def test_of_its_log_the_end_is_shown_however_long_the_lines(
    make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_runner, "Thrift2Connection", Rows())
    files, job = make_job(CommandLauncher(("false",)))
    files.log.write_text("\n".join("x" * 100_000 for _ in range(50)) + "\nit failed")
    work = SimpleNamespace(start=lambda: None, outcome=lambda: "status 1", stop=lambda: None)
    JobRunner(files, job, lambda: work).run()
    ended = files.ended()
    assert ended is not None
    assert (ended.ending, ended.reason) == (Ending.FAILED, "status 1")
    assert ended.detail.endswith("\nit failed")
    assert len(ended.detail) <= 1 << 16


def ended_by(make_job: Any, rows: Rows, failure: str = "") -> Any:
    """Return how a job ended whose program has named something, and how its run stands."""
    files, job = make_job(ConnectLauncher("steps:zones"))
    JobRunner(files, job, lambda: Ended(files, failure)).run()
    return files.ended(), RunLedger(cast(Any, rows), "headgate").state(job.request.key)


@pytest.mark.parametrize("lost", [0, 3])
def test_a_job_commits_what_its_own_program_has_named(
    make_job: Any, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    monkeypatch.setattr(job_runner, "_PAUSE", 0.0)
    rows = Rows()
    monkeypatch.setattr(job_runner, "Thrift2Connection", rows)
    rows.named = {b"run:result-6": b"of a zombie", b"run:result-7": b"manifest-2"}
    rows.lost = lost
    ended, state = ended_by(make_job, rows)
    assert (ended.ending, ended.result) == (Ending.COMMITTED, "manifest-2")
    assert state == Committed(2, 7, "holder", "manifest-2")


def test_a_job_that_named_nothing_commits_no_result(
    make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = Rows()
    monkeypatch.setattr(job_runner, "Thrift2Connection", rows)
    rows.named = {b"run:result-6": b"of a zombie"}
    ended, state = ended_by(make_job, rows)
    assert (ended.ending, ended.result, state.result) == (Ending.COMMITTED, "", "")


@pytest.mark.parametrize(
    ("named", "failure", "reason"),
    [(b"manifest-2", "status 1", "status 1"), (b"\xff", "", "holds what no run has named")],
)
def test_a_job_that_fails_or_whose_result_is_none_commits_nothing(
    make_job: Any, monkeypatch: pytest.MonkeyPatch, named: bytes, failure: str, reason: str
) -> None:
    rows = Rows()
    monkeypatch.setattr(job_runner, "Thrift2Connection", rows)
    rows.named = {b"run:result-7": named}
    ended, state = ended_by(make_job, rows, failure)
    assert (ended.ending, ended.result) == (Ending.FAILED, "")
    assert reason in ended.reason
    assert not isinstance(state, Committed)


@pytest.mark.parametrize(
    "trouble", [None, OSError("a full disk"), StateError("no manifest"), UnsentIncrement("x")]
)
def test_a_job_publishes_what_a_stage_has_written_once_it_is_committed(
    make_job: Any, monkeypatch: pytest.MonkeyPatch, trouble: Exception | None
) -> None:
    rows = Rows()
    monkeypatch.setattr(job_runner, "Thrift2Connection", rows)
    rows.named = {b"run:result-7": b"manifest-2"}
    published: list[Any] = []

    def publish(stage: StageRequest, result: str, kafka: KafkaAddress) -> None:
        assert rows.value is not None
        assert b"committed" in rows.value
        published.append((stage, result, kafka.bootstrap))
        if trouble is not None:
            raise trouble

    monkeypatch.setattr(incremental, "publish_committed", publish)
    files, job = make_job(ConnectLauncher("steps:zones"))
    stage = StageRequest("/stages", sinks={"flow": FilesSpec("/out")})
    job = replace(job, request=replace(job.request, stage=stage))
    JobRunner(files, job, lambda: Ended(files, "")).run()

    assert published == [(stage, "manifest-2", job.request.kafka)]
    ended = files.ended()
    assert ended is not None
    assert (ended.ending, ended.result) == (Ending.COMMITTED, "manifest-2")
    assert (str(trouble) in files.log.read_text()) == (trouble is not None)
