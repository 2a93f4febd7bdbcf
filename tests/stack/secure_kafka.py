"""A Kafka of the tests' own, over TLS and with SASL: it asks its clients who they are."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from free_ports import free_port
from msgspec import Struct

from headgate.local import Lifetime, Part, find_java, start_process
from headgate.local.configuration import render
from headgate.local.jars import JarStore, read_lock
from headgate.local.places import default_cache, find_configuration
from headgate.local.processes.parts import PLANS
from headgate.local.processes.ports import Port

START_SECONDS = 240.0
USER = "client-1"
PASSWORD = "pass-of-a-client"

MANNERS = ("mutual TLS", "PLAIN", "SCRAM-SHA-512")

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
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
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


class SecureKafka(Struct, frozen=True):
    """Where a broker with three listeners is reached: without and with TLS, and with SASL."""

    plain: str
    tls: str
    sasl: str

    def known(self, manner: str, authority: Any) -> tuple[str, dict[str, Any]]:
        """Return where a client is let in that is known in one of ``MANNERS``, and by what."""
        if manner == "mutual TLS":
            return self.tls, of_tls(authority, authority)
        return self.sasl, of_sasl(manner, authority)


def answers(address: str) -> bool:
    client = AdminClient({"bootstrap.servers": address, "log_level": 0})
    try:
        return bool(client.list_topics(timeout=3).brokers)
    except KafkaException:
        return False


@pytest.fixture(scope="module")
def secure_kafka(tmp_path_factory: pytest.TempPathFactory, authority: Any) -> Iterator[SecureKafka]:
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
            user=USER,
            password=PASSWORD,
        )
    )
    jars = JarStore(default_cache()).provide(read_lock(source / "kafka"), lambda _: None)
    paths = os.pathsep.join(str(path) for path in (conf, *jars))
    environment = {**os.environ, "CLASSPATH": paths}
    java = str(find_java().program)
    scram = f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"
    tool = ("kafka.tools.StorageTool", "format", "-t", "headgate-tests-of-tls-")
    subprocess.run(
        [java, "-Xmx128m", *tool, "-c", str(properties), "--add-scram", scram],
        env=environment,
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=START_SECONDS,
    )
    log = folder / "broker.log"
    command = [java, *PLANS[Part.KAFKA].java, "kafka.Kafka", str(properties)]
    process = start_process(command, environment, log, Lifetime.WITH_CALLER)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not answers(f"127.0.0.1:{plain}"):
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
        yield SecureKafka(f"127.0.0.1:{plain}", f"localhost:{tls}", f"localhost:{sasl}")
    finally:
        process.kill()
        process.wait()


def of_sasl(mechanism: str, authority: Any, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.certificate),
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": password,
    }


def of_tls(authority: Any, owner: Any) -> dict[str, Any]:
    certificate, key = owner.issue("client")
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.certificate),
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(key),
    }
