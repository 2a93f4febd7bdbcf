"""Errors by a metric of the user's in a training: of all pairs, and every way in which it fails."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.shared_processes import running_below

from headgate.agent.advisers.metrics import MetricProcess
from headgate.agent.children.child import Child
from headgate.agent.children.code_process import CodeWorker
from headgate.agent.training.user_metrics import AskedAmounts, asked_amounts
from headgate.engine import UserMetric
from headgate.learning import ContainerHistory

CODE = """
import math, os

class Largest:
    def process_element(self, current, previous):
        return abs(current - previous)

    def aggregate(self, a, b):
        return max(a, b)

    def compute(self, total, m, n):
        return total

class AboveTwo(Largest):
    def compute(self, total, m, n):
        if total <= 2:
            raise ValueError("too small")
        return total

class Raises(Largest):
    def compute(self, total, m, n):
        return 1 / 0

class Nan(Largest):
    def compute(self, total, m, n):
        return math.nan

class Word(Largest):
    def compute(self, total, m, n):
        return "far"

class Negative(Largest):
    def compute(self, total, m, n):
        return -total

class Ends(Largest):
    def compute(self, total, m, n):
        if total > 2:
            os._exit(7)
        return total

class Hangs(Largest):
    def compute(self, total, m, n):
        while True:
            pass
"""
VALUES = np.array([[1.0, 1.0], [1.0, 3.0], [1.0, 3.0], [9.0, 3.0]])
EXPECTED = np.array(
    [[0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0], [0.0, 8.0, 8.0]]
)  # what nothing has changed in is 0


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Callable[..., AskedAmounts]]:
    (tmp_path / "own_errors.py").write_text(CODE)

    def asked(name: str, seconds: float = 60.0) -> AskedAmounts:
        log = str(tmp_path / "w" / "metrics.log")
        process = MetricProcess(CodeWorker(sys.executable, log, seconds, 60.0, (str(tmp_path),)))
        counts = np.full(len(VALUES), 2)
        history = ContainerHistory(VALUES, counts, counts, np.arange(float(len(VALUES))))
        try:
            return asked_amounts(process, history, 2, "map", UserMetric(f"own_errors:{name}"))
        finally:
            process.end()

    yield asked
    assert not running_below("metric_program.py")


def test_it_is_asked_of_all_pairs_up_to_the_horizon(ask: Callable[..., AskedAmounts]) -> None:
    found = ask("Largest")
    np.testing.assert_array_equal(found.table, EXPECTED)
    assert (found.usable, found.failure) == (True, "")


def test_what_it_fails_on_is_a_violation_and_counted(ask: Callable[..., AskedAmounts]) -> None:
    found = ask("AboveTwo")
    np.testing.assert_array_equal(found.table, np.where(EXPECTED == 2.0, math.inf, EXPECTED))
    assert found.usable
    assert found.failure.startswith(
        "its metric failed on 2 of 4 pairs of waves; the first time, "
        "`own_errors:AboveTwo` raised ValueError: too small"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Raises", "4 of 4 pairs of waves; the first time, `own_errors"),
        ("Nan", "`own_errors:Nan` gave NaN"),
        ("Word", "gave 'far', which is no number"),
        ("Negative", "the metric gave -2, and has to give 0 or more"),
        ("Nobody", "has no class `Nobody`"),
        ("Ends", "`own_errors:Ends` ended its process with status 7; its log is"),
    ],
)
def test_one_that_gives_nothing_of_use_teaches_nothing(
    ask: Callable[..., AskedAmounts], name: str, words: str
) -> None:
    found = ask(name)
    assert not found.usable
    assert words in found.failure


def test_one_that_hangs_is_waited_for_once(
    ask: Callable[..., AskedAmounts], monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = Child.exchange
    asked: list[float] = []

    def exchange_sooner(child: Child, question: bytes, seconds: float) -> bytes:
        asked.append(seconds)  # which has the time for its modules, too
        return exchange(child, question, 0.5)

    monkeypatch.setattr(Child, "exchange", exchange_sooner)
    found = ask("Hangs", seconds=0.5)
    assert asked == [60.5]
    assert not found.usable
    assert "did not answer within 60.5 s" in found.failure
