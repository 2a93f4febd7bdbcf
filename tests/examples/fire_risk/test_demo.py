"""The demonstration of the fire risk: its parameters, and the check against a record."""

from pathlib import Path

import yaml
from fire_risk.demo import FireRisk, against_record
from fire_risk.forest import Forest
from fire_risk.weather import Hour, generated


def test_codes_at_the_station_are_held_against_the_record():
    forest = Forest(6, seed=1)
    codes = {"ffmc": 90.0, "dmc": 8.0, "dc": 20.0}
    hour = Hour("now", 20.0, 50.0, 5.0, 0.0, 1.0, codes)
    floor = {(forest.station, f"f:{name}".encode()): b"%.2f" % v for name, v in codes.items()}
    assert against_record(floor, forest, [hour]) == 0.0
    floor[forest.station, b"f:dc"] = b"20.5"
    assert against_record(floor, forest, [hour]) == 0.5


def test_thermal_maps_go_to_the_stand_and_a_record_says_how_the_season_begins():
    codes = {"ffmc": 85.0, "dmc": 6.0, "dc": 15.0}
    example = FireRisk(Forest(6, seed=1), generated(3, seed=1), codes)
    assert example.waves == 3
    for submission in example.dataflows(Path("stand")):
        actions = yaml.safe_load(submission.text)["actions"]
        assert actions["thermal-map"]["parameters"] == {"charts": str(Path("stand", "charts"))}
        assert actions["measure"]["parameters"] == codes
