"""A first scan that takes many stretches, with writers beside it and an agent killed in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from headgate.client import Thrift2Connection

pytestmark = pytest.mark.stack

ROWS = 6000
STRETCH = "[scans]\ncells = 150\n"
"""So many stretches that an agent can be killed in the midst of them."""
STANDING = 20
"""Every so many rows one is deleted, and one is written again, while the scan is under way."""
WRITTEN = 3 * ROWS // STANDING
"""Cells that are written or deleted beside the scan: of them alone it may be unsure."""


def flow_text(name: str, table: str) -> str:
    return f"""
name: {name}
containers:
  input: {table} f:v
actions:
  feed: {{input: input}}
  look:
    step: steps:copy
    after: feed
    when: {{input: {{sequence: 1000000%, value: {{absolute: 1000000000}}}}}}
"""


def beside(address: tuple[str, int], table: str, stop: threading.Event) -> None:
    """Write and delete rows through the observer, all over the table, and new ones."""
    with closing(Thrift2Connection(*address, timeout=120.0)) as connection:
        for number in range(0, ROWS, STANDING):
            connection.put(table, [(b"r%06d" % number, {b"f:v": b"7"})])
            connection.put(table, [(b"r%06d-new" % number, {b"f:v": b"8"})])
            connection.delete(table, [b"r%06d" % (number + 1)])
            if stop.is_set():
                return


def test_what_it_knows_is_the_table(
    stand: Any, eventually: Callable[[Callable[[], Any]], Any]
) -> None:
    table = stand.stack.table("input")
    # What was written just before the scan may be dated ahead of it, and is read only when needed.
    an_hour_ago = int(1000 * (time.time() - 3600))
    with closing(Thrift2Connection(*stand.stack.thrift2)) as around:
        rows = ((b"r%06d" % i, {b"f:v": b"1"}) for i in range(ROWS))
        around.put(table, rows, timestamp=an_hour_ago)
    name = f"long-{stand.identity}"
    agent = stand.start_agent("first", STRETCH)
    stand.submit(agent, flow_text(name, table), shadow=True)
    stop = threading.Event()
    writer = threading.Thread(target=beside, args=(stand.thrift2, table, stop))
    writer.start()
    try:

        def under_way() -> bool:
            (container,) = agent.explain(name)["containers"]
            return ROWS / 10 < container["cells"] < ROWS and not container["scanned"]

        eventually(under_way)
        agent.kill()
        agent = stand.start_agent("second", STRETCH)
        agent.await_dataflows()
        (container,) = agent.explain(name)["containers"]
        begun = container["cells"]
        writer.join()

        def whole() -> bool:
            """Say whether it knows the table, but for cells of which it knows that it does not."""
            (container,) = agent.explain(name)["containers"]
            apart = abs(container["cells"] - len(stand.rows(table)))
            return container["scanned"] and apart <= container["unsettled"] <= WRITTEN

        eventually(whole)
        print(f"{begun} cells were known when the second agent took over")
    finally:
        stop.set()
        writer.join()
