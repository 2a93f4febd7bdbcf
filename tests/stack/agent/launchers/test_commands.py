"""Commands as steps: each attempt a process of its own, which outlives its agent."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.shared_processes import command_of, is_there

pytestmark = pytest.mark.stack

Eventually = Callable[..., Any]


@pytest.fixture
def scene(make_scene: Callable[[str], Any]) -> Any:
    scene = make_scene("report")
    scene.run_command("output")
    return scene


def test_a_command_outlives_its_agent_and_its_run_is_committed_once(
    scene: Any, eventually: Eventually
) -> None:
    agent = scene.submit()
    scene.hold.touch()
    wave = scene.begin(agent)
    eventually(scene.starts)
    agent.kill()
    again = scene.restarted()
    eventually(lambda: scene.outcomes(again)[-1:] == [(2, "running")])
    scene.hold.unlink()
    again.settle(scene.name, wave)
    assert scene.outcomes(again) == [(1, "lost"), (2, "committed")]
    assert len(scene.starts()) == 1, "the command was started twice"
    assert list(scene.result()) == [scene.starts()[0].encode()]


def test_a_command_killed_with_its_runner_and_the_agent_is_begun_again(
    scene: Any, eventually: Eventually
) -> None:
    agent = scene.submit()
    scene.hold.touch()
    wave = scene.begin(agent)
    eventually(scene.starts)
    below = agent.descendants()
    agent.kill()
    for process in below:
        if "headgate.agent.launchers" in command_of(process):
            process.kill()
    again = scene.restarted()
    eventually(lambda: len(scene.starts()) == 2)
    for process in below:
        assert not is_there(process)
    scene.hold.unlink()
    again.settle(scene.name, wave)
    assert scene.outcomes(again) == [(1, "lost"), (2, "committed")]
    assert set(scene.starts()) == {row.decode() for row in scene.result()}


def test_a_command_that_fails_is_tried_again_and_shows_its_last_words(
    scene: Any, eventually: Eventually
) -> None:
    agent = scene.submit()
    (scene.folder / "fail").touch()
    wave = scene.begin(agent)
    eventually(lambda: (1, "failed") in scene.outcomes(agent))
    (scene.folder / "fail").unlink()
    agent.settle(scene.name, wave)
    failed = agent.runs(scene.name, "report")[0]
    assert failed["reason"] == f"{Path(sys.executable).name} ended with status 1"
    assert "it was told to fail" in failed["detail"]
    assert scene.outcomes(agent)[-1][1] == "committed"


def test_a_removed_dataflow_leaves_no_process(scene: Any, eventually: Eventually) -> None:
    agent = scene.submit()
    scene.hold.touch()
    scene.begin(agent)
    eventually(scene.starts)
    below = agent.descendants()
    runners = [each for each in below if str(scene.folder) in " ".join(command_of(each))]
    assert runners
    agent.ask("DELETE", f"/v1/flows/{scene.name}")
    assert not any(map(is_there, runners))


def test_a_command_beyond_its_timeout_is_ended(scene: Any, eventually: Eventually) -> None:
    scene.step = scene.step.replace("timeout: 60 s", "timeout: 1 s")
    scene.attempts = 1
    agent = scene.submit()
    scene.hold.touch()
    scene.begin(agent)
    eventually(lambda: scene.outcomes(agent) == [(1, "timed-out")])
    assert "timeout of 1 s" in agent.runs(scene.name, "report")[0]["reason"]
