"""An agent is killed, and another one goes on: how soon, with a spare session and without one.

That it goes on with one is among the short tests, too (``test_ownership.py``).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.stack, pytest.mark.soak]

LONG = 240.0  # seconds until the outcome must be there, however busy the machine is
STEPS = """
def double(run):
    frame = run.read("input")
    run.write(frame.select("row", (2 * frame.v).alias("v")), "output")
"""


def spares(agent: Any) -> int:
    found = re.search(
        r"^headgate_agent_spare_sessions (\S+)$", agent.client.get("/metrics").text, re.MULTILINE
    )
    assert found
    return int(float(found[1]))


@pytest.mark.parametrize("number", [0, 1])
def test_another_agent_goes_on_after_a_kill(
    make_stand: Callable[..., Any], tmp_path: Path, number: int
) -> None:
    stand = make_stand(tmp_path)
    tables = {name: stand.stack.table(name) for name in ("input", "output")}
    (stand.directory / "doubling.py").write_text(STEPS)
    flow = f"takeover-{stand.identity}"
    text = f"""
name: {flow}
containers: {{input: "{tables["input"]} f:v", output: "{tables["output"]} f:v"}}
actions:
  feed: {{input: input}}
  double:
    step: doubling:double
    reads: input
    writes: output
    when: {{input: {{sequence: 1}}}}
    evaluate: write
spark: {{spark.sql.shuffle.partitions: 1}}
"""
    owner = stand.start_agent("owner")
    stand.submit(owner, text)
    stand.write(tables["input"], {b"1": b"1"})
    await_output(stand, tables, {b"1": b"2.0"})
    standby = stand.start_agent("standby", f"spares = {number}\n")
    deadline = time.monotonic() + LONG
    while spares(standby) < number:
        assert time.monotonic() < deadline, standby.words()
        time.sleep(0.2)

    owner.kill()
    killed = time.monotonic()
    stand.write(tables["input"], {b"2": b"5"})
    await_output(stand, tables, {b"1": b"2.0", b"2": b"10.0"})
    took = time.monotonic() - killed

    print(f"first output {took:.1f} s after the kill, lease {stand.lease:g} s, {number} spares")
    if number:
        logs = list((stand.directory / "workers" / "standby" / ".spares").rglob("worker.log"))
        assert logs
        assert not (stand.directory / "workers" / "standby" / flow / "worker.log").exists()


def await_output(stand: Any, tables: dict[str, str], expected: dict[bytes, bytes]) -> None:
    deadline = time.monotonic() + LONG
    while stand.rows(tables["output"]) != expected:
        agents = "\n".join(agent.words() for agent in stand.agents if agent.running)
        assert time.monotonic() < deadline, agents
        time.sleep(0.1)
