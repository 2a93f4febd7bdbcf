"""Users' metrics in a process of their own: what they give, and every way in which they fail."""

from __future__ import annotations

import queue
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.shared_processes import running_below

from headgate.agent.advisers.metrics import MetricAdviser
from headgate.agent.supervision import Supervision
from headgate.engine import (
    ChangedValues,
    DataflowSpec,
    MetricAnswer,
    MetricQuestion,
    MetricQuestions,
    decode_metric_answers,
    encode_metrics,
)

WAIT = 60.0
SPEC = DataflowSpec("f", (), ())
CODE = '''
import math
import os
import sys
import time

print("imported")


class Mean:
    """Mean |x - x'| over all cells."""

    def process_element(self, current, previous):
        return abs(current - previous)

    def aggregate(self, a, b):
        return a + b

    def compute(self, total, m, n):
        print("mean of", m)
        return total / n


class Batch:
    """The same, by Arrow."""

    def process_batch(self, current, previous):
        import pyarrow.compute as pc

        return pc.sum(pc.abs(pc.subtract(current, previous))).as_py()

    def aggregate(self, a, b):
        return a + b

    def compute(self, total, m, n):
        return total / n


class Longer(Mean):
    def process_element(self, current, previous):
        return abs(len(current or b"") - len(previous or b""))


class Raises(Mean):
    def compute(self, total, m, n):
        return 1 / 0


class Leaves(Mean):
    def compute(self, total, m, n):
        sys.exit(3)


class Ends(Mean):
    def compute(self, total, m, n):
        print("ends", flush=True)
        os._exit(7)


class Hangs(Mean):
    def compute(self, total, m, n):
        print("hangs", flush=True)
        while True:
            pass


class Nan(Mean):
    def compute(self, total, m, n):
        return math.nan


class Word(Mean):
    def compute(self, total, m, n):
        return "far"


class Half:
    def compute(self, total, m, n):
        return 0.0


class Counts(Mean):
    """How often it was asked."""

    asked = 0

    def compute(self, total, m, n):
        Counts.asked += 1
        return Counts.asked
'''

LINE = 1 + CODE.splitlines().index("        return 1 / 0")


class Asking:
    """An adviser, and who waits for what it says."""

    def __init__(self, adviser: MetricAdviser) -> None:
        self.adviser = adviser
        self._answers: queue.Queue[tuple[bytes | None, str]] = queue.Queue()

    def ask(self, *questions: MetricQuestion) -> list[MetricAnswer]:
        self.adviser.answer(
            encode_metrics(MetricQuestions(list(questions))),
            lambda answer, reason: self._answers.put((answer, reason)),
        )
        answer, reason = self._answers.get(timeout=WAIT)
        assert answer is not None, reason
        return decode_metric_answers(answer).answers

    def failure(self, name: str) -> str:
        (answer,) = self.ask(question(name))
        assert answer.amount is None
        return answer.failure


def doubles(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


NUMBERS = ChangedValues(doubles(3.0, 10.0), doubles(1.0, 0.0))


def question(name: str, *parts: ChangedValues) -> MetricQuestion:
    entry = name if ":" in name else f"own_metrics:{name}"
    return MetricQuestion("k", (1.0, 2.5), entry, list(parts or (NUMBERS,)), 4)


@pytest.fixture
def failures() -> list[Any]:
    return []


@pytest.fixture
def make(tmp_path: Path, failures: list[Any]) -> Iterator[Callable[..., Asking]]:
    (tmp_path / "own_metrics.py").write_text(CODE)
    made: list[MetricAdviser] = []

    def adviser(seconds: float = 30.0, start: float = 30.0, idle: float = 0.0) -> Asking:
        supervision = Supervision(failures.append, lambda _: 0.0)
        made.append(
            MetricAdviser("f", sys.executable, tmp_path / "w", seconds, start, idle, supervision)
        )
        made[-1].use((str(tmp_path),), SPEC)
        return Asking(made[-1])

    yield adviser
    for one in made:
        one.close()
    assert not programs(), "nothing is left"


def programs() -> list[psutil.Process]:
    return running_below("metric_program.py")


def test_the_value_comes_of_elements_aggregate_and_compute(make: Any) -> None:
    asking = make()
    assert asking.ask(question("Mean")) == [MetricAnswer("k", (1.0, 2.5), 3.0)]
    assert asking.ask(question("Mean", NUMBERS, NUMBERS))[0].amount == 6.0, "of two tables"
    assert asking.ask(question("Mean", ChangedValues(b"", b""), NUMBERS))[0].amount == 3.0


def test_by_arrow_it_is_the_same(make: Any) -> None:
    pytest.importorskip("pyarrow")
    asking = make()
    assert asking.ask(question("Batch"))[0].amount == 3.0
    assert asking.ask(question("Batch", NUMBERS, NUMBERS))[0].amount == 6.0


def test_opaque_values_come_as_bytes_and_missing_ones_as_none(make: Any) -> None:
    part = ChangedValues([b"abc", None], [None, b"z"])
    assert make().ask(question("Longer", part))[0].amount == 1.0


def test_a_large_container_is_handed_over_whole(make: Any) -> None:
    size = 200_000  # more than any pipe holds
    part = ChangedValues(doubles(*[2.0] * size), doubles(*[1.0] * size))
    assert make().ask(question("Mean", part))[0].amount == size / 4


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Raises", r"raised ZeroDivisionError: division by zero ({place}, line {line})"),
        ("Leaves", "raised SystemExit: 3"),
        ("Nan", "gave NaN"),
        ("Word", "gave 'far', which is no number"),
        ("Half", "neither `process_element(current, previous)` nor `process_batch`"),
        ("Nobody", "module `own_metrics` has no class `Nobody`"),
        ("no_module:Nobody", "raised ModuleNotFoundError: No module named 'no_module'"),
        ("Ends", "ended its process with status 7 (last printed: ends); its log is"),
    ],
)
def test_one_that_fails_is_told_with_the_reason_and_the_next_is_answered(
    make: Any, tmp_path: Path, name: str, words: str
) -> None:
    asking = make()
    assert words.format(place=tmp_path / "own_metrics.py", line=LINE) in asking.failure(name)
    assert asking.ask(question("Mean"))[0].amount == 3.0


def test_of_several_questions_one_that_fails_spoils_no_other(make: Any) -> None:
    first, second, third = make().ask(question("Mean"), question("Ends"), question("Mean"))
    assert (first.amount, second.amount, third.amount) == (3.0, None, 3.0)


def test_one_that_does_not_end_is_ended(make: Any) -> None:
    asking = make(seconds=0.5, start=WAIT)
    asking.ask(question("Mean"))
    (process,) = programs()
    assert "did not answer within 0.5 s" in asking.failure("Hangs")
    assert not process.is_running()
    assert asking.ask(question("Mean"))[0].amount == 3.0


def test_while_it_computes_it_can_be_closed(make: Any) -> None:
    asking = make()
    asking.ask(question("Mean"))
    asking.adviser.answer(encode_metrics(MetricQuestions([question("Hangs")])), lambda *_: None)
    deadline = time.monotonic() + WAIT
    while "hangs" not in asking.adviser.log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    began = time.monotonic()
    asking.adviser.close()
    assert time.monotonic() - began < 10
    assert not programs()


def test_a_process_that_was_killed_is_started_again(make: Any) -> None:
    asking = make()
    asking.ask(question("Mean"))
    programs()[0].kill()
    assert "ended its process with status -9" in asking.failure("Mean")
    assert asking.ask(question("Mean"))[0].amount == 3.0


def test_a_metric_is_made_once_and_code_is_read_anew_when_that_is_asked_for(
    make: Any, tmp_path: Path
) -> None:
    asking = make()
    assert [asking.ask(question("Counts"))[0].amount for _ in range(2)] == [1.0, 2.0]
    (tmp_path / "own_metrics.py").write_text(CODE.replace("total / n", "total / n + 100"))
    assert asking.ask(question("Mean"))[0].amount == 3.0
    asking.adviser.use((str(tmp_path),), SPEC)
    assert asking.ask(question("Mean"))[0].amount == 103.0
    assert asking.ask(question("Counts"))[0].amount == 1.0


def test_what_it_prints_is_in_the_log_and_no_answer(make: Any) -> None:
    asking = make()
    asking.ask(question("Mean"))
    assert asking.adviser.log.read_text().splitlines() == ["imported", "mean of 2"]


def test_its_process_has_no_password_of_the_agent(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_AGENT_KAFKA_PASSWORD", "secret")
    monkeypatch.setenv("OF_THE_USER", "kept")
    make().ask(question("Mean"))
    environment = programs()[0].environ()
    assert "secret" not in environment.values()
    assert environment["OF_THE_USER"] == "kept"


def test_without_a_question_its_process_ends(make: Any) -> None:
    asking = make(idle=0.2)
    asking.ask(question("Mean"))
    deadline = time.monotonic() + WAIT
    while programs():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert asking.ask(question("Mean"))[0].amount == 3.0


def test_a_dataflow_without_such_metrics_has_neither_thread_nor_process(make: Any) -> None:
    asking = make()
    asking.adviser.use(("elsewhere",), SPEC)
    assert not programs()
    assert "metrics-f" not in {thread.name for thread in threading.enumerate()}


def test_an_interpreter_that_is_not_there_is_told(tmp_path: Path, failures: list[Any]) -> None:
    supervision = Supervision(failures.append, lambda _: 0.0)
    adviser = MetricAdviser("f", "/no/python", tmp_path, 1, 1, 0, supervision)
    assert "could not be started" in Asking(adviser).failure("Mean")
    adviser.close()


def test_what_is_no_question_is_answered_all_the_same(make: Any, failures: list[Any]) -> None:
    asking = make()
    told: queue.Queue[Any] = queue.Queue()
    asking.adviser.answer(b"?", lambda *said: told.put(said))
    answer, reason = told.get(timeout=WAIT)
    assert answer is None
    assert "could not be asked" in reason
    assert asking.ask(question("Mean"))[0].amount == 3.0
    assert failures == ["metrics", "metrics"], "it was tried twice"


def test_one_that_hangs_does_not_outlive_an_agent_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "own_metrics.py").write_text(CODE)
    program = (
        "import sys, pathlib, time\n"
        "from headgate.agent.advisers.metrics import MetricAdviser\n"
        "from headgate.agent.supervision import Supervision\n"
        "from headgate.engine import *\n"
        f"adviser = MetricAdviser('f', sys.executable, pathlib.Path({str(tmp_path)!r}), 1, 1, 0, "
        "Supervision(print))\n"
        f"adviser.use(({str(tmp_path)!r},), DataflowSpec('f', (), ()))\n"
        f"question = MetricQuestion('k', (), 'own_metrics:Hangs', [ChangedValues({doubles(1.0)!r}, "
        f"{doubles(0.0)!r})], 4)\n"
        "adviser.answer(encode_metrics(MetricQuestions([question])), print)\n"
        "time.sleep(60)\n"
    )
    agent = psutil.Popen([sys.executable, "-c", program])
    deadline = time.monotonic() + WAIT
    while not (found := agent.children()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    agent.kill()
    agent.wait()
    gone, alive = psutil.wait_procs(found, WAIT)
    for process in alive:
        process.kill()
    assert gone
    assert not alive
