"""Kafka: the producer behind the publisher, topics, and a reader of the control topic."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from msgspec import Struct

from headgate.observer.monitoring.metrics import Histogram
from headgate.observer.publishing.deliveries import DeliveryFailure, Done, FailureKind
from headgate.observer.publishing.openings import Openings
from headgate.settings import ConfigurationError

_log = structlog.get_logger("headgate.observer.publishing.kafka")

_METADATA_SECONDS = 10.0
_POLL_SECONDS = 0.2
_QUIET_SECONDS = 10.0  # after the first line of the log about one kind of error, then doubled
_MOST_QUIET_SECONDS = 600.0  # so that the log of an outage of hours still says that it lasts
_OVER_SECONDS = 60.0  # without an error of a kind: the next begins another outage
_TOPIC_ERRORS = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - confluent-kafka's names for local errors
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)
_REFUSALS = frozenset(
    {
        KafkaError.INVALID_RECORD,
        KafkaError._INVALID_DIFFERENT_RECORD,  # noqa: SLF001 - another in the same batch
    }
)
# Without the right to create topics the observer uses what an administrator made.
_ALREADY_THERE = frozenset(
    {
        KafkaError.TOPIC_ALREADY_EXISTS,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)


# A topic that the broker made would have the broker's number of partitions, and its settings.
_NEVER_BY_ITSELF = {"allow.auto.create.topics": False}


class KafkaUnavailable(ConnectionError):
    """Kafka does not answer or refuses; the message names the brokers and the reason."""


class KafkaPlace(Struct, frozen=True):
    """Where the topics are; ``properties`` are librdkafka's own."""

    bootstrap: str
    properties: Mapping[str, Any]
    control_topic: str


def client_settings(bootstrap: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of every client: what the user passes on outranks the rest."""
    return {
        "bootstrap.servers": bootstrap,
        "socket.keepalive.enable": True,
        "reconnect.backoff.max.ms": 2000,
        "log_level": 0,  # what goes wrong comes through error_cb, once
        **properties,
    }


class _Quiet(Struct):
    """What was logged of one kind of error."""

    until: float
    seconds: float
    met: float
    left_out: int = 0


class ErrorLog:
    """Logs what Kafka's clients meet, each kind ever more rarely while it goes on.

    Without brokers each client meets 20 errors a second, of two kinds, for as long as it lasts.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing said; ``clock`` is in seconds."""
        self._clock = clock
        self._kinds: dict[str, _Quiet] = {}
        self._lock = threading.Lock()

    def __call__(self, error: KafkaError) -> None:
        """Log an error, with the number of those like it that were not logged since the last."""
        code, now = error.name(), self._clock()
        with self._lock:
            kind = self._kinds.get(code)
            if kind is None or now - kind.met >= _OVER_SECONDS:
                kind = self._kinds[code] = _Quiet(now, _QUIET_SECONDS, now)
            kind.met = now
            if now < kind.until:
                kind.left_out += 1
                return
            more, kind.left_out = kind.left_out, 0
            kind.until = now + kind.seconds
            kind.seconds = min(kind.seconds * 2, _MOST_QUIET_SECONDS)
        _log.warning("kafka client", reason=error.str(), code=code, more=more)


_errors = ErrorLog()
"""Of all clients of the process: an outage is one, however many meet it."""


class KafkaProducer:
    """An idempotent producer with acks of all replicas, whose messages never time out.

    A message that times out could be overtaken by the next; so the client keeps trying, in order,
    and the journal bounds what waits. ``poll`` must be called while messages are under way: it is
    what calls their ``done``.
    """

    def __init__(self, bootstrap: str, properties: Mapping[str, Any]) -> None:
        """Make a producer; brokers are contacted in the background.

        Raises:
            ConfigurationError: librdkafka refuses a property.
        """
        self._settings = {
            **client_settings(bootstrap, properties),
            **_NEVER_BY_ITSELF,
            "enable.idempotence": True,
            "acks": "all",
            "message.timeout.ms": 0,
            # Topics are there before messages: one that is missing was deleted, and is made again.
            "topic.metadata.propagation.max.ms": 3000,
            "linger.ms": 0,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 1_048_576,
            "error_cb": _errors,
        }
        try:
            self._producer = ConfluentProducer(self._settings)
        except KafkaException as error:
            reason = error.args[0].str()  # it names the property, not its value
            raise ConfigurationError(f"[kafka.properties]: {reason}; correct the value") from error
        self._openings = Openings(self._produce)
        self._handed_over: dict[int, float] = {}
        self._count = 0
        self.delivery = Histogram()
        """Seconds from handing a message over to the acknowledgement of all replicas."""
        self._restarting = False
        self._broken = False

    def send(self, topic: str, partition: int, value: bytes, done: Done) -> bool:
        """Take a message to be delivered; return whether there was room for it."""
        return self._send(topic, partition, value, None, done)

    def send_keyed(self, topic: str, key: bytes, value: bytes, done: Done) -> bool:
        """Take a message for partition 0 of a compacted topic."""
        return self._send(topic, 0, value, key, done)

    def _send(
        self, topic: str, partition: int, value: bytes, key: bytes | None, done: Done
    ) -> bool:
        number = self._count = self._count + 1
        begun = time.monotonic()

        def delivered(failure: DeliveryFailure | None) -> None:
            del self._handed_over[number]
            if failure is None:
                self.delivery.new.append(time.monotonic() - begun)
            done(failure)

        if self._broken:
            return False
        self._handed_over[number] = begun
        if self._openings.send(topic, partition, value, key, delivered):
            return True
        del self._handed_over[number]
        return False

    def _produce(
        self, topic: str, partition: int, value: bytes, key: bytes | None, done: Done
    ) -> bool:
        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                done(None)
            else:
                self._openings.shut(topic, partition)
                done(_failure(error))

        try:
            self._producer.produce(
                topic, value=value, key=key, partition=partition, on_delivery=delivered
            )
        except BufferError:
            return False
        except KafkaException as error:
            done(_failure(error.args[0]))
        return True

    def oldest_age(self) -> float:
        """Return for how many seconds the oldest message waits for its acknowledgement; 0: none."""
        return time.monotonic() - next(iter(self._handed_over.values()), time.monotonic())

    def poll(self) -> None:
        """Call ``done`` for every message whose fate has become known."""
        self._producer.poll(0)
        if self._broken:
            self._renew()

    def restart(self) -> None:
        """Give up everything that was sent and begin anew, at the next poll."""
        self._broken = True

    def _renew(self) -> None:
        if self._restarting:
            return
        self._restarting = True
        old = self._producer
        old.purge()
        old.flush(_METADATA_SECONDS)
        self._producer = ConfluentProducer(self._settings)
        self._openings.shut_all()
        self._broken = self._restarting = False

    def learn(self, topic: str) -> None:
        """Look up a topic's partitions: those that were added are unknown for minutes otherwise.

        It blocks: call it in a thread.

        Raises:
            KafkaUnavailable: the brokers did not answer.
        """
        try:
            self._producer.list_topics(topic, timeout=_METADATA_SECONDS)
        except KafkaException as error:
            bootstrap = self._settings["bootstrap.servers"]
            raise KafkaUnavailable(
                f"Kafka at {bootstrap} does not describe topic {topic}: {error.args[0].str()}"
            ) from error

    def flush(self, seconds: float) -> int:
        """Wait until everything is delivered; return how many messages are not."""
        return int(self._producer.flush(seconds))


def _failure(error: KafkaError) -> DeliveryFailure:
    if error.fatal():
        kind = FailureKind.FATAL
    elif error.code() == KafkaError.INVALID_TIMESTAMP:
        kind = FailureKind.EARLY
    elif error.code() in _REFUSALS:
        kind = FailureKind.REFUSED
    elif error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        kind = FailureKind.TOO_LARGE
    elif error.code() in _TOPIC_ERRORS:
        kind = FailureKind.TOPIC
    else:
        kind = FailureKind.OTHER
    return DeliveryFailure(kind, f"{error.name()}: {error.str()}")


class Topics:
    """Looks topics up and makes those that are missing. It blocks: call it in a thread."""

    def __init__(self, bootstrap: str, properties: Mapping[str, Any], *, replication: int) -> None:
        """Make an administration client; brokers are contacted at the first call."""
        self._bootstrap = bootstrap
        self._replication = replication
        self._met = ""
        self._admin = AdminClient(
            {**client_settings(bootstrap, properties), **_NEVER_BY_ITSELF, "error_cb": self._meet}
        )

    def _meet(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - the name of a local error
            self._met = error.str()
        _errors(error)

    def reach(self, seconds: float) -> None:
        """Return once the brokers answer.

        Raises:
            KafkaUnavailable: they did not within ``seconds``.
        """
        try:
            self._admin.list_topics(timeout=seconds)
        except KafkaException as error:
            raise self._unavailable(error) from error

    def ensure(
        self, topic: str, *, partitions: int, settings: Mapping[str, str], at_least: int = 1
    ) -> int:
        """Return the number of partitions of the topic, which is made if it is not there.

        One that somebody has made again with fewer partitions than ``at_least`` gets these.

        Raises:
            KafkaUnavailable: the brokers did not answer, or refused.
        """
        try:
            # Made before it is looked up: brokers may create a topic that is only asked for.
            wanted = NewTopic(
                topic,
                num_partitions=partitions,
                replication_factor=self._replication,
                config=dict(settings),
            )
            self._create(wanted)
            deadline = time.monotonic() + _METADATA_SECONDS
            while time.monotonic() < deadline:
                count = self._partitions(topic)
                if count >= at_least:
                    return count
                if count:
                    self._grow(topic, at_least)
                time.sleep(0.05)
        except KafkaException as error:
            raise self._unavailable(error) from error
        except TimeoutError as error:
            raise KafkaUnavailable(
                f"Kafka at {self._bootstrap} does not answer; is [kafka] bootstrap right?"
            ) from error
        raise KafkaUnavailable(
            f"Kafka at {self._bootstrap} does not show topic {topic}; make it, or allow to"
        )

    def partitions(self) -> dict[str, int]:
        """Return how many partitions each topic has.

        Raises:
            KafkaUnavailable: the brokers did not answer.
        """
        try:
            found = self._admin.list_topics(timeout=_METADATA_SECONDS).topics
        except KafkaException as error:
            raise self._unavailable(error) from error
        return {name: len(topic.partitions) for name, topic in found.items() if not topic.error}

    def _partitions(self, topic: str) -> int:
        found = self._admin.list_topics(topic, timeout=_METADATA_SECONDS).topics.get(topic)
        if found is None or found.error is not None:
            return 0
        return len(found.partitions)

    def _create(self, wanted: NewTopic) -> None:
        try:
            self._admin.create_topics([wanted])[wanted.topic].result(timeout=_METADATA_SECONDS)
        except KafkaException as error:
            if error.args[0].code() not in _ALREADY_THERE:
                raise

    def _grow(self, topic: str, partitions: int) -> None:
        more = NewPartitions(topic, partitions)
        try:
            self._admin.create_partitions([more])[topic].result(timeout=_METADATA_SECONDS)
        except KafkaException as error:
            raise KafkaUnavailable(
                f"topic {topic} was made again with too few partitions: {error.args[0].str()}; "
                f"give it {partitions}, as it had"
            ) from error

    def _unavailable(self, error: KafkaException) -> KafkaUnavailable:
        # Why a connection ends (TLS, a password) is reported to the callback alone.
        self._admin.poll(0)
        cause, met = error.args[0], self._met
        self._met = ""
        return KafkaUnavailable(
            f"Kafka at {self._bootstrap}: {met or cause.str() or cause.name()}; is it running, "
            "and are bootstrap and properties of [kafka] right?"
        )


class ControlReader:
    """Reads the control topic from its beginning, for ever, in a thread of its own.

    ``deliver(records, position, end)`` is called in that thread with the records that came, each
    as when it was said (Unix seconds) and its value, the position after them, and the end of the
    topic as it was at start.
    """

    def __init__(
        self,
        bootstrap: str,
        properties: Mapping[str, Any],
        topic: str,
        deliver: Callable[[list[tuple[float, bytes]], int, int], None],
    ) -> None:
        """Make a reader; ``start`` begins to read."""
        self._topic = topic
        self._deliver = deliver
        self._stop = threading.Event()
        self._settings = {
            **client_settings(bootstrap, properties),
            "group.id": "headgate-observer-reads-without-a-group",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "error_cb": _errors,
        }
        self._thread = threading.Thread(target=self._read, name="control-topic", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self) -> None:
        """Stop reading and wait for the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_METADATA_SECONDS)

    def _read(self) -> None:
        consumer = Consumer(self._settings)
        try:
            place = TopicPartition(self._topic, 0)
            end = -1
            while end < 0 and not self._stop.is_set():
                try:
                    start, end = consumer.get_watermark_offsets(place, timeout=_METADATA_SECONDS)
                except KafkaException as error:
                    _errors(error.args[0])
            if self._stop.is_set():
                return
            place.offset = start
            consumer.assign([place])
            position = start
            self._deliver([], position, end)
            while not self._stop.is_set():
                # consume() alone would wait for all of its messages, and barriers with it.
                first = consumer.poll(_POLL_SECONDS)
                more = consumer.consume(num_messages=1000, timeout=0) if first is not None else []
                records = [first, *more] if first is not None else []
                heard: list[tuple[float, bytes]] = []
                for record in records:
                    refusal = record.error()
                    if refusal is not None:
                        _errors(refusal)
                        continue
                    position = (record.offset() or 0) + 1
                    value = record.value()
                    if value is not None:
                        heard.append((record.timestamp()[1] / 1000, value))
                if position < end:
                    # Compaction may have removed the last records before the end.
                    known = consumer.position([place])[0].offset
                    position = max(position, known)
                if heard or records or position < end:
                    self._deliver(heard, position, end)
        finally:
            consumer.close()
