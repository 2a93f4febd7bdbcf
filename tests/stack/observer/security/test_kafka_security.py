"""Kafka over TLS, and with SASL: a broker of the tests' own takes nothing else from observers."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import happybase
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from free_ports import free_port
from msgspec import Struct, structs

from headgate.events import UpdateBatch
from headgate.local import Lifetime, Part, find_java, start_process
from headgate.local.configuration import render
from headgate.local.jars import JarStore, read_lock
from headgate.local.places import default_cache, find_configuration
from headgate.local.processes.parts import PLANS
from headgate.local.processes.ports import Port
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)
from headgate.observer.publishing.kafka import KafkaUnavailable, Topics

pytestmark = [pytest.mark.stack, pytest.mark.soak]

_START_SECONDS = 240.0
_USER = "observer-1"
_PASSWORD = "pass-of-the-observer"

_SERVER = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAIN://127.0.0.1:{plain},TLS://127.0.0.1:{tls},SASL://127.0.0.1:{sasl},\
CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAIN://127.0.0.1:{plain},TLS://localhost:{tls},SASL://localhost:{sasl}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT,TLS:SSL,SASL:SASL_SSL
inter.broker.listener.name=PLAIN
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
listener.name.tls.ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.sasl.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
listener.name.sasl.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
"""


class Broker(Struct, frozen=True):
    """Where a broker with three listeners is reached: without and with TLS, and with SASL."""

    plain: str
    tls: str
    sasl: str


def answers(address: str) -> bool:
    client = AdminClient({"bootstrap.servers": address, "log_level": 0})
    try:
        return bool(client.list_topics(timeout=3).brokers)
    except KafkaException:
        return False


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, authority: Any) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("broker")
    source, conf = find_configuration(), folder / "conf"
    conf.mkdir()
    render(source, conf, {f"{port.key}_port": "0" for port in Port} | {"data": str(folder)})
    certificate, key = authority.issue("broker", "DNS:localhost", "IP:127.0.0.1")
    keystore = folder / "broker.pem"
    keystore.write_text(key.read_text() + certificate.read_text())
    controller, plain, tls, sasl = (free_port() for _ in range(4))
    properties = conf / "server.properties"
    properties.write_text(
        _SERVER.format(
            controller=controller,
            plain=plain,
            tls=tls,
            sasl=sasl,
            data=folder / "data",
            keystore=keystore,
            authority=authority.certificate,
            user=_USER,
            password=_PASSWORD,
        )
    )
    jars = JarStore(default_cache()).provide(read_lock(source / "kafka"), lambda _: None)
    paths = os.pathsep.join(str(path) for path in (conf, *jars))
    environment = {**os.environ, "CLASSPATH": paths}
    java = str(find_java().program)
    scram = f"SCRAM-SHA-512=[name={_USER},password={_PASSWORD}]"
    tool = ("kafka.tools.StorageTool", "format", "-t", "headgate-tests-of-tls-")
    subprocess.run(
        [java, "-Xmx128m", *tool, "-c", str(properties), "--add-scram", scram],
        env=environment,
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=_START_SECONDS,
    )
    log = folder / "broker.log"
    command = [java, *PLANS[Part.KAFKA].java, "kafka.Kafka", str(properties)]
    process = start_process(command, environment, log, Lifetime.WITH_CALLER)
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not answers(f"127.0.0.1:{plain}"):
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
        yield Broker(f"127.0.0.1:{plain}", f"localhost:{tls}", f"localhost:{sasl}")
    finally:
        process.kill()
        process.wait()


def of_sasl(mechanism: str, authority: Any, password: str = _PASSWORD) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.certificate),
        "sasl.mechanism": mechanism,
        "sasl.username": _USER,
        "sasl.password": password,
    }


def of_tls(authority: Any, owner: Any) -> dict[str, Any]:
    certificate, key = owner.issue("observer")
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.certificate),
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(key),
    }


@pytest.fixture
def config(stack, tmp_path: Path) -> ObserverConfig:
    return ObserverConfig(
        name="secure",
        thrift1=Listener("127.0.0.1:0", str(stack.thrift1)),
        kafka=KafkaSettings(""),
        journal=JournalSettings(str(tmp_path / "journal")),
        start_seconds=_START_SECONDS,
    )


@pytest.mark.parametrize("manner", ["mutual TLS", "PLAIN", "SCRAM-SHA-512"])
def test_events_go_to_a_kafka_that_asks_who_writes(
    stack,
    broker: Broker,
    make_subscriber,
    config: ObserverConfig,
    tmp_path: Path,
    authority: Any,
    manner,
) -> None:
    subscriber = make_subscriber(broker.plain)
    name = stack.table("kafka_tls")
    if manner == "mutual TLS":
        address, properties = broker.tls, of_tls(authority, authority)
    else:
        address, properties = broker.sasl, of_sasl(manner, authority)
    kafka = KafkaSettings(address, control_topic=subscriber.control_topic, properties=properties)
    config = structs.replace(config, kafka=kafka)
    with ObserverProcess(config, tmp_path, seconds=_START_SECONDS) as observer:
        subscriber.watch(name)
        happybase.Connection(*observer.thrift1, timeout=30_000).table(name).put(
            b"r", {b"f:a": b"1"}
        )
        messages = [
            each for part in subscriber.read(name, subscriber.barrier(name)) for each in part
        ]
    assert [m.rows for m in messages if isinstance(m, UpdateBatch)] == [(b"r",)]
    assert _PASSWORD not in observer.log.read_text()


@pytest.mark.parametrize(
    ("manner", "told"),
    [
        ("a wrong password", "invalid credentials"),
        ("a stranger's certificate", "certificate"),
    ],
)
def test_a_kafka_that_refuses_the_observer_is_told_and_no_secret_with_it(
    broker: Broker, authority: Any, other_authority: Any, manner: str, told: str
) -> None:
    wrong = "wrong-pass-of-the-observer"
    address, properties = {
        "a wrong password": (broker.sasl, of_sasl("SCRAM-SHA-512", authority, password=wrong)),
        "a stranger's certificate": (broker.tls, of_tls(authority, other_authority)),
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
