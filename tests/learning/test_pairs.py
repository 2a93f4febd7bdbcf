"""Tables of pairs of waves against each pair measured alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headgate.learning.features import FEATURES, WaveContext, levels_of, row_of
from headgate.learning.impact import ErrorMetric, error, measure, version_of
from headgate.learning.pairs import ContainerHistory, errors, features, measured_pairs

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
            version = version_of(then[random.permutation(len(then))], levels)
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


def test_parts_of_different_numbers_of_waves_are_refused() -> None:
    known = history()
    short = ContainerHistory(known.values, known.elements, known.updates[1:], known.times)
    with pytest.raises(ValueError, match=r"parts of \[8, 9\] waves"):
        measured_pairs(short, HORIZON)


def test_one_measurement_serves_errors_and_features() -> None:
    """Levels add crossings to an impact and change nothing else of it."""
    known = history()
    alone, both = measured_pairs(known, HORIZON), measured_pairs(known, HORIZON, np.arange(9.0))
    for metric in ErrorMetric:
        np.testing.assert_array_equal(errors(both, metric), errors(alone, metric))
    whole = [wave for wave in range(WAVES) if not np.isnan(known.values[wave]).any()]
    means = known.values.sum(1) / known.elements
    np.testing.assert_allclose(both.means[whole], means[whole])


def test_features_of_what_was_measured_otherwise_are_refused() -> None:
    known = history()
    with pytest.raises(ValueError, match="measured with its levels; give its deciles"):
        features(measured_pairs(known, HORIZON), np.zeros(WAVES))
    with pytest.raises(ValueError, match="output of 8 waves is below a container of 9"):
        features(measured_pairs(known, HORIZON, np.zeros(9)), np.zeros(WAVES - 1))
