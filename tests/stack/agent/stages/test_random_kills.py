"""Stages whose agent, worker or tasks are killed at random show what undisturbed ones would."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.shared_processes import named

pytestmark = [pytest.mark.stack, pytest.mark.soak, pytest.mark.timeout(1800)]

WAVES = 6
ROWS = 40
"""Of the source, so that most waves touch rows that others have written."""
DRIVER_ROWS = 12
"""Waves of more rows are Spark jobs, others are the driver's."""
SETTLE, BETWEEN = 200.0, 15.0
"""Seconds until the counts have to be right, and between two waves that are ended meanwhile."""
VICTIMS = ("agent", "worker", "task")

STAGES = """
import random
import time

import pyarrow as pa

from headgate.incremental import InputFlow, Stage, StateFlow, library

differences = library.differences("values")


def count(value, flows):
    time.sleep(random.random() * 0.1)
    known = flows["state"][0]["rows"] if flows["state"] else 0
    known += sum(unit["weight"] for unit in flows["changes"])
    shown = [{"row": value.decode(), "v": str(known)}]
    return {"state": [{"rows": known}] if known else [], "counts": shown}


counts = Stage(
    "counts",
    inputs={"changes": InputFlow("value")},
    outputs={"counts": {"row": "string", "v": "string"}},
    translate=count,
    state=StateFlow(pa.schema({"rows": pa.int64()})),
)
"""
DATAFLOW = """
name: {name}
state: {state}
spark: {{spark.headgate.driverRows: {driver_rows}}}
containers:
  values: {{table: {values}, column: "f:v", codec: opaque}}
  counts: {{table: {counts}, column: "f:v", codec: opaque}}
actions:
  feed: {{input: values}}
  differences:
    stage: stages:differences
    reads: values
    out: changes
    when: {{values: {{sequence: 1}}}}
    retries: {{attempts: 12, backoff: 0.2 s}}
  counts:
    stage: stages:counts
    in: {{changes: differences.changes}}
    writes: counts
    retries: {{attempts: 12, backoff: 0.2 s}}
"""


class Values:
    """What rows hold, and so how many hold each value."""

    def __init__(self, seed: int) -> None:
        self._drawn = random.Random(seed)
        self._held: dict[bytes, bytes] = {}

    def change(self) -> dict[bytes, bytes]:
        size = self._drawn.choice((3, 8, 25))
        rows = self._drawn.sample(range(ROWS), size)
        changed = {b"r%d" % row: b"v%d" % self._drawn.randrange(6) for row in rows}
        self._held |= changed
        return changed

    @property
    def counts(self) -> dict[bytes, bytes]:
        return {value: b"%d" % count for value, count in Counter(self._held.values()).items()}


def kill(agent: Any, victim: str, drawn: random.Random) -> int:
    """Kill a part of what runs a stage; return how many processes that were."""
    if victim == "agent":
        agent.kill()
        return 1
    try:
        machines = named(agent.descendants(), "java")
        if victim == "task":
            tasks = [each for machine in machines for each in machine.children(recursive=True)]
            killed = drawn.sample(tasks, min(1, len(tasks)))
        else:
            workers = [each for machine in machines if (each := machine.parent()) is not None]
            killed = drawn.choice((workers, machines))
        for process in killed:
            process.kill()
    except psutil.NoSuchProcess:
        return 0
    return len(killed)


def counts_of(stand: Any, table: str) -> dict[bytes, bytes]:
    """Return what is shown; of a value that came and went no run may have heard."""
    return {value: count for value, count in stand.rows(table).items() if count != b"0"}


def await_counts(stand: Any, agent: Any, flow: str, table: str, expected: Values) -> None:
    """End waves until a table shows what is expected: an agent that is killed forgets a wave."""
    deadline = time.monotonic() + SETTLE
    while (shown := counts_of(stand, table)) != expected.counts:
        if time.monotonic() > deadline:
            runs = {action: agent.runs(flow, action)[:3] for action in ("differences", "counts")}
            pytest.fail(f"{shown} instead of {expected.counts}\n{runs}\n{agent.explain(flow)}")
        agent.ask("POST", f"/v1/flows/{flow}/waves", {})
        until = time.monotonic() + BETWEEN
        while time.monotonic() < until and counts_of(stand, table) != expected.counts:
            time.sleep(0.1)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_killed_the_counts_are_those_of_undisturbed_stages(
    make_stand: Any, tmp_path: Path, seed: int
) -> None:
    stand = make_stand(tmp_path)
    (tmp_path / "stages.py").write_text(STAGES)
    values, counts = (stand.stack.table(name) for name in ("values", "counts"))
    name = f"kills-{stand.identity}"
    state = tmp_path / "state"
    text = DATAFLOW.format(
        name=name, values=values, counts=counts, state=state, driver_rows=DRIVER_ROWS
    )
    expected, drawn, killed = Values(seed), random.Random(seed), Counter[str]()
    agent = stand.start_agent()
    stand.submit(agent, text)
    for wave in range(WAVES):
        stand.write(values, expected.change())
        agent.ask("POST", f"/v1/flows/{name}/waves", {})
        # The first wave starts Spark. A second kill may find what the first has begun again.
        for _ in range(drawn.choice((1, 2))):
            time.sleep(drawn.uniform(0.0, 12.0 if wave == 0 else 2.5))
            victim = drawn.choice(VICTIMS)
            killed[victim] += kill(agent, victim, drawn)
            if victim == "agent":
                agent = stand.start_agent()
                agent.await_dataflows()
        if drawn.random() < 0.5:
            await_counts(stand, agent, name, counts, expected)
    await_counts(stand, agent, name, counts, expected)
    assert killed.total() >= WAVES // 2, killed
    stand.write(values, expected.change())
    agent.wave(name)
    await_counts(stand, agent, name, counts, expected)
