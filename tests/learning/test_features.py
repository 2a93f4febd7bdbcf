"""The row of numbers that a model is shown."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headgate.learning.features import (
    FEATURES,
    FEATURES_OF_BEFORE,
    LEVELS,
    Row,
    WaveContext,
    columns_of,
    levels_of,
    own_metric,
    row_of,
    with_own,
)
from headgate.learning.impact import Values, measure, version_of

MONDAY = 1_700_438_400.0  # 20 November 2023, midnight


def shown(row: Row) -> dict[str, float]:
    return dict(zip(FEATURES, row.tolist(), strict=True))


def row(
    now: list[float], before: list[float], time: float = MONDAY, levels: Values | None = None
) -> dict[str, float]:
    levels = np.arange(1.0, LEVELS + 1) if levels is None else levels
    version = version_of(np.array(before), levels)
    measured = measure(np.array(now), np.array(before), version, len(now), levels)
    return shown(row_of(measured, WaveContext(time, age=3, updates=6, last_updates=2, shown=7.5)))


def test_an_impact_by_a_users_metric_is_the_last_number_and_finite() -> None:
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = with_own(rows, np.array([0.1, math.inf]))
    assert found.dtype == np.float32
    assert found[:, :3].tolist() == rows.tolist()
    assert found[:, 3].tolist() == [np.float32(0.1), np.finfo(np.float32).max]
    assert with_own(rows[0], np.array(0.1)).tobytes() == found[0].tobytes()


def test_it_says_how_far_the_container_has_moved_and_in_which_direction() -> None:
    found = row([1.0, 5.0, 5.0, 5.0], [3.0, 5.0, 5.0, 5.0])
    assert found["impact"] == 2.0
    assert found["relative_impact"] == pytest.approx(1 / 4 * 2 / 3)
    assert found["relative_error"] == pytest.approx(2 / 18)
    assert found["signed"] == pytest.approx(-2 / 18)
    assert found["largest"] == 2.0
    assert found["changed"] == 0.25
    assert found["rmse"] == 1.0
    assert found["level"] == 4.0
    assert (found["updates"], found["last_updates"]) == (1.5, 0.5)
    assert (found["age"], found["shown"]) == (3.0, 7.5)


def test_it_says_which_share_of_elements_crossed_each_level_and_lies_above_it() -> None:
    found = row([1.0, 5.0, 5.0, 5.0], [3.0, 5.0, 5.0, 5.0])
    crossed = [found[f"crossed_{decile}0"] for decile in range(1, 10)]
    assert crossed == [0.25, 0.25, *[0.0] * 7]
    above = [found[f"above_{decile}0"] for decile in range(1, 10)]
    assert above == [0.75] * 4 + [0.0] * 5


def test_it_says_how_many_more_are_above_each_level_than_were_of_as_many_as_there_are() -> None:
    """Above 1 are three of four, above 2 one more than two, above 3 two more, above 5 the first."""
    found = row([1.0, 5.0, 5.0, 6.0], [3.0, 5.0, 1.5, 1.5], levels=np.arange(1.0, LEVELS + 1))
    net = [found[f"net_crossed_{decile}0"] for decile in range(1, 10)]
    assert net == pytest.approx([-1 / 4, 1 / 3, 2 / 3, 2 / 3, 1.0, 0.0, 0.0, 0.0, 0.0])
    fallen = row([0.0, 0.0], [9.5, 1.5])
    assert [fallen[f"net_crossed_{decile}0"] for decile in (1, 5, 9)] == [-1.0, -1.0, -1.0]


def test_a_version_before_computed_all_but_the_net_crossings() -> None:
    assert len(FEATURES_OF_BEFORE) == 33
    assert FEATURES[:33] == FEATURES_OF_BEFORE
    assert columns_of(FEATURES) == list(range(len(FEATURES)))
    assert columns_of((*FEATURES_OF_BEFORE, "m:Own")) == [*range(33), len(FEATURES)]
    names = [FEATURES, (*FEATURES, "m:Own"), FEATURES_OF_BEFORE, (*FEATURES_OF_BEFORE, "m:Own")]
    assert [own_metric(each) for each in names] == ["", "m:Own", "", "m:Own"]
    for others in ((*FEATURES, "m:Own", "m:Other"), FEATURES[1:], FEATURES[:-1], FEATURES[:32], ()):
        assert own_metric(others) is None


@pytest.mark.parametrize(
    ("hours", "weekend"), [(0, 0), (4 * 24 + 23.9, 0), (5 * 24, 1), (7 * 24 - 0.1, 1), (7 * 24, 0)]
)
def test_weekends_are_told_from_weekdays_by_the_waves_own_time(hours: float, weekend: int) -> None:
    assert row([1.0], [1.0], MONDAY + hours * 3600)["weekend"] == weekend


def test_the_hour_goes_round() -> None:
    six = row([1.0], [1.0], MONDAY + 6 * 3600)
    assert (six["hour_sine"], six["hour_cosine"]) == pytest.approx((1.0, 0.0), abs=1e-6)
    late, early = row([1.0], [1.0], MONDAY - 60), row([1.0], [1.0], MONDAY + 60)
    assert late["hour_cosine"] == pytest.approx(early["hour_cosine"])


@pytest.mark.parametrize("value", [math.nan, math.inf, 1.7e308])
def test_a_row_is_of_finite_numbers_whatever_the_container_holds(value: float) -> None:
    assert all(map(math.isfinite, row([value, 1.0], [1.0, 1.0]).values()))


def test_an_empty_container_has_a_row() -> None:
    assert all(map(math.isfinite, row([], []).values()))


def test_levels_are_the_deciles_of_what_has_a_number() -> None:
    values = np.array([math.nan, *range(11), math.inf])
    assert levels_of(values).tolist() == pytest.approx(list(range(1, 10)))
    assert levels_of(np.array([math.nan])).tolist() == [0.0] * LEVELS
