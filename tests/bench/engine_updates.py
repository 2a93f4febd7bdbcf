"""Updates per second that one engine takes on one core, from Kafka bytes to decisions.

Run: ``python tests/bench/engine_updates.py [--updates N]``. Each case is measured twice in the same
run: decoding alone, and decoding with the engine; the ratio is what deciding costs on top.
"""

from __future__ import annotations

import argparse
import platform
import random
import sys
import time
from collections.abc import Callable, Iterable

from headgate.engine import (
    ActionSpec,
    Bound,
    ContainerScanned,
    DataflowSpec,
    Engine,
    Instruction,
    Metric,
    RecordArrived,
    Role,
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

ROWS = 50_000  # rows of a container: more than a processor's second-level cache holds
NEVER = 1e15  # a limit that no bench reaches, so that all work is counting and evaluating

BOUNDS = {
    "count of updates": Bound("k", ContainerId("c0"), sequence=SequenceBound(NEVER)),
    "percentage": Bound(
        "k", ContainerId("c0"), sequence=SequenceBound(NEVER, SequenceUnit.PERCENT)
    ),
    "relative divergence": Bound("k", ContainerId("c0"), value=ValueBound(Metric.RELATIVE, NEVER)),
}


def dataflow(bound: Bound, containers: int) -> DataflowSpec:
    """Return a dataflow with one step per container; all containers lie in one table each."""
    watched, actions = [], [ActionSpec("in", Role.INPUT, writes=(ContainerId("c0"),))]
    for i in range(containers):
        name = ContainerId(f"c{i}")
        watched.append(WatchedContainer(Container(name, (Item(f"t{i}", b"f", b"x"),))))
        own = Bound(bound.name, name, bound.time, bound.sequence, bound.value)
        actions.append(ActionSpec(f"s{i}", after=("in",), bounds=(own,)))
    return DataflowSpec("bench", tuple(watched), tuple(actions))


def messages(
    updates: int, per_message: int, per_request: int, containers: int
) -> list[tuple[str, bytes]]:
    """Return topics and encoded messages of random puts."""
    chance = random.Random(1)
    made = []
    intent = 0
    for sequence in range(updates // per_message):
        table = f"t{sequence % containers}"
        rows = tuple(b"row-%08d" % chance.randrange(ROWS) for _ in range(per_message))
        requests = []
        for _ in range(per_message // per_request):
            intent += 1
            requests.append(RequestPart(intent, "mutateRow", Outcome.APPLIED, 1.0, per_request))
        batch = UpdateBatch(
            VERSION,
            "observer",
            1,
            sequence // containers,
            requests[0].intent,
            table,
            tuple(requests),
            bytes(per_message),
            rows,
            (b"f:x",) * per_message,
            (-1,) * per_message,
            tuple(b"%.3f" % (100 * chance.random()) for _ in rows),
        )
        made.append((updates_topic(table), encode_update(batch)))
    return made


def answer(engine: Engine, instructions: Iterable[Instruction]) -> None:
    """Answer scans of empty tables."""
    for instruction in instructions:
        if isinstance(instruction, ScanContainer):
            place = (instruction.container, instruction.table)
            engine.handle(ContainerScanned(0.0, *place, [], []))


def decode_only(made: list[tuple[str, bytes]]) -> Callable[[], None]:
    """Return the work of decoding and no more."""

    def work() -> None:
        for _, data in made:
            decode_update(data)

    return work


def decode_and_decide(spec: DataflowSpec, made: list[tuple[str, bytes]]) -> Callable[[], None]:
    """Return the work of decoding and handing to an engine."""
    engine = Engine(spec)
    answer(engine, engine.handle(Tick(0.0)))

    def work() -> None:
        offsets: dict[str, int] = {}
        for topic, data in made:
            offset = offsets.get(topic, 0)
            offsets[topic] = offset + 1
            engine.handle(RecordArrived(1.0, topic, 0, offset, decode_update(data), 1))

    return work


def seconds(work: Callable[[], None]) -> float:
    """Return the processor time that the work took."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Print a table of updates per second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=400_000, help="updates per case")
    updates = parser.parse_args().updates
    print(f"Python {platform.python_version()}, {platform.machine()}, {updates} updates per case")
    header = ("bound", "updates/message", "updates/request", "containers", "decode/s", "all/s")
    print("{:22}{:>16}{:>16}{:>12}{:>12}{:>12}   ratio".format(*header))
    shapes = [(100, 100, 1), (100, 1, 1), (1, 1, 1), (100, 100, 1000)]
    for name, bound in BOUNDS.items():
        for per_message, per_request, containers in shapes:
            made = messages(updates, per_message, per_request, containers)
            spec = dataflow(bound, containers)
            decoding = updates / seconds(decode_only(made))
            whole = updates / seconds(decode_and_decide(spec, made))
            print(
                f"{name:22}{per_message:>16}{per_request:>16}{containers:>12}"
                f"{decoding:>12,.0f}{whole:>12,.0f}   {whole / decoding:.2f}"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
