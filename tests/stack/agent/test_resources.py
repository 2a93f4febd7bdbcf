"""Intervals follow what sensors say, and a sensor that dies is forgotten."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from headgate.local import Lifetime, start_process

pytestmark = pytest.mark.stack


class Sensor:
    """``headgate sensor`` in a process of its own."""

    def __init__(self, stand: Any, name: str) -> None:
        self.log = stand.directory / f"{name}.log"
        self.process: subprocess.Popen[bytes] = start_process(
            [sys.executable, "-m", "headgate.cli", "sensor"],
            {
                **os.environ,
                "HEADGATE_SENSOR_KAFKA_BOOTSTRAP": stand.stack.kafka,
                "HEADGATE_SENSOR_KAFKA_TOPIC": f"headgate.machines-{stand.identity}",
                "HEADGATE_SENSOR_NAME": name,
                "HEADGATE_SENSOR_EVERY_SECONDS": "0.5",
            },
            self.log,
            Lifetime.WITH_CALLER,
        )


def test_sensors_are_heard_while_they_live_and_their_votes_are_shown(
    make_stand: Callable[..., Any], tmp_path: Any, eventually: Callable[..., Any], monkeypatch: Any
) -> None:
    stand = make_stand(tmp_path)
    table = stand.stack.table("readings")
    monkeypatch.setenv("HEADGATE_AGENT_RESOURCES_TOPIC", f"headgate.machines-{stand.identity}")
    monkeypatch.setenv("HEADGATE_AGENT_RESOURCES_EVERY_SECONDS", "0.5")
    monkeypatch.setenv("HEADGATE_AGENT_RESOURCES_OWN", "false")
    agent = stand.start_agent()
    name = f"adjusted-{stand.identity}"
    stand.submit(
        agent,
        f"""
name: {name}
containers: {{a: {table} f:v}}
actions:
  feed: {{input: a}}
  step:
    step: steps:copy
    when: {{a: {{sequence: [100, 1100]}}}}
    parameters: {{source: a, target: a}}
adjustment:
  every: 500 ms
  window: 2 s
  silence: 4 s
  writes: {{rare: 1, frequent: 1000000}}
  # Whatever this machine does is more than that.
  resources: {{memory: [0.01%, 0.02%], cpu: none, disk: none, load: none}}
""",
    )

    def adjusted() -> Any:
        return agent.explained(name, "step")["adjusted"][0]

    sensor = Sensor(stand, "far-away")
    found = eventually(
        lambda: (a := adjusted())["resources"] and a["resources"]["vote"] == "relax" and a
    )
    assert "far-away: overloaded, memory" in found["resources"]["words"]
    # Nothing is written, so the other factor says restrict: opposed, and the limit stays.
    opposed = eventually(lambda: (a := adjusted())["writes"]["vote"] == "restrict" and a)
    assert opposed["resources"]["vote"] == "relax"

    sensor.process.kill()
    sensor.process.wait()
    silent = eventually(lambda: (a := adjusted())["resources"]["vote"] == "none" and a)
    assert silent["resources"]["words"] == "no samples of resources"

    command = [sys.executable, "-m", "headgate.cli", "flow", "explain", name]
    shown = subprocess.run(
        [*command, "--agent", agent.address], check=True, capture_output=True, text=True
    ).stdout
    assert "of the way to its maximum" in " ".join(shown.split())

    other = Sensor(stand, "farther")
    eventually(lambda: adjusted()["resources"]["vote"] == "relax")
    other.process.send_signal(signal.SIGTERM)
    assert other.process.wait(30) == 0
    assert "ready machine=farther" in other.log.read_text()
