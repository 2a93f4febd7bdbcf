"""What all clients of Kafka have in common."""

from __future__ import annotations

import logging
from typing import Any, Final

from headgate.spark.messages import KafkaAddress

KAFKA_PATIENCE: Final = 30.0
"""Seconds in which Kafka has to answer: above its own failover."""


def client_properties(address: KafkaAddress) -> dict[str, Any]:
    """Return with which properties a client is made: those that the agent was told."""
    return {**address.properties, "bootstrap.servers": address.bootstrap}


def silent_logger() -> logging.Logger:
    """Return the logger librdkafka writes to: what matters is reported by errors of calls."""
    logger = logging.getLogger("headgate.kafka")
    logger.setLevel(logging.CRITICAL)
    return logger
