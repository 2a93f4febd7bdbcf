"""The search for a step's limit: doubling, converging, and as near as it comes (Figure 4)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from searching import TARGET, drive

from headgate.engine.spec.conditions import Dimension
from headgate.engine.triggers.significance.measurements import Measurement
from headgate.engine.triggers.significance.search import Search, SearchPhase, SearchState, Taken
from headgate.engine.triggers.significance.shifts import Shifts


def test_a_failed_run_tells_the_search_nothing():
    search = Search(0.1, 5)
    search.open(TARGET)
    search.launched(Taken(10, 0.1))
    search.failed()
    assert search.finished(0.1) is None
    assert search.state.measurements == []


def test_the_limit_is_doubled_until_the_output_changes_by_more():
    search = Search(0.1, 5)
    search.open(0.5)
    limits = drive(search, lambda u: u / 1000, 40)
    assert limits[:5] == [1, 20, 40, 80, 160]


@pytest.mark.parametrize("steepness", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("target", [0.03, 0.1, 0.3])
def test_whatever_way_the_output_follows_its_input_the_limit_is_found(steepness, target):
    search = Search(0.1, 5)
    search.open(target)
    right = 1000 * target ** (1 / steepness)
    # Twelve waves in one run or fewer, so that the budget allows the runs that are averaged.
    updates = max(1, round(right / 12))
    drive(search, lambda u: (u / 1000) ** steepness, 3 * 17 + 60, updates)
    assert search.found
    assert search.change == pytest.approx(target, rel=0.1)


@pytest.mark.parametrize(
    ("before", "dimension", "limit"), [(1, "sequence", "σ 10 updates"), (2, "value", "ν 5 %")]
)
def test_after_three_limits_that_did_not_last_updates_do_not_predict_the_output(
    before, dimension, limit
):
    search = Search(0.1, 5)
    search.open(0.1)
    apart = [Measurement(10, 10, change, 0.1) for change in (0.02, 0.3, 0.02, 0.3)]
    search.state = SearchState(
        SearchPhase.FOUND, limit=10, target=0.1, expected=0.1, brief=before, baseline=True,
        measurements=apart, shifts=Shifts([0.1] * 8),
    )  # fmt: skip
    words = None
    while words is None:
        search.launched(Taken(10, 0.1))
        words = search.finished(1.0)
    assert "opened again" in words
    assert words.endswith(f"target 10 %, {limit}")
    assert search.state.dimension == dimension


def test_where_a_little_more_is_sought_than_a_wave_has_two_are_tried():
    search = Search(0.1, 5)
    search.open(0.108)
    limits = drive(search, lambda u: u / 1000, 20, updates=100)
    assert next(limit for limit in limits if limit > 100) == 200


def test_a_limit_that_changed_too_much_before_and_too_little_now_tells_of_none_above():
    search = Search(0.1, 5)
    search.open(0.108)
    search.state = SearchState(
        SearchPhase.CONVERGING, limit=100, target=0.108, high=100, baseline=True,
        settled=True, arrived=[100.0] * 8,
    )  # fmt: skip
    search.launched(Taken(100, 0.1))
    search.finished(0.1)
    assert (search.state.limit, search.state.low, search.state.high) == (200, 100, None)


def test_the_next_limit_follows_the_curve_of_the_runs():
    search = Search(0.1, 5)
    search.state = SearchState(
        SearchPhase.CONVERGING, limit=40, target=0.32, low=20, baseline=True,
        measurements=[Measurement(n, n, n * n / 10_000, 0.1) for n in (8, 20)],
    )  # fmt: skip
    search.launched(Taken(40, 0.1))
    search.finished(0.16)
    assert search.state.limit == round(40 * 2**0.5)


def test_two_limits_between_which_one_wave_more_lies_are_near_enough():
    search = Search(0.1, 5)
    search.state = SearchState(
        SearchPhase.CONVERGING, limit=52, target=0.55, low=50, baseline=True, settled=True,
        arrived=[10.0] * 8, measurements=[Measurement(50, 50, 0.5, 0.1)],
    )  # fmt: skip
    search.launched(Taken(60, 0.1))
    words = search.finished(0.6)
    assert words is not None
    assert "as near as it comes: σ 50 updates" in words


def test_the_output_change_at_a_limit_is_that_of_runs_which_took_more_than_it():
    search = Search(0.1, 5)
    search.state = SearchState(SearchPhase.DOUBLING, limit=10, target=0.9, baseline=True)
    search.launched(Taken(12, 0.1))
    search.finished(0.3)
    search.state.limit = 10
    assert search.change == pytest.approx(0.3)


def test_a_target_between_one_wave_and_two_is_found_as_near_as_it_comes():
    search = Search(0.1, 5)
    search.open(0.15)
    said = []
    for wave in range(1, 60):
        search.launched(Taken(100, 0.1) if search.state.limit <= 100 else Taken(200, 0.2))
        said.append(search.finished(0.1 if search.state.limit <= 100 else 0.2))
        search.wave(100 * wave, 1000)
    assert any("as near as it comes: σ 100 updates" in words for words in said if words)


def test_where_one_wave_alone_changes_more_the_least_limit_holds():
    search = Search(0.1, 5)
    search.open(0.01)
    drive(search, lambda u: 0.5, 10)
    assert search.found
    assert search.state.limit == 1


def test_a_target_is_another_beyond_the_tolerance():
    search = Search(0.5, 5)
    assert search.open(1.0) is not None
    assert search.open(1.5) is None
    assert search.open(1.75) is not None


def test_only_the_last_runs_are_remembered():
    search = Search(0.1, 5)
    search.open(0.9)
    for run in range(40):
        search.launched(Taken(run + 1, 0.001))
        search.finished(0.001 * run)
    kept = search.state.measurements
    assert len(kept) == 16
    assert kept[-1].amount == 40


EXTREMES = [0.0, 5e-324, 1e-300, 1e-160, 1e-13, 0.05, 3.0, 1e13, 1e150, 1e160, 1e308, math.inf]
"""Changes of tables in which single numbers are nearly as large, or as small, as doubles can be."""


@given(
    st.sampled_from([1e-6, 0.05, 2.0]),
    st.sampled_from([Dimension.SEQUENCE, Dimension.VALUE]),
    st.lists(
        st.tuples(
            st.integers(1, 50), st.sampled_from(EXTREMES), st.sampled_from(EXTREMES), st.booleans()
        ),
        max_size=60,
    ),
)
def test_no_change_is_too_large_or_too_small_for_a_search(target, dimension, runs):
    search = Search(0.1, 5)
    search.state.dimension = dimension
    search.open(target)
    received = 0
    for updates, taken_in, change, fails in runs:
        received += updates
        search.launched(Taken(updates, taken_in))
        search.finished(change)
        if fails:
            search.failed()
        search.wave(received, 10)
        assert 0 < search.state.limit < math.inf
        assert search.words()
