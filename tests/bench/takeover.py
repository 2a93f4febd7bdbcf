"""How soon another agent goes on after ``kill -9`` of the one that has a dataflow.

Two agents beside an observer, on a stack of their own; the owner of a dataflow of one step is
killed, a row is written, and two moments after the kill are taken: when the other agent has the
dataflow (its lease has run out and its watches are in effect), and when the step's first output
stands in HBase. Repeated with a warm spare session on each agent and without, in turn, so that
both meet the same machine. Printed are both medians, all values, and the goal: the first output
within the lease and 20 seconds with a spare, on a quiet machine.

    python tests/bench/takeover.py [--repetitions N] [--lease SECONDS]

Starts a stack of its own and stops it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import uuid
from contextlib import AbstractContextManager, closing
from pathlib import Path

import happybase
from measuring.agents import Agent, agent_text, running_agents_observer, waited

from headgate.local import Addresses, Lifetime, LocalStack

sys.path.append(str(Path(__file__).resolve().parents[1] / "stack"))
from free_ports import free_port

GOAL = 20.0
"""Seconds after the lease's end until the first output, with a spare."""
STEPS = """
def double(run):
    frame = run.read("input")
    run.write(frame.select("row", (2 * frame.v).alias("v")), "output")
"""


class Moments:
    """Seconds after the kill of an owner.

    Args:
        takeover: until the other agent had the dataflow.
        output: until the first output was there.
    """

    def __init__(self, takeover: float, output: float) -> None:
        self.takeover = takeover
        self.output = output


class Bench:
    """An observer on the stack, and what takeovers are measured with.

    Args:
        addresses: the stack's.
        folder: for files.
        lease: of agents, in seconds.
    """

    def __init__(self, addresses: Addresses, folder: Path, lease: float) -> None:
        self._texts = addresses.as_text()
        self._addresses = addresses
        self._folder = folder
        self._lease = lease
        self._ports = (free_port(), free_port())

    def observer(self) -> AbstractContextManager[None]:
        """Have an observer run meanwhile."""
        return running_agents_observer(self._texts, self._ports, self._folder)

    def takeover(self, spares: int) -> Moments:
        """Kill an owner and return when the other agent goes on."""
        identity = uuid.uuid4().hex[:8]
        folder = self._folder / identity
        folder.mkdir()
        (folder / "doubling.py").write_text(STEPS)
        flow, tables = f"takeover-{identity}", (f"in-{identity}", f"out-{identity}")
        with closing(happybase.Connection(*self._addresses.thrift1)) as connection:
            for table in tables:
                connection.create_table(table, {"f": {}})
        agents = [Agent("owner", self._agent_text("owner", identity, folder, spares), folder)]
        try:
            body = {"source": self._dataflow(flow, *tables), "file": "f", "directory": str(folder)}
            agents[0].client.post("/v1/flows", json=body).raise_for_status()
            self._write(tables[0], b"1", b"1")
            waited(lambda: self._row(tables[1], b"1") == b"2.0", "the first run")
            text = self._agent_text("standby", identity, folder, spares)
            agents.append(Agent("standby", text, folder))
            waited(lambda: agents[1].spares() == spares, "the spares")
            agents[0].kill()
            killed = time.monotonic()
            self._write(tables[0], b"2", b"5")
            waited(lambda: agents[1].has(flow), "the takeover")
            takeover = time.monotonic() - killed
            waited(lambda: self._row(tables[1], b"2") == b"10.0", "the first output")
            return Moments(takeover, time.monotonic() - killed)
        finally:
            for agent in agents:
                agent.stop()

    def _agent_text(self, name: str, identity: str, folder: Path, spares: int) -> str:
        lease = f"lease_seconds = {self._lease}"
        text = agent_text(name, identity, folder, self._texts, self._ports[1], lease)
        return f"{text}spares = {spares}\n"

    def _dataflow(self, flow: str, source: str, target: str) -> str:
        return f"""
name: {flow}
containers: {{input: "{source} f:v", output: "{target} f:v"}}
actions:
  feed: {{input: input}}
  double:
    step: doubling:double
    reads: input
    writes: output
    when: {{input: {{sequence: 1}}}}
    evaluate: write
"""

    def _write(self, table: str, row: bytes, value: bytes) -> None:
        with closing(happybase.Connection("127.0.0.1", self._ports[0])) as connection:
            connection.table(table).put(row, {b"f:v": value})

    def _row(self, table: str, row: bytes) -> bytes | None:
        with closing(happybase.Connection(*self._addresses.thrift1)) as connection:
            found: bytes | None = connection.table(table).row(row).get(b"f:v")
            return found


def report(lease: float, found: dict[int, list[Moments]]) -> None:
    """Print medians and all values."""
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"lease {lease:g} s, {os.cpu_count()} cores, load {load}")
    for spares, moments in found.items():
        takeovers = [one.takeover for one in moments]
        outputs = [one.output for one in moments]
        for name, values in (("takeover", takeovers), ("first output", outputs)):
            each = ", ".join(f"{value:.1f}" for value in values)
            median = statistics.median(values)
            print(f"{spares} spares: {name} median {median:.1f} s after the kill ({each})")
    reached = statistics.median(one.output for one in found[1]) - lease
    print(f"with a spare: lease + {reached:.1f} s; the goal is lease + {GOAL:g} s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--lease", type=float, default=10.0, help="seconds; 10 is the default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        stack = LocalStack(folder / "stack", "bench", lifetime=Lifetime.WITH_CALLER)
        try:
            bench = Bench(stack.up(), folder, options.lease)
            found: dict[int, list[Moments]] = {0: [], 1: []}
            with bench.observer():
                for _ in range(options.repetitions):
                    for spares, moments in found.items():
                        moments.append(bench.takeover(spares))
                        print(f"{spares} spares: {moments[-1].output:.1f} s", flush=True)
            report(options.lease, found)
        finally:
            stack.down()


if __name__ == "__main__":
    main()
