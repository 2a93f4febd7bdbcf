"""One description, two instances on the same tables: bounds, shadow mode and updates of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.stack


class Instances:
    """A dataflow file with a profile, and the command line that hands it to the agent."""

    def __init__(self, stand: Any, agent: Any) -> None:
        self.stand = stand
        self.agent = agent
        self.source = stand.stack.table("source")
        self.target = stand.stack.table("target")
        self.own = f"own-{stand.identity}"
        self.eager = f"eager-{stand.identity}"
        self.file: Path = stand.directory / "shared.yaml"
        self.file.write_text(f"""
name: shared
containers:
  source: {self.source} f:v
  target: {self.target} f:v
actions:
  feed: {{input: source}}
  first:
    step: steps:copy
    reads: source
    writes: target
    when:
      source: {{sequence: 3}}
    parameters: {{source: source, target: target}}
profiles:
  eager: {{first: {{source: {{sequence: 2}}}}}}
spark:
  spark.sql.shuffle.partitions: 1
""")

    def headgate(self, *arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "headgate.cli", "flow", *arguments],
            env={**os.environ, "HEADGATE_AGENT": self.agent.address, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def outcomes(self, name: str) -> list[str]:
        return [run["outcome"] for run in self.agent.runs(name, "first")]


@pytest.fixture(scope="module")
def instances(stand: Any) -> Instances:
    made = Instances(stand, stand.start_agent("one"))
    file = str(made.file)
    made.headgate("submit", file, "--as", made.own)
    made.headgate("submit", file, "--as", made.eager, "--profile", "eager", "--shadow")
    return made


def test_each_instance_has_its_name_its_profile_and_its_mode(instances: Instances) -> None:
    rows = json.loads(instances.headgate("list", "--json"))
    listed = {row["name"]: (row["profile"], row["shadow"]) for row in rows}
    assert listed == {instances.own: (None, False), instances.eager: ("eager", True)}


def test_each_instance_decides_by_its_own_bounds_on_the_same_updates(instances: Instances) -> None:
    instances.stand.write(instances.source, {b"1": b"1.0", b"2": b"2.0"})
    instances.agent.wave(instances.own)
    instances.agent.wave(instances.eager)
    assert instances.outcomes(instances.own) == []
    assert instances.outcomes(instances.eager) == ["shadow"]
    assert instances.stand.rows(instances.target) == {}


def test_an_update_of_bounds_keeps_what_was_counted(instances: Instances) -> None:
    told = instances.headgate("update", instances.own, "--profile", "eager")
    assert "bound `source` of `first`: changed, sequence 3 → sequence 2" in told
    assert f"Dataflow {instances.own}, revision 2." in told
    instances.agent.wave(instances.own)
    assert instances.outcomes(instances.own) == ["committed"]
    assert instances.stand.rows(instances.target) == {b"1": b"1.0", b"2": b"2.0"}


def test_an_update_to_shadow_mode_ends_launching(instances: Instances) -> None:
    assert "shadow mode: changed" in instances.headgate("update", instances.own, "--shadow")
    instances.stand.write(instances.source, {b"1": b"3.0", b"2": b"4.0"})
    instances.agent.wave(instances.own)
    assert instances.outcomes(instances.own) == ["committed", "shadow"]
    assert instances.stand.rows(instances.target) == {b"1": b"1.0", b"2": b"2.0"}


def test_what_is_another_in_nothing_is_no_revision(instances: Instances) -> None:
    told = instances.headgate("update", instances.own)
    assert f"Dataflow {instances.own}, revision 3, nothing is another than before." in told


def test_an_instance_that_is_removed_leaves_the_other(instances: Instances) -> None:
    instances.headgate("remove", instances.own)
    rows = json.loads(instances.headgate("list", "--json"))
    assert [row["name"] for row in rows] == [instances.eager]
