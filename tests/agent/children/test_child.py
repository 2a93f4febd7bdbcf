"""A child process: it answers, or says how it ended, and nothing of it is left."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.shared_processes import is_there

from headgate.agent.children.child import Child, ChildEnded

WAIT = 30.0
SERVES = """
import os, subprocess, sys, time
from headgate.agent.children.frames import read_frame, write_frame
questions, answers = sys.stdin.buffer, sys.stdout.buffer
"""
ECHO = "while True: write_frame(answers, read_frame(questions))"

Start = Callable[[str], Child]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made: list[Child] = []

    def child(code: str) -> Child:
        made.append(Child((sys.executable, "-c", SERVES + code), tmp_path / "new" / "log"))
        return made[-1]

    yield child
    for one in made:
        one.end()


def ends(process: psutil.Process) -> bool:
    deadline = time.monotonic() + WAIT
    while is_there(process) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_there(process)


def test_it_answers_one_question_after_the_other(start: Start) -> None:
    child = start(ECHO)
    questions = [b"a", b"", b"x" * 200_000]
    assert [child.exchange(question, WAIT) for question in questions] == questions


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("os._exit(7)", "status 7"),
        ("os.kill(os.getpid(), 9)", "status -9"),
        (
            "import no_such_module",
            "status 1 (last printed: ModuleNotFoundError: No module named 'no_such_module')",
        ),
        (
            "print('first\\nlast\\n\\n', file=sys.stderr); sys.exit(3)",
            "status 3 (last printed: last)",
        ),
        (
            "print('x' * 5000, file=sys.stderr); sys.exit(3)",
            f"status 3 (last printed: {'x' * 200})",
        ),
        # Its output ends before it has said why it does.
        ("os.close(1); time.sleep(0.2); sys.exit('late')", "status 1 (last printed: late)"),
    ],
)
def test_how_it_ended_is_said_with_the_last_line_that_it_printed(
    start: Start, code: str, words: str
) -> None:
    with pytest.raises(ChildEnded) as ended:
        start(code).exchange(b"?", WAIT)
    assert str(ended.value) == words


def test_what_an_earlier_one_printed_is_no_reason(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "new" / "log"
    log.parent.mkdir()
    log.write_text("of an earlier one\n")
    with pytest.raises(ChildEnded, match=r"^status 7$"):
        start("os._exit(7)").exchange(b"?", WAIT)
    assert log.read_text() == "of an earlier one\n"


def test_a_log_that_was_taken_away_hides_no_status(start: Start, tmp_path: Path) -> None:
    child = start("read_frame(questions); sys.exit(3)")
    (tmp_path / "new" / "log").unlink()
    with pytest.raises(ChildEnded, match=r"^status 3$"):
        child.exchange(b"?", WAIT)


@pytest.mark.parametrize("code", ["time.sleep(600)", "os.close(1); time.sleep(600)"])
def test_one_that_does_not_answer_is_not_waited_for(start: Start, code: str) -> None:
    with pytest.raises(TimeoutError):
        start(code).exchange(b"?", 0.5)


def test_its_end_is_that_of_all_that_it_started(start: Start) -> None:
    sleeps = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    child = start(f"write_frame(answers, str({sleeps}.pid).encode())\n{ECHO}")
    started = psutil.Process(int(child.exchange(b"?", WAIT)))
    assert is_there(started)
    child.end()
    assert ends(started)


def test_while_it_is_asked_another_thread_may_kill_it(start: Start) -> None:
    child = start("read_frame(questions); time.sleep(600)")
    killing = threading.Timer(0.2, child.kill)
    killing.start()
    with pytest.raises(ChildEnded, match="status -9"):
        child.exchange(b"?", WAIT)
    killing.join()


def test_its_end_may_be_asked_for_again(start: Start) -> None:
    child = start(ECHO)
    child.exchange(b"?", WAIT)
    for _ in range(2):
        child.end()
        child.kill()


def test_it_has_no_password_of_the_agent(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_AGENT_KAFKA_PASSWORD", "secret")
    child = start("write_frame(answers, repr(dict(os.environ)).encode())")
    assert b"secret" not in child.exchange(b"?", WAIT)


def test_a_program_that_is_not_there_starts_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Child(("/no/program",), tmp_path / "log")
