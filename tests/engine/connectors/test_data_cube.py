"""What the data cube shows of priority and bottlenecks (BIPS, section 5.2 and Figure 10)."""

from __future__ import annotations

import pytest
from simulated_cube import PRIORITY, DataCube

from headgate.engine.spec.stages import RunnableSpec

EQUAL = {"split": 1.0, "update": 1.0, "preprocess": 1.0, "cube": 1.0, "result": 1.0}
UPDATES_DEAR = {**EQUAL, "split": 2.0, "update": 3.0, "cube": 2.0}
ANY = RunnableSpec("any")


def test_with_priority_alone_four_of_five_updates_are_useless():
    cube = DataCube(PRIORITY, EQUAL, held=False)

    assert cube.useless_updates == pytest.approx(0.8, abs=0.01)


def test_with_bottlenecks_known_no_update_is_useless():
    cube = DataCube(PRIORITY, EQUAL, held=True)

    assert cube.runs["update"] - cube.read["updates"] <= 1  # the last may still be waiting


def test_queries_gain_by_a_third_at_equal_costs():
    plain = DataCube(ANY, EQUAL, held=False)
    both = DataCube(PRIORITY, EQUAL, held=True)

    assert both.read["answers"] / plain.read["answers"] == pytest.approx(4 / 3, abs=0.01)


def test_queries_gain_more_where_updates_are_dear():
    plain = DataCube(ANY, UPDATES_DEAR, held=False)
    both = DataCube(PRIORITY, UPDATES_DEAR, held=True)

    assert both.read["answers"] / plain.read["answers"] > 1.5


def test_priority_alone_gains_no_queries():
    plain = DataCube(ANY, EQUAL, held=False)
    alone = DataCube(PRIORITY, EQUAL, held=False)

    assert alone.read["answers"] <= plain.read["answers"]


def test_four_queries_are_answered_for_each_update():
    cube = DataCube(PRIORITY, EQUAL, held=True)

    assert cube.read["queries"] / cube.read["updates"] == pytest.approx(4, abs=0.05)
