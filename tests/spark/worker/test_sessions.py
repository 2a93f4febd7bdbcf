"""The agent's end of a worker, with small programs in the worker's place."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.spark import (
    CancelStep,
    SessionWorker,
    StartSession,
    StepStarted,
    WorkerGone,
    WorkerReady,
    WorkerReply,
    decode_message,
    encode_line,
)

WAIT = 30.0
Heard = queue.Queue[WorkerReply | int]
Begin = Callable[[str], tuple[SessionWorker, Heard]]


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    """Start a program that is given ``reply`` (a function) and ``requests`` (lines)."""

    def started(program: str) -> tuple[SessionWorker, Heard]:
        stub = tmp_path / "stub"
        stub.write_text(
            f"#!{sys.executable}\n"
            "import os, sys, time\n"
            "fd = int(sys.argv[-1])\n"
            "reply = lambda line: os.write(fd, line)\n"
            "requests = iter(sys.stdin.buffer.readline, b'')\n" + program
        )
        stub.chmod(0o755)
        heard: Heard = queue.Queue()
        worker = SessionWorker(
            StartSession({"spark.master": "local[1]"}),
            tmp_path / "work",
            on_reply=heard.put,
            on_exit=heard.put,
            python=str(stub),
        )
        return worker, heard

    return started


def test_replies_come_in_order_and_the_exit_last(begin: Begin) -> None:
    said: list[WorkerReply] = [WorkerReady(1, "4", 0.5), StepStarted("r", 1)]
    lines = [encode_line(reply) for reply in said]
    _, heard = begin(f"next(requests)\nfor line in {lines!r}: reply(line)\nsys.exit(3)\n")

    assert [heard.get(timeout=WAIT) for _ in range(3)] == [*said, 3]


def test_the_first_message_is_the_start_and_requests_follow(begin: Begin) -> None:
    worker, heard = begin("open('heard', 'wb').writelines(requests)\n")
    worker.cancel("r", 1)

    assert worker.stop() == 0

    assert heard.get(timeout=WAIT) == 0
    lines = (worker.log.parent / "heard").read_bytes().splitlines()
    assert [decode_message(line) for line in lines] == [
        StartSession({"spark.master": "local[1]"}),
        CancelStep("r", 1),
    ]


def test_a_worker_that_does_not_stop_is_killed(begin: Begin) -> None:
    worker, heard = begin("time.sleep(600)\n")

    assert worker.stop(seconds=0.1) < 0
    assert heard.get(timeout=WAIT) == worker.stop()
    assert not worker.alive


def test_a_worker_that_has_ended_takes_no_request(begin: Begin) -> None:
    worker, heard = begin("next(requests)\nsys.exit(0)\n")
    assert heard.get(timeout=WAIT) == 0

    with pytest.raises(WorkerGone, match="its log is"):
        worker.cancel("r", 1)


def test_an_exit_is_told_though_a_forked_child_holds_the_reply_pipe(begin: Begin) -> None:
    started = encode_line(StepStarted("child", 1))
    _, heard = begin(
        f"next(requests)\nif os.fork(): reply({started!r}); sys.exit(0)\ntime.sleep(600)\n"
    )

    assert heard.get(timeout=WAIT) == StepStarted("child", 1)
    assert heard.get(timeout=WAIT) == 0


def test_what_a_worker_prints_is_in_its_log(begin: Begin) -> None:
    worker, heard = begin("next(requests)\nprint('from the worker')\n")

    assert heard.get(timeout=WAIT) == 0
    assert worker.log.read_text() == "from the worker\n"
