"""The containers of all waves, as learned triggers are fitted to them."""

from datetime import UTC, datetime

import numpy as np
import pytest
from aqhi import model
from aqhi.generator import WEEKLY, Trend, generate
from aqhi.grid import Grid
from aqhi.readings import Readings
from evaluation.aqhi.histories import histories
from evaluation.aqhi.synchronous import synchronous

GRID = Grid(7)
REFERENCE = 40.0
NAN = float("nan")
CORNER = (0, 1, 2, 7, 8, 9, 14, 15, 16)
"""The detectors of the zone of detector 0."""


def waves(count=12):
    return list(generate(GRID, count, 2, Trend.UNIFORM, WEEKLY))


def all_report(o3, no2):
    every = np.arange(GRID.detectors)
    return Readings("all", every, np.tile([o3, NAN, no2], (GRID.detectors, 1)))


def one_reports(detector, o3):
    return Readings("one", np.array([detector]), np.array([[o3, NAN, NAN]]))


def test_states_are_those_that_the_steps_show():
    shown, concentrations = synchronous(waves(), GRID, REFERENCE)
    found = histories(waves(), GRID, REFERENCE)
    assert set(found) == {"sensors", "detectors", "zones", "hotspots", "map", "now"}
    for name, expected in {
        "detectors": concentrations,
        "zones": shown.zones,
        "hotspots": shown.hotspots,
        "map": shown.maps,
        "now": shown.index,
    }.items():
        assert (found[name].values == expected.reshape(12, -1)).all()
        assert found[name].elements.tolist() == [found[name].values.shape[1]] * 12


def test_sensors_keep_their_last_reading():
    found = histories(waves(), GRID, REFERENCE)["sensors"]
    expected = np.zeros((GRID.detectors, 3))
    for number, wave in enumerate(waves()):
        expected[wave.detectors] = wave.values
        assert (found.values[number] == expected.ravel()).all()
        assert found.updates[number] == wave.values.size


def test_a_sensor_that_never_reported_is_no_element_and_reads_nothing():
    found = histories([all_report(20.0, 30.0), one_reports(3, 25.0)], GRID)["sensors"]
    assert found.elements.tolist() == [2 * GRID.detectors] * 2
    assert found.updates.tolist() == [2 * GRID.detectors, 1]
    assert (found.values.reshape(2, -1, 3)[:, :, 1] == 0).all()
    assert found.values[1, 9] == 25.0


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_what_nobody_has_reported_is_in_no_container():
    found = histories([one_reports(48, 90.0), all_report(90.0, 90.0)], GRID, REFERENCE)
    everything = {"detectors": 49, "zones": 49, "hotspots": 49, "map": 36, "now": 1}
    at_first = {"detectors": 1, "zones": 9, "hotspots": 9, "map": 0, "now": 1}
    for name, count in everything.items():
        assert found[name].elements.tolist() == [at_first[name], count], name
        assert not np.isnan(found[name].values).any()


def test_zones_and_hotspots_are_written_where_they_differ_and_the_rest_as_it_reports():
    calm, other = all_report(20.0, 20.0), one_reports(0, 95.0)
    found = histories([calm, calm, other], GRID, 21.0)
    written = {name: history.updates.tolist() for name, history in found.items()}
    assert written["detectors"] == [49, 49, 1]
    assert written["zones"] == [49, 0, len(CORNER)]
    assert written["map"] == [36, 36, 36]
    assert written["now"] == [1, 1, 1]
    hot = found["zones"].values[2] > 21.0
    assert written["hotspots"] == [49, 0, hot.sum()]
    assert set(np.flatnonzero(hot)) <= set(CORNER)
    assert hot.any()


def test_a_wave_is_an_hour_and_the_first_a_mondays_midnight():
    times = histories(waves(), GRID)["now"].times
    assert datetime.fromtimestamp(times[0], UTC).strftime("%a %H:%M") == "Mon 00:00"
    assert np.diff(times) == pytest.approx(3600.0)


def test_another_reference_or_resolution_makes_other_zones():
    usual = histories(waves(), GRID)
    finer = histories(waves(), GRID, model.HOTSPOT_REFERENCE, 0.01)
    lower = histories(waves(), GRID, 20.0)
    assert (usual["zones"].values % model.ZONE_RESOLUTION == 0).all()
    assert not (finer["zones"].values % model.ZONE_RESOLUTION == 0).all()
    assert (lower["hotspots"].values > 0).sum() > (usual["hotspots"].values > 0).sum()
