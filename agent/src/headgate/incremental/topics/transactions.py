"""Transactions of Kafka by which increments are sent."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final

import msgspec
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from headgate.incremental.topics.encoding import OutgoingMessage
from headgate.incremental.topics.sending import SentPosition, UnsentIncrement
from headgate.spark import (
    KAFKA_PATIENCE,
    KafkaAddress,
    RecordsUnavailable,
    Troubles,
    client_properties,
    silent_logger,
)

_TRANSACTION: Final = 60_000
"""Milliseconds after which Kafka undoes a transaction whose sender is gone: readers of committed
messages wait for it meanwhile, unless the next sender comes before."""
_ROOM: Final = 0.1  # seconds between two tries where the producer holds all that it may


class _Rows(msgspec.Struct, frozen=True):
    """What is kept beside the group's offset, which is the increment."""

    rows: int
    of: int


def sent_position(address: KafkaAddress, identity: str, topic: str) -> SentPosition | None:
    """Return how far a sink's increments were sent; None where Kafka does not know.

    Raises:
        RecordsUnavailable: Kafka does not answer.
    """
    troubles = Troubles()
    consumer = _consumer(address, identity, troubles)
    try:
        [found] = consumer.committed([TopicPartition(topic, 0)], timeout=KAFKA_PATIENCE)
    except KafkaException as error:
        said = troubles.words(error.args[0], consumer)
        message = f"offsets of group {identity} cannot be read: {said}"
        raise RecordsUnavailable(message) from error
    finally:
        consumer.close()
    if found.error is not None:
        message = f"offsets of group {identity} cannot be read: {found.error.str()}"
        raise RecordsUnavailable(message)
    if found.offset < 0:
        return None
    try:
        rows = msgspec.json.decode(found.metadata or "", type=_Rows)
    except msgspec.MsgspecError as error:
        message = (
            f"group {identity} has offset {found.offset}, which no stage has committed: delete its "
            f"offsets (`kafka-consumer-groups.sh --delete --group {identity}`); what the last run "
            "has sent is sent again then"
        )
        raise RecordsUnavailable(message) from error
    return SentPosition(found.offset, rows.rows, rows.of)


def _consumer(address: KafkaAddress, identity: str, troubles: Troubles) -> Consumer:
    return Consumer(
        {
            **client_properties(address, troubles),
            "group.id": identity,
            "enable.auto.commit": False,
            # Of offsets that a transaction commits which is not over, the outcome is waited for.
            "isolation.level": "read_committed",
        },
        logger=silent_logger(),
    )


class KafkaSession:
    """A sender of a sink's increments, within a ``with`` block.

    At its beginning all senders before it are fenced off: a transaction that one of them has begun
    is undone, or over, and none begins another.

    Args:
        address: of the Kafka.
        identity: of the sink.
        topic: where it goes.
    """

    def __init__(self, address: KafkaAddress, identity: str, topic: str) -> None:
        self._identity = identity
        self._topic = topic
        self._troubles = troubles = Troubles()
        self._consumer = _consumer(address, identity, troubles)
        self._producer = Producer(
            {
                **client_properties(address, troubles),
                "transactional.id": identity,
                "transaction.timeout.ms": _TRANSACTION,
                "message.timeout.ms": _TRANSACTION,
                # As Java's clients do, so that equal keys meet whoever sends them.
                "partitioner": "murmur2_random",
                "linger.ms": 5,
            },
            logger=silent_logger(),
        )

    def __enter__(self) -> KafkaSession:
        try:
            self._producer.init_transactions(_TRANSACTION / 1000)
        except KafkaException as error:
            self._consumer.close()
            raise self._unsent(error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()

    def send(
        self,
        messages: Sequence[OutgoingMessage],
        headers: Sequence[dict[str, bytes]],
        position: SentPosition,
    ) -> None:
        """See ``SinkSession``.

        Raises:
            UnsentIncrement: Kafka does not take it, or another sender has taken over.
        """
        rows = msgspec.json.encode(_Rows(position.rows, position.of)).decode()
        after = TopicPartition(self._topic, 0, position.increment, metadata=rows)
        begun = False
        try:
            self._producer.begin_transaction()
            begun = True
            for message, header in zip(messages, headers, strict=True):
                self._produce(message, header)
            self._producer.send_offsets_to_transaction(
                [after], self._consumer.consumer_group_metadata(), KAFKA_PATIENCE
            )
            self._producer.commit_transaction(_TRANSACTION / 1000)
            begun = False
        except KafkaException as error:
            raise self._unsent(error) from error
        finally:
            if begun:
                with suppress(KafkaException):  # who is fenced off has nothing to undo
                    self._producer.abort_transaction(KAFKA_PATIENCE)

    def _produce(self, message: OutgoingMessage, headers: dict[str, bytes]) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, message.value, message.key, headers=list(headers.items())
                )
            except BufferError:
                self._producer.poll(_ROOM)
            else:
                return

    def _unsent(self, error: KafkaException) -> UnsentIncrement:
        said = self._troubles.words(error.args[0], self._producer)
        return UnsentIncrement(
            f"an increment that is committed is not sent to topic {self._topic} as "
            f"{self._identity}: {said}; the stage's next run sends it before anything else"
        )
