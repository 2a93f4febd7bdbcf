"""Tables that are created, truncated, altered and dropped while a dataflow watches them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import thriftpy2
from thriftpy2.rpc import make_client

from headgate.client import Thrift2Connection

pytestmark = pytest.mark.stack

PATIENCE = 60.0  # seconds
IDL = Path(__file__).parents[3] / "hbase" / "thrift2.thrift"


def delete_family(address: tuple[str, int], table: str, family: bytes) -> None:
    """Drop a column family through the observer; headgate's own client has no need to."""
    thrift = thriftpy2.load(str(IDL), module_name="thrift2_of_tests_thrift")
    client = make_client(thrift.THBaseService, *address, timeout=120_000)
    client.deleteColumnFamily(thrift.TTableName(qualifier=table.encode()), family)
    client.close()


class Watched:
    """A dataflow in shadow mode over a table that does not exist yet."""

    def __init__(self, stand: Any, agent: Any) -> None:
        self.agent = agent
        self.table = f"later-{stand.identity}"
        self.name = f"lifecycle-{stand.identity}"
        source = f"""
name: {self.name}
containers:
  whole: {self.table}
  family: {{table: {self.table}, family: f, count: cells}}
actions:
  feed: {{input: whole}}
  count:
    step: steps:copy
    after: feed
    when: {{whole: {{sequence: 1000%}}}}
  part:
    step: steps:copy
    after: feed
    when: {{family: {{sequence: 1000%, value: {{relative: 1000%}}}}}}
"""
        body = {"source": source, "directory": str(stand.directory), "shadow": True}
        refused = agent.client.post("/v1/flows", json=body)
        assert refused.status_code == 409
        assert "--allow-missing-tables" in refused.json()["error"]
        agent.ask("POST", "/v1/flows", {**body, "allow_missing_tables": True})

    def elements(self) -> dict[str, int]:
        """Return the elements of both containers, as soon as all that was written is consumed."""
        self.agent.wave(self.name)
        containers = self.agent.explain(self.name)["containers"]
        return {c["container"]: c["elements"] for c in containers}

    def come_to(self, expected: dict[str, int]) -> None:
        """Wait until the containers have so many elements; a slow server's answers come late."""
        deadline = time.monotonic() + PATIENCE
        while (found := self.elements()) != expected:
            assert time.monotonic() < deadline, found

    def words(self) -> list[str]:
        decisions = self.agent.ask("GET", f"/v1/flows/{self.name}/decisions")
        return [d["words"] for d in decisions if d["kind"] == "table-changed"]


@pytest.fixture
def client(stand: Any) -> Iterator[Thrift2Connection]:
    host, port = stand.thrift2
    with Thrift2Connection(host, port, timeout=120.0) as connection:
        yield connection


def test_a_watched_table_may_be_created_altered_truncated_dropped_and_come_back(
    stand: Any, client: Thrift2Connection
) -> None:
    watched = Watched(stand, stand.start_agent("one"))
    watched.come_to({"whole": 0, "family": 0})
    client.create_table(watched.table, ["f", "g"])
    client.put(watched.table, [(b"%d" % row, {b"f:a": b"1", b"g:a": b"1"}) for row in range(5)])
    client.put(watched.table, [(b"0", {b"f:b": b"1"})])
    watched.come_to({"whole": 5, "family": 6})

    client.put(watched.table, [(b"only", {b"g:a": b"1"})])
    watched.come_to({"whole": 6, "family": 6})
    delete_family(stand.thrift2, watched.table, b"g")
    watched.come_to({"whole": 5, "family": 6})

    client.disable_table(watched.table)
    client.truncate_table(watched.table)
    watched.come_to({"whole": 0, "family": 0})
    client.put(watched.table, [(b"again", {b"f:a": b"1"})])
    watched.come_to({"whole": 1, "family": 1})

    client.delete_table(watched.table)
    watched.come_to({"whole": 0, "family": 0})
    told = " ".join(watched.words())
    for change in ("family-dropped", "disabled", "truncated", "dropped"):
        assert f"{watched.table!r} {change}" in told

    client.create_table(watched.table, ["f"])
    client.put(watched.table, [(b"back", {b"f:a": b"1"})])
    watched.come_to({"whole": 1, "family": 1})
