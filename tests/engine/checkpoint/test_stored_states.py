"""States that earlier versions stored are read, with the meaning that they had."""

import importlib.util
from pathlib import Path

import pytest

from headgate.engine import SNAPSHOT_VERSION, Engine, check_invariants

_path = Path(__file__).parent / "samples" / "story.py"
_specification = importlib.util.spec_from_file_location("story", _path)
assert _specification is not None
assert _specification.loader is not None
story = importlib.util.module_from_spec(_specification)
_specification.loader.exec_module(story)


@pytest.mark.parametrize("version", range(1, SNAPSHOT_VERSION + 1))
def test_a_stored_state_is_read(version):
    told = story.played()
    engine = Engine(told.spec, story.saved(version))
    assert story.meaning(engine) == story.meaning(told.engine)
    check_invariants(engine)


@pytest.mark.parametrize("version", range(1, SNAPSHOT_VERSION + 1))
def test_what_was_stored_before_runs_had_results_goes_on_from_none(version):
    told = story.played()
    told.engine = Engine(told.spec, story.saved(version))
    told.finish("first", result="m1")
    told.request("second")
    told.request("first")
    previous = {launch.action: launch.previous for launch in told.launches()[-2:]}
    assert previous == {"second": "", "first": "m1"}
