"""The agent while Kafka or HBase's Thrift2 server is killed and started again: nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.local import LocalStack, Part

pytestmark = pytest.mark.stack

BOUND = 10  # updates that launch a run
Eventually = Callable[..., Any]


@pytest.fixture
def scene(
    make_stand: Callable[..., Any], fragile_stack: Any, tmp_path: Path, scene_of: Callable[..., Any]
) -> Any:
    """A command after ten updates, on the stack whose parts may be killed."""
    scene = scene_of(make_stand(tmp_path, on=fragile_stack), tmp_path, "outlasting")
    scene.bound = f"{{sequence: {BOUND}, value: {{absolute: 1000000}}}}"
    scene.attempts = 100
    scene.run_command("output")
    return scene


def write(scene: Any, *numbers: int) -> None:
    scene.stand.write(scene.tables["input"], {b"%d" % n: b"1" for n in numbers})


def counted(scene: Any, agent: Any) -> int:
    """Return the updates that count for the next run, as they are known now."""
    return int(agent.explained(scene.name, scene.action)["updates"][0]["counted"])


def under_way(scene: Any, eventually: Eventually) -> tuple[Any, int]:
    """Begin a run that waits to be let go on; return its agent and its wave."""
    agent = scene.submit()
    scene.hold.touch()
    write(scene, *range(BOUND))
    wave = agent.ask("POST", f"/v1/flows/{scene.name}/waves", {})["wave"]
    eventually(scene.starts)
    return agent, wave


def test_updates_count_exactly_over_a_death_of_kafka_and_runs_are_launched_after_it(
    scene: Any, fragile: LocalStack, eventually: Eventually
) -> None:
    agent = scene.submit()
    write(scene, *range(4))
    eventually(lambda: counted(scene, agent) == 4)
    fragile.kill(Part.KAFKA)
    write(scene, *range(4, 7))
    assert counted(scene, agent) == 4
    fragile.up()
    eventually(lambda: counted(scene, agent) == 7)
    write(scene, 7, 8)
    agent.wave(scene.name)
    assert counted(scene, agent) == 9
    assert scene.outcomes(agent) == []
    write(scene, 9)
    agent.wave(scene.name)
    assert scene.outcomes(agent) == [(1, "committed")]
    assert agent.running
    assert len(scene.result()) == 1


@pytest.mark.soak
def test_a_run_that_ends_while_kafka_is_dead_is_committed_once(
    scene: Any, fragile: LocalStack, eventually: Eventually
) -> None:
    agent, wave = under_way(scene, eventually)
    fragile.kill(Part.KAFKA)
    scene.hold.unlink()
    eventually(scene.result)
    fragile.up()
    agent.settle(scene.name, wave)
    assert scene.outcomes(agent) == [(1, "committed")]
    assert list(scene.result()) == [line.encode() for line in scene.starts()]


@pytest.mark.soak
def test_updates_count_exactly_while_the_agent_cannot_save_and_a_run_is_launched_after_it(
    scene: Any, fragile: LocalStack, eventually: Eventually
) -> None:
    agent = scene.submit()
    write(scene, *range(4))
    eventually(lambda: counted(scene, agent) == 4)
    fragile.kill(Part.THRIFT2)
    # By Thrift1, which is another server.
    write(scene, *range(4, 9))
    eventually(lambda: agent.client.get("/healthz").json()["status"] == "impaired")
    fragile.up()
    eventually(lambda: agent.client.get("/healthz").json()["status"] == "ok")
    agent.wave(scene.name)
    assert counted(scene, agent) == 9
    write(scene, 9)
    agent.wave(scene.name)
    assert scene.outcomes(agent) == [(1, "committed")]
    assert agent.running


@pytest.mark.soak
def test_a_run_under_way_while_thrift2_is_dead_is_committed_once(
    scene: Any, fragile: LocalStack, eventually: Eventually
) -> None:
    agent, wave = under_way(scene, eventually)
    fragile.kill(Part.THRIFT2)
    scene.hold.unlink()
    eventually(lambda: agent.client.get("/healthz").json()["status"] == "impaired")
    fragile.up()
    agent.settle(scene.name, wave)
    outcomes = scene.outcomes(agent)
    # The command itself cannot write while HBase is away: what it then does is try again.
    assert [outcome for _, outcome in outcomes].count("committed") == 1
    assert outcomes[-1][1] == "committed"
    assert {row.decode() for row in scene.result()} == set(scene.starts())
