"""What memory a first scan takes that comes in stretches, beside one that comes whole.

Run: ``python tests/bench/first_scan.py [--rows N] [--cells N]``. A server that makes up rows of one
cell is scanned by the agent's own reader, and an engine takes what comes. Each scan has a process
of its own; printed are its greatest resident size, that after it (what is known of the cells), the
time, and the longest call of the engine. No HBase and no Kafka are needed.
"""

from __future__ import annotations

import argparse
import platform
import queue
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
from msgspec import Struct

from headgate.agent.ports import ScannedCells
from headgate.agent.scans.container_rows import RowsLimit
from headgate.agent.scans.reader import TableScanner
from headgate.agent.supervision import Supervision
from headgate.client import ScanRange
from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    ContainerScanned,
    DataflowSpec,
    Engine,
    Instruction,
    Metric,
    ScanContainer,
    Tick,
    ValueBound,
    WatchedContainer,
)
from headgate.events import Container, ContainerId, Item

ROWS = 1_000_000
STRETCH = 100_000  # the agent's default
_MIB = 1 << 20
IN = ContainerId("in")
CONTAINER = Container(IN, (Item("t", b"f", b"v"),))


class Measured(Struct):
    """Sizes in MiB, times in seconds."""

    before: float
    peak: float
    after: float
    seconds: float
    longest: float
    stretches: int


class Server:
    """Makes up a table's rows as they are asked for."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def call(self, what: Callable[[Any], ScannedCells], _patience: float) -> ScannedCells:
        return what(self)

    def pages(self, _table: str, extent: ScanRange, page: int) -> Iterator[list[Any]]:
        start = int(extent.start[:10]) + 1 if extent.start else 0
        yield [_row(number) for number in range(start, min(start + page, self._rows))]


def _row(number: int) -> SimpleNamespace:
    value = b"%d.5" % (number % 977)
    cell = SimpleNamespace(family=b"f", qualifier=b"v", value=value, timestamp=1)
    return SimpleNamespace(row=b"%010d" % number, columnValues=[cell])


def measure(rows: int, cells: int) -> Measured:
    bound = Bound("k", IN, value=ValueBound(Metric.RELATIVE, 0.5))
    feed = ActionSpec("feed", ActionRole.INPUT, writes=(IN,))
    step = ActionSpec("step", after=("feed",), reads=(IN,), bounds=(bound,))
    engine = Engine(DataflowSpec("flow", (WatchedContainer(CONTAINER),), (feed, step)))
    server: Any = Server(rows)
    limit = RowsLimit(cells, 1 << 40)
    scanner = TableScanner(server, Supervision(lambda _: None), limit, threads=1)
    answers: queue.Queue[ScannedCells] = queue.Queue()
    before, begun, longest, stretches = _peak(), time.perf_counter(), 0.0, 0
    told: list[Instruction] = engine.handle(Tick(1.0))
    while asked := [one for one in told if isinstance(one, ScanContainer)]:
        (scan,) = asked
        where: dict[str, Any] = {"values": scan.values, "mark": None, "recent": None}
        scanner.scan(CONTAINER, "t", start=scan.start, done=answers.put, **where)
        found = answers.get()
        called = time.perf_counter()
        read = (found.rows, found.columns, found.values)
        told = engine.handle(
            ContainerScanned(2.0, IN, "t", *read, start=scan.start, stop=found.following)
        )
        longest = max(longest, time.perf_counter() - called)
        stretches += 1
    seconds = time.perf_counter() - begun
    del found, read
    after = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / _MIB
    scanner.close()
    return Measured(before, _peak(), after, seconds, longest, stretches)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MIB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--cells", type=int, default=STRETCH)
    parser.add_argument("--only", action="store_true", help="measure one, and print JSON")
    asked = parser.parse_args()
    if asked.only:
        sys.stdout.write(msgspec.json.encode(measure(asked.rows, asked.cells)).decode())
        return
    print(f"{platform.python_version()}, {asked.rows:,} rows of one cell")
    found = []
    for cells in (asked.rows * 2, asked.cells):
        command = [sys.executable, __file__, "--only", "--rows", str(asked.rows)]
        printed = subprocess.run(
            [*command, "--cells", str(cells)], check=True, stdout=subprocess.PIPE
        ).stdout
        found.append(msgspec.json.decode(printed, type=Measured))
        one = found[-1]
        print(
            f"{one.stretches:4} stretches: {one.before:.0f} MiB, at most {one.peak:.0f}, "
            f"{one.after:.0f} after it; {one.seconds:.1f} s, a call {one.longest:.2f} s at most"
        )
    whole, parts = (one.peak - one.before for one in found)
    print(f"in stretches {parts / whole:.2f} of the memory of one")


if __name__ == "__main__":
    main()
