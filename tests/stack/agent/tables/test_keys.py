"""Rows and qualifiers of all bytes in dataflow files, through the API and the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from random_keys import random_keys
from typer.testing import CliRunner

from headgate.cli.flow.commands import app as flow_commands
from headgate.cli.stage.commands import app as stage_commands
from headgate.client import Thrift2Connection
from headgate.events import key_bytes, key_text

pytestmark = pytest.mark.stack

STAGES = """
from headgate.incremental import library

texts = library.differences("everything")
binary = library.differences("binary", keys="binary")
"""


def dataflow(name: str, place: Path, table: str, rows: list[bytes], columns: list[bytes]) -> str:
    """Return a file in which each of the keys is named."""
    everything = {"table": table, "family": "f", "codec": "opaque"}
    named = [{"table": table, "row": key_text(row)} for row in rows]
    content = {
        "name": name,
        "state": str(place / "state"),
        "containers": {
            "everything": everything,
            "binary": {**everything, "keys": "binary"},
            "rows": {"group": named, "codec": "opaque", "count": "cells"},
            "columns": {
                "table": table,
                "column": [f"f:{key_text(column)}" for column in columns],
                "codec": "opaque",
                "count": "cells",
            },
        },
        "actions": {
            "feed": {"input": ["everything", "binary", "rows", "columns"]},
            "texts": {
                "stage": "of_all_bytes:texts",
                "reads": "everything",
                "out": "changes",
                "when": {"everything": {"sequence": len(rows)}},
            },
            "binary": {
                "stage": "of_all_bytes:binary",
                "reads": "binary",
                "out": "changes",
                "when": {"binary": {"sequence": len(rows)}},
            },
            "count": {
                "command": ["true"],
                "reads": ["rows", "columns"],
                "when": {"rows": {"sequence": "200 %"}, "columns": {"sequence": "200 %"}},
            },
        },
    }
    return yaml.safe_dump(content, allow_unicode=True)


def run(app: Any, agent: Any, *arguments: str) -> Any:
    """Return the JSON that a command prints."""
    result = CliRunner().invoke(app, [*arguments, "--agent", agent.address, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.soak)])
def test_keys_of_all_bytes_are_what_they_were(stand: Any, count: int) -> None:
    place = Path(stand.directory)
    (place / "of_all_bytes.py").write_text(STAGES)
    rows, columns = random_keys(20, count), random_keys(21, count)
    keys = dict(zip(rows, columns, strict=True))
    table = stand.stack.table("all_bytes")
    name = f"all-bytes-{count}-{stand.identity}"
    file = place / "all_bytes.yaml"
    file.write_text(dataflow(name, place / name, table, rows, columns))
    agent = stand.agents[0] if stand.agents else stand.start_agent()
    run(flow_commands, agent, "submit", str(file))
    command = [sys.executable, "-m", "headgate.cli", "observer", "tail", "--json"]
    command += ["--kafka", stand.stack.kafka, "--control-topic", stand.control_topic]
    command += ["--table", table, "--from", "beginning", "--count", str(count)]
    with Thrift2Connection(*stand.thrift2) as connection:
        connection.put(table, ((row, {b"f:" + column: b"1"}) for row, column in keys.items()))
    tail = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    shown = [json.loads(line) for line in tail.stdout.splitlines()]
    assert {key_bytes(u["row"]): key_bytes(u["column"])[2:] for u in shown} == keys
    agent.wave(name)
    drawn = agent.ask("GET", f"/v1/flows/{name}/graph")
    for explained in (agent.explain(name), run(flow_commands, agent, "explain", name), drawn):
        elements = {each["container"]: each["elements"] for each in explained["containers"]}
        assert (elements["rows"], elements["columns"]) == (count, count)
    asked = [word for row in rows for word in ("--key", key_text(row))]
    for stage in ("texts", "binary"):
        command = ["state", name, stage, "--limit", str(count), *asked]
        told = run(stage_commands, agent, *command)
        assert {key_bytes(u["_key"]): key_bytes(u["column"]) for u in told} == keys
