"""A dataflow beside itself without bounds: what is compared, and how."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from headgate.cli.demo.comparison import (
    ComparedStep,
    SynchronousComparison,
    difference,
    reference,
)
from headgate.flows import parse_dataflow

EXAMPLES = Path(__file__).parents[3] / "examples"
TREE: dict[str, Any] = {
    "name": "air",
    "containers": {
        "readings": "detectors s:o3",
        "zones": "zones c:concentration",
        "now": {"table": "index", "row": "now", "column": "c:index"},
        "both": {"group": ["zones c:x", {"table": "index", "column": "c:y"}]},
    },
    "actions": {
        "feed": {"input": "readings"},
        "zones": {"step": "steps:zones", "reads": "readings", "writes": ["zones", "both"]},
        "index": {
            "step": "steps:index",
            "writes": "now",
            "when": {"zones": {"sequence": "20%"}, "readings": {"time": "1 h"}},
            "combine": "at-least-one",
            "evaluate": "every 5 s",
        },
    },
}


def cells(**values):
    return {(row.encode(), b"c:v"): value for row, value in values.items()}


def test_the_reference_reads_the_same_input_and_writes_tables_of_its_own():
    containers = reference(TREE)["containers"]
    assert containers["readings"] == "detectors s:o3"
    assert containers["zones"] == "synchronous-zones c:concentration"
    assert containers["now"]["table"] == "synchronous-index"
    assert containers["both"]["group"][0] == "synchronous-zones c:x"
    assert containers["both"]["group"][1]["table"] == "synchronous-index"


def test_the_reference_has_no_bounds_and_another_name():
    parsed = parse_dataflow(yaml.safe_dump(reference(TREE)), "air.yaml")
    assert parsed.name == "synchronous-air"
    assert not any(action.bounds for action in parsed.spec.actions)


def test_the_dataflow_itself_is_left_as_it_is():
    reference(TREE)
    assert TREE["actions"]["index"]["combine"] == "at-least-one"


@pytest.mark.parametrize(
    ("synchronous", "shown", "expected"),
    [
        (cells(a=b"4", b=b"6"), cells(a=b"4", b=b"6"), 0.0),
        (cells(a=b"4", b=b"6"), cells(a=b"3", b=b"6"), 0.1),
        (cells(a=b"4"), {}, 1.0),
        (cells(a=b"2"), cells(a=b"-2"), 1.0),
        (cells(a=b"0"), cells(a=b"0.0"), 0.0),
        ({}, {}, 0.0),
    ],
)
def test_numbers_differ_by_their_distance(synchronous, shown, expected):
    assert difference(synchronous, shown, numbers=True) == pytest.approx(expected)


def test_texts_differ_or_do_not():
    synchronous = cells(a=b"x", b=b"y", c=b"z")
    assert difference(synchronous, cells(a=b"x", b=b"Y", d=b"w"), numbers=False) == 0.75


def test_a_step_saves_what_it_leaves_out():
    step = ComparedStep("zones", "", runs_synchronous=8, runs=2, errors=[0.0, 0.5])
    assert (step.saved, step.mean_error, step.worst_error) == (0.75, 0.25, 0.5)
    assert ComparedStep("zones", "").saved == 0.0


@pytest.mark.parametrize("example", ["fire_risk", "crawl", "linear_road"])
def test_examples_can_run_beside_themselves(example):
    file = EXAMPLES / example / f"{example}.yaml"
    beside = SynchronousComparison(yaml.safe_load(file.read_text()), file, [])
    assert list(beside.steps)
    assert all(step.description for step in beside.steps.values())
    own, other = (yaml.safe_load(one.text)["name"] for one in beside.dataflows(Path()))
    assert own == f"synchronous-{other}"
