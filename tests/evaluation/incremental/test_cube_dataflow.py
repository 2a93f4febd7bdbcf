"""What the data cube shows of priority and bottlenecks (BIPS, section 5.2), at given costs."""

from __future__ import annotations

import pytest
from evaluation.incremental.cube import useless
from evaluation.incremental.cube_dataflow import (
    ALONE,
    BOTH,
    PLAIN,
    Costs,
    CubeDriver,
    Scenario,
    equal_costs,
)

EQUAL = equal_costs(0.0)
"""As in the paper, where a cube that answers nothing makes no increment."""
UPDATES_DEAR = {**EQUAL, "split of rows": 2.0, "update of cells": 3.0, "cube of changes": 2.0}


_DRIVEN: dict[object, CubeDriver] = {}


def driven(scenario: Scenario, costs: dict[str, float] = EQUAL) -> CubeDriver:
    """Return the cube after its time; once for all that ask, as nothing is drawn in it."""
    key = scenario.name, tuple(sorted(costs.items()))
    if key not in _DRIVEN:
        driver = CubeDriver(scenario, Costs(costs))
        driver.run_until(500)
        _DRIVEN[key] = driver
    return _DRIVEN[key]


def queries(driver: CubeDriver) -> int:
    return driver.count("result", "answers")


def test_with_priority_alone_four_of_five_updates_are_useless() -> None:
    assert useless(driven(ALONE)) == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("scenario", [PLAIN, BOTH])
def test_otherwise_no_update_is_useless(scenario: Scenario) -> None:
    assert useless(driven(scenario)) == 0


@pytest.mark.parametrize(("of_nothing", "gain"), [(0.0, 4 / 3), (1.0, 5 / 4)])
def test_queries_gain_by_a_third_at_equal_costs(of_nothing: float, gain: float) -> None:
    costs = equal_costs(of_nothing)

    assert queries(driven(BOTH, costs)) / queries(driven(PLAIN, costs)) == pytest.approx(gain, 0.02)


def test_queries_gain_more_where_updates_are_dear() -> None:
    assert queries(driven(BOTH, UPDATES_DEAR)) / queries(driven(PLAIN, UPDATES_DEAR)) > 1.5


def test_priority_alone_gains_no_queries() -> None:
    assert queries(driven(ALONE)) <= queries(driven(PLAIN))


def test_four_queries_are_answered_for_each_update() -> None:
    driver = driven(BOTH)

    assert driver.count("cube", "points") / driver.count("cube", "changes") == pytest.approx(
        4, abs=0.1
    )
