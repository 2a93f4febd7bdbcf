"""Input impact and output error against sums that are made anew, and what has no number."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.learning.impact import (
    ErrorMetric,
    Impact,
    ImpactMetric,
    Values,
    Version,
    error,
    error_of_current,
    geometric_mean,
    impact,
    measure,
    version_of,
)

LEVELS = np.array([-1.0, 0.5, 2.0])
numbers = st.floats(-1e9, 1e9)
cells = st.lists(st.tuples(numbers, numbers, st.booleans()), max_size=30)


def arrays(pairs: list[tuple[float, float, bool]]) -> tuple[Values, Values]:
    """Return x and x′; a cell that is not moved has x′ for x."""
    before = np.array([b for _, b, _ in pairs], float)
    now = np.array([a if moved else b for a, b, moved in pairs], float)
    return now, before


@given(cells, st.randoms(use_true_random=False))
def test_it_is_the_same_in_any_order_and_whichever_unmoved_cells_are_touched(
    pairs: list[tuple[float, float, bool]], shuffled: object
) -> None:
    """Bit for bit, so that what is measured live is what a recording gives again."""
    now, before = arrays(pairs)
    whole = measure(now, before, version_of(before, LEVELS), len(now), LEVELS)

    order = list(range(len(now)))
    shuffled.shuffle(order)  # type: ignore[attr-defined]
    moved = [at for at in order if now[at] != before[at]]

    version = version_of(before[order], LEVELS)
    assert measure(now[order], before[order], version, len(now), LEVELS) == whole
    assert measure(now[moved], before[moved], version, len(now), LEVELS) == whole


@given(cells)
@example([(1.0, -2.0, True), (-3.0, 0.0, True), (0.0, 4.0, True), (5.0, 5.0, True)])
def test_it_is_what_the_definitions_give(pairs: list[tuple[float, float, bool]]) -> None:
    now, before = arrays(pairs)
    n = len(now)
    found = measure(now, before, version_of(before, LEVELS), n, LEVELS)

    exact = [(Fraction(a), Fraction(b)) for a, b in zip(now.tolist(), before.tolist(), strict=True)]
    changed = [(a, b) for a, b in exact if a != b]

    def larger(a: Fraction, b: Fraction) -> Fraction:
        return abs(a) + abs(b) if a * b < 0 else max(abs(a), abs(b))

    difference = sum(abs(a - b) for a, b in changed)
    over = sum(larger(a, b) for a, b in changed)
    over_all = sum(larger(a, b) for a, b in exact)
    assert found.changed == len(changed)
    assert impact(found, ImpactMetric.ABSOLUTE) == pytest.approx(float(len(changed) * difference))
    share = len(changed) * difference / (n * over) if over else 0
    assert impact(found, ImpactMetric.RELATIVE) == pytest.approx(float(share), abs=1e-12)
    ratio = difference / over_all if over_all else 0
    assert error(found, ErrorMetric.RELATIVE) == pytest.approx(float(ratio), abs=1e-12)
    mean = sum((a - b) ** 2 for a, b in changed) / n if n else 0
    assert error(found, ErrorMetric.RMSE) == pytest.approx(math.sqrt(mean))
    assert found.signed == pytest.approx(float(sum(a - b for a, b in changed)), abs=1e-6)
    assert found.sum == pytest.approx(float(sum(a for a, _ in exact)), abs=1e-6)
    assert found.current == pytest.approx(float(sum(abs(a) for a, _ in exact)), rel=1e-12, abs=1e-6)
    for at, level in enumerate(LEVELS.tolist()):
        assert found.crossed[at] == sum((a > level) != (b > level) for a, b in changed)
        assert found.above[at] == sum(a > level for a, _ in exact)
        assert found.above_before[at] == sum(b > level for _, b in exact)
    assert 0.0 <= error(found, ErrorMetric.RELATIVE) <= 1.0
    assert 0.0 <= impact(found, ImpactMetric.RELATIVE) <= 1.0


@given(st.lists(st.tuples(numbers, st.none() | numbers), max_size=30))
@example([(3.0, None)])
@example([(3.0, None), (-4.0, None), (0.0, None)])
def test_errors_count_what_is_gone_also_where_nothing_is_left(
    pairs: list[tuple[float, float | None]],
) -> None:
    before = np.array([b for b, _ in pairs], float)
    now = np.array([0.0 if a is None else a for _, a in pairs], float)
    left = sum(a is not None for _, a in pairs)
    found = measure(now, before, version_of(before), left)

    exact = [(Fraction(a), Fraction(b)) for a, b in zip(now.tolist(), before.tolist(), strict=True)]
    mean = sum((a - b) ** 2 for a, b in exact) / max(1, left)
    assert error(found, ErrorMetric.RMSE) == pytest.approx(math.sqrt(mean))
    if left == 0:
        assert error(found, ErrorMetric.RELATIVE) == (1.0 if before.any() else 0.0)


def of(now: list[float], before: list[float]) -> Impact:
    return measure(np.array(now), np.array(before), version_of(np.array(before)), len(now))


def test_a_container_that_was_empty_has_changed_as_much_as_can_be() -> None:
    found = measure(np.array([3.0]), np.array([0.0]), Version(0.0, 0.0), 1)
    assert error(found, ErrorMetric.RELATIVE) == 1.0
    assert impact(found, ImpactMetric.RELATIVE) == 1.0


def test_a_container_that_is_gone_has_no_elements_and_is_all_error() -> None:
    found = measure(np.array([0.0]), np.array([3.0]), version_of(np.array([3.0])), 0)
    assert error(found, ErrorMetric.RELATIVE) == 1.0
    assert error_of_current(found) == math.inf
    assert found.current == 0.0


def test_the_error_grows_until_the_last_element_is_gone() -> None:
    ten = np.full(10, 5.0)
    found = [
        error(measure(np.zeros(gone), ten[:gone], version_of(ten), 10 - gone), ErrorMetric.RMSE)
        for gone in range(11)
    ]
    assert found == sorted(found)
    assert (found[1], found[9], found[10]) == pytest.approx((5.0 / 3.0, 15.0, math.sqrt(250.0)))


def test_nothing_that_stays_nothing_is_no_error() -> None:
    found = of([0.0, 0.0], [0.0, 0.0])
    assert error(found, ErrorMetric.RELATIVE) == error_of_current(found) == 0.0
    assert impact(found, ImpactMetric.RELATIVE) == 0.0
    assert error(Impact(), ErrorMetric.RMSE) == 0.0


def test_values_of_opposite_signs_are_all_error_and_not_more() -> None:
    assert error(of([-2.0], [3.0]), ErrorMetric.RELATIVE) == 1.0


def test_the_other_denominator_is_the_correct_output_alone() -> None:
    found = of([1.0, 3.0], [2.0, 3.0])
    assert error(found, ErrorMetric.RELATIVE) == 1.0 / 5.0
    assert error_of_current(found) == 1.0 / 4.0


@pytest.mark.parametrize("values", [([math.nan], [1.0]), ([1.0], [math.nan]), ([math.nan],) * 2])
def test_what_has_no_number_is_an_error_that_no_bound_admits(
    values: tuple[list[float], list[float]],
) -> None:
    found = of(*values)
    assert (found.changed, found.unknown) == (1, 1)
    assert error(found, ErrorMetric.RELATIVE) == error(found, ErrorMetric.RMSE) == math.inf
    assert error_of_current(found) == math.inf


@pytest.mark.parametrize(
    ("now", "before"),
    [
        ([math.inf], [1.0]),
        ([-math.inf], [math.inf]),
        ([sys.float_info.max] * 3, [-sys.float_info.max] * 3),
        ([1.0, 1.0], [sys.float_info.max] * 2),
    ],
)
def test_values_too_large_to_be_summed_are_never_a_small_error(
    now: list[float], before: list[float]
) -> None:
    found = of(now, before)
    assert error(found, ErrorMetric.RELATIVE) >= 0.5
    assert error(found, ErrorMetric.RMSE) >= 1e300
    assert not math.isnan(impact(found, ImpactMetric.ABSOLUTE))
    assert math.isfinite(found.signed)


def test_a_small_change_beside_a_large_one_is_not_rounded_away() -> None:
    found = of([1e16, 1.0, -1e16], [0.0, 0.0, 0.0])
    assert (found.signed, found.sum) == (1.0, 1.0)


def test_arrays_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="2 values now stand against 1 before"):
        measure(np.zeros(2), np.zeros(1), Version(0.0, 0.0), 2)


def test_one_quiet_predecessor_makes_the_mean_zero() -> None:
    assert geometric_mean([4.0, 9.0]) == pytest.approx(6.0)
    assert geometric_mean([4.0, 0.0]) == 0.0
    assert geometric_mean([]) == 0.0
    assert geometric_mean([1e300, 1e300, 1e300]) == pytest.approx(1e300)
