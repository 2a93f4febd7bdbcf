"""A recording of the real stack, replayed: the same bounds, and those of another real run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headgate.agent.configuration import KafkaOptions
from headgate.agent.history.recordings import Recordings

pytestmark = pytest.mark.stack

WAVES = ({1: 10, 2: 20, 3: 30}, {1: 11}, {2: 21, 3: 31}, {1: 16, 2: 22, 3: 34})
HOUR = 3600.0
LONG_AGO = 1_700_000_000.125
"""The first wave's own time, in Unix seconds; the others follow by the hour."""


def text(name: str, source: str, tables: dict[str, str], *, bounded: bool) -> str:
    first = "when: {input: {sequence: 60%}}" if bounded else ""
    second = "when: {middle: {value: {absolute: 3}}}" if bounded else ""
    return f"""
name: {name}
containers:
  input: {source} f:v
  middle: {tables["middle"]} f:v
  output: {tables["output"]} f:v
actions:
  feed: {{input: input}}
  first:
    step: steps:copy
    reads: input
    writes: middle
    parameters: {{source: input, target: middle}}
    {first}
  second:
    step: steps:copy
    reads: middle
    writes: output
    parameters: {{source: middle, target: output}}
    {second}
spark:
  spark.sql.shuffle.partitions: 1
spark_pool: replayed
"""


def replay(stand: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headgate.cli", "replay", *arguments]
    return subprocess.run(
        [*command, "--kafka", str(stand.stack.kafka), "--json"],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def recorded_waves(stand: Any, name: str) -> list[tuple[int, float | None]]:
    """Return numbers and own times of ends of waves, as Kafka has them."""
    recording = Recordings(KafkaOptions(str(stand.stack.kafka))).open(name)
    ends = [recording.decisions[place] for place in recording.waves]
    return [(end.wave, end.wave_time) for end in ends]


def waves_of(replayed: Any) -> dict[str, list[int]]:
    return {step["action"]: step["waves"] for step in replayed["steps"]}


def test_replays_agree_with_real_runs(stand: Any, tmp_path: Path) -> None:
    agent = stand.start_agent("replay")
    source = stand.stack.table("source")
    names = {kind: f"{kind}-{stand.identity}" for kind in ("synchronous", "bounded")}
    tables = {
        name: {part: stand.stack.table(f"{kind}-{part}") for part in ("middle", "output")}
        for kind, name in names.items()
    }
    for kind, name in names.items():
        stand.submit(agent, text(name, source, tables[name], bounded=kind == "bounded"))
    times = [LONG_AGO + number * HOUR for number in range(len(WAVES))]
    for wave, when in zip(WAVES, times, strict=True):
        stand.write(source, {b"%d" % row: b"%d" % value for row, value in wave.items()})
        marks = {
            name: agent.ask("POST", f"/v1/flows/{name}/waves", {"time": when}) for name in tables
        }
        for name, marked in marks.items():
            assert marked["time"] == agent.show(name)["status"]["wave_time"] == when
            agent.settle(name, marked["wave"])
    for name in tables:
        assert recorded_waves(stand, name) == list(enumerate(times, 1))

    real = json.loads(replay(stand, names["bounded"]).stdout)
    assert real["agrees"], real["disagreement"]
    [recorded] = real["replays"]
    made = {a: len(agent.runs(names["bounded"], a)) for a in ("first", "second")}
    assert {s["action"]: s["runs"] for s in recorded["steps"]} == made

    bounds = tmp_path / "wider.yaml"
    synchronous = names["synchronous"]
    bounds.write_text(text(synchronous, source, tables[synchronous], bounded=True))
    picture = tmp_path / "replay.html"
    answer = replay(stand, synchronous, "--bounds", str(bounds), "--picture", str(picture))
    found = json.loads(answer.stdout)
    assert found["agrees"], found["disagreement"]
    same, wider = found["replays"]
    assert {step["runs"] for step in same["steps"]} == {len(WAVES)}
    assert waves_of(wider) == waves_of(recorded)
    assert 0 < wider["runs"] < same["runs"]
    assert {o["max_error"] for step in same["steps"] for o in step["outputs"]} == {0.0}
    assert all(o["max_difference"] > 0 for step in wider["steps"] for o in step["outputs"])
    assert "<svg" in picture.read_text()

    strange = replay(stand, "nobody")
    assert strange.returncode == 1
    assert "nothing was recorded of a dataflow 'nobody'" in strange.stderr
    for name in tables:
        agent.ask("DELETE", f"/v1/flows/{name}")
