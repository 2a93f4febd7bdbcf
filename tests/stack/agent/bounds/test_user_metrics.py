"""A metric of the user's own on the real stack: it decides, it fails, its code is read anew."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.stack

METRICS = """
class Spread:
    def process_element(self, current, previous):
        if current == 13:
            raise ValueError("thirteen")
        return abs(current - previous)

    def aggregate(self, a, b):
        return max(a, b)

    def compute(self, total, m, n):
        return total
"""


def test_a_metric_in_python_decides_and_one_that_fails_counts_as_reached(stand: Any) -> None:
    (stand.directory / "own_metrics.py").write_text(METRICS)
    table = stand.stack.table("input")
    flow = f"spread-{stand.identity}"
    agent = stand.start_agent("measuring")
    text = f"""
name: {flow}
containers: {{input: {table} f:v}}
actions:
  feed: {{input: input}}
  chart:
    command: "true"
    when: {{input: {{value: {{python: {{class: "own_metrics:Spread", limit: 3}}}}}}}}
"""
    body = {"source": text, "file": "test.yaml", "directory": str(stand.directory)}
    agent.ask("POST", "/v1/flows", body)

    def wave(**values: int) -> int:
        """Write, and return how many runs there have been."""
        stand.write(table, {row.encode(): b"%d" % value for row, value in values.items()})
        agent.wave(flow)
        runs = agent.ask("GET", f"/v1/flows/{flow}/runs")
        return len({run["run"] for run in runs if run["outcome"] == "committed"})

    assert wave(a=5, b=1) == 1, "all is new"
    assert wave(a=6, b=2) == 1
    assert "ν of `input` (own_metrics:Spread) is at 1 of 3" in str(agent.explained(flow, "chart"))
    assert wave(a=7) == 1, "2 since the run, though 1 at a time"
    assert wave(a=8) == 2, "3 since the run"

    assert wave(b=13) == 3
    last = agent.ask("GET", f"/v1/flows/{flow}/runs")[0]
    assert "counts as reached: `own_metrics:Spread` raised ValueError: thirteen" in str(last)

    agent.kill()
    agent = stand.start_agent("second")
    agent.await_dataflows()
    assert wave(a=9) == 3, "the state is that of before, and the metric is there again"
    (stand.directory / "own_metrics.py").write_text(METRICS.replace("return total", "return 9"))
    agent.ask("POST", f"/v1/flows/{flow}/update", {"reload": True})
    assert wave(a=10) == 4
