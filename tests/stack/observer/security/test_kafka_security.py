"""Kafka over TLS, and with SASL: a broker of the tests' own takes nothing else from observers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import happybase
import pytest
from msgspec import structs
from secure_kafka import MANNERS, PASSWORD, START_SECONDS, SecureKafka, of_sasl, of_tls

from headgate.events import UpdateBatch
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)
from headgate.observer.publishing.kafka import KafkaUnavailable, Topics

pytestmark = [pytest.mark.stack, pytest.mark.soak]


@pytest.fixture
def config(stack, tmp_path: Path) -> ObserverConfig:
    return ObserverConfig(
        name="secure",
        thrift1=Listener("127.0.0.1:0", str(stack.thrift1)),
        kafka=KafkaSettings(""),
        journal=JournalSettings(str(tmp_path / "journal")),
        start_seconds=START_SECONDS,
    )


@pytest.mark.parametrize("manner", MANNERS)
def test_events_go_to_a_kafka_that_asks_who_writes(
    stack,
    secure_kafka: SecureKafka,
    make_subscriber,
    config: ObserverConfig,
    tmp_path: Path,
    authority: Any,
    manner,
) -> None:
    subscriber = make_subscriber(secure_kafka.plain)
    name = stack.table("kafka_tls")
    address, properties = secure_kafka.known(manner, authority)
    kafka = KafkaSettings(address, control_topic=subscriber.control_topic, properties=properties)
    config = structs.replace(config, kafka=kafka)
    with ObserverProcess(config, tmp_path, seconds=START_SECONDS) as observer:
        subscriber.watch(name)
        happybase.Connection(*observer.thrift1, timeout=30_000).table(name).put(
            b"r", {b"f:a": b"1"}
        )
        messages = [
            each for part in subscriber.read(name, subscriber.barrier(name)) for each in part
        ]
    assert [m.rows for m in messages if isinstance(m, UpdateBatch)] == [(b"r",)]
    assert PASSWORD not in observer.log.read_text()


@pytest.mark.parametrize(
    ("manner", "told"),
    [
        ("a wrong password", "invalid credentials"),
        ("a stranger's certificate", "certificate"),
    ],
)
def test_a_kafka_that_refuses_the_observer_is_told_and_no_secret_with_it(
    secure_kafka: SecureKafka, authority: Any, other_authority: Any, manner: str, told: str
) -> None:
    wrong = "wrong-pass-of-the-observer"
    address, properties = {
        "a wrong password": (
            secure_kafka.sasl,
            of_sasl("SCRAM-SHA-512", authority, password=wrong),
        ),
        "a stranger's certificate": (secure_kafka.tls, of_tls(authority, other_authority)),
    }[manner]
    topics = Topics(address, properties, replication=1)
    deadline = time.monotonic() + 60
    said = ""
    while told not in said:
        assert time.monotonic() < deadline, said
        with pytest.raises(KafkaUnavailable) as refused:
            topics.reach(1.0)
        said = str(refused.value)
    assert wrong not in said
