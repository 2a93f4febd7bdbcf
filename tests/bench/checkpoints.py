"""What a checkpoint costs that says what changed, beside one that is the whole state.

Run: ``python tests/bench/checkpoints.py [--cells N] [--changed N] [--thrift2 HOST:PORT]``. One
engine remembers so many values and what each was at its last run. Printed are the time and the
bytes of checkpoints of both kinds, and the time to make an engine of what was saved. With a Thrift2
server they go to HBase and come from there, in a table that is deleted at the end; without, all
that is measured is the engine's own part.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.agent.state.log_segments import first_segment
from headgate.agent.state.rows import HBaseConnections, HBaseRows, Rows
from headgate.agent.state.saved_state import FlowProgress, SavedState
from headgate.agent.state.sealed import Definition, Owner, RememberedRevisions
from headgate.agent.state.store import StateStore
from headgate.client import RequestRefused
from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    Checkpoint,
    DataflowSpec,
    Engine,
    Instruction,
    Launch,
    Metric,
    RecordArrived,
    RunFinished,
    RunStarted,
    SavedEngine,
    ScanContainer,
    Tick,
    ValueBound,
    WatchedContainer,
    WaveEnded,
)
from headgate.engine.protocol.stimuli import ContainerScanned
from headgate.events import (
    VERSION,
    Container,
    ContainerId,
    Cut,
    Item,
    Outcome,
    RequestPart,
    UpdateBatch,
    updates_topic,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "agent"))
from simulation import SEALS, MemoryRows

LOGGED, WHOLE = -1, 1 << 60
"""Cells up to which a checkpoint is the whole state."""
BATCH = 1000
NEVER = 1e15
NAME = "bench"


class Writer:
    """Writes rows and tells an engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._records = 0
        self._values = random.Random(1)

    def write(self, rows: Iterable[int]) -> None:
        """Write a number to each row."""
        keys = [b"row-%012d" % row for row in rows]
        for first in range(0, len(keys), BATCH):
            some = tuple(keys[first : first + BATCH])
            batch = UpdateBatch(
                VERSION,
                "observer",
                1,
                self._records,
                self._records,
                "t",
                (RequestPart(self._records + 1, "mutateRows", Outcome.APPLIED, 1.0, len(some)),),
                bytes(len(some)),
                some,
                (b"f:x",) * len(some),
                (-1,) * len(some),
                tuple(b"%.6f" % self._values.uniform(0, 1000) for _ in some),
            )
            record = RecordArrived(1.0, updates_topic("t"), 0, self._records, batch, 1)
            self._records += 1
            self.engine.handle(record)

    def run(self) -> None:
        """End the wave, after which the step runs, and commits."""
        told = self.engine.handle(WaveEnded(2.0, ("feed",)))
        (launch,) = (i for i in told if isinstance(i, Launch))
        self.engine.handle(RunStarted(2.0, "step", launch.run, launch.attempt))
        self.engine.handle(RunFinished(2.0, "step", launch.run, launch.attempt))


class Saving:
    """A store, and one owner of the dataflow after another."""

    def __init__(self, rows: Rows) -> None:
        self.store = StateStore(rows, SEALS, RememberedRevisions(), lambda: 100.0 * self._owners)
        self.store.define(Definition(NAME, "", ".", 0, 1.0))
        self.epoch = 0
        self._owners = 0

    def take_over(self) -> SavedEngine | None:
        """Return what is saved, for the next owner."""
        self._owners += 1
        owner = Owner(f"agent-{self._owners}", str(self._owners), "")
        taken = self.store.acquire(NAME, owner, 100.0 * self._owners, 10.0)
        self.epoch = taken.epoch
        if taken.state is None:
            return None
        kept = taken.state.log.kept
        return SavedEngine(
            taken.state.snapshot, kept, self.store.segments(taken.definition, taken.epoch, kept)
        )

    def save(self, checkpoint: Checkpoint) -> int:
        """Save and return how many bytes were written."""
        state = SavedState(checkpoint.head, Cut(), FlowProgress(), checkpoint.log)
        self.store.save(NAME, self.epoch, state, (), 1.0)
        return len(checkpoint.head) + sum(len(segment.data) for segment in checkpoint.log.written)


def dataflow() -> DataflowSpec:
    """Return a step that compares all values of a table with those of its last run."""
    container = WatchedContainer(Container(ContainerId("c"), (Item("t", b"f", b"x"),)))
    bound = Bound("k", ContainerId("c"), value=ValueBound(Metric.RELATIVE, NEVER))
    return DataflowSpec(
        NAME,
        (container,),
        (
            ActionSpec("feed", ActionRole.INPUT, writes=(ContainerId("c"),)),
            ActionSpec("step", after=("feed",), bounds=(bound,)),
        ),
    )


def begun(cells: int, number: int) -> Writer:
    """Return an engine that remembers so many cells and has run once."""
    engine = Engine(dataflow(), log_number=number)
    answer(engine, engine.handle(Tick(0.0)))
    writer = Writer(engine)
    writer.write(range(cells))
    writer.run()
    return writer


def answer(engine: Engine, instructions: Iterable[Instruction]) -> None:
    """Answer scans of empty tables."""
    for instruction in instructions:
        if isinstance(instruction, ScanContainer):
            place = (instruction.container, instruction.table)
            engine.handle(ContainerScanned(0.0, *place, [], []))


def timed(what: Callable[[], int]) -> tuple[float, int]:
    """Return the seconds something takes, and what it returns."""
    start = time.perf_counter()
    found = what()
    return time.perf_counter() - start, found


def measure(saving: Saving, cells: int, changed: int, times: int) -> None:
    """Print everything."""
    saving.take_over()
    writer = begun(cells, first_segment(saving.epoch))
    engine = writer.engine

    def logged() -> int:
        return saving.save(engine.checkpoint(LOGGED))

    seconds, written = timed(logged)
    show("the first, all of the log", seconds, written)
    chance = random.Random(2)
    few, most = [], []
    for _ in range(times):
        writer.write(chance.sample(range(cells), changed))
        few.append(timed(logged))
    for _ in range(3):
        writer.write(chance.sample(range(cells), cells // 20))
        most.append(timed(logged))
    small = statistics.median_low(few)
    show(f"{changed:,} cells changed, median of {times}", *small)
    show("the longest of them", *max(few))
    show("nothing changed", *timed(logged))
    show("5% changed", *statistics.median_low(most))
    seconds = restore(saving, engine)
    print(f"{'another agent has it again after':40}{seconds:>9.2f} s")
    try:
        whole = timed(lambda: saving.save(engine.checkpoint(WHOLE)))
    except RequestRefused as error:
        start = time.perf_counter()
        snapshot = engine.snapshot()
        seconds = time.perf_counter() - start
        show("the whole, in one row: refused", seconds, len(snapshot))
        print(f"  {error}")
    else:
        show("the whole, in one row", *whole)
        print(f"{'ratio of the whole to few changes':40}{whole[0] / small[0]:>9.0f}")


def restore(saving: Saving, engine: Engine) -> float:
    """Make an engine of what is saved, check it, and return the seconds it took."""
    start = time.perf_counter()
    saved = saving.take_over()
    again = Engine(dataflow(), saved, log_number=first_segment(saving.epoch))
    seconds = time.perf_counter() - start
    if again.snapshot() != engine.snapshot():
        raise SystemExit("the engine that was made of the log is another one")
    return seconds


def show(words: str, seconds: float, written: int) -> None:
    """Print one line."""
    print(f"{words:40}{1000 * seconds:>9.1f} ms{written / 1024:>12,.0f} KiB", flush=True)


@contextmanager
def rows_of(address: str) -> Iterator[Rows]:
    """Return the rows of a table that is there as long as they are."""
    if not address:
        yield MemoryRows()
        return
    host, _, port = address.rpartition(":")
    connections = HBaseConnections(host, int(port), threading.Event())
    rows = HBaseRows(connections, f"bench-{uuid.uuid4().hex[:8]}", lambda _: b"")
    rows.create(10.0)
    try:
        yield rows
    finally:
        connections.call(lambda c: c.delete_table(rows.table))
        connections.close()


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=2_000_000, help="cells to remember")
    parser.add_argument("--changed", type=int, default=1_000, help="cells that change in between")
    parser.add_argument("--times", type=int, default=50, help="checkpoints after few changes")
    parser.add_argument("--thrift2", default="", help="HBase's Thrift2 server; memory without")
    options = parser.parse_args()
    where = f"HBase at {options.thrift2}" if options.thrift2 else "memory"
    print(
        f"Python {platform.python_version()}, {platform.machine()}, {options.cells:,} values, "
        f"checkpoints to {where}"
    )
    with rows_of(options.thrift2) as rows:
        measure(Saving(rows), options.cells, options.changed, options.times)


if __name__ == "__main__":
    main()
