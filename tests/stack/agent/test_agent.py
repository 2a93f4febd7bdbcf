"""A write through the proxy runs a PySpark step, only as often as its bounds ask for."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = pytest.mark.stack

Eventually = Callable[..., Any]


class Flow:
    """A dataflow with chains that share nothing: each is one test's, or what a fixture does to it.

    Attributes:
        moody: while this file is there, the step of that name fails.
        slow: while this file is there, the step of that name does not end.
        late: the same of that step, which has a timeout.
    """

    def __init__(self, stand: Any) -> None:
        self.name = f"flow-{stand.identity}"
        names = ("a", "middle", "end", "b", "mended", "c", "woken", "d", "stopped", "e", "resumed")
        self.tables = {name: stand.stack.table(name) for name in names}
        self.moody: Path = stand.directory / "moody"
        self.slow: Path = stand.directory / "slow"
        self.late: Path = stand.directory / "late"
        containers = "\n".join(f"  {name}: {table} f:v" for name, table in self.tables.items())
        self.text = f"""
name: {self.name}
containers:
{containers}
actions:
  feed-a: {{input: a}}
  feed-b: {{input: b}}
  feed-c: {{input: c}}
  feed-d: {{input: d}}
  feed-e: {{input: e}}
  first:
    step: steps:copy
    reads: a
    writes: middle
    when:
      a: {{sequence: 3}}
    parameters: {{source: a, target: middle}}
  second:
    step: steps:copy
    after: first
    reads: middle
    writes: end
    parameters: {{source: middle, target: end}}
  moody:
    step: steps:moody
    reads: b
    writes: mended
    when:
      b: {{sequence: 1}}
    retries: {{attempts: 2, backoff: 1 s}}
    parameters: {{source: b, target: mended, flag: {self.moody}}}
  slow:
    step: steps:slow
    reads: c
    writes: woken
    when:
      c: {{sequence: 1}}
    retries: {{attempts: 5, backoff: 1 s}}
    parameters: {{source: c, target: woken, flag: {self.slow}}}
  late:
    step: steps:slow
    reads: d
    writes: stopped
    when:
      d: {{sequence: 1}}
    retries: {{attempts: 5, backoff: 1 s}}
    timeout: 12 s
    parameters: {{source: d, target: stopped, flag: {self.late}}}
  paused:
    step: steps:copy
    reads: e
    writes: resumed
    when:
      e: {{sequence: 3}}
    parameters: {{source: e, target: resumed}}
spark:
  spark.sql.shuffle.partitions: 1
"""


@pytest.fixture(scope="module")
def agent(stand: Any) -> Any:
    return stand.start_agent("one")


@pytest.fixture(scope="module")
def flow(stand: Any, agent: Any) -> Flow:
    flow = Flow(stand)
    stand.submit(agent, flow.text)
    return flow


class ActionReport(NamedTuple):
    """What the agent said of an action at some moment."""

    runs: list[Any]
    words: str


def report_of(agent: Any, flow: Flow, action: str) -> ActionReport:
    return ActionReport(agent.runs(flow.name, action), agent.explained(flow.name, action)["words"])


@contextmanager
def raised(flag: Path) -> Iterator[None]:
    """Have a step meet its flag meanwhile."""
    flag.touch()
    try:
        yield
    finally:
        flag.unlink()


@pytest.fixture(scope="module")
def below_bound(stand: Any, agent: Any, flow: Flow) -> ActionReport:
    """The report of ``first`` after two of the three updates that its bound asks for."""
    stand.write(flow.tables["a"], {b"1": b"10.0", b"2": b"20.0"})
    agent.wave(flow.name)
    return report_of(agent, flow, "first")


@pytest.fixture(scope="module")
def at_bound(stand: Any, agent: Any, flow: Flow, below_bound: ActionReport) -> ActionReport:
    """The report of ``first`` after the third."""
    stand.write(flow.tables["a"], {b"3": b"30.0"})
    agent.wave(flow.name)
    return report_of(agent, flow, "first")


@pytest.fixture(scope="module")
def quarantined(stand: Any, agent: Any, flow: Flow) -> ActionReport:
    """The report of ``moody`` after its attempts have failed; another would commit."""
    with raised(flow.moody):
        stand.write(flow.tables["b"], {b"1": b"10.0"})
        agent.wave(flow.name)
    return report_of(agent, flow, "moody")


def test_a_step_does_not_run_below_its_bound(below_bound: ActionReport) -> None:
    assert below_bound.runs == []
    assert "needs 1 more update of `a`" in below_bound.words


def test_a_step_runs_when_its_bound_is_reached(
    stand: Any, flow: Flow, at_bound: ActionReport
) -> None:
    assert [r["outcome"] for r in at_bound.runs] == ["committed"]
    assert "reached 3 of 3 updates" in at_bound.words
    written = {b"1": b"10.0", b"2": b"20.0", b"3": b"30.0"}
    assert stand.rows(flow.tables["middle"]) == written


def test_a_successor_without_bounds_runs_after_each_run(
    stand: Any, agent: Any, flow: Flow, at_bound: ActionReport
) -> None:
    assert len(agent.runs(flow.name, "second")) == len(at_bound.runs) == 1
    written = {b"1": b"10.0", b"2": b"20.0", b"3": b"30.0"}
    assert stand.rows(flow.tables["end"]) == written


def test_a_step_that_raises_is_retried_then_quarantined(quarantined: ActionReport) -> None:
    attempts = [(r["attempt"], r["outcome"]) for r in quarantined.runs]
    assert attempts == [(1, "failed"), (2, "failed")]
    assert "ValueError: the flag is up" in quarantined.runs[-1]["detail"]
    assert "steps.py" in quarantined.runs[-1]["detail"]
    assert "quarantine" in quarantined.words


@pytest.mark.usefixtures("quarantined")
def test_a_step_that_is_released_from_quarantine_runs(stand: Any, agent: Any, flow: Flow) -> None:
    assert agent.ask("POST", f"/v1/flows/{flow.name}/release", {"action": "moody"}) == {
        "actions": ["moody"]
    }
    agent.wave(flow.name)
    assert agent.runs(flow.name, "moody")[-1]["outcome"] == "committed"
    assert stand.rows(flow.tables["mended"]) == {b"1": b"10.0"}


def outcomes(agent: Any, flow: Flow, action: str) -> list[tuple[int, str]]:
    return [(r["attempt"], r["outcome"]) for r in agent.runs(flow.name, action)]


def test_a_killed_worker_is_replaced_and_the_run_committed_by_the_next_attempt(
    stand: Any, agent: Any, flow: Flow, eventually: Eventually
) -> None:
    with raised(flow.slow):
        stand.write(flow.tables["c"], {b"1": b"10.0"})
        number = agent.ask("POST", f"/v1/flows/{flow.name}/waves", {})["wave"]
        eventually(lambda: outcomes(agent, flow, "slow") == [(1, "running")])
        os.kill(agent.show(flow.name)["status"]["worker"]["pid"], signal.SIGKILL)
    agent.settle(flow.name, number)
    assert outcomes(agent, flow, "slow") == [(1, "lost"), (2, "committed")]
    assert len({r["run"] for r in agent.runs(flow.name, "slow")}) == 1


def test_a_step_beyond_its_timeout_is_stopped_and_tried_again(
    stand: Any, agent: Any, flow: Flow, eventually: Eventually
) -> None:
    with raised(flow.late):
        stand.write(flow.tables["d"], {b"1": b"20.0"})
        number = agent.ask("POST", f"/v1/flows/{flow.name}/waves", {})["wave"]
        eventually(lambda: (1, "timed-out") in outcomes(agent, flow, "late"))
    agent.settle(flow.name, number)
    assert outcomes(agent, flow, "late") == [(1, "timed-out"), (2, "committed")]
    assert "timeout of 12 s" in agent.runs(flow.name, "late")[0]["reason"]
    assert stand.rows(flow.tables["stopped"]) == {b"1": b"20.0"}


def test_a_paused_dataflow_counts_and_runs_when_resumed(stand: Any, agent: Any, flow: Flow) -> None:
    agent.ask("POST", f"/v1/flows/{flow.name}/pause")
    try:
        stand.write(flow.tables["e"], {b"1": b"1", b"2": b"2", b"3": b"3"})
        agent.wave(flow.name)
        while_paused = agent.runs(flow.name, "paused")
    finally:
        agent.ask("POST", f"/v1/flows/{flow.name}/resume")
    agent.wave(flow.name)
    assert while_paused == []
    assert outcomes(agent, flow, "paused") == [(1, "committed")]


@pytest.mark.usefixtures("at_bound")
def test_metrics_and_health_are_told(agent: Any, flow: Flow) -> None:
    text = agent.client.get("/metrics").text
    assert (
        f'headgate_agent_bound_fill_ratio{{action="first",bound="a",dataflow="{flow.name}"' in text
    )
    barriers = rf'^headgate_agent_barrier_seconds_count\{{dataflow="{flow.name}"\}} (\S+)$'
    found = re.search(barriers, text, re.MULTILINE)
    assert found
    assert float(found[1]) > 0
    assert agent.ask("GET", "/healthz")["status"] == "ok"


def test_a_missing_table_is_refused_with_the_command_that_makes_it(
    stand: Any, agent: Any, flow: Flow
) -> None:
    text = flow.text.replace(flow.tables["a"], "no-such-table").replace(flow.name, "other")
    body = {"source": text, "file": "test.yaml", "directory": "."}
    answer = agent.client.post("/v1/flows", json=body)
    assert answer.status_code == 409
    assert "create 'no-such-table'" in answer.json()["error"]


def test_a_wrong_file_is_refused_with_line_and_cure(agent: Any, flow: Flow) -> None:
    body = {"source": flow.text.replace("sequence", "sequenze"), "file": "test.yaml"}
    answer = agent.client.post("/v1/flows", json=body)
    assert answer.status_code == 422
    problem = answer.json()["problems"][0]
    assert problem["line"] > 1
    assert "sequence" in problem["cure"]


def headgate(agent: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headgate.cli", "flow", *arguments],
        env={**os.environ, "HEADGATE_AGENT": agent.address, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.usefixtures("at_bound", "quarantined")
def test_the_command_line_shows_causes_and_tracebacks(agent: Any, flow: Flow) -> None:
    shown = headgate(agent, "show", flow.name)
    assert "ValueError: the flag is up" in shown.stdout
    assert "σ of `a` reached 3 of 3 updates" in shown.stdout
    listed = headgate(agent, "list")
    assert flow.name in listed.stdout
    unknown = headgate(agent, "explain", "nobody")
    assert unknown.returncode == 1
    assert "flow list" in unknown.stderr
