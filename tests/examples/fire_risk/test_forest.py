"""What the forest's sensors and the satellite see."""

import gzip
import json
from datetime import datetime
from pathlib import Path

import pytest
from fire_risk.forest import AREA, Forest, cell_key
from fire_risk.weather import WeatherDataError, generated, recorded

SIDE = 12
HOURS = 20
HEADER = (
    "id,yr,mon,day,hr,temp,rh,ws,prec,sunrise,sunset,ffmc,dmc,dc,prec_cumulative,canopy_drying\n"
)


def waves(seed=1):
    return list(Forest(SIDE, seed).hours(generated(HOURS, seed)))


def temperatures(wave):
    return {row: float(cells[b"s:temperature"]) for row, cells in wave.sensors}


def hot_areas(wave):
    keys = [key.decode() for key, warm in temperatures(wave).items() if warm > 55]
    return {(int(key[1:4]) // AREA, int(key[5:8]) // AREA) for key in keys}


def burning_areas(wave):
    pictures = [(row.decode(), json.loads(cells[b"s:image"])) for row, cells in wave.satellite]
    return {(int(k[1:4]), int(k[5:8])) for k, p in pictures if sum(t >= 330 for t in p) >= 3}


def test_the_same_seed_gives_the_same_hours():
    assert waves() == waves()
    assert waves() != waves(seed=2)


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_fire_spreads_and_a_fault_is_no_fire(seed):
    hours = waves(seed)
    hot = [hot_areas(wave) for wave in hours]
    burning = [burning_areas(wave) for wave in hours]
    assert max(map(len, burning)) == 2, "it has spread to the area beside"
    assert not burning[0]
    assert not burning[-1], "it has burnt out"
    assert all(b <= h for b, h in zip(burning, hot, strict=True)), "a fire is always hot"
    assert sum(len(h - b) for b, h in zip(burning, hot, strict=True)) == 3, "the faulty sensor"


def test_the_sensor_in_the_middle_sees_the_station_s_weather():
    season = generated(HOURS, 1)
    forest = Forest(SIDE, 1)
    quiet = dict(next(forest.hours(season)).sensors)[forest.station]
    assert float(quiet[b"s:temperature"]) == season[0].temperature
    assert float(quiet[b"s:humidity"]) == season[0].humidity
    assert float(quiet[b"s:wind"]) == season[0].wind


def test_a_record_starts_with_the_codes_of_the_hour_before(tmp_path):
    record = tmp_path / "record.csv.gz"
    lines = [
        f"X,2007,5,10,{hour},20,50,10,0,5.5,20.5,8{hour},6,15,{hour}.5,1\n" for hour in (4, 5, 6)
    ]
    with gzip.open(record, "wt") as file:
        file.writelines([HEADER, *lines])
    before, hours = recorded(record, datetime.fromisoformat("2007-05-10T05:00"), 2)
    assert before == {"ffmc": 84, "dmc": 6, "dc": 15, "rained": 4.5, "dry": 1}
    assert [hour.label for hour in hours] == ["2007-05-10 05:00", "2007-05-10 06:00"]
    assert [hour.daylight for hour in hours] == [0, 1]

    with pytest.raises(WeatherDataError, match=r"only 1 of 5 hours .* an earlier --start"):
        recorded(record, datetime.fromisoformat("2007-05-10T06:00"), 5)


def test_a_file_that_is_no_record_is_named(tmp_path):
    start = datetime.fromisoformat("2007-05-10")
    with pytest.raises(WeatherDataError, match="--data must name"):
        recorded(tmp_path / "nowhere", start, 1)
    other = tmp_path / "other.csv.gz"
    with gzip.open(other, "wt") as file:
        file.write("a,b\n1,2\n")
    with pytest.raises(WeatherDataError, match="not hours of weather"):
        recorded(other, start, 1)


def test_keys_name_row_and_column():
    assert cell_key(2, 30) == b"r002c030"


REAL = Path(__file__).parents[4] / "shared/data/fire/PRF2007_standard_hourly_FWI.csv.gz"


def test_the_recorded_summer_can_be_read():
    if not REAL.is_file():
        pytest.skip(f"{REAL} is not on this machine")
    before, hours = recorded(REAL, datetime.fromisoformat("2007-05-10T08:00"), 2623)
    assert before is None
    assert hours[-1].codes is not None
    assert hours[-1].codes["dc"] == 220.0525
