"""The dataflow file: in order, and with the graph of SmartFlux's Figure 5."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headgate.cli.flow.commands import app
from headgate.flows import parse_dataflow

FILE = Path(__file__).parents[3] / "examples" / "linear_road" / "linear_road.yaml"


@pytest.fixture(scope="module")
def actions():
    parsed = parse_dataflow(FILE.read_text(), FILE.name)
    return {action.name: action for action in parsed.spec.actions}


def test_the_file_is_in_order_and_its_steps_can_be_imported():
    result = CliRunner().invoke(app, ["check", "--imports", str(FILE)])
    assert result.exit_code == 0, result.stderr
    assert "dataflow linear-road is in order: 10 actions, 8 bounds" in result.stdout


def test_the_graph_is_that_of_the_figure(actions):
    assert {name: set(action.after) for name, action in actions.items()} == {
        "feed": set(),
        "split": {"feed"},
        "positions": {"split"},
        "speeds": {"positions"},
        "cars": {"positions"},
        "accidents": {"positions"},
        "congestion": {"speeds", "cars", "accidents"},
        "areas": {"congestion"},
        "rank": {"split"},
        "answer": {"rank"},
    }


def test_queries_are_answered_in_every_wave(actions):
    assert {name for name, action in actions.items() if not action.bounds} == {
        *("feed", "split", "rank", "answer")
    }


def test_speeds_cars_and_accidents_each_have_an_impact_of_their_own(actions):
    watched = [actions[name].bounds[0].container for name in ("speeds", "cars", "accidents")]
    assert watched == ["minute-speeds", "minute-cars", "standing"]
