"""From an event's publication to the instruction to launch, through an agent as it is.

A process publishes 20,000 updates a second, 100 a message, over 1,000 containers of one table. An
agent in this process, with its own feed, runtime, state table in HBase and barriers, decides on
them; only what it would launch is put in the place of processes that do nothing, and ends at once.
Printed are percentiles of the time from a message's publication until the launcher is told of the
run that it caused, with the checkpoint that is saved in HBase before, and beside it that of a bare
consumer, which reads the same messages afterwards and does nothing: what Kafka itself takes.

    python tests/bench/launch_latency.py [--seconds N] [--rate N] [--spread N]
        [--bound updates|relative]

Starts a stack of its own and stops it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import ClassVar

import happybase
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from headgate.agent.configuration import parse_configuration
from headgate.agent.dataflow.views import Phase
from headgate.agent.launchers.job import Job
from headgate.agent.ownership import runtime_factory
from headgate.agent.ownership.service import Agent
from headgate.agent.ports import Report
from headgate.events import (
    VERSION,
    Cut,
    Outcome,
    RequestPart,
    UpdateBatch,
    decode_update,
    encode_update,
    updates_topic,
)
from headgate.flows import parse_dataflow
from headgate.local import Addresses, Lifetime, LocalStack
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)
from headgate.spark import Ending, StepEnded, StepStarted

CONTAINERS = 1_000
PER_MESSAGE = 100
ROWS = 50
PARTITIONS = 4
LAUNCHING = 20  # one container of so many has a bound that is reached, after some seconds
NEVER = 10**15
READY = 120.0  # seconds for the dataflow's watches to take effect
REACHED = {"updates": "{sequence: 250}", "relative": "{value: 90 %, metric: relative}"}

Place = tuple[int, int]
"""A partition and an offset in it."""


class Published:
    """What the publisher says of its messages.

    Attributes:
        at: Unix seconds, by place.
        touched: containers, by place.
    """

    def __init__(self) -> None:
        self.at: dict[Place, float] = {}
        self.touched: dict[Place, frozenset[int]] = {}

    def cause(self, topic: str, cut: Cut, container: int) -> float | None:
        """Return when the last message before a cut was published that touches a container.

        A cut is taken right behind the record that a launch answers, which is the last one of its
        partition; None where none of the last ones touches the container.
        """
        last = [(part, offset - 1) for part, offset in enumerate(cut.offsets[topic])]
        times = [self.at[p] for p in last if container in self.touched.get(p, ())]
        return max(times, default=None)


def publish(
    out: Connection, kafka: str, table: str, rate: int, seconds: float, spread: int, epoch: int
) -> None:
    """Publish updates at a steady rate, and send where each message lies and what it touches."""
    producer = Producer({"bootstrap.servers": kafka, "acks": "all", "linger.ms": 0})
    chance = random.Random(epoch)
    sequences = [0] * PARTITIONS
    published = Published()
    start = time.time()
    for number in range(int(rate * seconds / PER_MESSAGE)):
        due = start + number * PER_MESSAGE / rate
        time.sleep(max(0.0, due - time.time()))
        partition = number % PARTITIONS
        touched = [chance.randrange(CONTAINERS) for _ in range(spread)]
        places = [(chance.choice(touched), chance.randrange(ROWS)) for _ in range(PER_MESSAGE)]
        intent = number * PER_MESSAGE
        now = time.time()
        batch = UpdateBatch(
            VERSION,
            "bench",
            epoch,
            sequences[partition],
            intent,
            table,
            tuple(
                RequestPart(intent + i, "mutateRow", Outcome.APPLIED, now, 1)
                for i in range(PER_MESSAGE)
            ),
            bytes(PER_MESSAGE),
            tuple(b"%04d/%04d" % place for place in places),
            (b"f:x",) * PER_MESSAGE,
            (-1,) * PER_MESSAGE,
            tuple(b"%.3f" % (100 * chance.random()) for _ in places),
        )
        sequences[partition] += 1
        told = _note(published, now, frozenset(container for container, _ in places))
        producer.produce(
            updates_topic(table), encode_update(batch), partition=partition, on_delivery=told
        )
        producer.poll(0)
    producer.flush()
    out.send(published)


def _note(
    published: Published, now: float, touched: frozenset[int]
) -> Callable[[object, Message], None]:
    def told(error: object, message: Message) -> None:
        if error is not None:
            raise RuntimeError(f"Kafka did not take a message: {error}")
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        published.at[partition, offset] = now
        published.touched[partition, offset] = touched

    return told


class Publisher:
    """``publish`` in a process of its own."""

    def __init__(self, kafka: str, table: str, options: argparse.Namespace, epoch: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._in, out = spawn.Pipe(duplex=False)
        arguments = (out, kafka, table, options.rate, options.seconds, options.spread, epoch)
        self._process = spawn.Process(target=publish, args=arguments)
        self._process.start()
        out.close()

    def result(self) -> Published:
        """Wait for its end and return what it has published."""
        published: Published = self._in.recv()
        self._process.join()
        return published


class Launched:
    """Stands for processes that do nothing, and notes when each was to be started.

    It is in the place of ``JobsLauncher``, whose arguments it takes.
    """

    instructions: ClassVar[list[tuple[float, str, Cut]]] = []
    """Of all runs: Unix seconds, the action, what it consumes."""

    def __init__(
        self, jobs: object, report: Callable[[Report], None], supervision: object, name: str
    ) -> None:
        self._report = report

    def start(self, job: Job) -> None:
        """Note the time, and say that the attempt has begun and ended."""
        request = job.request
        self.instructions.append((time.time(), request.action, request.cut))
        self._report(StepStarted(request.run, request.attempt))
        self._report(StepEnded(request.run, request.attempt, Ending.COMMITTED, 0.0))

    def recover(self, run: str, attempt: int) -> bool:
        """Say that nothing outlived an agent."""
        return False

    def cancel(self, run: str, attempt: int, reason: str) -> bool:
        """Say that no attempt is under way."""
        return False

    def cancel_all(self, reason: str) -> None:
        """Do nothing: no attempt is under way."""

    def log(self, run: str, attempt: int) -> None:
        """Return None: nothing was printed."""

    def close(self) -> None:
        """Do nothing: no attempt is under way."""


def dataflow(table: str, reached: str) -> str:
    """Return a file with a step for each of the containers, evaluated at every write."""
    containers = [
        f'  c{i}: {{table: {table}, column: "f:x", prefix: "{i:04d}/"}}' for i in range(CONTAINERS)
    ]
    never = f"{{sequence: {NEVER}}}"
    steps = [
        f"  s{i}: {{command: [nothing], reads: c{i}, evaluate: write, "
        f"when: {{c{i}: {never if i % LAUNCHING else reached}}}}}"
        for i in range(CONTAINERS)
    ]
    fed = ", ".join(f"c{i}" for i in range(CONTAINERS))
    lines = [
        "name: bench",
        "concurrency: 100",
        "containers:",
        *containers,
        "actions:",
        f"  feed: {{input: [{fed}]}}",
        *steps,
    ]
    return "\n".join(lines)


@contextmanager
def deciding(addresses: Addresses, folder: Path, table: str, reached: str) -> Iterator[None]:
    """Have an observer and an agent at work on the dataflow; its watches are in effect."""
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    control = f"headgate.control-{uuid.uuid4().hex[:8]}"
    observer = ObserverProcess(
        ObserverConfig(
            name="bench-observer",
            thrift2=Listener("127.0.0.1:0", str(addresses.thrift2)),
            kafka=KafkaSettings(
                addresses.as_text()["kafka"], control_topic=control, partitions=PARTITIONS
            ),
            journal=JournalSettings(str(folder / "journal")),
        ),
        folder / "observer",
    )
    host, port = observer.thrift2
    configuration = parse_configuration(
        f"""
        launchers.concurrency = 100
        hbase = {{thrift2 = "{host}:{port}"}}
        workers = {{directory = "{folder / "workers"}"}}
        [kafka]
        bootstrap = "{addresses.as_text()["kafka"]}"
        control_topic = "{control}"
        partitions = {PARTITIONS}
        """,
        "bench.toml",
        {},
    )
    runtime_factory.JobsLauncher = Launched  # type: ignore[attr-defined, assignment]
    agent = Agent(configuration, "127.0.0.1:1")
    agent.start()
    try:
        text = dataflow(table, reached)
        agent.define(parse_dataflow(text, "bench.yaml"), str(folder), shadow=False)
        _await_watches(agent)
        yield
    finally:
        agent.stop()
        observer.stop()


def _await_watches(agent: Agent) -> None:
    deadline = time.monotonic() + READY
    while time.monotonic() < deadline:
        hosted = agent.hosted("bench")
        if hosted is not None:
            if hosted.error is not None:
                raise hosted.error
            if hosted.call(lambda runtime, _: runtime.state.phase).result(READY) is Phase.RUNNING:
                return
        time.sleep(0.1)
    raise TimeoutError(f"the dataflow was not at work within {READY:g} s")


def bare(kafka: str, topic: str, epoch: int, messages: int) -> list[float]:
    """Read messages of an epoch as they come, do nothing but decode them, return the delays."""
    delays: list[float] = []
    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": uuid.uuid4().hex, "fetch.wait.max.ms": 100}
    )
    consumer.assign([TopicPartition(topic, part, 0) for part in range(PARTITIONS)])
    while len(delays) < messages:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            batch = decode_update(message.value() or b"")
            if isinstance(batch, UpdateBatch) and batch.epoch == epoch:
                delays.append(time.time() - batch.requests[0].received)
    consumer.close()
    return delays


def waits(published: Published, topic: str) -> tuple[list[float], int]:
    """Return seconds from publication to launch, and of how many launches no message is known."""
    delays = []
    for at, action, cut in Launched.instructions:
        cause = published.cause(topic, cut, int(action.removeprefix("s")))
        if cause is not None:
            delays.append(at - cause)
    return delays, len(Launched.instructions) - len(delays)


def percentiles(words: str, delays: list[float]) -> float:
    """Print the median and the 99th percentile in milliseconds, and return the latter."""
    cuts = statistics.quantiles(delays, n=100)
    print(
        f"{words:40} {len(delays):>7,} times: median {1000 * cuts[49]:6.1f} ms, "
        f"p99 {1000 * cuts[98]:6.1f} ms",
        flush=True,
    )
    return cuts[98]


def main() -> None:
    """Print percentiles of both, and the ratio of the 99th."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to publish")
    parser.add_argument("--rate", type=int, default=20_000, help="updates a second")
    parser.add_argument("--spread", type=int, default=10, help="containers that a message touches")
    parser.add_argument("--bound", choices=sorted(REACHED), default="updates")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        stack = LocalStack(folder / "stack", "bench", lifetime=Lifetime.WITH_CALLER)
        try:
            measure(stack.up(), folder, options)
        finally:
            stack.down()


def measure(addresses: Addresses, folder: Path, options: argparse.Namespace) -> None:
    """Publish twice, for the agent and for the bare consumer, and print what both took."""
    kafka, table = addresses.as_text()["kafka"], "latency"
    topic = updates_topic(table)
    with closing(happybase.Connection(*addresses.thrift1)) as connection:
        connection.create_table(table, {"f": {}})
    with deciding(addresses, folder, table, REACHED[options.bound]):
        published = Publisher(kafka, table, options, 1).result()
        time.sleep(2.0)
    delays, unknown = waits(published, topic)
    again = Publisher(kafka, table, options, 2)
    read = bare(kafka, topic, 2, int(options.rate * options.seconds / PER_MESSAGE))
    again.result()
    decided = percentiles("published -> launch instruction", delays)
    alone = percentiles("published -> read by a bare consumer", read)
    print(f"p99, launch to bare consumer: {decided / alone:.1f}; {unknown} launches left out, ")
    print(f"whose message is not known; Python {sys.version.split()[0]}, {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
