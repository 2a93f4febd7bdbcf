"""One description, two instances on the same tables: bounds, shadow mode and updates of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = pytest.mark.stack

COPY = """
import json, os
from pathlib import Path
from headgate.client import ScanRange, Thrift2Connection
from headgate.events import Origin

request = json.loads(Path(os.environ["HEADGATE_RUN"]).read_text())
origin = Origin(request["dataflow"], request["action"], request["run"], request["token"])
source, target = request["parameters"]["source"], request["parameters"]["target"]
host, port = os.environ["HEADGATE_THRIFT2"].split(":")
with Thrift2Connection(host, int(port)) as connection:
    connection.put(target, list(connection.scan(source, ScanRange())), origin=origin)
"""


class SharedFile:
    """A dataflow file with a profile, and the command line that hands it to the agent."""

    def __init__(self, stand: Any, agent: Any) -> None:
        self.stand = stand
        self.agent = agent
        self.source = stand.stack.table("source")
        self.target = stand.stack.table("target")
        (stand.directory / "copying.py").write_text(COPY)
        self._file: Path = stand.directory / "shared.yaml"
        self._file.write_text(f"""
name: shared
containers:
  source: {self.source} f:v
  target: {self.target} f:v
actions:
  feed: {{input: source}}
  first:
    command: [{sys.executable}, copying.py]
    reads: source
    writes: target
    when:
      source: {{sequence: 3}}
    parameters: {{source: {self.source}, target: {self.target}}}
profiles:
  eager: {{first: {{source: {{sequence: 2}}}}}}
""")

    def headgate(self, *arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "headgate.cli", "flow", *arguments],
            env={**os.environ, "HEADGATE_AGENT": self.agent.address, "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def submit(self, prefix: str, *options: str) -> str:
        """Submit an instance and return its name."""
        name = f"{prefix}-{uuid.uuid4().hex[:10]}"
        self.headgate("submit", str(self._file), "--as", name, *options)
        return name

    def listed(self) -> dict[str, tuple[str | None, bool]]:
        """Return the profile of each instance, and whether it is in shadow mode."""
        rows = json.loads(self.headgate("list", "--json"))
        return {row["name"]: (row["profile"], row["shadow"]) for row in rows}

    def outcomes(self, name: str) -> list[str]:
        return [run["outcome"] for run in self.agent.runs(name, "first")]

    def copied(self) -> dict[bytes, bytes]:
        rows: dict[bytes, bytes] = self.stand.rows(self.target)
        return rows


@pytest.fixture(scope="module")
def shared(stand: Any) -> SharedFile:
    return SharedFile(stand, stand.start_agent("one"))


@pytest.fixture
def submit(shared: SharedFile) -> Iterator[Callable[[str], str]]:
    """Submit a further instance, which decides by the profile and launches nothing."""
    made: list[str] = []

    def one(prefix: str) -> str:
        made.append(shared.submit(prefix, "--profile", "eager", "--shadow"))
        return made[-1]

    yield one
    for name in shared.listed().keys() & set(made):
        shared.headgate("remove", name)


class Pair(NamedTuple):
    """Two instances, and how they were listed when they had been submitted."""

    own: str
    eager: str
    listed: dict[str, tuple[str | None, bool]]


@pytest.fixture(scope="module")
def pair(shared: SharedFile) -> Pair:
    own = shared.submit("own")
    eager = shared.submit("eager", "--profile", "eager", "--shadow")
    listed = shared.listed()
    return Pair(own, eager, {name: listed[name] for name in (own, eager)})


class PairReport(NamedTuple):
    """What the agent said of both after a command and a wave.

    Attributes:
        told: by the command.
        own: outcomes of that instance's runs.
        eager: and of the other's.
        copied: rows of the target.
    """

    told: str
    own: list[str]
    eager: list[str]
    copied: dict[bytes, bytes]


def report_of(shared: SharedFile, pair: Pair, told: str = "") -> PairReport:
    for name in (pair.own, pair.eager):
        shared.agent.wave(name)
    return PairReport(told, shared.outcomes(pair.own), shared.outcomes(pair.eager), shared.copied())


@pytest.fixture(scope="module")
def after_two_updates(shared: SharedFile, pair: Pair) -> PairReport:
    shared.stand.write(shared.source, {b"1": b"1.0", b"2": b"2.0"})
    return report_of(shared, pair)


@pytest.fixture(scope="module")
def after_new_bounds(shared: SharedFile, pair: Pair, after_two_updates: PairReport) -> PairReport:
    return report_of(shared, pair, shared.headgate("update", pair.own, "--profile", "eager"))


@pytest.fixture(scope="module")
def after_shadow_mode(shared: SharedFile, pair: Pair, after_new_bounds: PairReport) -> PairReport:
    told = shared.headgate("update", pair.own, "--shadow")
    shared.stand.write(shared.source, {b"1": b"3.0", b"2": b"4.0"})
    return report_of(shared, pair, told)


def test_each_instance_has_its_name_its_profile_and_its_mode(pair: Pair) -> None:
    assert pair.listed == {pair.own: (None, False), pair.eager: ("eager", True)}


def test_each_instance_decides_by_its_own_bounds_on_the_same_updates(
    after_two_updates: PairReport,
) -> None:
    assert after_two_updates.own == []
    assert after_two_updates.eager == ["shadow"]
    assert after_two_updates.copied == {}


def test_an_update_of_bounds_keeps_what_was_counted(
    pair: Pair, after_new_bounds: PairReport
) -> None:
    told = after_new_bounds.told
    assert "bound `source` of `first`: changed, sequence 3 → sequence 2" in told
    assert f"Dataflow {pair.own}, revision 2." in told
    assert after_new_bounds.own == ["committed"]
    assert after_new_bounds.copied == {b"1": b"1.0", b"2": b"2.0"}


def test_an_update_to_shadow_mode_ends_launching(after_shadow_mode: PairReport) -> None:
    assert "shadow mode: changed" in after_shadow_mode.told
    assert after_shadow_mode.own == ["committed", "shadow"]
    assert after_shadow_mode.copied == {b"1": b"1.0", b"2": b"2.0"}


def test_what_is_another_in_nothing_is_no_revision(
    shared: SharedFile, submit: Callable[[str], str]
) -> None:
    name = submit("same")
    told = shared.headgate("update", name)
    assert f"Dataflow {name}, revision 1, nothing is another than before." in told


def test_an_instance_that_is_removed_leaves_the_other(
    shared: SharedFile, submit: Callable[[str], str]
) -> None:
    left, removed = submit("left"), submit("removed")
    shared.headgate("remove", removed)
    listed = shared.listed()
    assert left in listed
    assert removed not in listed
