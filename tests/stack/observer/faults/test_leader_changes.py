"""Kafka as a cluster whose brokers die and hang: partitions change their leaders under load."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import happybase
import pytest
from confluent_kafka.admin import AdminClient
from free_ports import free_port

from headgate.events import Gap, Outcome, UpdateBatch, UpdateMessage, updates_topic
from headgate.local import Lifetime, find_java, start_process
from headgate.local.configuration import render
from headgate.local.jars import JarStore, read_lock
from headgate.local.places import default_cache, find_configuration
from headgate.local.processes.parts import PLANS, Part
from headgate.local.processes.ports import HOST, Port
from headgate.local.processes.probes import kafka_answers
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)

pytestmark = [pytest.mark.stack, pytest.mark.soak]

BROKERS = 3
WRITERS = 3
SECONDS = 300.0  # for what takes a few on a machine that is not busy


class Cluster:
    """Three brokers; the first is the controller too, and must live. Every partition is on all."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        *self._ports, controller = (free_port() for _ in range(BROKERS + 1))
        self._source = find_configuration()
        jars = JarStore(default_cache()).provide(read_lock(self._source / "kafka"), lambda _: None)
        self._class_path = os.pathsep.join(str(path) for path in jars)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        for node in range(1, BROKERS + 1):
            self._format(node, controller, cluster)

    def _format(self, node: int, controller: int, cluster: str) -> None:
        place = self._directory / f"broker-{node}"
        place.mkdir(parents=True)
        values = {f"{port.key}_port": "0" for port in Port}
        values |= {
            "data": str(place),
            f"{Port.KAFKA.key}_port": str(self._ports[node - 1]),
            f"{Port.KAFKA_CONTROLLER.key}_port": str(controller),
        }
        render(self._source, place, values)
        settings = [
            f"node.id={node}",
            "default.replication.factor=3",
            "min.insync.replicas=2",
            "offsets.topic.replication.factor=3",
            "broker.session.timeout.ms=3000",
            "broker.heartbeat.interval.ms=500",
            "replica.lag.time.max.ms=3000",
        ]
        if node > 1:
            address = f"127.0.0.1:{self._ports[node - 1]}"
            settings += ["process.roles=broker", f"listeners=PLAINTEXT://{address}"]
        # Of two lines for one key Java takes the last.
        with (place / "server.properties").open("a") as file:
            file.write("\n" + "\n".join(settings) + "\n")
        arguments = ["format", "-t", cluster, "-c", str(place / "server.properties")]
        command = [*self._java(), "-Xmx128m", "kafka.tools.StorageTool", *arguments]
        subprocess.run(command, env=self._environment(node), check=True, capture_output=True)

    def _java(self) -> list[str]:
        return [str(find_java().program), *PLANS[Part.KAFKA].java]

    def _environment(self, node: int) -> dict[str, str]:
        place = self._directory / f"broker-{node}"
        return {**os.environ, "CLASSPATH": os.pathsep.join([str(place), self._class_path])}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._ports)

    def start(self, *nodes: int) -> None:
        for node in nodes:
            place = self._directory / f"broker-{node}"
            command = [*self._java(), "kafka.Kafka", str(place / "server.properties")]
            log = place / "broker.log"
            environment = self._environment(node)
            self._processes[node] = start_process(command, environment, log, Lifetime.WITH_CALLER)
        for node in nodes:
            answers = partial(kafka_answers, self._ports[node - 1])
            await_that(f"broker {node} answers", answers)

    def kill(self, node: int) -> None:
        process = self._processes.pop(node)
        process.kill()
        process.wait()

    def freeze(self, node: int) -> None:
        os.kill(self._processes[node].pid, signal.SIGSTOP)

    def thaw(self, node: int) -> None:
        os.kill(self._processes[node].pid, signal.SIGCONT)

    def is_led_by_others(self, topic: str, node: int) -> bool:
        """Return whether every partition has a leader, and none this one."""
        leaders = {each.leader for each in self._describe(topic).values()}
        return node not in leaders and -1 not in leaders

    def in_sync(self, topic: str) -> bool:
        """Return whether every broker has all of the topic."""
        return all(len(each.isrs) == BROKERS for each in self._describe(topic).values())

    def _describe(self, topic: str):
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return admin.list_topics(topic, timeout=30).topics[topic].partitions

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()


def await_that(words: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS} s: {words}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start(*range(1, BROKERS + 1))
        yield cluster
    finally:
        cluster.close()


class Writer(threading.Thread):
    """Puts one row after the other until it is told to end."""

    def __init__(self, number: int, address: tuple[str, int], table: str) -> None:
        super().__init__()
        self._number = number
        self._address = address
        self._table = table
        self.done = threading.Event()
        self.rows: list[bytes] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            table = happybase.Connection(*self._address, timeout=60_000).table(self._table)
            while not self.done.wait(0.002):
                row = b"%d-%05d" % (self._number, len(self.rows))
                table.put(row, {b"f:a": row})
                self.rows.append(row)
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.failure = error


@pytest.fixture
def subscriber(cluster: Cluster, make_subscriber):
    return make_subscriber(cluster.bootstrap)


@pytest.fixture
def observer(stack, cluster: Cluster, subscriber, tmp_path: Path) -> Iterator[ObserverProcess]:
    config = ObserverConfig(
        name="o1",
        thrift1=Listener("127.0.0.1:0", str(stack.thrift1)),
        kafka=KafkaSettings(
            cluster.bootstrap,
            control_topic=subscriber.control_topic,
            partitions=4,
            replication=BROKERS,
        ),
        journal=JournalSettings(str(tmp_path / "journal")),
        lease_seconds=3.0,
        start_seconds=SECONDS,
    )
    process = ObserverProcess(config, tmp_path)
    yield process
    if process.running():
        process.kill()


@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_leaders_change_under_load_and_no_event_is_lost_repeated_or_out_of_order(
    stack, cluster: Cluster, subscriber, observer: ObserverProcess, fault: str
) -> None:
    table = stack.table("leaders")
    topic = updates_topic(table)
    subscriber.watch(table)
    writers = [Writer(number, observer.thrift1, table) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        for node in (2, 3):
            await_that("all brokers are in sync", lambda: cluster.in_sync(topic))
            await_progress(writers)
            if fault == "kill":
                cluster.kill(node)
            else:
                cluster.freeze(node)
            await_that("other brokers lead", partial(cluster.is_led_by_others, topic, node))
            await_progress(writers)
            if fault == "kill":
                cluster.start(node)
            else:
                cluster.thaw(node)
        await_that("all brokers are in sync", lambda: cluster.in_sync(topic))
    finally:
        for writer in writers:
            writer.done.set()
        for writer in writers:
            writer.join()
    assert [writer.failure for writer in writers] == [None] * WRITERS
    messages = subscriber.read(table, subscriber.barrier(table), seconds=SECONDS)
    rows = [row for writer in writers for row in writer.rows]
    found = [row for partition in messages for row in applied(partition)]
    assert sorted(found) == sorted(rows)
    for partition in messages:
        assert [message.sequence for message in partition] == list(range(len(partition)))
        assert not any(isinstance(message, Gap) for message in partition)
    assert observer.running()


def await_progress(writers: list[Writer]) -> None:
    """Wait until each has written a good deal more."""
    aims = [len(writer.rows) + 100 for writer in writers]
    await_that(
        "writes go on",
        lambda: all(len(w.rows) >= aim or w.failure for w, aim in zip(writers, aims, strict=True)),
    )


def applied(partition: list[UpdateMessage]) -> list[bytes]:
    rows: list[bytes] = []
    for batch in partition:
        if isinstance(batch, UpdateBatch):
            assert {part.outcome for part in batch.requests} == {Outcome.APPLIED}
            rows += batch.rows
    return rows
