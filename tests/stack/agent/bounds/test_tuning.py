"""Bounds that ``headgate flow tune`` proposes save and cost on the real stack what it says."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.stack, pytest.mark.soak]

ROWS = 40
WAVES = 16
SAVING = 50  # percent


def text(name: str, tables: dict[str, str]) -> str:
    return f"""
name: {name}
containers:
  input: {tables["input"]} f:v
  middle: {tables["middle"]} f:v
  output: {tables["output"]} f:v
actions:
  feed: {{input: input}}
  first:
    step: steps:copy
    reads: input
    writes: middle
    parameters: {{source: input, target: middle}}
  second:
    step: steps:copy
    reads: middle
    writes: output
    parameters: {{source: middle, target: output}}
spark:
  spark.sql.shuffle.partitions: 1
"""


def waves() -> list[dict[bytes, bytes]]:
    """A first wave of all rows, then some that drift."""
    chance = random.Random(7)
    values = dict.fromkeys(range(ROWS), 100.0)
    found = [values.copy()]
    for _ in range(WAVES - 1):
        drawn = chance.sample(range(ROWS), chance.randint(1, ROWS // 2))
        values |= {row: values[row] + chance.uniform(-3, 3) for row in drawn}
        found.append({row: values[row] for row in drawn})
    return [{b"%d" % row: b"%.3f" % value for row, value in wave.items()} for wave in found]


def tune(stand: Any, name: str, write: Path) -> Any:
    command = [sys.executable, "-m", "headgate.cli", "flow", "tune", name, "--json"]
    options = ["--saving", str(SAVING), "--write", str(write), "--kafka", str(stand.stack.kafka)]
    done = subprocess.run(
        [*command, *options],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_proposed_bounds_run_as_often_as_the_replay_says(stand: Any, tmp_path: Path) -> None:
    agent = stand.start_agent("tuning")
    kinds = ("recorded", "tuned")
    names = {kind: f"{kind}-{stand.identity}" for kind in kinds}
    tables = {
        kind: {part: stand.stack.table(f"{kind}-{part}") for part in ("input", "middle", "output")}
        for kind in kinds
    }

    def send(kind: str) -> None:
        for wave in waves():
            stand.write(tables[kind]["input"], wave)
            number = agent.ask("POST", f"/v1/flows/{names[kind]}/waves", {})["wave"]
            agent.settle(names[kind], number)

    stand.submit(agent, text(names["recorded"], tables["recorded"]))
    send("recorded")
    proposal = tmp_path / "tuned.yaml"
    tuned = tune(stand, names["recorded"], proposal)
    assert tuned["met"]
    assert tuned["recorded"] == {"first": WAVES, "second": WAVES}
    assert tuned["proposed"]["saved"] >= SAVING / 100
    assert 0 < tuned["proposed"]["error"] < 0.05

    source = proposal.read_text().replace(names["recorded"], names["tuned"])
    for part, table in tables["recorded"].items():
        source = source.replace(table, tables["tuned"][part])
    stand.submit(agent, source)
    send("tuned")
    assert {a: len(agent.runs(names["tuned"], a)) for a in tuned["runs"]} == tuned["runs"]
    for name in names.values():
        agent.ask("DELETE", f"/v1/flows/{name}")
