"""How clients of Kafka are made: by what the agent was told, for all of them."""

from __future__ import annotations

import logging
from typing import Any, Final

from headgate.spark import KafkaAddress

PATIENCE: Final = 30.0
"""Seconds in which Kafka has to answer: above its own failover."""


def client_properties(address: KafkaAddress) -> dict[str, Any]:
    """Return with which properties a client is made."""
    return {**address.properties, "bootstrap.servers": address.bootstrap}


def silent() -> logging.Logger:
    """Return the logger librdkafka writes to: what matters is reported by errors of calls."""
    logger = logging.getLogger("headgate.kafka")
    logger.setLevel(logging.CRITICAL)
    return logger
