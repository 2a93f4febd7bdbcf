"""Tables of pairs of waves against each pair measured alone."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from headgate.engine import UserMetric
from headgate.learning import pairs
from headgate.learning.features import FEATURES, WaveContext, levels_of, row_of
from headgate.learning.impact import (
    Changes,
    ErrorMetric,
    Impact,
    ImpactMetric,
    Values,
    error,
    errors_of,
    impact,
    impacts,
    measure,
    version_of,
)
from headgate.learning.pairs import (
    ContainerHistory,
    GivenImpact,
    errors,
    feature_names,
    features,
    measured_pairs,
)

HORIZON = 4
WAVES = 9


def history(seed: int = 0) -> ContainerHistory:
    """A container of up to six elements, which come, stand still, lose their number and go."""
    random = np.random.default_rng(seed)
    values = np.round(random.normal(5.0, 3.0, (WAVES, 6)), 1)
    still = random.random(values.shape) < 0.4
    for wave in range(1, WAVES):
        values[wave, still[wave]] = values[wave - 1, still[wave]]
    values[:3, 0] = 0.0  # not there yet
    values[6:, 1] = 0.0  # gone
    values[5, 2] = math.nan
    elements = np.full(WAVES, 6)
    elements[:3] -= 1
    elements[6:] -= 1
    updates = random.integers(0, 9, WAVES)
    return ContainerHistory(
        values, elements, updates, 1.7e9 + 3600.0 * np.arange(WAVES, dtype=np.float64)
    )


AWKWARD = (0.0, -0.0, 5.0, 5e-324, 1e-300, 1e134, 1e150, 1e308, math.inf, -math.inf, math.nan)
moderate = st.floats(0.0, 100.0)
of_both_signs = st.floats(-1e6, 1e6)
of_any_kind = st.one_of(moderate, of_both_signs, st.floats(), st.sampled_from(AWKWARD))


@st.composite
def states(draw: st.DrawFn) -> Values:
    """States of a few elements over a few waves; some of which stand still."""
    waves, width = draw(st.integers(1, 9)), draw(st.integers(0, 7))
    cell = draw(st.sampled_from((moderate, of_both_signs, of_any_kind)))
    found = np.zeros((waves, width))
    for wave in range(waves):
        for at in range(width):
            still = wave and draw(st.booleans())
            found[wave, at] = found[wave - 1, at] if still else draw(cell)
    return found


def alone(known: ContainerHistory, wave: int, age: int, levels: Values | None) -> Impact:
    """Return a pair measured by itself."""
    now, then = known.values[wave], known.values[wave - age]
    version = version_of(then, levels, int(known.elements[wave - age]))
    return measure(now, then, version, int(known.elements[wave]), levels)


@given(states(), st.booleans(), st.sampled_from((1, 9, 20, 1_000)))
@example(np.array([[1.0, 1e200], [2.0, 1.0], [2.0, 1.0]]), True, 1_000)
@example(np.array([[3.0, -2.0], [-3.0, -2.0], [math.nan, 1.0]]), True, 1_000)
@example(np.array([[1e134] * 7, [-1e134] * 7]), False, 1_000)
def test_every_pair_is_bit_for_bit_what_it_is_alone(
    values: Values, with_levels: bool, block: int
) -> None:
    """In blocks of any size, and whatever is in them."""
    waves, width = values.shape
    levels = np.array([-1.0, *range(6), 5.0, 1e9]) if with_levels else None
    elements = np.maximum(0, width - np.arange(waves) % 3)
    updates = np.arange(waves) * 7 % 5
    times = 1.7e9 + 20_000.0 * np.arange(waves, dtype=np.float64)
    known = ContainerHistory(values, elements, updates, times)
    shown = np.linspace(-3.0, 1e39, waves)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "_BLOCK", block)
        found = measured_pairs(known, HORIZON, levels)
    table = features(found, shown) if with_levels else None
    by_error = {metric: errors_of(found.impacts, metric) for metric in ErrorMetric}
    by_impact = {metric: impacts(found.impacts, metric) for metric in ImpactMetric}
    for wave in range(waves):
        then = version_of(values[wave])
        assert found.means[wave] == then.sum / max(1, elements[wave])
        for age in range(1, min(wave, HORIZON) + 1):
            expected = alone(known, wave, age, levels)
            assert found.impacts.one((wave, age)) == expected
            for metric in ErrorMetric:
                assert by_error[metric][wave, age] == error(expected, metric)
            for kind in ImpactMetric:
                assert by_impact[kind][wave, age] == impact(expected, kind)
            if table is not None:
                context = WaveContext(
                    float(times[wave]),
                    age,
                    int(updates[wave - age + 1 : wave + 1].sum()),
                    int(updates[wave]),
                    float(shown[wave - age]),
                )
                assert table[wave, age].tobytes() == row_of(expected, context).tobytes()


def test_pairs_of_many_elements_are_what_they_are_alone() -> None:
    """Where a pair alone is summed by limbs too, and in many blocks of waves."""
    random = np.random.default_rng(3)
    values = np.cumsum(random.standard_normal((40, 3_000)), axis=0)
    values[1::2, ::3] = values[::2, ::3]
    counts = np.full(len(values), values.shape[1])
    known = ContainerHistory(values, counts, counts, np.arange(40.0))
    levels = levels_of(values)
    found = measured_pairs(known, HORIZON, levels)
    for wave in range(0, 40, 3):
        for age in range(1, min(wave, HORIZON) + 1):
            assert found.impacts.one((wave, age)) == alone(known, wave, age, levels)


def test_there_is_nothing_at_age_0_and_before_the_first_wave() -> None:
    found = measured_pairs(history(), HORIZON, np.arange(9.0))
    table = features(found, np.ones(WAVES))
    nothing = Impact(crossed=(0,) * 9, above=(0,) * 9, above_before=(0,) * 9)
    for at in [(4, 0), (2, 3)]:
        assert found.impacts.one(at) == nothing
        assert not table[at].any()


@pytest.mark.parametrize("metric", ErrorMetric)
def test_an_error_is_that_of_one_waves_output_shown_at_another(metric: ErrorMetric) -> None:
    known = history()
    table = errors(measured_pairs(known, HORIZON), metric)
    assert table.shape == (WAVES, HORIZON + 1)
    for wave in range(WAVES):
        assert table[wave, 0] == 0.0
        for age in range(1, HORIZON + 1):
            if age > wave:
                assert math.isnan(table[wave, age])
                continue
            now, then = known.values[wave], known.values[wave - age]
            found = measure(now, then, version_of(then), int(known.elements[wave]))
            assert table[wave, age] == error(found, metric)
    assert table[5, 1] == math.inf


@pytest.mark.parametrize("metric", ErrorMetric)
def test_errors_that_accumulate_are_added_up_wave_by_wave(metric: ErrorMetric) -> None:
    measured = measured_pairs(history(), HORIZON)
    alone = errors(measured, metric)
    table = errors(measured, metric, Changes.ACCUMULATE)
    for wave in range(WAVES):
        assert table[wave, 0] == 0.0
        for age in range(1, HORIZON + 1):
            if age > wave:
                assert math.isnan(table[wave, age])
            else:
                steps = [alone[later, 1] for later in range(wave - age + 1, wave + 1)]
                assert table[wave, age] == sum(steps)


def test_changes_that_undo_each_other_are_an_error_only_where_they_accumulate() -> None:
    values = np.array([[10.0], [30.0], [10.0]])
    known = ContainerHistory(values, np.ones(3, int), np.ones(3, int), np.arange(3.0))
    measured = measured_pairs(known, 2)
    assert errors(measured, ErrorMetric.RELATIVE)[2, 2] == 0.0
    assert errors(measured, ErrorMetric.RELATIVE, Changes.ACCUMULATE)[2, 2] == 2 * (20 / 30)


@given(
    st.lists(
        st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=2, max_size=HORIZON + 1
    )
)
def test_what_is_left_of_changes_is_never_more_than_what_accumulates(
    values: list[list[float]],
) -> None:
    """Both errors obey the triangle inequality, so what an audit sees is a bound from below."""
    count = np.full(len(values), 3)
    known = ContainerHistory(np.array(values), count, count, np.arange(float(len(values))))
    measured = measured_pairs(known, HORIZON)
    for metric in ErrorMetric:
        left = errors(measured, metric)[-1, len(values) - 1]
        added = errors(measured, metric, Changes.ACCUMULATE)[-1, len(values) - 1]
        assert left <= added * (1.0 + 1e-9) + 1e-12


def test_what_accumulates_of_a_users_metric_comes_from_pairs_of_neighbours_alone() -> None:
    measured = measured_pairs(history(), HORIZON)
    said = np.zeros((WAVES, 2))
    said[1:, 1] = 0.5
    asked = replace(measured, given=said)
    table = errors(asked, UserMetric("metrics:Worst"), Changes.ACCUMULATE)
    assert table[WAVES - 1].tolist() == [0.5 * age for age in range(HORIZON + 1)]


def test_a_row_is_what_would_be_seen_of_touched_cells_at_that_moment() -> None:
    """A run that decides sees the cells that were touched since the version, and no others."""
    known, levels = history(), levels_of(history().values[:5])
    shown = np.arange(WAVES, dtype=np.float64) + 0.5
    table = features(measured_pairs(known, HORIZON, levels), shown)
    assert table.shape == (WAVES, HORIZON + 1, len(FEATURES))
    random = np.random.default_rng(1)
    for wave in range(1, WAVES):
        for age in range(1, min(wave, HORIZON) + 1):
            now, then = known.values[wave], known.values[wave - age]
            touched = random.permutation(np.flatnonzero(now != then))
            order = random.permutation(len(then))
            version = version_of(then[order], levels, int(known.elements[wave - age]))
            measured = measure(
                now[touched], then[touched], version, int(known.elements[wave]), levels
            )
            context = WaveContext(
                float(known.times[wave]),
                age,
                sum(known.updates[wave - age + 1 : wave + 1].tolist()),
                int(known.updates[wave]),
                float(shown[wave - age]),
            )
            assert table[wave, age].tobytes() == row_of(measured, context).tobytes()
    assert not table[2, 3].any()


@st.composite
def lives(draw: st.DrawFn) -> tuple[Values, npt.NDArray[np.bool_]]:
    """Values of both signs of elements that come, stand still and go, and which are present."""
    waves, width = draw(st.integers(2, 6)), draw(st.integers(1, 6))
    cell = st.sampled_from((-9.0, -2.5, -1.0, 0.0, 1.0, 4.0))
    found, present = np.zeros((waves, width)), np.zeros((waves, width), np.bool_)
    for wave in range(waves):
        for at in range(width):
            if wave and draw(st.booleans()):
                found[wave, at], present[wave, at] = found[wave - 1, at], present[wave - 1, at]
            elif draw(st.booleans()):
                found[wave, at], present[wave, at] = draw(cell), True
    return found, present


@given(lives())
@example((np.array([[-5.0, 0.0], [-5.0, -3.0]]), np.array([[True, False], [True, True]])))
def test_what_is_missing_is_no_element_in_training_as_in_service(
    lived: tuple[Values, npt.NDArray[np.bool_]],
) -> None:
    """A probe in service knows no element that was neither present nor touched."""
    values, present = lived
    waves, counts = len(values), present.sum(1)
    levels = np.array([-6.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 2.0, 3.0])
    times = 1.7e9 + 3600.0 * np.arange(waves, dtype=np.float64)
    known = ContainerHistory(values, counts, np.zeros(waves, np.int64), times)
    table = features(measured_pairs(known, HORIZON, levels), np.zeros(waves))
    for wave in range(1, waves):
        for age in range(1, min(wave, HORIZON) + 1):
            earlier = wave - age
            touched = (values[wave] != values[earlier]) | (present[wave] != present[earlier])
            seen = values[earlier][present[earlier] | touched]
            version = version_of(seen, levels, int(counts[earlier]))
            measured = measure(
                values[wave][touched], values[earlier][touched], version, int(counts[wave]), levels
            )
            for at, level in enumerate(levels):
                assert measured.above[at] == (present[wave] & (values[wave] > level)).sum()
            row = row_of(measured, WaveContext(float(times[wave]), age, 0, 0, 0.0))
            assert table[wave, age].tobytes() == row.tobytes()


def test_an_impact_that_was_given_is_one_feature_more() -> None:
    known = measured_pairs(history(), HORIZON, levels_of(history().values[:5]))
    shown = np.ones(WAVES)
    said = np.arange(WAVES * (HORIZON + 1), dtype=np.float64).reshape(WAVES, HORIZON + 1)
    own = replace(known, impact=GivenImpact("metrics:Moved", said))
    table = features(own, shown)
    assert feature_names(own) == (*FEATURES, "metrics:Moved")
    assert feature_names(known) == FEATURES
    np.testing.assert_array_equal(table[..., :-1], features(known, shown))
    assert table[4, 2, -1] == said[4, 2]
    assert not table[2, 3].any(), "before the first wave"
    np.testing.assert_array_equal(features(own.until(5), shown[:5]), table[:5])


def test_parts_of_different_numbers_of_waves_are_refused() -> None:
    known = history()
    short = ContainerHistory(known.values, known.elements, known.updates[1:], known.times)
    with pytest.raises(ValueError, match=r"parts of \[8, 9\] waves"):
        measured_pairs(short, HORIZON)


def test_one_measurement_serves_errors_and_features() -> None:
    """Levels add crossings to an impact and change nothing else of it."""
    known = history()
    less, both = measured_pairs(known, HORIZON), measured_pairs(known, HORIZON, np.arange(9.0))
    for metric in ErrorMetric:
        np.testing.assert_array_equal(errors(both, metric), errors(less, metric))
    whole = [wave for wave in range(WAVES) if not np.isnan(known.values[wave]).any()]
    means = known.values.sum(1) / known.elements
    np.testing.assert_allclose(both.means[whole], means[whole])


def test_features_of_what_was_measured_otherwise_are_refused() -> None:
    known = history()
    with pytest.raises(ValueError, match="measured with its levels; give its deciles"):
        features(measured_pairs(known, HORIZON), np.zeros(WAVES))
    with pytest.raises(ValueError, match="output of 8 waves is below a container of 9"):
        features(measured_pairs(known, HORIZON, np.zeros(9)), np.zeros(WAVES - 1))
