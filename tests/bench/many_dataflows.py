"""What dataflows cost an agent that decides and launches nothing, by how many there are.

Dataflows of ten bounds, in shadow mode, some of them over the same tables. For each count a new
agent has so many; one without dataflows comes first, and the others are compared with it. Printed
are threads, memory and processor time of the agent's process at rest, and after ``kill -9`` and a
restart the seconds beyond the lease until all run again.

    python tests/bench/many_dataflows.py [--counts 50 200 1000] [--tables 20] [--seconds 30]

Starts a stack of its own and stops it; ``HEADGATE_TEST_STACK`` names the addresses of a running
one.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import happybase
import psutil
from measuring.agents import Agent, agent_text, running_agents_observer, waited
from measuring.targets import address_of, running_stack
from msgspec import Struct

sys.path.append(str(Path(__file__).resolve().parents[1] / "stack"))
from free_ports import free_port

_BOUNDS = 10
_LEASE = 10.0  # seconds, as is the default
_REST = 15.0  # seconds after which nothing of the start is under way
_TOGETHER = 8  # submissions at a time
_MEBI = 2**20
_LINE = "{:>9} {:>8} {:>10} {:>14} {:>14} {:>12} {:>10}"


class Cost(Struct, frozen=True):
    """An agent at rest with some dataflows."""

    dataflows: int
    threads: int
    memory: int
    """Resident bytes."""
    processor: float
    """Milliseconds of a processor in a second."""
    submitted: float
    """Seconds in which all were submitted."""
    resumed: float
    """Seconds beyond the lease until all ran again after a kill; 0 without dataflows."""


def dataflow(name: str, table: str) -> str:
    """Return a dataflow of ten bounds over one table."""
    containers = "\n".join(f"  c{n}: {table} f:v{n}" for n in range(_BOUNDS))
    actions = "\n".join(
        f"  a{n}: {{command: 'true', reads: c{n}, evaluate: write,"
        f" when: {{c{n}: {{sequence: 100, value: {{relative: 20%}}}}}}}}"
        for n in range(_BOUNDS)
    )
    return f"name: {name}\ncontainers:\n{containers}\nactions:\n{actions}\n"


class Measurement:
    """Agents on a stack, with an observer.

    Args:
        stack: its addresses.
        tables: what dataflows read.
        seconds: over which processor time is taken.
        folder: for files.
        thrift2: the observer's port.
    """

    def __init__(
        self,
        stack: dict[str, str],
        tables: Sequence[str],
        seconds: float,
        folder: Path,
        thrift2: int,
    ) -> None:
        self._stack = stack
        self._tables = tables
        self._seconds = seconds
        self._folder = folder
        self._thrift2 = thrift2

    def cost(self, count: int) -> Cost:
        """Have an agent with so many dataflows, and return what it costs."""
        identity = uuid.uuid4().hex[:8]
        folder = self._folder / identity
        folder.mkdir()
        text = agent_text(
            "agent", identity, folder, self._stack, self._thrift2, f"lease_seconds = {_LEASE}"
        )
        names = [f"flow-{identity}-{number}" for number in range(count)]
        agent = Agent("agent", text, folder)
        try:
            began = time.monotonic()
            with ThreadPoolExecutor(_TOGETHER) as pool:
                list(pool.map(lambda name: self._submit(agent, name), names))
            submitted = time.monotonic() - began
            time.sleep(_REST)
            process = psutil.Process(agent.pid)
            before = sum(process.cpu_times()[:2])
            time.sleep(self._seconds)
            spent = sum(process.cpu_times()[:2]) - before
            threads, memory = process.num_threads(), process.memory_info().rss
            resumed = 0.0
            if names:
                agent.kill()
                began = time.monotonic()
                agent = Agent("agent", text, folder)
                waited(lambda: self._running(agent) == count, "all dataflows again")
                resumed = time.monotonic() - began - _LEASE
            return Cost(count, threads, memory, 1000 * spent / self._seconds, submitted, resumed)
        finally:
            agent.stop()

    def _submit(self, agent: Agent, name: str) -> None:
        table = self._tables[hash(name) % len(self._tables)]
        body = {
            "source": dataflow(name, table),
            "file": "f",
            "directory": str(self._folder),
            "shadow": True,
        }
        agent.client.post("/v1/flows", json=body).raise_for_status()

    def _running(self, agent: Agent) -> int:
        rows = agent.client.get("/v1/flows").json()
        return sum(row["here"] and row["state"] == "running" for row in rows)


def report(costs: Sequence[Cost]) -> None:
    """Print each, and what one dataflow costs beyond the agent without any."""
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{os.cpu_count()} cores, load {load}; dataflows of {_BOUNDS} bounds in shadow mode")
    heads = (
        "dataflows",
        "threads",
        "MB in all",
        "MB/dataflow",
        "ms/s/dataflow",
        "submitted",
        "resumed",
    )
    print(_LINE.format(*heads))
    base = costs[0]
    for cost in costs:
        each = max(1, cost.dataflows)
        print(
            _LINE.format(
                cost.dataflows,
                cost.threads,
                f"{cost.memory / _MEBI:.0f}",
                f"{(cost.memory - base.memory) / _MEBI / each:.2f}",
                f"{(cost.processor - base.processor) / each:.3f}",
                f"{cost.submitted:.1f} s",
                f"{cost.resumed:+.1f} s",
            )
        )
    print(f"the agent without dataflows: {base.processor:.1f} ms/s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--counts", type=int, nargs="+", default=[50, 200, 1000])
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, running_stack() as stack:
        folder, ports = Path(directory), (free_port(), free_port())
        tables = [f"many-{uuid.uuid4().hex[:8]}-{number}" for number in range(options.tables)]
        with closing(happybase.Connection(*address_of(stack["thrift1"]))) as connection:
            for table in tables:
                connection.create_table(table, {"f": {}})
        with running_agents_observer(stack, ports, folder):
            measurement = Measurement(stack, tables, options.seconds, folder, ports[1])
            costs = []
            for count in (0, *options.counts):
                costs.append(measurement.cost(count))
                print(f"{count} dataflows: {costs[-1].threads} threads", flush=True)
        report(costs)


if __name__ == "__main__":
    main()
