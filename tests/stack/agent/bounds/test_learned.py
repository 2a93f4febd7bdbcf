"""Learned triggers on the real stack: trained, skipping, going on after a kill, and replayed."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.stack

WAIT = 120.0  # seconds

MEAN = """
import json, os, sys
from pathlib import Path
from headgate.client import ScanRange, Thrift2Connection
from headgate.events import Origin

request = json.loads(Path(os.environ["HEADGATE_RUN"]).read_text())
origin = Origin(request["dataflow"], request["action"], request["run"], request["token"])
source, target = request["parameters"]["source"], request["parameters"]["target"]
host, port = os.environ["HEADGATE_THRIFT2"].split(":")
with Thrift2Connection(host, int(port)) as connection:
    values = [float(v) for _, cells in connection.scan(source, ScanRange()) for v in cells.values()]
    mean = b"%.3f" % (sum(values) / len(values))
    connection.put(target, [(b"all", {b"f:v": mean})], origin=origin)
"""


def replay(name: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headgate.cli", "replay", name, "--json"]
    return subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_model_is_trained_decides_is_found_after_a_kill_and_replayed(stand: Any) -> None:
    (stand.directory / "mean.py").write_text(MEAN)
    source, target = stand.stack.table("source"), stand.stack.table("target")
    flow = f"learned-{stand.identity}"
    agent = stand.start_agent("training")
    text = f"""
name: {flow}
containers: {{source: {source} f:v, mean: {target} f:v}}
actions:
  feed: {{input: source}}
  average:
    command: {sys.executable} {stand.directory / "mean.py"}
    parameters: {{source: {source}, target: {target}}}
    reads: source
    writes: mean
learned:
  outputs: {{mean: {{error: 30%, confidence: 80%}}}}
  audit: 0.01%
  waves: 1000
  horizon: 6
  refit: 56
"""
    body = {"source": text, "file": "test.yaml", "directory": str(stand.directory)}
    agent.ask("POST", "/v1/flows", body)
    chance = random.Random(1)
    hour = 0

    def wave() -> int:
        """Write, end a wave an hour after the last, and return how many runs there have been."""
        nonlocal hour
        hour += 1
        values = {b"%d" % row: b"%.2f" % chance.uniform(40.0, 60.0) for row in range(4)}
        stand.write(source, values)
        ended = agent.ask("POST", f"/v1/flows/{flow}/waves", {"time": 3600.0 * hour})
        agent.settle(flow, ended["wave"])
        runs = agent.ask("GET", f"/v1/flows/{flow}/runs")
        return len({run["run"] for run in runs if run["outcome"] == "committed"})

    for number in range(1, 27):
        assert wave() == number, agent.words()

    agent.ask("POST", f"/v1/flows/{flow}/train", {"waves": 24})
    deadline = time.monotonic() + WAIT
    while (report := agent.ask("GET", f"/v1/flows/{flow}/train"))["seconds"] is None:
        assert time.monotonic() < deadline, agent.words()
        time.sleep(0.2)
    assert (report["failure"], report["reasons"]) == ("", {}), f"{report}\n{agent.words()}"
    assert (report["waves"], report["last"]) == (24, 26)
    model = report["models"]["mean"]
    while model not in str(agent.explained(flow, "average")):
        assert time.monotonic() < deadline, agent.explained(flow, "average")
        time.sleep(0.2)

    before = 26
    after = [wave() for _ in range(6)][-1]
    assert after - before <= 4, agent.explained(flow, "average")
    metrics = agent.client.get("/metrics").text
    named = f'dataflow="{flow}",outcome="model",output="mean"'
    assert f"headgate_agent_trainings_total{{{named}}} 1.0" in metrics

    agent.kill()
    agent = stand.start_agent("successor")
    agent.await_dataflows()
    again = [wave() for _ in range(6)][-1]
    assert again - after <= 4, agent.explained(flow, "average")
    assert f"decided by model {model}" in str(agent.explained(flow, "average"))

    assert "fitted anew" not in str(agent.explained(flow, "average"))
    while hour < 26 + 14:
        wave()
    deadline = time.monotonic() + WAIT
    while "fitted anew once" not in str(agent.explained(flow, "average")):
        assert time.monotonic() < deadline, f"{agent.explained(flow, 'average')}\n{agent.words()}"
        time.sleep(0.2)
    assert f"decided by model {model}" not in str(agent.explained(flow, "average"))
    metrics = agent.client.get("/metrics").text
    refitted = named.replace('"model"', '"refitted"')
    assert f"headgate_agent_trainings_total{{{refitted}}} 1.0" in metrics

    pairs = agent.client.get(f"/v1/flows/{flow}/knowledge")
    assert (pairs.status_code, pairs.content[:4]) == (200, b"PAR1")

    runs = agent.ask("GET", f"/v1/flows/{flow}/runs")
    made = len({run["run"] for run in runs if run["outcome"] == "committed"})
    more = stand.directory / "more.yaml"
    more.write_text(text.replace("audit: 0.01%", "audit: 99.99%"))
    wider = stand.directory / "wider.yaml"
    wider.write_text(text.replace("error: 30%", "error: 60%"))
    place = ("--config", str(agent.configuration))
    answer = replay(flow, stand.directory, *place, "--bounds", str(more))
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["agrees"], found["disagreement"]
    recorded, audited = found["replays"]
    assert recorded["runs"] == made < audited["runs"] == found["waves"] == hour
    assert [warning.split(":")[0] for warning in found["warnings"]] == ["more.yaml"]

    refused = replay(flow, stand.directory, *place, "--bounds", str(wider))
    assert refused.returncode == 1
    assert "was fitted to relative 0.3 in 0.8; a replay fits none" in refused.stderr
    nowhere = replay(flow, stand.directory, "--kafka", str(stand.stack.kafka))
    assert nowhere.returncode == 1
    assert "agents keep them in HBase: say where with --hbase HOST:PORT" in nowhere.stderr
    elsewhere = stand.directory / "elsewhere.toml"
    configured = agent.configuration.read_text()
    elsewhere.write_text(configured.replace('state_table = "headgate-', 'state_table = "absent-'))
    absent = replay(flow, stand.directory, "--config", str(elsewhere))
    assert absent.returncode == 1
    assert f"has no table absent-{stand.identity}-knowledge, in which agents keep" in absent.stderr

    assert pq.ParquetFile(io.BytesIO(pairs.content)).metadata.num_rows > 23

    assert agent.ask("GET", f"/v1/flows/{flow}/train") == report, "the next agent tells it too"
    agent.ask("POST", f"/v1/flows/{flow}/train", {"waves": 24, "source": "knowledge"})
    deadline = time.monotonic() + WAIT
    while (stored := agent.ask("GET", f"/v1/flows/{flow}/train"))["seconds"] is None:
        assert time.monotonic() < deadline, agent.words()
        time.sleep(0.2)
    assert (stored["failure"], stored["waves"], stored["last"]) == ("", 24, 26), stored
    while f"decided by model {stored['models']['mean']}" not in str(
        agent.explained(flow, "average")
    ):
        assert time.monotonic() < deadline, agent.explained(flow, "average")
        time.sleep(0.2)
    trimmed = agent.ask("POST", f"/v1/flows/{flow}/knowledge/trim", {"waves": 5})
    assert trimmed == {"pairs": 18, "models": 2}, "of the recording and of service"

    agent.ask("DELETE", f"/v1/flows/{flow}")
    agent.ask("POST", "/v1/flows", body)
    pairs = agent.client.get(f"/v1/flows/{flow}/knowledge")
    assert pq.ParquetFile(io.BytesIO(pairs.content)).metadata.num_rows == 0
