"""Observer mode by notify columns: who marks rows is found by scans, who does not by whole ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headgate.client import ScanRange, Thrift2Connection
from headgate.events import NOTIFY_FAMILY

pytestmark = pytest.mark.stack

MARK = NOTIFY_FAMILY + b":all"
SELDOM = "1 h"
OFTEN = "2 s"
Eventually = Callable[..., Any]


class Marked:
    """A dataflow in shadow mode that counts, of one table, what scans by notify cells find."""

    def __init__(self, stand: Any) -> None:
        self.table = stand.stack.table("marked")
        self.name = f"marked-{stand.identity}"
        self.agent = stand.start_agent("marking")
        stand.submit(self.agent, self.text(SELDOM), shadow=True)

    def text(self, whole: str) -> str:
        return f"""
name: {self.name}
mode: observer
scans: {{every: 1 s, whole: {whole}, by: notify}}
containers:
  values: {{table: {self.table}, column: "f:v"}}
actions:
  feed: {{input: values}}
  look:
    step: steps:copy
    after: feed
    when: {{values: {{sequence: 1000000, value: {{absolute: 1000000}}}}}}
"""

    def counted(self) -> tuple[int, int]:
        """Return updates and elements as they are known now."""
        return self.agent.counted(self.name, "look")

    def scans(self) -> int:
        """Return how many scans have ended."""
        text = self.agent.client.get("/metrics").text
        pattern = rf'^headgate_agent_scan_seconds_count{{table="{self.table}"}} (\S+)$'
        found = re.search(pattern, text, re.MULTILINE)
        return int(float(found[1])) if found else 0

    def await_scans(self, eventually: Eventually) -> None:
        """Wait until a scan has ended that began after this."""
        first = self.scans()
        eventually(lambda: self.scans() >= first + 2)


@pytest.fixture(scope="module")
def marked(stand: Any) -> Marked:
    return Marked(stand)


@pytest.fixture
def through(stand: Any) -> Iterator[Thrift2Connection]:
    host, port = stand.thrift2
    with Thrift2Connection(host, port, timeout=120.0) as connection:
        yield connection


@pytest.fixture
def around(stand: Any) -> Iterator[Thrift2Connection]:
    host, port = stand.stack.thrift2
    with Thrift2Connection(host, port, timeout=120.0) as connection:
        yield connection


def rows(
    prefix: str, count: int, value: bytes = b"1", mark: bytes = b""
) -> list[tuple[bytes, dict[bytes, bytes]]]:
    cells = {b"f:v": value, MARK: mark} if mark else {b"f:v": value}
    return [(f"{prefix}{n}".encode(), cells) for n in range(count)]


def test_what_goes_through_is_marked_and_counted_once(
    marked: Marked, through: Thrift2Connection, eventually: Eventually
) -> None:
    through.put(marked.table, rows("a", 5))
    marks = {row for row, _ in through.scan(marked.table, ScanRange(columns=(MARK,)))}
    assert marks == {row for row, _ in rows("a", 5)}
    marked.await_scans(eventually)
    assert marked.counted() == (5, 5)


def test_what_goes_round_with_a_mark_is_found(
    marked: Marked, around: Thrift2Connection, eventually: Eventually
) -> None:
    before = marked.counted()[0]
    around.put(marked.table, rows("b", 4, mark=b"round"))
    eventually(lambda: marked.counted() == (before + 4, 9))
    # An element that went through before, and one that is written again.
    around.put(marked.table, [*rows("a", 1, b"2", mark=b"round"), *rows("b", 1, b"2", mark=b"1")])
    eventually(lambda: marked.counted() == (before + 6, 9))
    marked.await_scans(eventually)
    assert marked.counted() == (before + 6, 9)


def test_what_goes_round_without_a_mark_is_found_by_a_scan_of_everything(
    marked: Marked, around: Thrift2Connection, eventually: Eventually
) -> None:
    before = marked.counted()[0]
    around.put(marked.table, rows("c", 3))
    around.delete(marked.table, [b"b3"])
    marked.await_scans(eventually)
    assert marked.counted() == (before, 9)
    body = {"source": marked.text(OFTEN), "file": "test.yaml"}
    marked.agent.ask("POST", f"/v1/flows/{marked.name}/update", body)
    # Three rows more, and one less.
    eventually(lambda: marked.counted() == (before + 4, 11))


def test_the_family_goes_with_the_dataflow(marked: Marked, around: Thrift2Connection) -> None:
    assert NOTIFY_FAMILY.decode() in around.families(marked.table)
    marked.agent.ask("DELETE", f"/v1/flows/{marked.name}")
    assert around.families(marked.table) == ["f"]
