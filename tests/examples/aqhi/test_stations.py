"""Hours of the city's stations become waves of the detectors' readings."""

import gzip
from datetime import datetime

import numpy as np
import pytest
from aqhi.grid import Grid
from aqhi.stations import (
    EXTRACT,
    EXTRACT_HOURS,
    NOTICEABLE,
    STATIONS,
    StationDataError,
    StationRecord,
    places,
    read_stations,
    replay,
)

START = datetime.fromisoformat("2015-11-27")
HEADER = "No,year,month,day,hour,PM2.5,PM10,SO2,NO2,CO,O3,TEMP,PRES,DEWP,RAIN,wd,WSPM,station\n"


def write_stations(folder, lines):
    for station in STATIONS:
        with gzip.open(folder / f"{station}.csv.gz", "wt") as file:
            file.write(HEADER)
            file.writelines(lines)


def line(hour, pm25="35", no2="16", o3="25"):
    return f"1,2015,11,27,{hour},{pm25},1,1,{no2},1,{o3},1,1,1,0,N,1,X\n"


def record(*hours):
    """A record of hours in which each station reads (o3, pm25, no2)."""
    values = np.array([[hour] * len(STATIONS) for hour in hours], dtype=float)
    return StationRecord(tuple(START.replace(hour=at) for at in range(len(hours))), values)


def test_concentrations_become_sensor_units_in_the_models_order(tmp_path):
    write_stations(tmp_path, [line(0, pm25="35", no2="16", o3="25"), line(1, pm25="999")])
    found = read_stations(tmp_path, START, 2)
    assert found.values.shape == (2, 12, 3)
    assert found.values[0, 0].tolist() == pytest.approx([10, 10, 10])
    assert found.values[1, 0, 1] == 100


def test_na_is_missing(tmp_path):
    write_stations(tmp_path, [line(0, no2="NA")])
    assert np.isnan(read_stations(tmp_path, START, 1).values[0, :, 2]).all()


def test_hours_before_the_start_are_left_out(tmp_path):
    write_stations(tmp_path, [line(0), line(1), line(2)])
    found = read_stations(tmp_path, START.replace(hour=1), 2)
    assert [hour.hour for hour in found.hours] == [1, 2]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(StationDataError, match=r"Aotizhongxin\.csv\.gz: not found"):
        read_stations(tmp_path, START, 1)


def test_too_few_hours_are_refused_with_the_cure(tmp_path):
    write_stations(tmp_path, [line(0)])
    with pytest.raises(StationDataError, match=r"only 1 of 5 hours.*fewer --waves"):
        read_stations(tmp_path, START, 5)


def test_all_detectors_report_in_the_first_wave():
    first = next(iter(replay(Grid(4), record((10, 20, 30)))))
    assert first.detectors.tolist() == list(range(16))
    assert first.values == pytest.approx(np.tile([10, 20, 30], (16, 1)))


def test_only_sensors_that_moved_noticeably_report_again():
    _, second = replay(Grid(3), record((10, 20, 30), (10 + NOTICEABLE, 20.5, 30)))
    assert second.detectors.tolist() == list(range(9))
    assert (second.values[:, 0] == 10 + NOTICEABLE).all()
    assert np.isnan(second.values[:, 1:]).all()


def test_small_movements_add_up_until_they_are_noticed():
    waves = list(replay(Grid(2), record((10, 0, 0), (11, 0, 0), (12, 0, 0))))
    assert [len(wave.detectors) for wave in waves] == [4, 0, 4]


def test_a_detector_whose_nearest_station_has_no_value_stays_silent():
    values = record((10, 0, 0), (50, 0, 0))
    values.values[1, 1:, 0] = np.nan
    _, second = replay(Grid(20), values)
    x, y = Grid(20).positions()
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    nearest = ((points[:, None] - places()[None]) ** 2).sum(axis=2).argmin(axis=1)
    assert len(second.detectors) > 0
    assert set(nearest[second.detectors].tolist()) == {0}


def test_a_detector_beside_a_station_reads_nearly_its_value():
    values = record((0, 0, 0))
    values.values[0, 0, 0] = 100
    grid = Grid(100)
    first = next(iter(replay(grid, values)))
    column, row = (int(place) for place in places()[0])
    assert first.values[row * 100 + column, 0] > 80


def test_what_comes_along_is_whole_small_and_says_whose_it_is():
    found = read_stations(EXTRACT, START, EXTRACT_HOURS)
    assert f"{found.hours[-1]:%Y-%m-%d %H}" == "2016-01-21 23"
    assert np.isnan(found.values).mean() < 0.05
    with pytest.raises(StationDataError, match="only 1344 of 1345 hours"):
        read_stations(EXTRACT, START, EXTRACT_HOURS + 1)
    assert sum(file.stat().st_size for file in EXTRACT.iterdir()) < 300_000
    assert "CC BY 4.0" in (EXTRACT / "README.md").read_text()


def test_a_real_week_fills_the_city_within_the_sensors_range():
    waves = list(replay(Grid(10), read_stations(EXTRACT, START, 168)))
    assert waves[0].label == "2015-11-27 00:00"
    assert waves[-1].label == "2015-12-03 23:00"
    values = np.concatenate([wave.values for wave in waves])
    assert np.nanmin(values) >= 0
    assert np.nanmax(values) <= 100
    assert 0.2 < np.mean([len(wave.detectors) / 100 for wave in waves]) < 0.95
