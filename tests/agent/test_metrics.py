"""What the agent's alerts ask for is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from simulation import World

from headgate.agent.metrics import AgentMetrics

RULES = Path(__file__).parents[2] / "deploy/prometheus/agent.rules.yml"


def rules() -> list[Any]:
    return [
        rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
    ]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_metrics_and_labels_that_there_are_and_says_what_to_do(rule: Any) -> None:
    families = {family.name: family for family in AgentMetrics().registry.collect()}
    labels = {"instance"}
    for name in re.findall(r"headgate_agent_\w+", rule["expr"]):
        assert name.removesuffix("_total") in families
        metric: Any = AgentMetrics().registry._names_to_collectors[name]
        labels |= set(metric._labelnames)
    said = " ".join(rule["annotations"].values())
    assert set(re.findall(r"\$labels\.(\w+)", said)) <= labels
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert set(rule["annotations"]) == {"summary", "description"}


def test_a_gauge_shows_what_there_is_now() -> None:
    metrics = AgentMetrics()
    flow, other = metrics.of("flow"), metrics.of("other")
    flow.retention_used.replace({("in",): 0.9, ("out",): 0.1})
    other.retention_used.replace({("in",): 0.3})
    flow.retention_used.replace({("out",): 0.2})
    shown = {line for line in metrics.text().decode().splitlines() if "used_ratio{" in line}
    assert shown == {
        'headgate_agent_retention_used_ratio{dataflow="other",topic="in"} 0.3',
        'headgate_agent_retention_used_ratio{dataflow="flow",topic="out"} 0.2',
    }


def test_of_a_dataflow_that_is_not_here_any_more_no_gauge_tells(world: World) -> None:
    agent = world.start_agent()
    world.write("in", b"1", b"c:v", b"1")
    world.run(lambda: True)
    agent.ask(lambda runtime, now: runtime.reporting.measure(now))
    runtime = agent.runtime
    assert runtime is not None

    def gauges() -> set[str]:
        families = agent.metrics.registry.collect()
        return {f.name for f in families if f.type == "gauge" and f.samples}

    assert {"headgate_agent_bound_fill_ratio", "headgate_agent_session_warm"} <= gauges()
    runtime.stop(world.now, save=True)
    known = agent.metrics.registry._names_to_collectors
    assert not [name for name in gauges() if "dataflow" in known[name]._labelnames]
