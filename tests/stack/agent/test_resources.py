"""Intervals follow what sensors say, and a sensor that dies is forgotten."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from free_ports import free_port

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
    command: ["true"]
    when: {{a: {{sequence: [100, 1100]}}}}
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


def test_a_limit_moves_where_both_factors_agree_and_decides_from_then_on(
    make_stand: Callable[..., Any], tmp_path: Any, eventually: Callable[..., Any], monkeypatch: Any
) -> None:
    stand = make_stand(tmp_path)
    monkeypatch.setenv("HEADGATE_AGENT_RESOURCES_EVERY_SECONDS", "0.5")
    agent = stand.start_agent()
    tables = {name: stand.stack.table(name) for name in ("calm", "busy")}

    def submit(name: str, interval: str, start: str, writes: str, memory: str) -> None:
        stand.submit(
            agent,
            f"""
name: {name}-{stand.identity}
containers: {{a: {tables[name]} f:v}}
actions:
  feed: {{input: a}}
  step:
    command: ["true"]
    when: {{a: {{sequence: {interval}}}}}
    evaluate: write
adjustment:
  start: {start}
  steps: 1
  every: 500 ms
  window: 2 s
  # So many that writes have been watched for a window when the first step may be made.
  confirmations: 6
  writes: {writes}
  resources: {{memory: {memory}, cpu: none, disk: none, load: none}}
""",
        )

    def adjusted(name: str) -> Any:
        return agent.explained(f"{name}-{stand.identity}", "step")["adjusted"][0]

    def decided(name: str, kind: str) -> list[Any]:
        decisions = agent.ask("GET", f"/v1/flows/{name}-{stand.identity}/decisions")
        return [decision for decision in decisions if decision["kind"] == kind]

    # What comes is rare, and this machine idle, whatever they are.
    submit("calm", "[4, 40]", "maximum", "{rare: 1000000, frequent: 2000000}", "[99.9%, 100%]")
    stand.write(tables["calm"], {b"%d" % row: b"1" for row in range(3)})
    restricted = eventually(lambda: (a := adjusted("calm"))["moved"] == "restrict" and a)
    assert restricted["limits"] == {"sequence": 4}
    assert not decided("calm", "launched")
    stand.write(tables["calm"], {b"3": b"1"})  # the fourth, of 4 where it was of 40
    eventually(lambda: decided("calm", "launched"))
    assert decided("calm", "launched")[0]["time"] > decided("calm", "adjusted")[0]["time"]

    # What comes is frequent, and this machine overloaded.
    submit("busy", "[4000, 40000]", "minimum", "{rare: 0.5, frequent: 1}", "[0.01%, 0.02%]")

    def write_and_look() -> Any:
        stand.write(tables["busy"], {b"1": b"1"})
        return (found := adjusted("busy"))["moved"] == "relax" and found

    relaxed = eventually(write_and_look)
    assert relaxed["limits"] == {"sequence": 40000}
    assert "100% of the way to its maximum, relaxed" in relaxed["words"]
    for name, vote in (("calm", "restrict"), ("busy", "relax")):
        (decision,) = decided(name, "adjusted")
        move = decision["adjustment"]
        votes = (move["writes"]["vote"], move["resources"]["vote"], move["outcome"])
        assert votes == (vote, vote, vote)


OCCUPYING = """
import time
from pathlib import Path

def occupy(run):
    hold = run.parameters["hold"]

    def wait(_):
        while Path(hold).exists():
            time.sleep(0.05)

    run.spark.sparkContext.parallelize(range(2), 2).foreach(wait)
"""


def test_how_busy_spark_is_is_read_from_its_driver(
    make_stand: Callable[..., Any], tmp_path: Any, eventually: Callable[..., Any]
) -> None:
    stand = make_stand(tmp_path)
    (stand.directory / "occupying.py").write_text(OCCUPYING)
    hold = stand.directory / "hold"
    hold.touch()
    port = free_port()
    driver = f'"http://127.0.0.1:{port}"'
    sources = f"[resources]\nown = false\nevery_seconds = 0.5\nspark = [{driver}]\n"
    agent = stand.start_agent("one", sources)
    table = stand.stack.table("readings")
    name = f"occupied-{stand.identity}"
    stand.submit(
        agent,
        f"""
name: {name}
containers: {{a: {table} f:v}}
actions:
  feed: {{input: a}}
  step:
    step: occupying:occupy
    when: {{a: {{sequence: [100, 1100]}}}}
    parameters: {{hold: {hold}}}
adjustment:
  every: 500 ms
  window: 2 s
  resources: {{cpu: [10%, 90%], memory: none, disk: none, load: none}}
spark: {{spark.master: "local[2]", spark.ui.enabled: "true", spark.ui.port: "{port}"}}
""",
    )

    def said(vote: str) -> Any:
        resources = agent.explained(name, "step")["adjusted"][0]["resources"]
        return resources and resources["vote"] == vote and resources["words"]

    assert eventually(lambda: said("restrict")) == "spark@127.0.0.1: idle, cpu 0 %"
    stand.write(table, {b"1": b"1"})
    agent.launch(name, "step")
    # Both of its two task slots, for the whole window.
    words = "spark@127.0.0.1: overloaded, cpu 100 % of 90 %"
    eventually(lambda: said("relax") == words)
    hold.unlink()
    eventually(lambda: [r["outcome"] for r in agent.runs(name, "step")] == ["committed"])
    assert eventually(lambda: said("restrict")).startswith("spark@127.0.0.1: idle, cpu ")
