"""Thresholds that keep a stated confidence, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from headgate.learning.calibration import (
    Fold,
    blocks,
    calibrate,
    calibration_of,
    candidates,
    effective_count,
    outside,
    upper_rate,
)
from headgate.learning.simulation import ClosedLoop


def loop_of(violations: Callable[[float], int], waves: int = 200) -> Callable[[float], ClosedLoop]:
    """A closed loop that skips the more, and violates as often, as a function of the threshold."""

    def loop(threshold: float) -> ClosedLoop:
        violated = np.zeros(waves, np.bool_)
        if violations(threshold):
            violated[np.linspace(1, waves - 1, violations(threshold)).astype(int)] = True
        ran = np.ones(waves, np.bool_)
        ran[1 : 1 + round(threshold * (waves - 1))] = False
        return ClosedLoop(ran, violated)

    return loop


def test_the_bound_of_a_rate_is_that_of_clopper_and_pearson() -> None:
    """The rate at which so few violations, or fewer, are seen three times in a hundred."""
    for violations, waves in ((0, 60), (3, 100), (17, 336)):
        rate = upper_rate(violations, waves)
        seen = sum(
            math.comb(waves, k) * rate**k * (1 - rate) ** (waves - k) for k in range(violations + 1)
        )
        assert seen == pytest.approx(0.03, abs=1e-9)
    assert upper_rate(5, 5) == 1.0


def test_69_waves_without_a_violation_are_what_95_in_100_takes() -> None:
    assert upper_rate(0, 68) > 0.05 >= upper_rate(0, 69)


def test_waves_that_follow_each_other_count_less() -> None:
    random = np.random.default_rng(3)
    alone = random.random(4000) < 0.1
    together = np.repeat(random.random(1000) < 0.1, 4)
    assert effective_count(alone) > 3000
    assert 700 < effective_count(together) < 1500
    assert effective_count(np.zeros(50, np.bool_)) == 50.0
    assert effective_count(np.array([True])) == 1.0


def test_the_largest_threshold_up_to_which_all_hold_is_taken() -> None:
    """Not one beyond it that happens to hold again."""
    seen = {0.1: 0, 0.3: 3, 0.5: 30, 0.7: 3}
    found = calibrate(loop_of(lambda threshold: seen[threshold]), seen, 0.95)
    assert (found.threshold, found.violations, found.waves) == (0.3, 3, 200)
    assert found.upper <= 0.05
    assert found.saved == pytest.approx(0.3, abs=0.01)
    assert found.missing is None


def test_a_higher_confidence_saves_less() -> None:
    tried = [0.1, 0.2, 0.3, 0.4, 0.5]
    loop = loop_of(lambda threshold: round(40 * threshold), 1000)
    found = [calibrate(loop, tried, confidence).threshold for confidence in (0.9, 0.98, 0.985)]
    assert found == [0.5, 0.2, 0.1]


def test_where_none_holds_it_says_how_many_waves_are_missing() -> None:
    few = calibrate(loop_of(lambda _: 0, waves=40), [0.5], 0.95)
    assert (few.threshold, few.saved, few.missing) == (None, 0.0, 29)
    rare = calibrate(loop_of(lambda _: 2, waves=60), [0.5], 0.95)
    assert rare.threshold is None
    assert rare.missing is not None
    enough = 60 + rare.missing
    assert (
        upper_rate(enough * 2 / 60, enough) <= 0.05 < upper_rate((enough - 3) * 2 / 60, enough - 3)
    )


def test_where_too_many_are_violated_no_number_of_waves_would_do() -> None:
    found = calibrate(loop_of(lambda _: 20), [0.5], 0.95)
    assert (found.threshold, found.missing, found.violations) == (None, None, 20)


def test_thresholds_that_skip_nothing_say_nothing() -> None:
    found = calibrate(loop_of(lambda _: 0), [0.0], 0.95)
    assert (found.threshold, found.waves) == (None, 0)


def test_thresholds_to_try_are_scores_that_there_are() -> None:
    scores = np.array([[math.nan, 0.2], [math.inf, 0.8], [0.2, 0.4]])
    assert candidates(scores, 3) == pytest.approx([0.2, 0.4, 0.8])
    assert candidates(np.array([math.nan])) == []


def test_blocks_cover_all_waves_once() -> None:
    made = blocks(7, 30, 4)
    assert (made[0].first, made[-1].last) == (7, 30)
    assert all(a.last == b.first for a, b in pairwise(made))
    assert {block.last - block.first for block in made} <= {5, 6}
    with pytest.raises(ValueError, match="3 waves make no 5 blocks; train for longer"):
        blocks(0, 3, 5)


def test_what_trains_for_a_block_has_neither_wave_within_the_gap() -> None:
    waves, ages = np.repeat(np.arange(40), 5), np.tile(np.arange(1, 6), 40)
    clear = outside(Fold(10, 20), waves, ages, 5)
    for wave, age, taken in zip(waves, ages, clear, strict=True):
        assert taken == (wave < 5 or wave - age >= 25)


def test_a_skip_counts_as_many_waves_as_service_decides_on_until_the_next() -> None:
    """Two of four skips violate; runs of training lasted three waves, so that few were seen."""
    ran = np.array([True, False, False, True, False, False])
    violated = np.array([False, False, True, False, False, True])
    close, far = ClosedLoop(ran, violated), ClosedLoop(ran, violated, 3.0)
    assert close.violation_rate == pytest.approx(2 / 6)
    assert far.violation_rate == pytest.approx(6 / (2 + 4 * 3))
    assert calibration_of(0.0, far).upper > calibration_of(0.0, close).upper
