"""Bounds on a metric of the user's own: what is asked, and what its answer is worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headgate.engine import (
    BOUNDS,
    Bound,
    Codec,
    CodecName,
    Consult,
    Consulted,
    DecisionKind,
    MetricAnswer,
    MetricAnswers,
    MetricQuestion,
    RetryPolicy,
    SequenceBound,
    UserMetric,
    ValueBound,
    all_of,
    decode_metric_questions,
    encode_metrics,
    launched,
)
from headgate.events import ContainerId

IN = ContainerId("in")

OWN = Bound("own", IN, value=ValueBound(UserMetric("metrics:Spread"), 5.0))


def asked(tester: Any) -> list[MetricQuestion]:
    """Return all that was asked, the newest last."""
    consults = [i for i in tester.instructions if isinstance(i, Consult)]
    assert all((c.action, c.kind) == ("b", BOUNDS) for c in consults)
    return [q for c in consults for q in decode_metric_questions(c.question).questions]


def answer(tester: Any, amount: float | None, failure: str = "", about: int = -1) -> list[str]:
    """Answer the question last asked, or another one; return what is launched."""
    question = asked(tester)[about]
    answers = MetricAnswers([MetricAnswer(question.bound, question.version, amount, failure)])
    return launched(tester.handle(Consulted(tester.now, "b", BOUNDS, encode_metrics(answers), "")))


def silence(tester: Any, reason: str) -> list[str]:
    return launched(tester.handle(Consulted(tester.now, "b", BOUNDS, None, reason)))


def why(tester: Any) -> str:
    return str(tester.launches("b")[-1].cause.words)


def test_the_changed_cells_are_asked_about_and_all_cells_are_counted(pair, rows):
    tester = pair(OWN)
    tester.write("in", rows(3, 10))
    tester.request("b")
    tester.finish("b")
    tester.write("in", rows(1, 12))
    assert launched(tester.wave("a")) == []
    (question,) = asked(tester)
    assert (question.bound, question.entry, question.elements) == ("own", "metrics:Spread", 3)
    (part,) = question.parts
    assert isinstance(part.current, bytes)
    assert isinstance(part.previous, bytes)
    assert np.frombuffer(part.current, "<f8").tolist() == [12.0]
    assert np.frombuffer(part.previous, "<f8").tolist() == [10.0]
    assert len(part) == 1


def test_opaque_values_are_asked_about_as_they_are(pair):
    tester = pair(OWN, codec=Codec(CodecName.OPAQUE))
    tester.write("in", {b"r": {b"f:v": b"\xff\x00"}})
    tester.wave("a")
    (part,) = asked(tester)[0].parts
    assert (part.current, part.previous) == ([b"\xff\x00"], [None])


@pytest.mark.parametrize(("amount", "runs"), [(4.99, []), (5.0, ["b"]), (float("inf"), ["b"])])
def test_its_answer_decides(pair, rows, amount, runs):
    tester = pair(OWN)
    tester.write("in", rows(1))
    tester.wave("a")
    assert answer(tester, amount) == runs
    if runs:
        assert why(tester).startswith("ν of `in` (metrics:Spread) reached ")


def test_nothing_is_asked_where_nothing_has_changed(pair, rows):
    tester = pair(OWN)
    tester.write("in", rows(1))
    tester.request("b")
    tester.finish("b")
    assert launched(tester.wave("a")) == []
    assert asked(tester) == []


def test_it_is_not_asked_again_about_the_same_state(pair, rows):
    tester = pair(OWN)
    tester.write("in", rows(1))
    tester.wave("a")
    answer(tester, 1.0)
    for _ in range(3):
        assert launched(tester.wave("a")) == []
    assert len(asked(tester)) == 1


def test_what_changes_is_asked_about_anew(pair, rows):
    tester = pair(OWN)
    tester.write("in", rows(1, 10))
    tester.wave("a")
    answer(tester, 1.0)
    tester.write("in", rows(1, 11))
    tester.wave("a")
    assert len(asked(tester)) == 2
    assert answer(tester, 6.0) == ["b"]


def test_an_answer_that_comes_late_counts_once(pair, rows):
    """Or else a container that never rests would never be found to have moved."""
    tester = pair(OWN)
    tester.write("in", rows(1, 10))
    tester.wave("a")
    tester.write("in", rows(1, 11))
    assert answer(tester, 7.0) == ["b"]


def test_a_late_answer_below_the_limit_does_not_stand_for_what_came_meanwhile(pair, rows):
    tester = pair(OWN)
    tester.write("in", rows(1, 10))
    tester.wave("a")
    tester.write("in", rows(1, 99))
    tester.wave("a")
    assert answer(tester, 1.0) == []
    tester.wave("a")
    assert len(asked(tester)) == 2, "of what has come since nothing is known"
    assert answer(tester, 50.0) == ["b"]


def test_an_answer_to_what_a_run_has_consumed_says_nothing(pair, rows):
    tester = pair(OWN)
    tester.write("in", rows(1, 10))
    tester.wave("a")
    answer(tester, 9.0)
    tester.finish("b")
    tester.write("in", rows(1, 11))
    tester.wave("a")
    assert answer(tester, 9.0, about=0) == [], "it is the first question's"
    tester.wave("a")
    assert answer(tester, 9.0) == ["b"]


def test_after_a_failed_run_it_is_asked_of_all_that_is_pending_again(pair, rows):
    tester = pair(OWN, retry=RetryPolicy(attempts=1))
    tester.write("in", rows(1, 10))
    tester.wave("a")
    answer(tester, 9.0)
    tester.fail("b")
    tester.release("b")
    tester.wave("a")
    assert len(asked(tester)) == 2
    assert answer(tester, 9.0) == ["b"]


@pytest.mark.parametrize(
    ("amount", "failure", "words"),
    [
        (None, "`metrics:Spread` raised ZeroDivisionError", "raised ZeroDivisionError"),
        (float("nan"), "", "NaN"),
    ],
)
def test_one_that_fails_counts_as_reached_and_is_shown(pair, rows, amount, failure, words):
    tester = pair(OWN)
    tester.write("in", rows(1))
    tester.wave("a")
    assert answer(tester, amount, failure) == ["b"]
    assert "counts as reached" in why(tester)
    assert words in why(tester)


def test_one_that_is_not_answered_counts_as_reached_and_is_shown(pair, rows):
    tester = pair(OWN)
    tester.write("in", rows(1))
    tester.wave("a")
    assert silence(tester, "nobody is there") == ["b"]
    assert "counts as reached: nobody is there" in why(tester)


@pytest.mark.parametrize("told", [b"", b"\xff", b"\x91"])
def test_an_answer_that_cannot_be_read_counts_as_none(pair, rows, told):
    tester = pair(OWN)
    tester.write("in", rows(1))
    tester.wave("a")
    assert launched(tester.handle(Consulted(tester.now, "b", BOUNDS, told, ""))) == ["b"]
    assert "can't be read" in why(tester)


def test_it_is_asked_only_where_it_can_decide(pair, rows):
    many = Bound("many", IN, sequence=SequenceBound(3))
    tester = pair(many, OWN, condition=all_of(("many", "own")))
    tester.write("in", rows(1))
    tester.wave("a")
    assert asked(tester) == [], "many is not reached, whatever own is"
    tester.write("in", rows(2))
    tester.wave("a")
    assert len(asked(tester)) == 1


def test_it_is_not_asked_where_another_bound_is_reached(pair, rows):
    tester = pair(Bound("both", IN, sequence=SequenceBound(1), value=OWN.value))
    tester.write("in", rows(1))
    assert launched(tester.wave("a")) == ["b"]
    assert asked(tester) == []


def test_while_an_answer_is_awaited_it_is_said(pair, rows):
    tester = pair(OWN)
    tester.write("in", rows(1))
    tester.wave("a")
    held = [d for d in tester.decisions() if d.action == "b"][-1]
    assert held.kind == DecisionKind.HELD
    assert held.words == "an answer is waited for; needs an answer of metrics:Spread"


def test_after_a_restart_it_is_asked_again(pair, rows):
    tester = pair(OWN)
    tester.write("in", rows(1))
    tester.wave("a")
    tester.restart()
    assert len(asked(tester)) == 2
    assert answer(tester, 5.0) == ["b"]
