"""Two agents, and dataflows of both over one table in observer mode: one of them scans it."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import pytest

from headgate.client import Thrift2Connection

pytestmark = [pytest.mark.stack, pytest.mark.soak]

PAUSE = 0.01  # seconds between two requests of a writer
SECONDS = 8.0  # of writing
GROUP = 60.0  # seconds until both agents have their share of the dataflows
BOUNDS = ("{sequence: 100000000}", "{sequence: 100000000, value: {absolute: 1000000000}}")
KINDS = ("through", "around")
Eventually = Callable[..., Any]


def flow_text(name: str, table: str, bound: str) -> str:
    return f"""
name: {name}
mode: observer
scans: {{every: 500 ms, whole: 5 s}}
containers:
  through: {{table: {table}, column: "f:v", prefix: through-}}
  around: {{table: {table}, column: "f:v", prefix: around-}}
actions:
  feed: {{input: [through, around]}}
  look:
    step: steps:copy
    after: feed
    when: {{through: {bound}, around: {bound}}}
"""


@dataclass
class Writer:
    """Puts rows that nobody has put before, one by one."""

    kind: str
    address: tuple[str, int]
    table: str
    rows: int = 0
    error: Exception | None = None

    def run(self, stop: threading.Event) -> None:
        try:
            with closing(Thrift2Connection(*self.address, timeout=120.0)) as connection:
                while not stop.wait(PAUSE):
                    row = f"{self.kind}-{self.rows:06}".encode()
                    connection.put(self.table, [(row, {b"f:v": b"1"})])
                    self.rows += 1
        except Exception as error:
            self.error = error
            raise


class Shared:
    """A dataflow with each of two agents, over one table."""

    def __init__(self, stand: Any) -> None:
        self.stand = stand
        self.table = stand.stack.table("shared")
        self.agents = {name: stand.start_agent(name) for name in ("one", "two")}
        self.flows: dict[str, str] = {}
        """By the agent that has it."""
        addresses = (stand.thrift2, tuple(stand.stack.thrift2))
        self.writers = [
            Writer(kind, address, self.table)
            for kind, address in zip(KINDS, addresses, strict=True)
        ]

    def spread(self) -> None:
        """Submit dataflows until each agent has one: which one takes it lies in its name."""
        deadline = time.monotonic() + GROUP
        for number in itertools.count():
            name = f"shared-{number}-{self.stand.identity}"
            text = flow_text(name, self.table, BOUNDS[len(self.flows)])
            owner = self.stand.submit(self.agents["one"], text, shadow=True)["owner"]
            if owner not in self.flows:
                self.flows[owner] = name
                if len(self.flows) == len(self.agents):
                    return
            else:
                self.agents["one"].ask("DELETE", f"/v1/flows/{name}")
            assert time.monotonic() < deadline, f"all dataflows are with agent {owner}"

    def scans(self, agent: str) -> int:
        """Return how many scans of the table an agent has ended."""
        text = self.agents[agent].client.get("/metrics").text
        pattern = rf'^headgate_agent_scan_seconds_count{{table="{self.table}"}} (\S+)$'
        found = re.search(pattern, text, re.MULTILINE)
        return int(float(found[1])) if found else 0

    def write(self, meanwhile: Callable[[], None]) -> None:
        stop = threading.Event()
        with ExitStack() as ending:
            for writer in self.writers:
                thread = threading.Thread(target=writer.run, args=(stop,))
                thread.start()
                ending.callback(thread.join)
            ending.callback(stop.set)
            until = time.monotonic() + SECONDS
            time.sleep(SECONDS / 3)
            meanwhile()
            time.sleep(max(0.0, until - time.monotonic()))
        assert [writer.error for writer in self.writers] == [None, None]

    def counted(self, agent: str, flow: str) -> dict[str, int]:
        """Return what a dataflow has counted, as an agent tells it."""
        look = self.agents[agent].explained(flow, "look")
        return {updates["container"]: updates["counted"] for updates in look["updates"]}


def test_when_the_agent_that_scans_is_killed_the_other_goes_on_and_each_write_counts_once(
    make_stand: Callable[..., Any], tmp_path: Any, eventually: Eventually
) -> None:
    shared = Shared(make_stand(tmp_path))
    shared.spread()
    eventually(lambda: any(map(shared.scans, shared.agents)))
    (owner,) = (name for name in shared.agents if shared.scans(name))
    (other,) = shared.agents.keys() - {owner}

    def kill() -> None:
        assert shared.scans(owner)
        assert not shared.scans(other), "both agents scan the table"
        shared.agents[owner].kill()

    shared.write(meanwhile=kill)
    shared.agents[other].await_dataflows()
    written = {writer.kind: writer.rows for writer in shared.writers}
    assert min(written.values()) > 0
    for flow in shared.flows.values():
        eventually(lambda flow=flow: shared.counted(other, flow) == written)
    # Nothing is found again, by scans for writes nor by those of everything.
    scans = shared.scans(other)
    eventually(lambda: shared.scans(other) >= scans + 12)
    assert {flow: shared.counted(other, flow) for flow in shared.flows.values()} == dict.fromkeys(
        shared.flows.values(), written
    )
