"""Updates per second that one engine takes on one core, from Kafka bytes to decisions.

Run: ``python tests/bench/engine_updates.py [--updates N] [--cells N]``. Prints, one after another:

- speed: 1,000 containers, each with a step that is evaluated at every write; each case is measured
  decoding alone, taking messages one by one, and taking those together that an agent's feed polls
  at once, and the last two compared;
- 10,000 bounds over 1,000 containers: the same, and what a tick costs at which nothing is due;
- memory: what a process grows by for each cell that it remembers.
"""

from __future__ import annotations

import argparse
import gc
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import psutil
from msgspec import Struct

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    ContainerScanned,
    Count,
    DataflowSpec,
    Engine,
    Evaluation,
    Instruction,
    Launch,
    Metric,
    RecordArrived,
    RunFinished,
    RunStarted,
    ScanContainer,
    SequenceBound,
    SequenceUnit,
    Tick,
    ValueBound,
    WatchedContainer,
)
from headgate.events import (
    VERSION,
    Container,
    ContainerId,
    Item,
    Outcome,
    RequestPart,
    UpdateBatch,
    decode_update,
    encode_update,
    updates_topic,
)

CONTAINERS = 1_000
POLLED = 1000  # messages that an agent's feed hands on together when it has as many
ROWS = 50  # rows of a container: 50,000 cells are more than a second-level cache holds
NEVER = 1e15  # a limit that no bench reaches, so that all work is counting and evaluating
PASSES = 3  # of each measurement; the fastest counts, since others disturb

BOUNDS: dict[str, dict[str, Any]] = {
    "updates": {"sequence": SequenceBound(NEVER)},
    "percent": {"sequence": SequenceBound(NEVER, SequenceUnit.PERCENT)},
    "relative": {"value": ValueBound(Metric.RELATIVE, NEVER)},
}


class Shape(Struct, frozen=True):
    """How updates lie in messages and in containers."""

    words: str
    per_message: int
    item: Callable[[int], Item]
    """The part of a table that container ``i`` is."""
    near: bool
    """Whether all updates of a message lie in one container."""


def own_table(i: int) -> Item:
    """Return a column of a table of its own."""
    return Item(f"t{i}", b"f", b"x")


def own_rows(i: int) -> Item:
    """Return the rows of one prefix, in one table."""
    return Item("t", b"f", b"x", b"%04d/" % i, b"%04d0" % i)


SHAPES = (
    Shape("1,000 tables", 100, own_table, near=True),
    Shape("1,000 row prefixes, a message in one", 100, own_rows, near=True),
    Shape("1,000 row prefixes, at random", 100, own_rows, near=False),
    Shape("1,000 tables", 1, own_table, near=True),
)


def dataflow(shape: Shape, bound: dict[str, Any], steps: int) -> DataflowSpec:
    """Return a dataflow with so many steps per container."""
    watched, actions = [], [ActionSpec("in", ActionRole.INPUT, writes=(ContainerId("c0"),))]
    for i in range(CONTAINERS):
        name = ContainerId(f"c{i}")
        watched.append(WatchedContainer(Container(name, (shape.item(i),))))
        own = Bound("k", name, **bound)
        for step in range(steps):
            at_write = Evaluation(write=True)
            action = ActionSpec(f"s{i}.{step}", after=("in",), bounds=(own,), evaluation=at_write)
            actions.append(action)
    return DataflowSpec("bench", tuple(watched), tuple(actions))


def messages(shape: Shape, updates: int) -> list[tuple[str, bytes]]:
    """Return topics and encoded messages of puts at random, each of them a request of its own."""
    chance = random.Random(1)
    made = []
    intent = 0
    sequences: dict[str, int] = {}
    for number in range(updates // shape.per_message):
        first = number % CONTAINERS
        table = shape.item(first).table
        rows = []
        for _ in range(shape.per_message):
            container = first if shape.near else chance.randrange(CONTAINERS)
            rows.append(b"%04d/%04d" % (container, chance.randrange(ROWS)))
        requests = []
        for _ in rows:
            intent += 1
            requests.append(RequestPart(intent, "mutateRow", Outcome.APPLIED, 1.0, 1))
        sequence = sequences[table] = sequences.get(table, -1) + 1
        batch = UpdateBatch(
            VERSION,
            "observer",
            1,
            sequence,
            requests[0].intent,
            table,
            tuple(requests),
            bytes(len(rows)),
            tuple(rows),
            (b"f:x",) * len(rows),
            (-1,) * len(rows),
            tuple(b"%.3f" % (100 * chance.random()) for _ in rows),
        )
        made.append((updates_topic(table), encode_update(batch)))
    return made


def begun(spec: DataflowSpec) -> Engine:
    """Return an engine that has been told that its tables are empty."""
    engine = Engine(spec)
    answer(engine, engine.handle(Tick(0.0)))
    return engine


def answer(engine: Engine, instructions: Iterable[Instruction]) -> None:
    """Answer scans of empty tables, and let runs commit at once."""
    for instruction in instructions:
        if isinstance(instruction, ScanContainer):
            place = (instruction.container, instruction.table)
            engine.handle(ContainerScanned(0.0, *place, [], []))
        elif isinstance(instruction, Launch):
            attempt = (instruction.action, instruction.run, instruction.attempt)
            engine.handle(RunStarted(1.0, *attempt))
            engine.handle(RunFinished(1.0, *attempt))


def decide(spec: DataflowSpec, made: list[tuple[str, bytes]], polled: int) -> float:
    """Return the processor time of decoding messages and having an engine decide on them.

    It is told as many together as are ``polled`` at once. The first half goes before: after it
    every container is known, and its step has run where its bound was infinitely far exceeded.
    """
    engine = begun(spec)
    offsets: dict[str, int] = {}
    half = len(made) // 2
    take(engine, made[:half], offsets, polled)
    gc.collect()
    start = time.process_time()
    take(engine, made[half:], offsets, polled)
    return time.process_time() - start


def take(
    engine: Engine, made: list[tuple[str, bytes]], offsets: dict[str, int], polled: int
) -> None:
    """Decode messages and tell the engine, as an agent's feed and its runtime do."""
    for first in range(0, len(made), polled):
        records = []
        for topic, data in made[first : first + polled]:
            offset = offsets.get(topic, 0)
            offsets[topic] = offset + 1
            records.append(RecordArrived(1.0, topic, 0, offset, decode_update(data), 1))
        while records:
            taken, instructions = engine.arrive(records)
            answer(engine, instructions)
            del records[:taken]


def decode(made: list[tuple[str, bytes]]) -> float:
    """Return the processor time of decoding messages and no more."""
    start = time.process_time()
    for _, data in made:
        decode_update(data)
    return time.process_time() - start


def compare(shape: Shape, name: str, steps: int, updates: int) -> None:
    """Print one line: decoding, messages one by one, messages together, and their ratio."""
    if shape.per_message == 1:
        updates //= 5  # slower by as much
    made = messages(shape, 2 * updates)
    spec = dataflow(shape, BOUNDS[name], steps)
    decoding = 2 * updates / min(decode(made) for _ in range(PASSES))
    single, together = (
        updates / min(decide(spec, made, polled) for _ in range(PASSES)) for polled in (1, POLLED)
    )
    print(
        f"{shape.words:38}{shape.per_message:>9}{name:>10}{CONTAINERS * steps:>8,}"
        f"{decoding:>12,.0f}{single:>12,.0f}{together:>12,.0f}{together / single:>8.2f}",
        flush=True,
    )


def tick(steps: int) -> None:
    """Print what a tick costs when nothing is due."""
    bound = {"time": NEVER, "sequence": SequenceBound(NEVER)}
    engine = begun(dataflow(SHAPES[0], bound, steps))
    for topic, data in messages(SHAPES[0], 100_000):
        engine.handle(RecordArrived(1.0, topic, 0, 0, decode_update(data), 1))
    took = []
    for i in range(1000):
        start = time.perf_counter()
        engine.handle(Tick(2.0 + i))
        took.append(1000 * (time.perf_counter() - start))
    longest = statistics.quantiles(took, n=100)[98]
    print(
        f"tick with {CONTAINERS * steps:,} idle bounds: median {statistics.median(took):.4f} ms, "
    )
    print(f"  99th percentile {longest:.4f} ms")


def memory(cells: int, columns: int) -> None:
    """Print what the process grows by for each remembered cell, with a value bound on them."""
    item = Item("t", b"f", b"x") if columns == 1 else Item("t")
    container = WatchedContainer(Container(ContainerId("c"), (item,)), count=Count.CELLS)
    bound = Bound("k", ContainerId("c"), value=ValueBound(Metric.RELATIVE, NEVER))
    actions = (
        ActionSpec("in", ActionRole.INPUT, writes=(ContainerId("c"),)),
        ActionSpec("s", after=("in",), bounds=(bound,)),
    )
    engine = begun(DataflowSpec("bench", (container,), actions))
    names = [b"f:x"] if columns == 1 else [b"f:%d" % i for i in range(columns)]
    process = psutil.Process()
    gc.collect()
    before = process.memory_info().rss
    for number, first in enumerate(range(0, cells // columns, 1000)):
        rows = [b"row-%012d" % row for row in range(first, first + 1000)]
        every = tuple(row for row in rows for _ in names)
        part = RequestPart(number + 1, "mutateRows", Outcome.APPLIED, 1.0, len(every))
        batch = UpdateBatch(
            VERSION,
            "observer",
            1,
            number,
            number,
            "t",
            (part,),
            bytes(len(every)),
            every,
            tuple(names) * len(rows),
            (-1,) * len(every),
            tuple(b"%d.5" % (i % 1000) for i in range(len(every))),
        )
        record = decode_update(encode_update(batch))
        engine.handle(RecordArrived(1.0, updates_topic("t"), 0, number, record, 1))
    gc.collect()
    grown = process.memory_info().rss - before
    (known,) = engine.cells.values()
    size = known.columns.size
    print(f"{size:,} cells, {columns} a row: {grown / size:.0f} bytes each")


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=200_000, help="updates per case")
    parser.add_argument("--cells", type=int, default=1_000_000, help="cells to remember")
    options = parser.parse_args()
    updates = options.updates
    print(
        f"Python {platform.python_version()}, {platform.machine()}, {updates} updates per case, "
        f"{POLLED} messages polled at once"
    )
    memory(options.cells, 1)
    memory(options.cells, 5)
    tick(10)
    header = ("/message", "bound", "bounds", "decode/s", "singly/s", "polled/s", "ratio")
    print("\n{:38}{:>9}{:>10}{:>8}{:>12}{:>12}{:>12}{:>8}".format("containers", *header))
    for name in BOUNDS:
        for shape in SHAPES:
            compare(shape, name, 1, updates)
    for name in BOUNDS:
        compare(SHAPES[0], name, 10, updates)


if __name__ == "__main__":
    main()
