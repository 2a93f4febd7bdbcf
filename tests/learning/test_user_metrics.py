"""What users' metrics are asked about an output, and what their answers say of its error."""

from __future__ import annotations

import math
import random
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from headgate.engine import MetricAnswer, MetricQuestion, UserMetric
from headgate.learning import (
    ContainerHistory,
    UserAmount,
    amount_in,
    errors,
    measured_pairs,
    question_about,
    questions,
)

OWN = UserMetric("metrics:Own")
CELLS = st.lists(
    st.tuples(
        st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0, math.inf]),
        st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0, math.inf]),
    ),
    max_size=8,
)


def asked(current: list[float], previous: list[float], n: int = 9) -> float | MetricQuestion:
    return question_about(np.array(current), np.array(previous), n, "map", (3.0,), OWN)


def cells(question: float | MetricQuestion) -> list[tuple[float, float]]:
    assert isinstance(question, MetricQuestion)
    (part,) = question.parts
    count = len(part)
    assert isinstance(part.current, bytes)
    assert isinstance(part.previous, bytes)
    x, before = (struct.unpack(f"<{count}d", each) for each in (part.current, part.previous))
    return list(zip(x, before, strict=True))


def test_the_changed_cells_are_told_with_their_number_and_that_of_all() -> None:
    found = asked([5.0, 1.0, 0.0, 2.0], [5.0, 3.0, 7.0, 2.0], 3)
    assert sorted(cells(found)) == [(0.0, 7.0), (1.0, 3.0)]
    assert isinstance(found, MetricQuestion)
    assert (found.bound, found.version, found.entry, found.elements) == (
        "map",
        (3.0,),
        "metrics:Own",
        3,
    )


@given(CELLS, st.randoms(use_true_random=False))
@example([(0.0, 1.0), (-0.0, 1.0)], random.Random(1))
def test_in_whatever_order_cells_are_found_the_same_bytes_are_asked(
    found: list[tuple[float, float]], chance: random.Random
) -> None:
    other = list(found)
    chance.shuffle(other)
    first, second = (asked([x for x, _ in o], [x for _, x in o]) for o in (found, other))
    assert first == second
    changed = [pair for pair in found if pair[0] != pair[1]]
    if changed:
        assert sorted(cells(first)) == sorted(changed)
    else:
        assert first == 0.0


@pytest.mark.parametrize("cell", [(math.nan, 1.0), (1.0, math.nan), (math.nan, math.nan)])
def test_what_has_no_number_is_asked_of_nobody_and_not_known(cell: tuple[float, float]) -> None:
    assert asked([4.0, cell[0]], [2.0, cell[1]]) == math.inf


def test_what_has_not_changed_is_no_error_and_asked_of_nobody() -> None:
    assert asked([4.0, 0.0], [4.0, -0.0]) == 0.0
    assert asked([], []) == 0.0


@pytest.mark.parametrize(
    ("amount", "failure", "words"),
    [
        (None, "`m:C` raised ValueError", "`m:C` raised ValueError"),
        (None, "", "gave nothing"),
        (math.nan, "", "gave nan, and has to give 0 or more"),
        (-0.5, "", "gave -0.5, and has to give 0 or more"),
        (-math.inf, "", "gave -inf"),
    ],
)
def test_an_answer_without_an_error_says_why_none_is_known(
    amount: float | None, failure: str, words: str
) -> None:
    found = amount_in(MetricAnswer("map", (3.0,), amount, failure))
    assert found.value == math.inf
    assert words in found.failure


@pytest.mark.parametrize("amount", [0.0, 0.25, 40.0, math.inf])
def test_an_answer_of_zero_or_more_is_the_error(amount: float) -> None:
    assert amount_in(MetricAnswer("map", (3.0,), amount)) == UserAmount(amount)


def test_each_pair_of_waves_up_to_the_horizon_is_asked_about_once() -> None:
    values = np.array([[1.0, 2.0], [1.0, 5.0], [4.0, 5.0], [4.0, math.nan]])
    counts = np.array([2, 2, 1, 2])
    history = ContainerHistory(values, counts, counts, np.arange(4.0))
    found = {(wave, age): what for wave, age, what in questions(history, 2, "map", OWN)}
    assert found.keys() == {(1, 1), (2, 1), (2, 2), (3, 1), (3, 2)}
    assert cells(found[1, 1]) == [(5.0, 2.0)]
    assert sorted(cells(found[2, 2])) == [(4.0, 1.0), (5.0, 2.0)]
    last = found[2, 2]
    assert isinstance(last, MetricQuestion)
    assert (last.version, last.elements) == ((2.0, 2.0), 1)
    assert found[3, 1] == found[3, 2] == math.inf


def test_errors_are_those_that_the_metric_gave() -> None:
    counts = np.full(3, 1)
    history = ContainerHistory(np.array([[1.0], [2.0], [3.0]]), counts, counts, np.arange(3.0))
    pairs = measured_pairs(history, 2)
    with pytest.raises(ValueError, match="nobody has asked metrics:Own for the errors"):
        errors(pairs, OWN)
    said = np.array([[0.0, 9.0, 9.0], [0.0, 3.0, 9.0], [0.0, 4.0, math.inf]])
    asked_pairs = replace(pairs, given=said)
    table = errors(asked_pairs, OWN)
    np.testing.assert_array_equal(
        table, [[0.0, math.nan, math.nan], [0.0, 3.0, math.nan], [0.0, 4.0, math.inf]]
    )
    np.testing.assert_array_equal(errors(asked_pairs.until(2), OWN), table[:2])
