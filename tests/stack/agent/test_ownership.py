"""A dataflow has one agent: another waits, and takes over when that one is killed or stopped.

The agents follow one another, each in a Spark session of its own: a test begins where the one
before it has left the dataflow.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from tests.shared_processes import is_there

pytestmark = pytest.mark.stack

Eventually = Callable[..., Any]


@pytest.fixture(scope="module")
def scene(stand: Any, scene_of: Callable[..., Any]) -> Any:
    scene = scene_of(stand, stand.directory, "copy")
    scene.step = """
    step: steps:copy
    parameters: {source: input, target: output}
"""
    return scene


@pytest.fixture(scope="module")
def owner(scene: Any) -> Any:
    """An agent in whose Spark session the step has run."""
    agent = scene.submit()
    agent.settle(scene.name, scene.begin(agent))
    assert scene.outcomes(agent) == [(1, "committed")]
    return agent


def has_a_spare(agent: Any) -> bool:
    metrics = agent.client.get("/metrics").text
    found = re.search(r"^headgate_agent_spare_sessions (\S+)$", metrics, re.MULTILINE)
    return found is not None and float(found[1]) == 1


class Takeover(NamedTuple):
    """An agent that waited, with a spare session, until another one was killed; what was seen.

    Attributes:
        agent: that has the dataflow now.
        listed: the dataflow, as the agent listed it while it waited.
        shown: whose it was then.
        left: processes that the killed one had started.
        before: outcomes of the step's attempts when it had the dataflow.
        after: the same after another wave.
    """

    agent: Any
    listed: tuple[str, bool]
    shown: str
    left: list[psutil.Process]
    before: list[tuple[int, str]]
    after: list[tuple[int, str]]


@pytest.fixture(scope="module")
def takeover(scene: Any, owner: Any, eventually: Eventually) -> Takeover:
    agent = scene.stand.start_agent("two", "spares = 1\n")
    eventually(lambda: has_a_spare(agent))
    (row,) = agent.ask("GET", "/v1/flows")
    shown = agent.show(scene.name)["flow"]["owner"]
    left = owner.descendants()
    assert left
    owner.kill()
    agent.await_dataflows()
    before = scene.outcomes(agent)
    scene.stand.write(scene.tables["input"], {b"3": b"30.0"})
    agent.wave(scene.name)
    listed = (row["owner"], row["here"])
    return Takeover(agent, listed, shown, left, before, scene.outcomes(agent))


def test_a_second_agent_waits_and_takes_over_when_the_first_is_killed(
    takeover: Takeover, eventually: Eventually
) -> None:
    assert takeover.listed == ("one", False)
    # What runs elsewhere is asked there.
    assert takeover.shown == "one"
    eventually(lambda: not any(is_there(worker) for worker in takeover.left))
    assert takeover.after == [*takeover.before, (1, "committed")]


def test_what_was_taken_over_runs_in_the_spare_session(scene: Any, takeover: Takeover) -> None:
    workers: Path = scene.stand.directory / "workers" / takeover.agent.name
    assert list((workers / ".spares").rglob("worker.log"))
    assert not (workers / scene.name / "worker.log").exists()


@pytest.fixture(scope="module")
def third(scene: Any, takeover: Takeover) -> Any:
    """An agent that took over when the one before it was stopped."""
    workers = takeover.agent.descendants()
    assert workers
    assert takeover.agent.stop() == 0
    assert [worker for worker in workers if is_there(worker)] == []
    agent = scene.stand.start_agent("three")
    agent.await_dataflows()
    return agent


def test_a_stopped_agent_leaves_no_process_and_no_lease(third: Any) -> None:
    (row,) = third.ask("GET", "/v1/flows")
    assert (row["owner"], row["here"]) == ("three", True)


def test_a_dataflow_that_is_removed_is_listed_no_more(scene: Any, third: Any) -> None:
    third.ask("DELETE", f"/v1/flows/{scene.name}")
    assert third.ask("GET", "/v1/flows") == []
