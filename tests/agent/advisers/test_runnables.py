"""Runnables in Python, in a process of their own: what they say, and how they may fail."""

from __future__ import annotations

import queue
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.shared_processes import running_below

from headgate.agent.advisers.runnables import RunnableAdviser
from headgate.agent.children.code_process import CodeWorker
from headgate.agent.supervision import Supervision
from headgate.engine import (
    LARGEST_STATE,
    DataflowSpec,
    RunnableAnswer,
    RunnableQuestion,
    WaitingFlow,
    WaitingIncrement,
    decode_runnable_answer,
    encode_runnable,
)

WAIT = 60.0
SPEC = DataflowSpec("f", (), ())
CODE = f"""
import math
import os
import sys

print("imported")


def turns(waiting, state):
    state = state or {{"turns": 0}}
    print("asked", state["turns"])
    queries = waiting["queries"]
    found = [(one["index"], one["key"], one["rows"]) for one in queries["increments"]]
    assert found == [(4, "mon", 10), (6, "tue", 20)], found
    assert (queries["waiting"], queries["read"]) == (3, 1)
    return {{"reads": {{"queries": 2, "table": "all"}}, "state": {{"turns": state["turns"] + 1}}}}


def spans(waiting, state):
    return {{"reads": {{"queries": [1, 2]}}, "removes": {{"queries": 1}}}}


def nothing(waiting, state):
    return None


def empty(waiting, state):
    return {{}}


def raises(waiting, state):
    return 1 / 0


def leaves(waiting, state):
    sys.exit(3)


def ends(waiting, state):
    print("ends", flush=True)
    os._exit(7)


def hangs(waiting, state):
    while True:
        pass


def word(waiting, state):
    return "all"


def misspelt(waiting, state):
    return {{"read": {{"queries": 1}}}}


def half(waiting, state):
    return {{"reads": {{"queries": 0.5}}}}


def yes(waiting, state):
    return {{"reads": {{"queries": True}}}}


def remembers_itself(waiting, state):
    return {{"reads": {{"queries": 1}}, "state": remembers_itself}}


def nan(waiting, state):
    return {{"reads": {{"queries": 1}}, "state": math.nan}}


def huge(waiting, state):
    return {{"reads": {{"queries": 1}}, "state": "x" * {LARGEST_STATE}}}


def one_argument(waiting):
    return None


constant = 4
"""


def question(name: str, state: str = "null", number: int = 1) -> RunnableQuestion:
    entry = name if ":" in name else f"own_runnables:{name}"
    queries = (WaitingIncrement("a", 4, "mon", 10), WaitingIncrement("b", 6, "tue", 20))
    flows = {"queries": WaitingFlow(queries, 3, 1), "table": WaitingFlow((), 0, 0)}
    return RunnableQuestion(number, entry, flows, state)


class Asking:
    """An adviser, and who waits for what it says."""

    def __init__(self, adviser: RunnableAdviser) -> None:
        self.adviser = adviser
        self._answers: queue.Queue[tuple[bytes | None, str]] = queue.Queue()

    def ask(self, asked: RunnableQuestion) -> RunnableAnswer:
        self.adviser.answer(
            encode_runnable(asked), lambda answer, reason: self._answers.put((answer, reason))
        )
        answer, reason = self._answers.get(timeout=WAIT)
        assert answer is not None, reason
        return decode_runnable_answer(answer)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Asking]]:
    (tmp_path / "own_runnables.py").write_text(CODE)
    made: list[RunnableAdviser] = []

    def adviser(seconds: float = 30.0, start: float = 30.0, python: str = sys.executable) -> Asking:
        supervision = Supervision(lambda _: None, lambda _: 0.0)
        worker = CodeWorker(python, str(tmp_path / "w" / "runnables.log"), seconds, start)
        made.append(RunnableAdviser("f", worker, 0.0, supervision))
        made[-1].use((str(tmp_path),), SPEC)
        return Asking(made[-1])

    yield adviser
    for one in made:
        one.close()
    assert not programs(), "nothing is left"


def programs() -> list[psutil.Process]:
    return running_below("runnable_program.py")


def test_a_function_says_what_is_read_by_what_waits_and_what_it_said_before(
    make: Callable[..., Asking],
) -> None:
    asking = make()
    first = asking.ask(question("turns", number=8))
    assert first == RunnableAnswer(8, {"queries": 2, "table": "all"}, None, '{"turns": 1}')
    assert asking.ask(question("turns", first.state)).state == '{"turns": 2}'
    assert asking.adviser.log.read_text().splitlines() == ["imported", "asked 0", "asked 1"]


def test_what_is_read_and_what_is_removed_may_differ(make: Callable[..., Asking]) -> None:
    assert make().ask(question("spans")) == RunnableAnswer(1, {"queries": (1, 2)}, {"queries": 1})


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_who_returns_nothing_says_that_nothing_may_run(
    make: Callable[..., Asking], name: str
) -> None:
    assert make().ask(question(name)) == RunnableAnswer(1)


FAILURES = {
    "raises": "raised ZeroDivisionError: division by zero",
    "leaves": "raised SystemExit: 3",
    "ends": "ended its process with status 7 (last printed: ends); its log is",
    "word": "returned 'all', which is no dictionary of `reads`, `removes` and `state`",
    "misspelt": "unknown field `read`",
    "half": "got `float` - at `$.reads[...]`",
    "yes": "got `bool` - at `$.reads[...]`",
    "remembers_itself": "returned a state that is no JSON",
    "nan": "returned a state that is no JSON",
    "huge": f"returned a state of {LARGEST_STATE + 2} bytes, of {LARGEST_STATE} at most",
    "one_argument": "raised TypeError: one_argument() takes 1 positional argument",
    "constant": "module `own_runnables` has no function `constant`",
    "nobody": "module `own_runnables` has no function `nobody`",
    "no_module:nobody": "raised ModuleNotFoundError: No module named 'no_module'",
}


def test_one_that_fails_is_told_with_the_reason_and_the_next_is_answered(
    make: Callable[..., Asking],
) -> None:
    asking = make()
    for name, words in FAILURES.items():
        answer = asking.ask(question(name))
        assert (answer.reads, answer.removes) == ({}, None)
        assert words in answer.failure
    assert asking.ask(question("nothing")).failure == ""


def test_one_that_raises_has_a_traceback_of_its_own_code(
    make: Callable[..., Asking], tmp_path: Path
) -> None:
    answer = make().ask(question("raises"))
    line = 1 + CODE.splitlines().index("    return 1 / 0")
    assert f'"{tmp_path / "own_runnables.py"}", line {line}, in raises' in answer.traceback


def test_one_that_does_not_end_is_ended(make: Callable[..., Asking]) -> None:
    asking = make(seconds=0.5, start=WAIT)
    asking.ask(question("nothing"))
    (process,) = programs()
    assert "did not answer within 0.5 s" in asking.ask(question("hangs")).failure
    assert not process.is_running()
    assert asking.ask(question("nothing")).failure == ""


def test_a_process_that_was_killed_while_nobody_asked_is_no_failure(
    make: Callable[..., Asking],
) -> None:
    asking = make()
    asking.ask(question("nothing"))
    programs()[0].kill()
    assert asking.ask(question("turns", number=2)).reads == {"queries": 2, "table": "all"}


def test_one_that_does_not_end_is_not_waited_for_at_the_end(make: Callable[..., Asking]) -> None:
    asking = make()
    asking.adviser.answer(encode_runnable(question("hangs")), lambda *_: None)
    deadline = time.monotonic() + WAIT
    while not programs():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    began = time.monotonic()
    asking.adviser.close()
    assert time.monotonic() - began < 10


def test_its_code_is_read_anew_when_that_is_asked_for(
    make: Callable[..., Asking], tmp_path: Path
) -> None:
    asking = make()
    asking.ask(question("nothing"))
    (tmp_path / "own_runnables.py").write_text(CODE.replace("return None", "return word(0, 0)"))
    assert asking.ask(question("nothing")).failure == ""
    asking.adviser.use((str(tmp_path),), SPEC)
    assert "returned 'all'" in asking.ask(question("nothing")).failure


def test_an_interpreter_that_is_not_there_is_told(make: Callable[..., Asking]) -> None:
    assert "could not be started" in make(python="/no/python").ask(question("nothing")).failure
