"""What becomes of an attempt that its worker cannot carry out, without Spark."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from headgate.spark import Ending, StepEnded, StepRequest, Thrift2Address, WorkerReply
from headgate.spark.worker.printing import PrintedLines
from headgate.spark.worker.worker import Worker


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
