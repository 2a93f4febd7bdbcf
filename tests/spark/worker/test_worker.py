"""What becomes of an attempt in its worker, and what its commit names, without Spark."""

from __future__ import annotations

import io
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from pyspark import SparkContext

from headgate.client import Columns, ConnectionFailed
from headgate.spark import (
    Committed,
    Ending,
    RunLedger,
    StepEnded,
    StepRequest,
    StepStarted,
    Thrift2Address,
    WorkerReply,
)
from headgate.spark import ledger as ledger_module
from headgate.spark.worker import worker as module
from headgate.spark.worker.printing import PrintedLines
from headgate.spark.worker.worker import Worker

STEPS = """
def step(run):
    run.commit_as("before " + run.previous)
    run.commit_as("after " + run.previous)

def silent(run):
    pass

def broken(run):
    run.commit_as("never")
    raise ValueError("after all")

def too_long(run):
    run.commit_as("x" * 9000)

def followed(run):
    run.when_committed(lambda: run.parameters["followed"].append(run.id))

def followed_by_nobody(run):
    run.when_committed(lambda: 1 / 0)

def failing(run):
    followed(run)
    raise ValueError("after all")
"""


class Rows:
    """A table for the ledger of one run, and the connection to it."""

    def __init__(self) -> None:
        self.value: bytes | None = None
        self.lost = 0
        """How many of the next commits are answered by nobody."""
        self.before_commit: Callable[[], object] = lambda: None

    def __call__(self, host: str, port: int) -> Rows:
        return self

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def get(self, table: str, row: bytes, columns: Any = ()) -> dict[bytes, bytes]:
        return {} if self.value is None else {b"run:state": self.value}

    def check_and_put(
        self, table: str, row: bytes, column: bytes, expected: bytes | None, put: Columns, **_: Any
    ) -> bool:
        commits = b"committed" in put[column]
        if commits:
            self.before_commit()
        held = self.value == expected
        if held:
            self.value = put[column]
        if commits and self.lost:
            self.lost -= 1
            raise ConnectionFailed("no reply")
        return held


@pytest.fixture(autouse=True)
def no_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no session that other tests of this process have ended, which threads would ask."""
    monkeypatch.setattr(SparkContext, "_gateway", None)


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    made = Rows()
    monkeypatch.setattr(module, "Thrift2Connection", made)
    monkeypatch.setattr(ledger_module, "_PAUSES", (0.0, 0.0, 0.0))
    return made


@pytest.fixture
def carry_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], StepEnded]]:
    monkeypatch.setattr(module, "register_sources", lambda _: None)
    finders, path = list(sys.meta_path), list(sys.path)
    name = f"steps_{uuid.uuid4().hex}"
    (tmp_path / f"{name}.py").write_text(STEPS)
    told: list[WorkerReply] = []
    worker = Worker(MagicMock(), told.append, tmp_path, PrintedLines(io.StringIO()), None)

    def run(function: str, **parameters: Any) -> StepEnded:
        request = StepRequest(
            *("flow", "a", "run", 1, 7, f"{name}:{function}"), Thrift2Address("h", 1), "k:1",
            python_path=(str(tmp_path),), previous="manifest-1", parameters=parameters,
        )  # fmt: skip
        worker.begin(request).join()
        started, ended = told
        assert isinstance(started, StepStarted)
        assert isinstance(ended, StepEnded)
        return ended

    yield run
    sys.meta_path[:] = finders
    sys.path[:] = path


def state(rows: Rows) -> Any:
    request = StepRequest("flow", "a", "run", 1, 7, "", Thrift2Address("h", 1), "")
    return RunLedger(cast("Any", rows), "headgate").state(request.key)


@pytest.mark.parametrize(("function", "result"), [("step", "after manifest-1"), ("silent", "")])
@pytest.mark.parametrize("lost", [0, 2])
def test_a_commit_names_what_the_step_said_last(
    rows: Rows, carry_out: Any, function: str, result: str, lost: int
) -> None:
    rows.lost = lost
    ended = carry_out(function)
    assert (ended.ending, ended.result) == (Ending.COMMITTED, result), ended.detail
    assert state(rows).result == result


@pytest.mark.parametrize(
    ("function", "reason"), [("broken", "after all"), ("too_long", "at most 8,192 characters")]
)
def test_a_step_that_fails_names_nothing(
    rows: Rows, carry_out: Any, function: str, reason: str
) -> None:
    ended = carry_out(function)
    assert (ended.ending, ended.result) == (Ending.FAILED, "")
    assert reason in ended.reason
    assert not isinstance(state(rows), Committed)


def test_what_follows_a_commit_is_done_after_it(rows: Rows, carry_out: Any) -> None:
    followed: list[str] = []
    rows.before_commit = lambda: followed.append("the commit")
    assert carry_out("followed", followed=followed).ending is Ending.COMMITTED
    assert followed == ["the commit", "run"]


def test_what_follows_does_not_undo_a_commit(rows: Rows, carry_out: Any) -> None:
    ended = carry_out("followed_by_nobody")
    assert ended.ending is Ending.COMMITTED
    assert "ZeroDivisionError" in Path(ended.log).read_text()


@pytest.mark.parametrize(("function", "lost"), [("failing", 0), ("followed", 99)])
def test_without_a_commit_nothing_follows(
    rows: Rows, carry_out: Any, function: str, lost: int
) -> None:
    followed: list[str] = []
    rows.lost = lost
    assert carry_out(function, followed=followed).ending is not Ending.COMMITTED
    assert followed == []


def test_a_commit_that_nobody_answers_is_the_ledgers_to_tell(rows: Rows, carry_out: Any) -> None:
    rows.lost = 99
    ended = carry_out("step")
    assert (ended.ending, ended.result) == (Ending.UNCERTAIN, "")
    assert state(rows).result == "after manifest-1"


def test_a_zombie_says_nothing_of_what_it_would_have_named(rows: Rows, carry_out: Any) -> None:
    done = b'{"type":"committed","attempt":2,"token":9,"holder":"b","result":"manifest-2"}'
    rows.before_commit = lambda: setattr(rows, "value", done)
    ended = carry_out("step")
    assert (ended.ending, ended.result) == (Ending.LOST_CLAIM, "")
    assert state(rows).result == "manifest-2"


def test_an_attempt_whose_log_cannot_be_written_ends_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("no folder")
    told: list[WorkerReply] = []
    worker = Worker(
        cast("Any", SimpleNamespace()), told.append, tmp_path, PrintedLines(io.StringIO()), None
    )
    request = StepRequest("flow", "a", "run", 2, 1, "m:work", Thrift2Address("h", 1), "k:1")
    worker.begin(request).join()
    worker.close_space("")
    (ended,) = told
    assert isinstance(ended, StepEnded)
    assert (ended.run, ended.attempt, ended.ending) == ("run", 2, Ending.UNCERTAIN)
    assert str(tmp_path / "runs") in ended.reason
    worker.cancel("run", 2)
    assert told == [ended]
