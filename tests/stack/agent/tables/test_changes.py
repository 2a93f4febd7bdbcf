"""What an incremental step is shown on the real stack, through edits of its dataflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.stack

STEPS = """
def copy_changes(run):
    changed = run.changes("source", kind="string").where("not deleted")
    run.write(changed.selectExpr("row", "value as v"), "copy")
"""

DATAFLOW = """
name: {name}
containers:
  source: {{table: {source}, column: "f:v", codec: opaque}}
  copy: {{table: {copy}, column: "f:v", codec: opaque}}
actions:
  feed: {{input: source}}
  copy:
    step: incremental:copy_changes
    reads: source
    writes: copy
    when: {{source: {{sequence: {limit}}}}}
"""


def test_a_copy_by_changes_is_whole_though_limits_were_edited(stand: Any) -> None:
    (Path(stand.directory) / "incremental.py").write_text(STEPS)
    source, copy = (stand.stack.table(name) for name in ("source", "copy"))
    name = f"incremental-{stand.identity}"

    def text(limit: int) -> str:
        return DATAFLOW.format(name=name, source=source, copy=copy, limit=limit)

    agent = stand.start_agent()
    stand.write(source, {b"stood-%d" % row: b"0" for row in range(10)})
    stand.submit(agent, text(32))
    stand.write(source, {b"r0": b"1", b"r1": b"1"})
    agent.wave(name)
    agent.ask("POST", f"/v1/flows/{name}/run", {"action": "copy"})
    agent.wave(name)
    assert stand.rows(copy) == stand.rows(source)

    stand.write(source, {b"r2": b"2"})
    agent.wave(name)
    agent.ask("POST", f"/v1/flows/{name}/update", {"source": text(34)})
    stand.write(source, {b"r3": b"3"})
    agent.wave(name)
    agent.ask("POST", f"/v1/flows/{name}/run", {"action": "copy"})
    agent.wave(name)
    assert stand.rows(copy) == stand.rows(source)
    later, earlier = agent.runs(name, "copy")[::-1]
    assert later["since"] == earlier["cut"]
