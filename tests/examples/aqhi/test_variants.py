"""The dataflow that people read, and its variants for comparisons."""

from pathlib import Path

import pytest
from aqhi.results import STEPS
from aqhi.variants import (
    DATAFLOW_FILE,
    INPUT_ACTION,
    SENSORS_TABLE,
    City,
    bounds_in_words,
    dataflow,
)

from headgate.flows import load_dataflow, parse_dataflow

CITY = City(20, 35.0, Path("charts"))


def parsed(sigma):
    return parse_dataflow(dataflow("town", CITY, sigma), "town.yaml")


def bounds(flow):
    return {action.name: action.bounds for action in flow.spec.actions}


def test_the_file_that_people_read_is_in_order():
    flow = load_dataflow(DATAFLOW_FILE)
    assert flow.warnings == ()
    assert [action.name for action in flow.spec.actions] == [
        INPUT_ACTION,
        *(step.action for step in STEPS),
    ]


def test_the_paper_s_bounds_stand_in_it():
    found = bounds(load_dataflow(DATAFLOW_FILE))
    assert found["zones"][0].sequence.limit == 20
    assert found["city-map"][0].value.limit == pytest.approx(0.05)
    assert found["hotspots"][0].value.limit == 2
    assert found["index"][0].value.limit == pytest.approx(0.3)


def test_every_step_has_a_time_after_which_it_runs_whatever_has_changed():
    found = bounds(load_dataflow(DATAFLOW_FILE))
    times = {action: [bound.time for bound in each] for action, each in found.items()}
    assert times.pop(INPUT_ACTION) == []
    assert all(len(each) == 1 and each[0] is not None for each in times.values())


def test_variants_are_compared_without_times():
    assert all(bound.time is None for each in bounds(parsed(20)).values() for bound in each)


def test_without_a_sigma_no_step_has_a_bound():
    assert not any(bounds(parsed(None)).values())


def test_a_sigma_is_the_bound_of_step_c():
    assert bounds(parsed(62.5))["zones"][0].sequence.limit == 62.5


def test_the_constant_of_step_f_follows_the_reference():
    assert bounds(parsed(20))["index"][0].value.constant == pytest.approx(3.5)


def test_a_variant_shares_the_input_and_nothing_else():
    used = {
        item.table for watched in parsed(20).spec.containers for item in watched.container.items
    }
    own = {f"town-{kind}" for kind in ("detectors", "zones", "map", "index")}
    assert used == {SENSORS_TABLE, *own}


def test_a_variant_may_share_a_spark_session():
    assert parse_dataflow(dataflow("town", CITY, 20, "towns"), "town").spark_pool == "towns"
    assert parsed(20).spark_pool == ""


def test_parameters_are_those_of_the_city():
    launchers = parsed(20).launchers
    assert launchers["zones"].parameters == {"side": 20}
    assert launchers["hotspots"].parameters == {"reference": 35.0}
    assert launchers["city-map"].parameters["chart"] == str(Path("charts") / "town.png")


def test_bounds_are_told_in_words():
    assert bounds_in_words(dataflow("town", CITY, 20)) == (
        "combine σ 5%; zones σ 20%; city-map ν 5% relative; hotspots ν 2 units; index ν 30% of 3.5"
    )
    assert bounds_in_words(dataflow("town", CITY, None)) == ""
