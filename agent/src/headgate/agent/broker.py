"""What the agent asks of Kafka: a narrow interface, and Kafka behind it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import structlog
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from msgspec import Struct

from headgate.agent.configuration import Kafka
from headgate.agent.errors import Unreachable
from headgate.agent.found_cells import Found
from headgate.agent.observers import ObserverTable
from headgate.events import (
    DECISIONS_TOPIC,
    FLOWS_TOPIC,
    ControlMessage,
    Cut,
    MalformedMessage,
    ObserverLease,
    UpdateMessage,
    control_key,
    decode_control,
    decode_update,
    encode_control,
    encode_update,
    partition_of,
    updates_topic,
)

log = structlog.get_logger("headgate.agent.broker")

FLOW_PARTITIONS = 16
"""Over which dataflows are spread: more than agents, few enough to be assigned at once."""
_POLL = 0.1  # seconds a thread may take to notice that it shall stop
_FETCH_WAIT = "100"  # milliseconds until a fetch without data returns, hence until a new one starts
_BATCH = 1000  # messages handed on together, so that one checkpoint or barrier sees few hand-overs
BATCHES_WAITING = 32
"""Hand-overs that nobody has taken yet: beyond these the feed waits, and Kafka keeps the rest."""
ROOM = 0.1
"""Seconds a feed waits for room before it looks whether it is closed."""
_LAG = 1.0  # seconds between two looks at all partitions' ends while records come: there are many
_LEADERS = 0.02  # seconds until a partition's leader is asked for again
_NOT_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
_SAMPLES_KEPT = "3600000"  # milliseconds; samples of resources mean something for a minute
_REACH = 1.0  # seconds to wait for a first answer, after which the log says that Kafka is away
_METADATA = 10.0  # seconds to wait for the cluster's answer about topics


class Record(Struct, frozen=True):
    """One Kafka record of a watched table; ``message`` is None where it could not be decoded.

    With ``lost`` it stands for all records that Kafka does not have any more from ``offset`` on.
    """

    topic: str
    partition: int
    offset: int
    message: UpdateMessage | None
    published: float
    """Kafka's timestamp: Unix seconds."""
    lost: bool = False


class Feed(Protocol):
    """A stream of records from a cut on, delivered until it is closed."""

    def lag(self) -> dict[tuple[str, int], int]:
        """Return how many records lie before the end, by topic and partition."""

    def close(self) -> None:
        """Stop; nothing is delivered after the return."""


Deliver = Callable[[Sequence[Record]], bool]
"""Takes records; tells whether it did. It may wait a moment for room, and is then asked again."""


class Broker(Protocol):
    """What one dataflow asks of Kafka."""

    def topics(self, tables: Iterable[str]) -> dict[str, int]:
        """Return how many partitions the tables' topics have; a missing one is created."""

    def ends(self, topics: Mapping[str, int]) -> Cut:
        """Return the cut that holds everything published so far."""

    def control(self, message: ControlMessage) -> None:
        """Publish on the control topic, in the order of the calls; does not wait."""

    def decision(self, dataflow: str, value: bytes) -> None:
        """Publish what was decided; does not wait."""

    def feed(self, topics: Mapping[str, int], cut: Cut, deliver: Deliver) -> Feed:
        """Deliver every record from the cut on, each partition in its order."""


class KafkaBroker:
    """Kafka, for all dataflows of an agent.

    Args:
        kafka: its configuration.
        observers: hears the leases that observers give on the control topic.
    """

    def __init__(self, kafka: Kafka, observers: ObserverTable) -> None:
        self._common: dict[str, Any] = {
            **kafka.properties,
            "bootstrap.servers": kafka.bootstrap,
            "logger": _silent(),
        }
        self._bootstrap = kafka.bootstrap
        self._partitions = kafka.partitions
        self._replication = kafka.replication
        self._control_topic = kafka.control_topic
        self.flow_partitions = FLOW_PARTITIONS
        """Of the flows topic, which another version may have created."""
        self.cluster = ""
        """Kafka's name for itself, once it has answered."""
        self._observers = observers
        self._stopping = threading.Event()
        self._caught_up = threading.Event()
        self._control_end = 0
        self._admin = AdminClient(dict(self._common))
        self._producer = Producer(
            {
                **self._common,
                "enable.idempotence": True,
                # A new topic's leader may refuse a producer's first message and take the second,
                # and librdkafka then reports both as delivered.
                "max.in.flight.requests.per.connection": 1,
                "acks": "all",
                "linger.ms": 0,
                "socket.nagle.disable": True,
            }
        )
        self._reader = threading.Thread(target=self._read_control, name="control", daemon=True)

    def start(self, patience: float, *, machines: str) -> None:
        """Wait for Kafka, create headgate's own topics, and read the control topic to its end.

        Args:
            patience: seconds before giving up.
            machines: the topic on which sensors publish.

        Raises:
            Unreachable: nobody answered in that time.
        """
        deadline = time.monotonic() + patience
        said = False
        while True:
            try:
                self.cluster = self._admin.list_topics(timeout=_REACH).cluster_id or ""
                self._create(
                    [
                        self._topic(self._control_topic, 1, {"cleanup.policy": "compact"}),
                        self._topic(FLOWS_TOPIC, FLOW_PARTITIONS, {}),
                        self._topic(DECISIONS_TOPIC, 1, {}),
                        self._topic(machines, 1, {"retention.ms": _SAMPLES_KEPT}),
                    ]
                )
                break
            except KafkaException as error:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Unreachable(
                        f"Kafka does not answer at {self._bootstrap} ({error.args[0].str()}); "
                        "start it, or set kafka.bootstrap to its servers"
                    ) from error
                if not said:
                    log.warning("waiting for Kafka", address=self._bootstrap, seconds=round(left))
                    said = True
                self._stopping.wait(min(1.0, left))
        with self._asking():
            self._control_end = self.ends({self._control_topic: 1}).position(self._control_topic, 0)
            self.flow_partitions = self._count(FLOWS_TOPIC)
        self._reader.start()
        if not self._caught_up.wait(max(1.0, deadline - time.monotonic())):
            raise Unreachable(
                f"topic {self._control_topic} at {self._bootstrap} could not be read to its end; "
                "is every broker of the cluster up?"
            )

    def stop(self) -> None:
        """Deliver what is under way and end the threads."""
        self._stopping.set()
        if self._reader.is_alive():
            self._reader.join()
        self._producer.flush(5.0)

    def topics(self, tables: Iterable[str]) -> dict[str, int]:
        """See ``Broker``."""
        names = [updates_topic(table) for table in tables]
        with self._asking():
            known = self._admin.list_topics(timeout=_METADATA).topics
            self._create([self._topic(n, self._partitions, {}) for n in names if n not in known])
            return {name: self._count(name) for name in names}

    def ends(self, topics: Mapping[str, int]) -> Cut:
        """See ``Broker``."""
        with self._asking():
            if not topics:
                return Cut()
            partitions = [
                TopicPartition(topic, part)
                for topic, count in topics.items()
                for part in range(count)
            ]
            found = self._latest(partitions)
            return Cut(
                {
                    topic: tuple(found[topic, part] for part in range(count))
                    for topic, count in topics.items()
                }
            )

    def control(self, message: ControlMessage) -> None:
        """See ``Broker``."""
        self._produce(self._control_topic, control_key(message), encode_control(message))

    def decision(self, dataflow: str, value: bytes) -> None:
        """See ``Broker``."""
        self._produce(DECISIONS_TOPIC, dataflow.encode(), value)

    def update(self, found: Found) -> None:
        """See ``ScanBroker``."""
        topic = updates_topic(found.batch.table)
        value = encode_update(found.batch)
        self._producer.produce(topic, value, partition=found.partition, on_delivery=_delivered)
        self._producer.poll(0)

    def announce(self, dataflow: str) -> None:
        """Tell the agent that the group has chosen for a dataflow to look at it."""
        name = dataflow.encode()
        partition = partition_of(name, self.flow_partitions)
        self._producer.produce(FLOWS_TOPIC, name, name, partition)
        self._producer.poll(0)

    def feed(self, topics: Mapping[str, int], cut: Cut, deliver: Deliver) -> KafkaFeed:
        """See ``Broker``."""
        return KafkaFeed(self._common, topics, cut, deliver)

    def group(self, name: str) -> Consumer:
        """Return a consumer for the flows topic, a member of the agents' group."""
        return Consumer(
            {
                **self._common,
                "group.id": name,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 1500,
                "partition.assignment.strategy": "cooperative-sticky",
                "auto.offset.reset": "latest",
                "enable.auto.commit": False,
            }
        )

    def bystander(self) -> Consumer:
        """Return a consumer that belongs to no group's work and commits nothing."""
        return Consumer(
            {**self._common, "group.id": "headgate-bystander", "enable.auto.commit": False}
        )

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise Unreachable(
                f"Kafka at {self._bootstrap} does not answer: {error.args[0]}"
            ) from error

    def _produce(self, topic: str, key: bytes, value: bytes) -> None:
        self._producer.produce(topic, value, key, on_delivery=_delivered)
        self._producer.poll(0)

    def _topic(self, name: str, partitions: int, settings: dict[str, str]) -> NewTopic:
        return NewTopic(
            name,
            num_partitions=partitions,
            replication_factor=self._replication,
            config=settings,
        )

    def _create(self, topics: list[NewTopic]) -> None:
        if not topics:
            return
        made = self._admin.create_topics(topics, request_timeout=_METADATA)
        for future in made.values():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def _count(self, topic: str) -> int:
        deadline = time.monotonic() + _METADATA
        while True:
            found = self._admin.list_topics(topic, timeout=_METADATA).topics[topic]
            if found.error is None and found.partitions:
                return len(found.partitions)
            # A topic just created reaches the brokers' metadata a moment later.
            if time.monotonic() > deadline:
                raise KafkaException(found.error)
            time.sleep(_LEADERS)

    def _latest(self, partitions: list[TopicPartition]) -> dict[tuple[str, int], int]:
        deadline = time.monotonic() + _METADATA
        while True:
            asked = self._admin.list_offsets(
                dict.fromkeys(partitions, OffsetSpec.latest()), request_timeout=_METADATA
            )
            try:
                return {(p.topic, p.partition): f.result().offset for p, f in asked.items()}
            except KafkaException as error:
                # The partitions of a topic just created get their leaders a moment later.
                if error.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                    raise
                time.sleep(_LEADERS)

    def _read_control(self) -> None:
        reader = Consumer(
            {
                **self._common,
                "group.id": "headgate-control",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": _FETCH_WAIT,
            }
        )
        reader.assign([TopicPartition(self._control_topic, 0, OFFSET_BEGINNING)])
        try:
            while not self._stopping.is_set():
                message = reader.poll(_POLL)
                self._producer.poll(0)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    self._control_message(message)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 its public name
                    self._caught_up.set()
                else:
                    log.warning("control topic", problem=str(error))
        finally:
            reader.close()

    def _control_message(self, message: Message) -> None:
        value = message.value()
        if value is None:
            return
        try:
            content = decode_control(value)
        except MalformedMessage as error:
            log.warning("control topic", problem=str(error), offset=message.offset())
            return
        if isinstance(content, ObserverLease):
            now = time.time()
            # Before the end that was there at the start, a lease is as old as its record says.
            if message.offset() < self._control_end:
                self._observers.recall(content, min(now, message.timestamp()[1] / 1000))
            else:
                self._observers.hear(content, now)


class KafkaFeed:
    """A consumer with partitions assigned by hand, read in a thread of its own."""

    def __init__(
        self,
        common: Mapping[str, Any],
        topics: Mapping[str, int],
        cut: Cut,
        deliver: Deliver,
    ) -> None:
        self._deliver = deliver
        self._stopping = threading.Event()
        self._lag: dict[tuple[str, int], int] = {}
        self._measured = 0.0
        self._consumer = Consumer(
            {
                **common,
                "group.id": "headgate-feed",  # never committed to: the cut in HBase is what counts
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": _FETCH_WAIT,
                "queued.max.messages.kbytes": 16384,
            }
        )
        self._consumer.assign(
            [
                TopicPartition(topic, part, cut.position(topic, part))
                for topic, count in topics.items()
                for part in range(count)
            ]
        )
        self._positions = {
            (topic, part): cut.position(topic, part)
            for topic, count in topics.items()
            for part in range(count)
        }
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._thread.start()

    def lag(self) -> dict[tuple[str, int], int]:
        """See ``Feed``; the end is the one the last fetch reported."""
        return dict(self._lag)

    def close(self) -> None:
        """See ``Feed``."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                first = self._consumer.poll(_POLL)
                if first is None:
                    self._measure()
                    continue
                messages = [first, *self._consumer.consume(_BATCH, 0)]
                records = [record for m in messages if (record := self._record(m)) is not None]
                # Whoever closes the feed may be the one that should make room: wait for neither.
                while records and not self._stopping.is_set() and not self._deliver(records):
                    pass
                if time.monotonic() >= self._measured + _LAG:
                    self._measure()
        finally:
            self._consumer.close()

    def _measure(self) -> None:
        self._measured = time.monotonic()
        for (topic, part), position in self._positions.items():
            try:
                end = self._consumer.get_watermark_offsets(TopicPartition(topic, part), cached=True)
            except KafkaException as error:
                log.warning("lag not known", topic=topic, partition=part, problem=str(error))
                continue
            if end is not None:
                first = max(position, end[0])
                self._lag[topic, part] = max(0, end[1] - first) if end[1] >= 0 else 0

    def _record(self, message: Message) -> Record | None:
        error = message.error()
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if error is not None:
            if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 its public name
                log.error(
                    "updates are gone from Kafka before they were read: by its retention, or with "
                    "their topic; reading on from the oldest",
                    topic=topic,
                    partition=partition,
                    cure="raise the topic's retention.ms above the longest time between two runs",
                )
                lost = self._positions[topic, partition]
                # Kept until a record has come, so that the next partition's loss does not undo it.
                self._positions[topic, partition] = OFFSET_BEGINNING
                self._consumer.assign(
                    [TopicPartition(t, p, at) for (t, p), at in self._positions.items()]
                )
                if lost >= 0:
                    return Record(topic, partition, lost, None, time.time(), lost=True)
            else:
                log.warning("update topic", topic=topic, partition=partition, problem=str(error))
            return None
        self._positions[topic, partition] = offset + 1
        try:
            content = decode_update(message.value())
        except MalformedMessage as error:
            log.warning("update topic", topic=topic, offset=offset, problem=str(error))
            content = None
        return Record(topic, partition, offset, content, message.timestamp()[1] / 1000)


def _delivered(error: KafkaError | None, message: Message) -> None:
    if error is not None:
        log.error("message not delivered", topic=message.topic(), problem=str(error))


def _silent() -> Any:
    """Return the logger librdkafka writes to: what matters is reported by errors of calls."""
    logger = logging.getLogger("headgate.kafka")
    logger.setLevel(logging.CRITICAL)
    return logger
