"""What the agent's alerts ask for is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from headgate.agent.measures import Measures

RULES = Path(__file__).parents[2] / "deploy/prometheus/agent.rules.yml"


def rules() -> list[Any]:
    return [
        rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
    ]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_metrics_and_labels_that_there_are_and_says_what_to_do(rule: Any) -> None:
    families = {family.name: family for family in Measures().registry.collect()}
    labels = {"instance"}
    for name in re.findall(r"headgate_agent_\w+", rule["expr"]):
        assert name.removesuffix("_total") in families
        metric = Measures().registry._names_to_collectors[name]
        labels |= set(metric._labelnames)
    said = " ".join(rule["annotations"].values())
    assert set(re.findall(r"\$labels\.(\w+)", said)) <= labels
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert set(rule["annotations"]) == {"summary", "description"}
