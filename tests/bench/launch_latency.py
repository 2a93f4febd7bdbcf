"""From an event's publication to the instruction to launch, through a real Kafka.

A process publishes 20,000 updates a second, 100 a message, over 1,000 containers; an agent's feed
reads them and an engine decides, and takes a snapshot at each launch, as the agent does. Printed
are percentiles of the time from a message's publication to the launch that it caused, and beside it
that of a bare consumer, which reads the same messages and does nothing: what Kafka itself takes.

    python tests/bench/launch_latency.py [--seconds N] [--rate N] [--spread N]
        [--bound updates|relative]

Uses the stack whose addresses are in the JSON file that HEADGATE_TEST_STACK names, or starts one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import queue
import random
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from headgate.agent import Kafka
from headgate.agent.broker import KafkaBroker
from headgate.agent.feed import Record
from headgate.agent.observers import ObserverTable
from headgate.agent.supervision import Supervision
from headgate.engine import (
    ActionSpec,
    Bound,
    ContainerScanned,
    DataflowSpec,
    Engine,
    Evaluation,
    Launch,
    Metric,
    RecordArrived,
    Role,
    RunFinished,
    RunStarted,
    ScanContainer,
    SequenceBound,
    Stimulus,
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
from headgate.local import Lifetime, LocalStack

CONTAINERS = 1_000
PER_MESSAGE = 100
ROWS = 50
PARTITIONS = 4
LAUNCHING = 20  # one container of so many has a bound that is reached, after some seconds
NEVER = 1e15
BOUNDS = {
    "updates": Bound("k", ContainerId(""), sequence=SequenceBound(250)),
    "relative": Bound("k", ContainerId(""), value=ValueBound(Metric.RELATIVE, 0.9)),
}


@contextmanager
def bootstrap() -> Iterator[str]:
    """Give Kafka's address."""
    named = os.environ.get("HEADGATE_TEST_STACK")
    if named:
        yield str(json.loads(Path(named).read_text())["kafka"])
        return
    with tempfile.TemporaryDirectory() as directory:
        stack = LocalStack(Path(directory), "bench", lifetime=Lifetime.WITH_CALLER)
        try:
            yield stack.up().as_text()["kafka"]
        finally:
            stack.down()


def publish(kafka: str, table: str, rate: int, seconds: float, spread: int) -> None:
    """Publish updates at a steady rate; each message says when it was published."""
    producer = Producer({"bootstrap.servers": kafka, "acks": "all", "linger.ms": 0})
    chance = random.Random(1)
    sequences = [0] * PARTITIONS
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
            1,
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
        producer.produce(updates_topic(table), encode_update(batch), partition=partition)
        producer.poll(0)
    producer.flush()


def dataflow(table: str, bound: Bound) -> DataflowSpec:
    """Return a step for each of the containers, evaluated at every write."""
    watched, actions = [], [ActionSpec("in", Role.INPUT, writes=(ContainerId("c0"),))]
    for i in range(CONTAINERS):
        name = ContainerId(f"c{i}")
        item = Item(table, b"f", b"x", b"%04d/" % i, b"%04d0" % i)
        watched.append(WatchedContainer(Container(name, (item,))))
        reached = Bound("k", name, bound.time, bound.sequence, bound.value)
        own = Bound("k", name, sequence=SequenceBound(NEVER)) if i % LAUNCHING else reached
        at_write = Evaluation(write=True)
        actions.append(ActionSpec(f"s{i}", after=("in",), bounds=(own,), evaluation=at_write))
    return DataflowSpec("bench", tuple(watched), tuple(actions))


class Decider:
    """An engine whose scans find nothing and whose runs end at once."""

    def __init__(self, spec: DataflowSpec) -> None:
        self.engine = Engine(spec)
        self.delays: list[float] = []
        self.snapshots: list[float] = []
        self._tell(Tick(time.time()), None)

    def take(self, record: Record) -> None:
        """Decide on a record."""
        message = record.message
        assert isinstance(message, UpdateBatch)
        arrived = RecordArrived(
            time.time(), record.topic, record.partition, record.offset, message, PARTITIONS
        )
        self._tell(arrived, message.requests[0].received)

    def _tell(self, stimulus: Stimulus, published: float | None) -> None:
        for instruction in self.engine.handle(stimulus):
            if isinstance(instruction, ScanContainer):
                place = (instruction.container, instruction.table)
                self._tell(ContainerScanned(time.time(), *place, [], []), None)
            elif isinstance(instruction, Launch):
                if published is not None:
                    self.delays.append(time.time() - published)
                start = time.perf_counter()
                self.engine.snapshot()
                self.snapshots.append(time.perf_counter() - start)
                run = (instruction.action, instruction.run, instruction.attempt)
                self._tell(RunStarted(time.time(), *run), None)
                self._tell(RunFinished(time.time(), *run), None)


def decided(
    broker: KafkaBroker, topics: dict[str, int], spec: DataflowSpec, messages: int
) -> Decider:
    """Have an engine decide on so many messages, as they come."""
    inbox: queue.SimpleQueue[Sequence[Record]] = queue.SimpleQueue()

    def deliver(records: Sequence[Record]) -> bool:
        inbox.put(records)
        return True

    decider = Decider(spec)
    feed = broker.feed(topics, broker.ends(topics), deliver)
    try:
        READY.set()
        seen = 0
        while seen < messages:
            for record in inbox.get(timeout=60):
                decider.take(record)
                seen += 1
    finally:
        feed.close()
    return decider


def bare(kafka: str, topic: str, messages: int, delays: list[float]) -> None:
    """Read messages as they come and do nothing but decode them."""
    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": uuid.uuid4().hex, "fetch.wait.max.ms": 100}
    )
    consumer.assign([TopicPartition(topic, part, 0) for part in range(PARTITIONS)])
    while len(delays) < messages:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            batch = decode_update(message.value())
            delays.append(time.time() - batch.requests[0].received)
    consumer.close()


READY = threading.Event()


def percentiles(words: str, delays: list[float]) -> None:
    """Print the median and the 99th percentile, in milliseconds."""
    cuts = statistics.quantiles(delays, n=100)
    print(
        f"{words:40} {len(delays):>7,} times: median {1000 * cuts[49]:6.1f} ms, "
        f"p99 {1000 * cuts[98]:6.1f} ms",
        flush=True,
    )


def main() -> None:
    """Print percentiles of both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="how long to publish")
    parser.add_argument("--rate", type=int, default=20_000, help="updates a second")
    parser.add_argument("--spread", type=int, default=10, help="containers that a message touches")
    parser.add_argument("--bound", choices=sorted(BOUNDS), default="updates")
    options = parser.parse_args()
    messages = int(options.rate * options.seconds / PER_MESSAGE)
    with bootstrap() as kafka:
        table = f"latency-{uuid.uuid4().hex[:8]}"
        broker = KafkaBroker(
            Kafka(kafka, partitions=PARTITIONS),
            ObserverTable(0.0),
            Supervision(lambda kind: None),
            lambda topic: None,
        )
        topics = broker.topics([table])
        (topic,) = topics
        arguments = (kafka, table, options.rate, options.seconds, options.spread)
        publisher = multiprocessing.get_context("spawn").Process(target=publish, args=arguments)
        delays: list[float] = []

        def begin() -> None:
            READY.wait()
            publisher.start()

        threading.Thread(target=begin, daemon=True).start()
        decider = decided(broker, topics, dataflow(table, BOUNDS[options.bound]), messages)
        publisher.join()
        percentiles("published -> launch instruction", decider.delays)
        percentiles("a snapshot", decider.snapshots)
        again = multiprocessing.get_context("spawn").Process(target=publish, args=arguments)
        again.start()
        bare(kafka, topic, 2 * messages, delays)
        again.join()
        percentiles("published -> read by a bare consumer", delays[messages:])


if __name__ == "__main__":
    main()
