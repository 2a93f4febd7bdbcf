"""A session that does nothing ends, and is back before a run that time alone brings."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from headgate.agent.launchers.warm.resting import lead_of

pytestmark = [pytest.mark.stack, pytest.mark.soak]

IDLE = 2.0
"""Seconds without a run after which a session ends here."""


def test_an_idle_session_ends_and_is_back_before_a_foreseen_run(
    stand: Any, eventually: Callable[..., Any]
) -> None:
    agent = stand.start_agent("resting", f"idle_seconds = {IDLE:g}\n")
    tables = {name: stand.stack.table(name) for name in ("input", "output")}
    flow = f"resting-{stand.identity}"

    def text(limit: float) -> str:
        return f"""
name: {flow}
containers: {{input: "{tables["input"]} f:v", output: "{tables["output"]} f:v"}}
actions:
  feed: {{input: input}}
  act:
    step: steps:copy
    reads: input
    writes: output
    when: {{input: {{time: {limit:.0f} s}}}}
    evaluate: write
    parameters: {{source: input, target: output}}
"""

    def session() -> int:
        return int(agent.show(flow)["status"]["worker"]["pid"] or 0)

    begun = time.monotonic()
    stand.submit(agent, text(3600))
    first = eventually(session)
    took = time.monotonic() - begun
    # So late that the session may end and need not start at once.
    limit = IDLE + 1.5 * lead_of(took) + 10
    body = {"source": text(limit), "file": "test.yaml", "directory": str(stand.directory)}
    agent.ask("POST", f"/v1/flows/{flow}/update", body)
    stand.write(tables["input"], {b"1": b"1"})
    agent.launch(flow, "act")
    eventually(lambda: [r["outcome"] for r in agent.runs(flow, "act")] == ["committed"])

    eventually(lambda: not session())
    assert "without a run" in agent.show(flow)["status"]["worker"]["words"]
    assert not psutil.pid_exists(first)
    second = eventually(session)
    started = psutil.Process(second).create_time()
    eventually(lambda: len(agent.runs(flow, "act")) == 2)
    eventually(lambda: agent.runs(flow, "act")[1]["outcome"] == "committed")
    run = agent.runs(flow, "act")[1]
    assert started < run["launched"], "it was started for the run, not ahead of it"
    print(
        f"a session took {took:.1f} s to start, another was there {run['launched'] - started:.1f} s"
        f" before the run after {limit:.0f} s, which began {run['started'] - run['launched']:.1f} s"
        " after its launch"
    )
