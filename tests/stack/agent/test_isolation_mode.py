"""Isolation: two dataflows over one table, each with its own updates and its own notify column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headgate.client import RequestRefused, ScanRange, Thrift2Connection
from headgate.events import NOTIFY_FAMILY, Origin

pytestmark = pytest.mark.stack

NAMES = ("one", "other")
FAMILY = NOTIFY_FAMILY.decode()


class Isolated:
    """Two dataflows in shadow mode over one table."""

    def __init__(self, stand: Any) -> None:
        self.stand = stand
        self.agent = stand.start_agent("isolating")
        self.table = stand.stack.table("isolated")
        self.flows = {name: f"{name}-{stand.identity}" for name in NAMES}
        for flow in self.flows.values():
            stand.submit(self.agent, self._text(flow), shadow=True)

    def _text(self, name: str) -> str:
        return f"""
name: {name}
mode: isolation
feeders: collector-of-{name}
containers:
  values: {{table: {self.table}, column: "f:v", count: cells}}
actions:
  feed: {{input: values}}
  look:
    step: steps:copy
    after: feed
    when: {{values: {{sequence: 1000000, value: {{absolute: 1000000}}}}}}
"""

    def counted(self, name: str) -> tuple[int, int]:
        """Return updates and elements of a dataflow, as soon as all was consumed."""
        flow = self.flows[name]
        self.agent.wave(flow)
        return self.agent.counted(flow, "look")

    def remove(self, name: str) -> None:
        self.agent.ask("DELETE", f"/v1/flows/{self.flows[name]}")


@pytest.fixture(scope="module")
def isolated(stand: Any) -> Isolated:
    return Isolated(stand)


@pytest.fixture
def client(stand: Any) -> Iterator[Thrift2Connection]:
    host, port = stand.thrift2
    with Thrift2Connection(host, port, timeout=120.0) as connection:
        yield connection


def rows(prefix: str, count: int) -> list[tuple[bytes, dict[bytes, bytes]]]:
    return [(f"{prefix}{n}".encode(), {b"f:v": b"1"}) for n in range(count)]


def test_two_dataflows_each_see_only_their_own_updates(
    isolated: Isolated, client: Thrift2Connection
) -> None:
    one, other = (isolated.flows[name] for name in NAMES)
    client.put(isolated.table, rows("a", 5), origin=Origin(one, "feed", "", 0))
    client.put(isolated.table, rows("b", 7), origin=Origin(other, "feed", "", 0))
    client.put(isolated.table, rows("a", 3), origin=Origin("", "", "", 0, f"collector-of-{other}"))
    client.put(isolated.table, rows("c", 11))
    assert isolated.counted("one") == (5, 5)
    assert isolated.counted("other") == (10, 10)


def test_each_has_a_notify_column_of_its_own(isolated: Isolated, client: Thrift2Connection) -> None:
    one, other = (NOTIFY_FAMILY + b":" + isolated.flows[name].encode() for name in NAMES)
    marks = {
        row: set(columns)
        for row, columns in client.scan(isolated.table, ScanRange(columns=(NOTIFY_FAMILY,)))
    }
    # Three rows are of both: the other's collector wrote them too.
    assert marks == (
        {row: {one} for row, _ in rows("a", 5)}
        | {row: {one, other} for row, _ in rows("a", 3)}
        | {row: {other} for row, _ in rows("b", 7)}
    )


def test_the_family_goes_with_the_last_dataflow(
    isolated: Isolated, client: Thrift2Connection
) -> None:
    assert FAMILY in client.families(isolated.table)
    isolated.remove("one")
    assert FAMILY in client.families(isolated.table)
    isolated.remove("other")
    assert client.families(isolated.table) == ["f"]
    origin = Origin(isolated.flows["other"], "feed", "", 0)
    client.put(isolated.table, rows("d", 1), origin=origin)
    with pytest.raises(RequestRefused):
        client.put(isolated.table, [(b"d", {NOTIFY_FAMILY + b":x": b"1"})])
