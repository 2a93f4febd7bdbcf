"""Trainings run one at a time, in processes that may crash, hang or say anything."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from asked import SPEC, task
from tests.shared_processes import command_of

from headgate.agent.supervision import Supervision
from headgate.agent.training.task import Trained
from headgate.agent.training.trainer import Trainer

WAIT = 60.0
MARK = f"headgate-trainer-test-{uuid.uuid4().hex}"  # these tests may run twice at a time

# By the frames as they are written down: headgate's own types take seconds to import.
ANSWERS = """
import pathlib, struct, sys, time
from msgspec import msgpack
LENGTH = struct.Struct(">Q")
def answer(**content):
    data = msgpack.encode(content)
    sys.stdout.buffer.write(LENGTH.pack(len(data)) + data)
    sys.stdout.buffer.flush()
read = sys.stdin.buffer.read
task = msgpack.decode(read(LENGTH.unpack(read(LENGTH.size))[0]))
"""
GOOD = "answer(type='trained', trained={'waves': task['waves']})"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Trainer]]:
    made: list[Trainer] = []

    def trainer(code: str, seconds: float = WAIT) -> Trainer:
        program = (sys.executable, "-c", ANSWERS + code, MARK)
        made.append(Trainer(tmp_path, seconds, Supervision(lambda _: None, lambda _: 0.0), program))
        return made[-1]

    yield trainer
    for one in made:
        one.close()
    assert processes() == []


def processes() -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if MARK in command_of(process)]


def asked(trainer: Trainer, count: int = 1) -> list[tuple[Trained | None, str, float]]:
    told: queue.Queue[Any] = queue.Queue()
    for number in range(count):
        trainer.train(task(waves=10 + number), lambda *said: told.put(said))
    return [told.get(timeout=WAIT) for _ in range(count)]


def test_what_has_come_of_it_is_handed_over_with_the_time_it_took(make: Any) -> None:
    [(trained, reason, seconds)] = asked(make(f"time.sleep(0.3); {GOOD}"))
    assert (trained, reason) == (Trained(waves=10), "")
    assert 0.3 <= seconds < WAIT


def test_one_is_under_way_at_a_time_in_the_order_they_were_asked_for(
    make: Any, tmp_path: Path
) -> None:
    busy = tmp_path / "busy"
    code = f"p = pathlib.Path({str(busy)!r}); p.mkdir(); time.sleep(0.2); p.rmdir(); {GOOD}"
    found = asked(make(code), 3)
    assert [trained.waves for trained, _, _ in found if trained is not None] == [10, 11, 12]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("answer(type='failed', reason='no Kafka')", "no Kafka"),
        (
            "print('oops', file=sys.stderr); sys.exit(3)",
            "process ended with status 3 (last printed: oops); its log",
        ),
        ("import os; os.kill(os.getpid(), 9)", "process ended with status -9; its log is"),
        ("sys.stdout.buffer.write(b'12')", "process ended with status 0; its log is"),
    ],
)
def test_a_process_that_fails_is_a_reason_and_the_next_is_carried_out(
    make: Any, code: str, words: str
) -> None:
    trainer = make(f"if task['waves'] > 10: {GOOD}\nelse: {code}")
    (failed, reason, _), (trained, _, _) = asked(trainer, 2)
    assert failed is None
    assert words in reason
    assert trained == Trained(waves=11)
    if "oops" in code:
        assert "oops" in trainer.log.read_text()


def test_one_that_hangs_is_ended_and_said_to_be_late(make: Any) -> None:
    [(trained, reason, _)] = asked(make("time.sleep(600)", seconds=1.5))
    assert trained is None
    assert reason == "the training did not end within 1.5 s (training.seconds)"


def test_a_dataflow_that_leaves_ends_its_trainings_and_hears_of_none(make: Any) -> None:
    trainer = make("time.sleep(600)")
    told: list[Any] = []
    for _ in range(2):
        trainer.train(task(), lambda *said: told.append(said))
    deadline = time.monotonic() + WAIT
    while not processes():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    trainer.forget("another")
    assert processes()
    trainer.forget(SPEC.name)
    while processes():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert told == []


def test_a_training_ends_with_an_agent_that_is_killed(tmp_path: Path) -> None:
    """The real program, whose Kafka does not answer, holds on to nothing."""
    code = (
        "import sys, time, pathlib\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "from asked import task\n"
        "from headgate.agent.supervision import Supervision\n"
        "from headgate.agent.training.trainer import PROGRAM, Trainer\n"
        f"program = (*PROGRAM, {MARK!r})\n"
        f"Trainer(pathlib.Path({str(tmp_path)!r}), 600, Supervision(print), program)"
        ".train(task(), print)\n"
        "time.sleep(600)\n"
    )
    agent = subprocess.Popen([sys.executable, "-c", code])
    try:
        deadline = time.monotonic() + WAIT
        while not (found := processes()):
            assert time.monotonic() < deadline
            assert agent.poll() is None
            time.sleep(0.02)
        while found[0].nice() < min(19, os.nice(0) + 10):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        os.kill(agent.pid, signal.SIGKILL)
        agent.wait()
    while processes():
        assert time.monotonic() < deadline
        time.sleep(0.05)
