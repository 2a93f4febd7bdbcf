"""A stage that reads files and writes files, on the real stack: each file counts once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headgate.incremental import PublishedIncrements

pytestmark = pytest.mark.stack

STAGES = """
import time
from pathlib import Path

import pyarrow as pa

from headgate.incremental import InputFlow, Stage, StateFlow

HOLD = Path(__file__).with_name("hold")


def total(url, flows):
    while HOLD.exists():
        time.sleep(0.05)
    n = sum(row["n"] or 0 for name in ("state", "clicks") for row in flows[name])
    return {"state": [{"n": n}], "totals": [{"url": url, "n": n}]}


totals = Stage(
    "totals",
    inputs={"clicks": InputFlow(route_by="url")},
    outputs={"totals": {"url": "string", "n": "int64"}},
    translate=total,
    state=StateFlow(pa.schema({"n": pa.int64()})),
)
"""
DATAFLOW = """
name: {name}
state: state
files:
  clicks: {{uri: clicks, format: json, columns: {{url: string, n: int64}}}}
  totals: published
actions:
  count:
    stage: stages:totals
    reads: clicks
    writes: totals
    when: {{clicks: {{time: 1 s}}}}
    retries: {{attempts: 100, backoff: 0.2 s}}
"""


class Clicks:
    """What was clicked, and the files that say so."""

    def __init__(self, folder: Path) -> None:
        self.counted: Counter[str] = Counter()
        self._folder = folder
        self._files = 0
        folder.mkdir()

    def come(self, **clicks: int) -> None:
        """Put a file there, whole."""
        self._files += 1
        part = self._folder / f"_{self._files}.json"
        part.write_text("".join(json.dumps({"url": u, "n": n}) + "\n" for u, n in clicks.items()))
        part.rename(self._folder / f"{self._files}.json")
        self.counted.update(clicks)


def test_each_file_counts_once_though_worker_and_agent_are_killed(
    make_stand: Any, tmp_path: Path, eventually: Any
) -> None:
    stand = make_stand(tmp_path)
    (tmp_path / "stages.py").write_text(STAGES)
    clicks, hold = Clicks(tmp_path / "clicks"), tmp_path / "hold"
    name = f"files-{stand.identity}"

    def shown() -> dict[str, int]:
        """What readers make of the published rows: of each URL the newest counts."""
        rows = PublishedIncrements(str(tmp_path / "published")).arrow().to_pylist()
        return {row["url"]: row["n"] for row in rows}

    def all_counted() -> bool:
        return shown() == dict(clicks.counted)

    def running() -> bool:
        return any(run["outcome"] == "running" for run in agent.runs(name, "count"))

    agent = stand.start_agent()
    clicks.come(a=1, b=2)
    stand.submit(agent, DATAFLOW.format(name=name))
    eventually(all_counted)
    clicks.come(b=3, c=4)
    eventually(all_counted)

    hold.touch()
    clicks.come(a=5)
    eventually(running)
    for process in agent.descendants():
        process.kill()
    hold.unlink()
    eventually(all_counted)

    hold.touch()
    clicks.come(c=6, d=7)
    eventually(running)
    agent.kill()
    hold.unlink()
    agent = stand.start_agent()
    agent.await_dataflows()
    eventually(all_counted)

    (tmp_path / "clicks" / "bad.json").write_text('{"url": "a", "n": 1}\n{"url": "b", "n":')
    eventually(lambda: any("bad.json" in run["reason"] for run in agent.runs(name, "count")))
    assert all_counted()
    (tmp_path / "clicks" / "bad.json").unlink()
    clicks.come(e=8)
    eventually(all_counted)

    published = PublishedIncrements(str(tmp_path / "published"))
    assert [one.whole for one in published.increments] == [True, *[False] * 4]
    assert sum(len(pq.read_table(file)) for file in published.files()) == 8, "rows of commits alone"
