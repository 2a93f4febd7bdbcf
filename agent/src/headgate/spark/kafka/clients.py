"""What all clients of Kafka have in common."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from headgate.spark.messages import KafkaAddress

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

KAFKA_PATIENCE: Final = 30.0
"""Seconds in which Kafka has to answer: above its own failover."""


class Client(Protocol):
    """A producer, a consumer, or a client of administrators."""

    def poll(self, timeout: float, /) -> object:
        """Serve callbacks, if any wait."""


class Troubles:
    """What a client meets, such as a password that is refused: its calls only time out."""

    def __init__(self) -> None:
        self._last = ""
        self._met = 0.0

    def meet(self, error: KafkaError) -> None:
        """Note an error: the client's ``error_cb``."""
        if error.name() != "_ALL_BROKERS_DOWN":  # it follows on each of the others
            self._last, self._met = error.str(), time.monotonic()

    def beside(self, words: str) -> str:
        """Return words on what failed, with what the client has met meanwhile."""
        if self._last and time.monotonic() - self._met < 2 * KAFKA_PATIENCE:
            return f"{words} ({self._last})"
        return words

    def words(self, error: KafkaError, client: Client) -> str:
        """Return why a call of the client failed."""
        from confluent_kafka import KafkaException

        with suppress(KafkaException):  # an error that ends the client is raised once more
            client.poll(0)
        return self.beside(error.str())


def client_properties(address: KafkaAddress, troubles: Troubles) -> dict[str, Any]:
    """Return with which properties a client is made: those that the agent was told.

    Args:
        address: of the Kafka.
        troubles: notes what the client meets.
    """
    return {
        **address.properties,
        "bootstrap.servers": address.bootstrap,
        "error_cb": troubles.meet,
    }


def silent_logger() -> logging.Logger:
    """Return the logger librdkafka writes to: what matters is reported by errors of calls."""
    logger = logging.getLogger("headgate.kafka")
    logger.setLevel(logging.CRITICAL)
    return logger
