"""A client without credentials that writes into the state table through the observer."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import Hbase_thrift
import msgspec
import pytest

from headgate.agent import Seals, sign
from headgate.observer import AccessSettings
from headgate.settings import key_path, read_keys, shared_keys

pytestmark = pytest.mark.stack

Eventually = Callable[..., Any]


def evil(scene: Any, trace: Path) -> bytes:
    """Return a definition of a command that leaves a trace, due at the first wave."""
    text = f"""
name: evil
containers: {{input: "{scene.tables["input"]} f:v"}}
actions:
  feed: {{input: input}}
  loot:
    reads: input
    when: {{input: {{sequence: 1}}}}
    command: [{sys.executable}, -c, "open('{trace}', 'w')"]
"""
    return msgspec.msgpack.encode(
        {"name": "evil", "source": text, "directory": "/", "revision": 1, "submitted": 0.0}
    )


def state_rows(scene: Any, rows: dict[bytes, dict[bytes, bytes]]) -> None:
    """Write rows of the state table through the observer."""
    with closing(scene.stand.connect()) as connection:
        table = connection.table(f"headgate-{scene.stand.identity}")
        for row, cells in rows.items():
            table.put(row, cells)


def states(agent: Any) -> dict[str, str]:
    return {row["name"]: row["state"] for row in agent.ask("GET", "/v1/flows")}


def test_what_a_stranger_defines_is_listed_and_counted_and_runs_only_when_it_was_signed(
    make_scene: Callable[[str], Any], tmp_path: Path, eventually: Eventually
) -> None:
    scene = make_scene("report")
    scene.run_command("output")
    agent = scene.stand.start_agent()
    trace = tmp_path / "trace"
    value = evil(scene, trace)
    state_rows(
        scene,
        {
            b"flow/evil": {b"spec:definition": value},
            b"flow/bad": {b"spec:definition": b"\xc1"},
            b"flow/\xff": {b"spec:definition": b""},
        },
    )
    scene.submit()
    agent.settle(scene.name, scene.begin(agent))
    agent.kill()
    again = scene.stand.start_agent()
    eventually(lambda: states(again)[scene.name] == "running")
    assert states(again) == {
        scene.name: "running",
        "evil": "unsigned",
        "bad": "damaged",
        "\\xff": "damaged",
    }
    metrics = again.client.get("/metrics").text
    assert 'rows_set_aside{state="unsigned"} 1.0' in metrics
    assert 'rows_set_aside{state="damaged"} 2.0' in metrics
    assert again.client.get("/v1/flows/evil").status_code == 409
    assert not trace.exists()

    again.ask("DELETE", "/v1/flows/bad")
    assert "bad" not in states(again)
    shown = again.ask("GET", "/v1/flows/evil/sign")
    seals = Seals(read_keys(key_path()), shown["table"])
    body = {"value": value, "seal": sign(seals, "evil", value)}
    again.ask("POST", "/v1/flows/evil/sign", msgspec.to_builtins(body))
    deadline = time.monotonic() + 60.0
    while states(again)["evil"] != "running":
        assert time.monotonic() < deadline, f"{again.ask('GET', '/v1/flows')}\n{again.words()}"
        time.sleep(0.1)
    scene.stand.write(scene.tables["input"], {b"3": b"30.0"})
    again.wave("evil")
    assert trace.exists()


def test_with_the_agents_key_an_observer_refuses_what_a_stranger_writes(
    make_scene: Callable[[str], Any], tmp_path: Path
) -> None:
    scene = make_scene("report")
    scene.run_command("output")
    shared_keys("")
    stand = scene.stand
    stand.observer.stop()
    table = f"headgate-{stand.identity}"
    stand.access = AccessSettings(state_tables=(table,), agents_key_file=str(key_path()))
    stand.start_observer()
    agent = scene.submit()
    before = states(agent)
    with pytest.raises(Hbase_thrift.IOError) as refused:
        state_rows(scene, {b"flow/evil": {b"spec:definition": evil(scene, tmp_path / "trace")}})
    assert "is not known as an agent" in str(refused.value)
    with closing(stand.connect()) as connection, pytest.raises(Hbase_thrift.IOError):
        connection.disable_table(table)
    for _ in range(2):
        agent.settle(scene.name, scene.begin(agent))
    one, two = agent.runs(scene.name, "report")
    assert (one["outcome"], two["outcome"]) == ("committed", "committed")
    # The command may name its run's result, which the next run is told, and nothing else there.
    previous = (scene.folder / "previous").read_text().splitlines()
    assert previous == ["", f"state of {one['run']}"]
    assert states(agent) == before
    agent.ask("DELETE", f"/v1/flows/{scene.name}")
    assert scene.name not in states(agent)
