"""What is learned of the clock: whole days and weeks, and nothing of parts of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fitted_models import OUTPUT, SOURCE, drawn_rows, model

from headgate.learning.features import FEATURES, HOUR, WEEKEND, clocks_of
from headgate.learning.fitting.clock import known_ranges, without_partial_cycles
from headgate.learning.fitting.refit import LabelledRows, refit

MONDAY = 4 * 86_400.0  # 5 January 1970
IMPACT = FEATURES.index("impact")


def rows_at(hours: np.ndarray) -> np.ndarray:
    """Rows of waves so many hours after Monday began; the rest is drawn."""
    rows = drawn_rows(3, len(hours))
    rows[:, HOUR.start : WEEKEND.stop] = clocks_of(MONDAY + hours * 3600.0)
    return rows


@pytest.mark.parametrize(
    ("hours", "of_day", "of_week"),
    [
        (np.arange(336.0), True, True),
        (np.arange(96.0), True, False),
        (np.arange(0.0, 8.0, 1 / 60), False, False),
        (np.arange(5 * 24.0, 7 * 24.0), True, False),
        (np.arange(0.5, 336.0, 24.0), False, True),
        (np.arange(0.0, 336.0, 6.0), True, True),
    ],
    ids=["two weeks", "four days", "a morning", "a weekend", "a wave a day", "every six hours"],
)
def test_of_a_cycle_that_was_not_seen_whole_nothing_is_learned(
    hours: np.ndarray, of_day: bool, of_week: bool
) -> None:
    rows = rows_at(hours)
    before = rows.copy()
    found = without_partial_cycles(rows)
    assert (found[:, HOUR] == rows[:, HOUR]).all() == of_day
    assert (found[:, WEEKEND] == rows[:, WEEKEND]).all() == (of_week or not rows[0, WEEKEND].any())
    assert found[:, : HOUR.start] == pytest.approx(rows[:, : HOUR.start])
    assert found[:, WEEKEND.stop :] == pytest.approx(rows[:, WEEKEND.stop :])
    assert (rows == before).all(), "what was given is not written to"
    lowest, highest = known_ranges(found)
    assert lowest[HOUR] == pytest.approx(-1.0, abs=1e-3)
    assert highest[HOUR] == pytest.approx(1.0, abs=1e-3)
    assert lowest[WEEKEND].item() == 0.0
    assert highest[WEEKEND].item() == 1.0
    assert highest[IMPACT] == rows[:, IMPACT].max()


def test_a_model_of_a_morning_decides_in_the_afternoon_and_on_sunday() -> None:
    morning = rows_at(np.arange(0.0, 8.0, 0.1))
    taught = LabelledRows(morning, np.full(len(morning), -0.2))
    known = model()
    found = refit(known, dict.fromkeys(known.containers, taught), {SOURCE: taught, "areas": taught})
    later = morning.copy()
    for hour in (15.0, 24 * 6 + 3.0):
        later[:, HOUR.start : WEEKEND.stop] = clocks_of(np.array([MONDAY + hour * 3600.0]))
        assert np.isfinite(found.containers[SOURCE].scores(later)).all()
    later[:, IMPACT] = 3.0
    assert found.score(SOURCE, later[0]) == math.inf
    assert found.output == OUTPUT
