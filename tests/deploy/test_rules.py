"""Alerts of the agents as Prometheus evaluates them, where its program for that is there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

RULES = Path(__file__).resolve().parents[2] / "deploy" / "prometheus"
# Counters with labels: each label's series is not there before its first count.
FIRST_COUNTS = {
    "HeadgateAgentThreadFailures": 'headgate_agent_thread_failures_total{kind="feed"}',
    "HeadgateAgentRecordsSetAside": 'headgate_agent_records_set_aside_total{topic="t"}',
    "HeadgateAgentMessagesUndelivered": 'headgate_agent_messages_undelivered_total{topic="t"}',
}
LONG_SINCE = "1x40"
JUST_NOW = "_x20 1x20"


def alerts(folder: Path, series: str, values: str, at: str) -> str:
    """Return what stands at a moment, in promtool's words."""
    cases = folder / "cases.yml"
    cases.write_text(f"""
rule_files: ['{RULES}/agent.rules.yml']
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series: [{{series: '{series}', values: '{values}'}}]
    promql_expr_test:
      - expr: count by (alertname) (ALERTS{{alertstate="firing"}})
        eval_time: {at}
        exp_samples: []
""")
    done = subprocess.run(
        ["promtool", "test", "rules", str(cases)], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_a_breached_confidence_compares_what_the_agent_exports() -> None:
    rules = (RULES / "agent.rules.yml").read_text()
    found = rules[rules.index("HeadgateAgentConfidenceBreached") :]
    assert 'headgate_agent_audited_violation_ratio{value="lower"}' in found
    assert '> ignoring(value) headgate_agent_audited_violation_ratio{value="allowed"}' in found


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool comes with Prometheus")
@pytest.mark.parametrize(("alert", "series"), FIRST_COUNTS.items())
def test_the_first_count_of_a_label_raises_its_alert_and_an_old_one_does_not(
    tmp_path: Path, alert: str, series: str
) -> None:
    assert alert in alerts(tmp_path, series, JUST_NOW, "22m")
    assert "SUCCESS" in alerts(tmp_path, series, LONG_SINCE, "39m")
