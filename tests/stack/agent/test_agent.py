"""A write through the proxy runs a PySpark step, only as often as its bounds ask for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.stack

Eventually = Callable[..., Any]


class Flow:
    """A dataflow with three chains of their own, so that tests do not meet."""

    def __init__(self, stand: Any) -> None:
        self.stand = stand
        self.name = f"flow-{stand.identity}"
        chains = ("copied", "middle", "copied2", "moody", "mended", "slow", "woken")
        self.tables = {chain: stand.stack.table(chain) for chain in ("a", "b", "c", *chains)}
        self.moody = stand.directory / "moody"
        self.slow = stand.directory / "slow"
        t = self.tables
        self.text = f"""
name: {self.name}
containers:
  a: {t["a"]} f:v
  b: {t["b"]} f:v
  c: {t["c"]} f:v
  middle: {t["middle"]} f:v
  end: {t["copied2"]} f:v
  mended: {t["mended"]} f:v
  woken: {t["woken"]} f:v
actions:
  feed-a: {{input: a}}
  feed-b: {{input: b}}
  feed-c: {{input: c}}
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
    timeout: 25 s
    parameters: {{source: c, target: woken, flag: {self.slow}}}
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


def test_a_step_runs_only_when_its_bound_is_reached(stand: Any, agent: Any, flow: Flow) -> None:
    stand.write(flow.tables["a"], {b"1": b"10.0", b"2": b"20.0"})
    agent.wave(flow.name)
    assert agent.runs(flow.name, "first") == []
    assert "needs 1 more update of `a`" in agent.explained(flow.name, "first")["words"]
    stand.write(flow.tables["a"], {b"3": b"30.0"})
    agent.wave(flow.name)
    assert [r["outcome"] for r in agent.runs(flow.name, "first")] == ["committed"]
    assert stand.rows(flow.tables["copied2"]) == {b"1": b"10.0", b"2": b"20.0", b"3": b"30.0"}
    assert "reached 3 of 3 updates" in agent.explained(flow.name, "first")["words"]


def test_a_successor_without_bounds_runs_after_each_run(agent: Any, flow: Flow) -> None:
    assert len(agent.runs(flow.name, "second")) == len(agent.runs(flow.name, "first")) == 1


def test_a_step_that_raises_is_retried_then_quarantined_then_released(
    stand: Any, agent: Any, flow: Flow
) -> None:
    flow.moody.touch()
    stand.write(flow.tables["b"], {b"1": b"10.0"})
    agent.wave(flow.name)
    attempts = agent.runs(flow.name, "moody")
    assert [(r["attempt"], r["outcome"]) for r in attempts] == [(1, "failed"), (2, "failed")]
    assert "ValueError: the flag is up" in attempts[-1]["detail"]
    assert "steps.py" in attempts[-1]["detail"]
    assert "quarantine" in agent.explained(flow.name, "moody")["words"]
    flow.moody.unlink()
    assert agent.ask("POST", f"/v1/flows/{flow.name}/release", {"action": "moody"}) == {
        "actions": ["moody"]
    }
    agent.wave(flow.name)
    assert agent.runs(flow.name, "moody")[-1]["outcome"] == "committed"
    assert stand.rows(flow.tables["mended"]) == {b"1": b"10.0"}


def test_a_killed_worker_is_replaced_and_the_run_committed_by_the_next_attempt(
    stand: Any, agent: Any, flow: Flow, eventually: Eventually
) -> None:
    flow.slow.touch()
    stand.write(flow.tables["c"], {b"1": b"10.0"})
    number = agent.ask("POST", f"/v1/flows/{flow.name}/waves", {})["wave"]
    eventually(lambda: agent.runs(flow.name, "slow")[-1:] and running(agent, flow))
    os.kill(agent.show(flow.name)["status"]["worker"]["pid"], signal.SIGKILL)
    flow.slow.unlink()
    agent.settle(flow.name, number)
    attempts = agent.runs(flow.name, "slow")
    assert [(r["attempt"], r["outcome"]) for r in attempts] == [(1, "lost"), (2, "committed")]
    assert len({r["run"] for r in attempts}) == 1


def running(agent: Any, flow: Flow) -> bool:
    return bool(agent.runs(flow.name, "slow")[-1]["outcome"] == "running")


def test_a_step_beyond_its_timeout_is_stopped_and_tried_again(
    stand: Any, agent: Any, flow: Flow, eventually: Eventually
) -> None:
    flow.slow.touch()
    stand.write(flow.tables["c"], {b"1": b"20.0"})
    number = agent.ask("POST", f"/v1/flows/{flow.name}/waves", {})["wave"]
    eventually(lambda: agent.runs(flow.name, "slow")[-1]["outcome"] == "timed-out")
    flow.slow.unlink()
    agent.settle(flow.name, number)
    last, before = agent.runs(flow.name, "slow")[:-3:-1]
    assert "timeout of 25 s" in before["reason"]
    assert last["outcome"] == "committed"
    assert stand.rows(flow.tables["woken"]) == {b"1": b"20.0"}


def test_a_paused_dataflow_counts_and_runs_when_resumed(stand: Any, agent: Any, flow: Flow) -> None:
    before = len(agent.runs(flow.name, "first"))
    agent.ask("POST", f"/v1/flows/{flow.name}/pause")
    stand.write(flow.tables["a"], {b"1": b"1", b"2": b"2", b"3": b"3"})
    agent.wave(flow.name)
    assert len(agent.runs(flow.name, "first")) == before
    agent.ask("POST", f"/v1/flows/{flow.name}/resume")
    agent.wave(flow.name)
    assert len(agent.runs(flow.name, "first")) == before + 1


def test_metrics_and_health_are_told(agent: Any, flow: Flow) -> None:
    text = agent.client.get("/metrics").text
    assert (
        f'headgate_agent_bound_fill_ratio{{action="first",bound="a",dataflow="{flow.name}"' in text
    )
    assert "headgate_agent_barrier_seconds_count" in text
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


def test_the_command_line_shows_causes_and_tracebacks(
    agent: Any, flow: Flow, tmp_path: Path
) -> None:
    shown = headgate(agent, "show", flow.name)
    assert "ValueError: the flag is up" in shown.stdout
    assert "σ of `a` reached 3 of 3 updates" in shown.stdout
    listed = headgate(agent, "list")
    assert flow.name in listed.stdout
    unknown = headgate(agent, "explain", "nobody")
    assert unknown.returncode == 1
    assert "flow list" in unknown.stderr


def test_a_second_agent_waits_and_takes_over_when_the_first_is_killed(
    stand: Any, agent: Any, flow: Flow, eventually: Eventually
) -> None:
    second = stand.start_agent("two")
    row = second.ask("GET", "/v1/flows")[0]
    assert (row["owner"], row["here"]) == ("one", False)
    # What runs elsewhere is asked there.
    assert second.show(flow.name)["flow"]["owner"] == "one"
    workers = agent.descendants()
    assert workers
    agent.kill()
    eventually(lambda: second.ask("GET", "/v1/flows")[0]["here"])
    eventually(
        lambda: not any(w.is_running() and w.status() != psutil.STATUS_ZOMBIE for w in workers)
    )
    before = len(second.runs(flow.name, "first"))
    stand.write(flow.tables["a"], {b"4": b"1", b"5": b"2", b"6": b"3"})
    second.wave(flow.name)
    assert second.runs(flow.name, "first")[-1]["outcome"] == "committed"
    assert len(second.runs(flow.name, "first")) == before + 1


def test_a_stopped_agent_leaves_no_process_and_no_lease(
    stand: Any, flow: Flow, eventually: Eventually
) -> None:
    second = stand.agents[-1]
    workers = second.descendants()
    assert second.stop() == 0
    assert not any(w.is_running() and w.status() != psutil.STATUS_ZOMBIE for w in workers)
    third = stand.start_agent("three")
    row = eventually(lambda: next((r for r in third.ask("GET", "/v1/flows") if r["here"]), None))
    assert row["owner"] == "three"
    third.ask("DELETE", f"/v1/flows/{flow.name}")
    assert third.ask("GET", "/v1/flows") == []
