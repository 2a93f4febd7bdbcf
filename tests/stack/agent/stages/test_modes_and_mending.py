"""Stages in all modes on the real stack, one of which raises until it is mended, and is rebuilt."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from headgate.cli.flow.commands import app as flow_commands
from headgate.cli.stage.commands import app as stage_commands
from headgate.incremental import StoredState

pytestmark = pytest.mark.stack

STAGES = """
import pyarrow as pa

from headgate.incremental import InputFlow, Stage, StateFlow

ROWS = StateFlow(pa.schema({"rows": pa.int64()}))
SHOWN = {"row": "string", "v": "string"}


def added(letter, flows, flow, made):
    rows = sum(row["rows"] for row in flows["state"]) + len(flows[flow])
    return {"state": [{"rows": rows}], made: [{"row": letter, "v": str(rows)}]}


letters = Stage(
    "letters",
    inputs={"source": InputFlow(lambda unit: unit["row"][:1])},
    outputs={"letters": SHOWN},
    translate=lambda letter, flows: added(letter, flows, "source", "letters"),
    state=ROWS,
)


def follow(row, flows):
    known = flows["state"][0]["value"] if flows["state"] else None
    value = flows["source"][-1]["value"]
    times = [{"row": row, "v": "again" if known == value else "new"}]
    return {"state": [{"value": value}], "times": times}


following = Stage(
    "following",
    inputs={"source": InputFlow("row")},
    outputs={"times": SHOWN},
    translate=follow,
    state=StateFlow(pa.schema({"value": pa.binary()})),
)


def add(letter, flows):
    if letter == "b":  # a mistake
        raise ValueError(f"no {letter} here")
    new = [row for row in flows["times"] if row["v"] == "new"]
    return added(letter, {**flows, "times": new}, "times", "totals")


adding = Stage(
    "adding",
    inputs={"times": InputFlow(lambda unit: unit["row"][:1])},
    outputs={"totals": SHOWN},
    translate=add,
    state=ROWS,
)
"""

DATAFLOW = """
name: {name}
state: {state}
containers:
  source: {{table: {source}, column: "f:v", codec: opaque}}
  letters: {{table: {letters}, column: "f:v", codec: opaque}}
  totals: {{table: {totals}, column: "f:v", codec: opaque}}
actions:
  feed: {{input: source}}
  letter:
    stage: stages:letters
    reads: source
    writes: letters
    when: {{source: {{sequence: 1}}}}
    parameters: {{mode: landmark}}
  follow:
    stage: stages:following
    reads: source
    out: times
    when: {{source: {{sequence: 1}}}}
    parameters: {{mode: black-box}}
  add:
    stage: stages:adding
    in: {{times: follow.times}}
    writes: totals
    retries: {{attempts: 2, backoff: 0.2 s}}
"""


class Written:
    """What was written, and what the stages have to show of it."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.changes: Counter[bytes] = Counter()

    def note(self, rows: dict[bytes, bytes]) -> None:
        self.changes.update(row[:1] for row, v in rows.items() if self.values.get(row) != v)
        self.values |= rows

    @property
    def letters(self) -> Counter[bytes]:
        return Counter(row[:1] for row in self.values)


def run_command(app: typer.Typer, agent: Any, *arguments: str, exits: int = 0) -> str:
    """Return what a command prints."""
    result = CliRunner().invoke(app, [*arguments, "--agent", agent.address])
    assert result.exit_code == exits, result.output
    return result.output


def test_a_stage_that_raises_keeps_its_increments_until_it_is_mended_and_is_rebuilt_with_sources(
    make_stand: Any, tmp_path: Path, eventually: Any
) -> None:
    stand = make_stand(tmp_path)
    (tmp_path / "stages.py").write_text(STAGES)
    tables = {each: stand.stack.table(each) for each in ("source", "letters", "totals")}
    name, written = f"modes-{stand.identity}", Written()

    def write(**rows: bytes) -> None:
        values = {row.encode(): value for row, value in rows.items()}
        stand.write(tables["source"], values)
        written.note(values)
        agent.ask("POST", f"/v1/flows/{name}/waves", {})

    def shown(table: str) -> dict[bytes, int]:
        return {row: int(value) for row, value in stand.rows(tables[table]).items()}

    def state(action: str) -> StoredState:
        statuses = agent.ask("GET", f"/v1/flows/{name}/stages")
        [status] = [each for each in statuses if each["action"] == action]
        return StoredState(status["location"], name, action, status["manifest"])

    def files(action: str) -> set[str]:
        buckets = state(action).manifest.buckets
        return {file.name for bucket in buckets for file in bucket.files}

    def added() -> dict[str, int]:
        return {row["_key"]: row["rows"] for row in state("add").arrow().to_pylist()}

    agent = stand.start_agent()
    stand.submit(agent, DATAFLOW.format(name=name, state=tmp_path / "state", **tables))
    write(a1=b"x", a2=b"x")
    eventually(lambda: shown("letters") == shown("totals") == {b"a": 2})
    write(a1=b"x", a2=b"y", a3=b"x")
    eventually(lambda: shown("letters") == {b"a": 3} and shown("totals") == {b"a": 4})

    # Each in its mode: with landmarks there is no state, and that of a black box is written as a
    # whole, where otherwise only buckets of rows that came are.
    assert state("letter").columns.names == []
    assert not any(bucket.files for bucket in state("letter").manifest.buckets)
    before = files("follow")
    assert len(before) == 2, "a3 is in a bucket to which nothing comes any more"

    # It raises, is tried again, and set aside; what it reads waits, and holds who makes more of it.
    write(b1=b"x", a1=b"y")
    eventually(lambda: [r["outcome"] for r in agent.runs(name, "add")][-2:] == ["failed"] * 2)
    last = agent.runs(name, "add")[-1]
    assert not before & files("follow")
    write(b1=b"y")
    eventually(lambda: agent.explained(name, "follow")["held_by"] == ["add"])
    assert agent.explained(name, "add")["flows"][0]["unread"] == 1
    eventually(lambda: shown("letters") == dict(written.letters))
    assert shown("totals") == {b"a": 4}
    told = " ".join(run_command(flow_commands, agent, "show", name).split())
    for words in (
        f"stage `{name}/add`, group 'b': ValueError: no b here",
        "in add",
        f"increment of run {last['run']}, stage `{name}/add`: `times`: increments",
    ):
        assert words in told
    told = " ".join(run_command(stage_commands, agent, "show", name, "add").split())
    assert "quarantined" in told
    assert f"stage `{name}/add`, group 'b': ValueError: no b here" in told

    # Mended, and with states that are said to be right under the new code, it goes on with all.
    (tmp_path / "stages.py").write_text(STAGES.replace('letter == "b"', 'letter == ""'))
    kept = DATAFLOW.replace("    stage: ", "    on_change: keep\n    stage: ")
    source = kept.format(name=name, state=tmp_path / "state", **tables)
    agent.ask("POST", f"/v1/flows/{name}/update", {"source": source, "file": "test.yaml"})
    run_command(flow_commands, agent, "retry", name, "add")
    eventually(lambda: shown("totals") == dict(written.changes))
    assert agent.explained(name, "add")["flows"][0]["unread"] == 0
    assert dict(written.changes) == {b"a": 5, b"b": 2}

    # What it has read is not kept, so it is rebuilt with who has made it, from what is there now.
    refused = run_command(stage_commands, agent, "rebuild", name, "add", exits=1)
    assert "--with-sources" in " ".join(refused.split())
    output = run_command(stage_commands, agent, "rebuild", name, "add", "--with-sources", "--json")
    assert json.loads(output)["actions"] == ["follow", "add"]
    eventually(lambda: shown("totals") == dict(written.letters) == {b"a": 3, b"b": 1})
    eventually(lambda: added() == {"a": 3, "b": 1})  # the table is written before the commit
    write(b2=b"x")
    eventually(lambda: shown("totals") == shown("letters") == {b"a": 3, b"b": 2})
