"""What the agent asks of Kafka: a narrow interface, and Kafka behind it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
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
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
)

from headgate.agent.configuration import KafkaOptions
from headgate.agent.errors import Unreachable
from headgate.agent.kafka.feed import Deliver, Feed, partition_counts
from headgate.agent.kafka.feeds import FETCH_WAIT, POLL, Feeds
from headgate.agent.kafka.observers import ObserverTable
from headgate.agent.kafka.refusals import asking, is_refusal, refused
from headgate.agent.kafka.retention import Retention, RetentionRefused
from headgate.agent.ports import Found
from headgate.agent.supervision import Supervision, ThreadKind
from headgate.events import (
    DECISIONS_TOPIC,
    FLOWS_TOPIC,
    ControlMessage,
    Cut,
    MalformedEvent,
    ObserverLease,
    control_key,
    decode_control,
    encode_control,
    encode_update,
    partition_of,
    updates_topic,
)
from headgate.spark import Troubles, silent_logger

log = structlog.get_logger("headgate.agent.broker")

FLOW_PARTITIONS = 16
"""Over which dataflows are spread: more than agents, few enough to be assigned at once."""
_LEADERS = 0.02  # seconds until a partition's leader is asked for again
_NOT_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
_UNKNOWN_PARTITION = KafkaError._UNKNOWN_PARTITION  # noqa: SLF001 - the name of a local error
_SAMPLES_KEPT = "3600000"  # milliseconds; samples of resources mean something for a minute
_REACH = 1.0  # seconds to wait for a first answer, after which the log says that Kafka is away
_METADATA = 10.0  # seconds to wait for the cluster's answer about topics
_RETENTION = "retention.ms"


def _nothing() -> None:
    """Nobody waits for the message."""


class Broker(Protocol):
    """What one dataflow asks of Kafka."""

    def topics(self, tables: Iterable[str]) -> dict[str, int]:
        """Return how many partitions the tables' topics have; a missing one is created."""

    def retention(self, topics: Iterable[str]) -> dict[str, float]:
        """Return for how many seconds Kafka keeps records of topics; without those it keeps."""

    def ends(self, topics: Mapping[str, int]) -> Cut:
        """Return the cut that holds everything published so far."""

    def control(self, message: ControlMessage) -> None:
        """Publish on the control topic, in the order of the calls; does not wait."""

    def decision(self, dataflow: str, value: bytes, done: Callable[[], None]) -> None:
        """Publish what was decided; does not wait.

        ``done`` is called, on any thread, when Kafka has it, or never will.
        """

    def feed(self, topics: Mapping[str, int], cut: Cut, deliver: Deliver) -> Feed:
        """Deliver every record from the cut on, each partition in its order."""


class KafkaBroker:
    """Kafka, for all dataflows of an agent.

    Args:
        kafka: its configuration.
        observers: hears the leases that observers give on the control topic.
        supervision: owns the threads.
        undelivered: called with the topic of each message that Kafka will never have.
    """

    def __init__(
        self,
        kafka: KafkaOptions,
        observers: ObserverTable,
        supervision: Supervision,
        undelivered: Callable[[str], None],
    ) -> None:
        self._common: dict[str, Any] = {
            **kafka.properties,
            "bootstrap.servers": kafka.bootstrap,
            "logger": silent_logger(),
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
        self._undelivered = undelivered
        self._stopping = threading.Event()
        self._caught_up = threading.Event()
        self._control_end = 0
        self._control_next = OFFSET_BEGINNING
        self._troubles = Troubles()
        self._admin = AdminClient({**self._common, "error_cb": self._troubles.meet})
        self._feeds = Feeds(self._common, supervision, partial(partition_counts, self._admin))
        self._producing = threading.Lock()
        self._producer = self._make_producer()
        self._reader = supervision.thread(
            ThreadKind.CONTROL, "control", self._read_control, self._stopping
        )

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
                if left <= 0 and is_refusal(error):
                    raise refused(self._bootstrap, error) from error
                if left <= 0:
                    raise Unreachable(
                        f"Kafka does not answer at {self._bootstrap}: {self._why(error)}; start "
                        "it, set kafka.bootstrap to its servers, or correct kafka.properties"
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

    def halt(self) -> None:
        """Wait for Kafka no more, on whatever thread."""
        self._stopping.set()

    def stop(self) -> None:
        """Deliver what is under way and end the threads."""
        self._stopping.set()
        if self._reader.is_alive():
            self._reader.join()
        self._feeds.close()
        self._producer.flush(5.0)

    def topics(self, tables: Iterable[str]) -> dict[str, int]:
        """See ``Broker``."""
        names = [updates_topic(table) for table in tables]
        with self._asking():
            known = self._admin.list_topics(timeout=_METADATA).topics
            self._create([self._topic(n, self._partitions, {}) for n in names if n not in known])
            return {name: self._count(name) for name in names}

    def retention(self, topics: Iterable[str]) -> dict[str, float]:
        """See ``Broker``; a topic whose settings this agent may not read is left out, too."""
        found = self.retentions(topics)
        return {topic: kept.seconds for topic, kept in found.items() if kept is not None}

    def retentions(self, topics: Iterable[str]) -> dict[str, Retention | None]:
        """See ``RetentionTopics``."""
        wanted = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
        if not wanted:
            return {}
        found: dict[str, Retention | None] = {}
        for resource, answer in self._admin.describe_configs(
            wanted, request_timeout=_METADATA
        ).items():
            try:
                entry = answer.result()[_RETENTION]
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    found[resource.name] = None
                else:
                    log.info("retention not known", topic=resource.name, problem=str(error))
                continue
            inherited = entry.source != ConfigSource.DYNAMIC_TOPIC_CONFIG.value
            kept = int(entry.value) / 1000
            found[resource.name] = Retention(kept, inherited) if kept > 0 else None
        return found

    def retain(self, topic: str, retention: Retention) -> None:
        """See ``RetentionTopics``."""
        kind, value = AlterConfigOpType.SET, str(round(retention.seconds * 1000))
        if retention.inherited:
            kind, value = AlterConfigOpType.DELETE, ""
        entry = ConfigEntry(_RETENTION, value, incremental_operation=kind)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        (answer,) = self._admin.incremental_alter_configs(
            [resource], request_timeout=_METADATA
        ).values()
        try:
            answer.result()
        except KafkaException as error:
            cause = error.args[0]
            if not is_refusal(error):
                raise Unreachable(
                    f"Kafka at {self._bootstrap} does not answer: {self._why(error)}"
                ) from error
            raise RetentionRefused(
                f"Kafka refuses to alter {_RETENTION} of {topic} ({cause.str()}); allow this agent "
                "AlterConfigs on the topic, or set kafka.longest_retention_days to 0"
            ) from error

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

    def decision(self, dataflow: str, value: bytes, done: Callable[[], None]) -> None:
        """See ``Broker``."""
        self._produce(DECISIONS_TOPIC, dataflow.encode(), value, done=done)

    def update(self, found: Found) -> None:
        """See ``ScanBroker``."""
        topic = updates_topic(found.batch.table)
        value = encode_update(found.batch)
        self._produce(topic, None, value, found.partition)

    def announce(self, dataflow: str) -> None:
        """Notify the agent that the group has chosen for a dataflow to look at it."""
        name = dataflow.encode()
        partition = partition_of(name, self.flow_partitions)
        self._produce(FLOWS_TOPIC, name, name, partition)

    def feed(self, topics: Mapping[str, int], cut: Cut, deliver: Deliver) -> Feed:
        """See ``Broker``."""
        return self._feeds.feed(topics, cut, deliver)

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

    def _why(self, error: KafkaException) -> str:
        return self._troubles.words(error.args[0], self._admin)

    def _asking(self) -> AbstractContextManager[None]:
        return asking(self._bootstrap, self._why)

    def _make_producer(self) -> Producer:
        return Producer(
            {
                **self._common,
                "enable.idempotence": True,
                # A new topic's leader may refuse a producer's first message and take the second,
                # and librdkafka then reports both as delivered.
                "max.in.flight.requests.per.connection": 1,
                "acks": "all",
                "linger.ms": 0,
                # Decisions, fences and gates have a meaning however long Kafka was away.
                "message.timeout.ms": 0,
                "socket.nagle.disable": True,
            }
        )

    def _produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes,
        partition: int = -1,
        done: Callable[[], None] = _nothing,
    ) -> None:
        """Have a message delivered; waits only while as many wait as the producer holds.

        Raises:
            Unreachable: the agent stops while there is no room.
        """

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._lost(message.topic(), error)
            done()

        learned = False
        while True:
            producer = self._producer
            try:
                producer.produce(topic, value, key, partition, delivered)
            except BufferError as error:
                if self._stopping.is_set():
                    raise Unreachable(
                        f"the agent stops while Kafka at {self._bootstrap} takes no messages; "
                        f"one for {topic} is not published"
                    ) from error
                producer.poll(POLL)
            except KafkaException as error:
                cause = error.args[0]
                if cause.code() == _UNKNOWN_PARTITION and not learned:
                    # Partitions were added: by itself it looks for them every five minutes.
                    learned = True
                    with suppress(KafkaException):
                        producer.list_topics(topic, _METADATA)
                elif cause.fatal():
                    self._replace(producer, cause)
                else:
                    # Such as one that is too large: it is no better the next time.
                    self._lost(topic, cause)
                    done()
                    return
            else:
                producer.poll(0)
                return

    def _replace(self, failed: Producer, error: KafkaError) -> None:
        """Go on with another producer: one with a fatal error takes nothing any more."""
        with self._producing:
            if self._producer is failed:
                log.error("producer replaced", problem=str(error))
                self._producer = self._make_producer()

    def _lost(self, topic: str, error: KafkaError) -> None:
        log.error("message not delivered", topic=topic, problem=str(error))
        self._undelivered(topic)

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
                "fetch.wait.max.ms": FETCH_WAIT,
            }
        )
        reader.assign([TopicPartition(self._control_topic, 0, self._control_next)])
        try:
            while not self._stopping.is_set():
                message = reader.poll(POLL)
                self._producer.poll(0)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    # Behind it already: what fails on a message must not meet it again.
                    self._control_next = message.offset() + 1
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
        except MalformedEvent as error:
            log.warning("control topic", problem=str(error), offset=message.offset())
            return
        if isinstance(content, ObserverLease):
            now = time.time()
            # Before the end that was there at the start, a lease is as old as its record says.
            if message.offset() < self._control_end:
                self._observers.recall(content, min(now, message.timestamp()[1] / 1000))
            else:
                self._observers.hear(content, now)
