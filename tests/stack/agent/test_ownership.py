"""A dataflow has one agent: another waits, and takes over when that one is killed or stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.stack

Eventually = Callable[..., Any]


@pytest.fixture
def scene(make_stand: Callable[..., Any], scene_of: Callable[..., Any], tmp_path: Path) -> Any:
    scene = scene_of(make_stand(tmp_path), tmp_path, "copy")
    scene.step = """
    step: steps:copy
    parameters: {source: input, target: output}
"""
    return scene


@pytest.fixture
def owner(scene: Any) -> Any:
    """An agent in whose Spark session the step has run."""
    agent = scene.submit()
    agent.settle(scene.name, scene.begin(agent))
    assert scene.outcomes(agent) == [(1, "committed")]
    return agent


@pytest.fixture
def workers(owner: Any) -> list[psutil.Process]:
    """The owner's processes."""
    found: list[psutil.Process] = owner.descendants()
    assert found
    return found


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_second_agent_waits_and_takes_over_when_the_first_is_killed(
    scene: Any, owner: Any, workers: list[psutil.Process], eventually: Eventually
) -> None:
    second = scene.stand.start_agent("two")
    (row,) = second.ask("GET", "/v1/flows")
    assert (row["owner"], row["here"]) == ("one", False)
    # What runs elsewhere is asked there.
    assert second.show(scene.name)["flow"]["owner"] == "one"
    owner.kill()
    eventually(lambda: second.ask("GET", "/v1/flows")[0]["here"])
    eventually(lambda: not any(alive(worker) for worker in workers))
    before = scene.outcomes(second)
    scene.stand.write(scene.tables["input"], {b"3": b"30.0"})
    second.wave(scene.name)
    assert scene.outcomes(second) == [*before, (1, "committed")]


def test_a_stopped_agent_leaves_no_process_and_no_lease(
    scene: Any, owner: Any, workers: list[psutil.Process], eventually: Eventually
) -> None:
    assert owner.stop() == 0
    assert [worker for worker in workers if alive(worker)] == []
    second = scene.stand.start_agent("two")
    eventually(lambda: second.ask("GET", "/v1/flows")[0]["here"])
    (row,) = second.ask("GET", "/v1/flows")
    assert row["owner"] == "two"


def test_a_dataflow_that_is_removed_is_listed_no_more(scene: Any) -> None:
    agent = scene.submit()
    agent.ask("DELETE", f"/v1/flows/{scene.name}")
    assert agent.ask("GET", "/v1/flows") == []
