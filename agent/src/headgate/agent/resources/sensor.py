"""The sensor: a process on each machine that runs steps, which says how busy the machine is."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import structlog
from confluent_kafka import KafkaError, Message, Producer
from msgspec import Meta, Struct

from headgate.agent.ending import Ending
from headgate.agent.resources.machines import MachineSampler
from headgate.events import MACHINES_TOPIC, encode_machine
from headgate.settings import Places, load

log = structlog.get_logger("headgate.sensor")

SENSOR_PREFIX = "HEADGATE_SENSOR_"
"""``[kafka] bootstrap`` is overridden by ``HEADGATE_SENSOR_KAFKA_BOOTSTRAP``."""
_LAST = 5.0  # seconds for the last sample when the sensor ends


class SensorKafka(Struct, frozen=True, forbid_unknown_fields=True):
    """Where samples go. ``properties`` are librdkafka's own (TLS, SASL ...)."""

    bootstrap: Annotated[str, Meta(min_length=1)]
    topic: Annotated[str, Meta(min_length=1)] = MACHINES_TOPIC
    """Shared with the agents."""
    properties: dict[str, str | int | float | bool] = {}


class SensorConfiguration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of ``headgate sensor``."""

    kafka: SensorKafka
    name: str = ""
    """How samples call the machine; the host's name where empty."""
    every_seconds: Annotated[float, Meta(gt=0)] = 5.0
    """How often the machine is sampled."""
    weight: Annotated[float, Meta(gt=0)] = 1.0
    """The machine's part among those on which steps run."""


def load_sensor_configuration(
    path: Path | None, environment: Mapping[str, str]
) -> SensorConfiguration:
    """Return what the file says, with what the environment overrides.

    Raises:
        ConfigurationError: it cannot be read or used; the message says where and what to do.
    """
    return load(SensorConfiguration, path, environment, prefix=SENSOR_PREFIX, check=_check)


def _check(configuration: SensorConfiguration, places: Places) -> None:
    first, *_ = configuration.kafka.bootstrap.split(",")
    places.check_address(("kafka", "bootstrap"), first.strip())


class _Delivery:
    """Says once that samples are not delivered, and once that they are again."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._failing = False

    def __call__(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and not self._failing:
            log.warning("samples are dropped", kafka=self._bootstrap, problem=error.str())
        elif error is None and self._failing:
            log.info("samples are delivered again")
        self._failing = error is not None


def serve_sensor(configuration: SensorConfiguration, ready: Callable[[str], None]) -> None:
    """Publish samples until SIGTERM or SIGINT.

    Samples that Kafka does not take in time are dropped: an old one is worth nothing.

    Args:
        configuration: of this sensor.
        ready: called with the machine's name before the first sample.
    """
    kafka, every = configuration.kafka, configuration.every_seconds
    settings: dict[str, Any] = {
        "message.timeout.ms": max(1000, int(every * 1000)),
        "queue.buffering.max.messages": 100,
        "log_level": 0,
        **kafka.properties,
        "bootstrap.servers": kafka.bootstrap,
    }
    producer = Producer(settings)
    delivered = _Delivery(kafka.bootstrap)
    sampler = MachineSampler(configuration.name or socket.gethostname(), configuration.weight)
    with Ending() as ending:
        ready(sampler.machine)
        while not ending.wait(every):
            sample = sampler.sample()
            try:
                producer.produce(
                    kafka.topic,
                    encode_machine(sample),
                    sample.machine.encode(),
                    0,
                    on_delivery=delivered,
                )
            except BufferError:
                log.debug("sample dropped", reason="Kafka is away and the queue is full")
            producer.poll(0)
        producer.flush(_LAST)
