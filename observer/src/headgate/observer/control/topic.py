"""The control topic: what is said on it is heard, and what the observer says is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from headgate.events import (
    ControlMessage,
    MalformedEvent,
    control_key,
    decode_control,
    encode_control,
)
from headgate.observer.config import KafkaSettings
from headgate.observer.publishing.deliveries import DeliveryFailure, FailureKind
from headgate.observer.publishing.kafka import (
    ControlReader,
    KafkaProducer,
    KafkaUnavailable,
    Topics,
)
from headgate.observer.starting import StartError

_RETRY_SECONDS = 2.0

_log = structlog.get_logger("headgate.observer.control.topic")

Heard = list[tuple[float, ControlMessage]]
"""Messages, each with when it was said (Unix seconds)."""


class ControlTopic:
    """One observer's way to the control topic and from it."""

    def __init__(
        self,
        kafka: KafkaSettings,
        *,
        producer: KafkaProducer,
        topics: Topics,
        hear: Callable[[Heard], None],
    ) -> None:
        """Contact nothing yet; ``hear`` is called in the event loop with what was said."""
        self._topic = kafka.control_topic
        self._producer = producer
        self._topics = topics
        self._hear = hear
        self._loop = asyncio.get_running_loop()
        self._reader = ControlReader(
            kafka.bootstrap, kafka.properties, self._topic, self._come_from_thread
        )
        self._restoring: asyncio.Task[None] | None = None
        self.undelivered = 0
        """Messages that Kafka has not acknowledged."""
        self.caught_up = asyncio.Event()
        """Set once everything was heard that had been said before the start."""

    async def await_kafka(self, deadline: float, seconds: float) -> None:
        """Wait for Kafka, and make the topic if it is not there.

        Raises:
            StartError: Kafka did not answer before ``deadline`` (the loop's time), in so many
                seconds.
        """

        def find() -> None:
            self._topics.reach(_RETRY_SECONDS)
            self.make()

        while True:
            try:
                await self._loop.run_in_executor(None, find)
            except KafkaUnavailable as error:
                _log.warning("waiting for Kafka", reason=str(error))
                if self._loop.time() + _RETRY_SECONDS > deadline:
                    raise StartError(f"{error} (waited {seconds:g} s)") from error
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    def make(self) -> None:
        """Make the topic if it is not there; for another thread.

        Raises:
            KafkaUnavailable: Kafka refused, or cannot be reached.
        """
        self._topics.ensure(self._topic, partitions=1, settings={"cleanup.policy": "compact"})

    def start(self) -> None:
        """Begin to hear."""
        self._reader.start()

    def close(self) -> None:
        """Hear no more."""
        self._reader.close()

    def say(self, message: ControlMessage) -> None:
        """Send a message, unless the producer is full: who has to hear it says it again."""
        self.undelivered += 1

        def done(failure: DeliveryFailure | None) -> None:
            self.undelivered -= 1
            if failure is not None:
                _log.warning("control message not delivered", reason=failure.text)
                if failure.kind is FailureKind.TOPIC and self._restoring is None:
                    self._restoring = self._loop.create_task(self._restore())

        if not self._producer.send_keyed(
            self._topic, control_key(message), encode_control(message), done
        ):
            self.undelivered -= 1
            _log.warning("control message not sent: the producer is full")

    async def _restore(self) -> None:
        """Make the control topic again, which somebody has deleted; leases follow by themselves."""
        try:
            await self._loop.run_in_executor(None, self.make)
        except KafkaUnavailable as error:
            _log.warning("the control topic could not be made", reason=str(error))
        finally:
            self._restoring = None

    def _come_from_thread(
        self, records: list[tuple[float, bytes]], position: int, end: int
    ) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._come, records, position, end)

    def _come(self, records: list[tuple[float, bytes]], position: int, end: int) -> None:
        heard: Heard = []
        for said, value in records:
            try:
                heard.append((said, decode_control(value)))
            except MalformedEvent as error:
                _log.warning("control message skipped", reason=str(error))
        self._hear(heard)
        if position >= end:
            self.caught_up.set()
