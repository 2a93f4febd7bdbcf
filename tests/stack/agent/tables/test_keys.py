"""Rows and qualifiers of all bytes in dataflow files, through the API and the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
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

COUNT = 1000

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
                "when": {"everything": {"sequence": COUNT}},
            },
            "binary": {
                "stage": "of_all_bytes:binary",
                "reads": "binary",
                "out": "changes",
                "when": {"binary": {"sequence": COUNT}},
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


def by_api(stand: Any, agent: Any, text: str) -> None:
    stand.submit(agent, text)


def by_command(stand: Any, agent: Any, text: str) -> None:
    file = Path(stand.directory) / "all_bytes.yaml"
    file.write_text(text)
    run(flow_commands, agent, "submit", str(file))


@pytest.mark.parametrize("submit", [by_api, by_command])
def test_a_thousand_keys_are_what_they_were(
    stand: Any, eventually: Any, submit: Callable[[Any, Any, str], None]
) -> None:
    place = Path(stand.directory)
    (place / "of_all_bytes.py").write_text(STAGES)
    rows, columns = random_keys(20, COUNT), random_keys(21, COUNT)
    keys = dict(zip(rows, columns, strict=True))
    table = stand.stack.table("all_bytes")
    name = f"all-bytes-{submit.__name__}-{stand.identity}"
    agent = next(iter(stand.agents), None) or stand.start_agent()
    submit(stand, agent, dataflow(name, place / name, table, rows, columns))
    command = [sys.executable, "-m", "headgate.cli", "observer", "tail", "--json"]
    command += ["--kafka", stand.stack.kafka, "--control-topic", stand.control_topic]
    command += ["--table", table, "--from", "beginning", "--count", str(COUNT)]
    with Thrift2Connection(*stand.thrift2) as connection:
        connection.put(table, ((row, {b"f:" + column: b"1"}) for row, column in keys.items()))
    tail = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    shown = [json.loads(line) for line in tail.stdout.splitlines()]
    told = {key_bytes(u["row"]): key_bytes(u["column"])[2:] for u in shown if "row" in u}
    assert told == keys
    agent.wave(name)
    for explained in (agent.explain(name), run(flow_commands, agent, "explain", name)):
        elements = {each["container"]: each["elements"] for each in explained["containers"]}
        assert (elements["rows"], elements["columns"]) == (COUNT, COUNT)

    def states() -> list[dict[bytes, bytes]]:
        found = []
        for stage in ("texts", "binary"):
            asked = [word for row in keys for word in ("--key", key_text(row))]
            told = run(
                stage_commands, agent, "state", name, stage, "--limit", str(2 * COUNT), *asked
            )
            found.append({key_bytes(each["row"]): key_bytes(each["column"]) for each in told})
        return found

    assert states() == [keys, keys]
