"""The local stack comes up, stays as it was through crashes, and goes without a trace."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import happybase
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from headgate.local import Address, LocalStack, Part, PartState
from headgate.local.processes.parts import PLANS
from headgate.local.processes.ports import Port, PortReservation

pytestmark = pytest.mark.stack

DEFAULT_PORTS = (2181, 9090, 9091, 9092, 9093, 16000, 16010, 16020, 16030)
READY_SECONDS = 40.0  # the promise: from jars in place to every part answering
MOST_LOAD = 1.5  # runnable programs per core, before the start, beyond which nothing is measured


class Command:
    """``headgate local`` for one home."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def start(self, action: str, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                sys.executable,
                *("-m", "headgate.cli", "local", action),
                f"--home={self.home}",
                *options,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, action: str, *options: str) -> subprocess.CompletedProcess[str]:
        process = self.start(action, *options)
        said, told = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, said, told)


@pytest.fixture(scope="module")
def taken_ports() -> Iterator[None]:
    """Every default port is taken by something else, from before the start to the end."""
    with ExitStack() as servers:
        for port in DEFAULT_PORTS:
            # Without SO_REUSEADDR, or it would take what the stack of another process of tests
            # has reserved, and not yet begun to listen on.
            server = servers.enter_context(socket.socket())
            try:
                server.bind(("127.0.0.1", port))
            except OSError:
                continue  # taken indeed, and not by us
            server.listen()
        yield


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Command:
    return Command(tmp_path_factory.mktemp("local"))


class CutShort(NamedTuple):
    """What was seen of the instance's first two starts, which ended before all parts ran."""

    after_interrupt: int
    """The exit code of the one that Ctrl-C ended."""
    said: tuple[str, str]
    left: dict[Part, int]
    """What ran after it."""
    orphan: int
    """HBase's process, which runs on after the other was killed."""
    its_port: int
    port_of_others: int
    """What another instance has chosen, asked to take the same: HBase may not listen yet."""


@pytest.fixture(scope="module")
def cut_short(taken_ports: None, command: Command) -> Iterator[CutShort]:
    """An instance's first start was interrupted, and its second killed."""
    local = LocalStack(command.home)
    local.fetch_jars()  # which may take longer than anybody waits below
    try:
        interrupted = command.start("up")
        assert wait_until(lambda: set(pids(local)) >= {Part.HBASE, Part.KAFKA}, 30)
        interrupted.send_signal(signal.SIGINT)
        said = interrupted.communicate()
        left = pids(local)

        killed = command.start("up")
        assert wait_until(lambda: Part.HBASE in pids(local), 30)
        os.kill(killed.pid, signal.SIGKILL)
        killed.communicate()
        started = local.addresses()
        assert started is not None
        other = PortReservation()
        chosen = other.choose(Port.ZOOKEEPER, before=started.zookeeper.port)
        other.close()
        yield CutShort(
            after_interrupt=interrupted.returncode,
            said=said,
            left=left,
            orphan=pids(local)[Part.HBASE],
            its_port=started.zookeeper.port,
            port_of_others=chosen,
        )
    finally:
        local.reset()  # nobody reads its data again


@pytest.fixture(scope="module")
def first_starts(cut_short: CutShort, command: Command) -> list[dict[str, object]]:
    """Two commands at once brought the instance up; what each printed."""
    processes = [command.start("up", "--json") for _ in range(2)]
    outputs = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    return [json.loads(said) for said, _ in outputs]


@pytest.fixture
def running(first_starts: list[dict[str, object]], command: Command) -> LocalStack:
    """The instance, up."""
    local = LocalStack(command.home)
    local.up()
    return local


def pids(local: LocalStack) -> dict[Part, int]:
    return {each.part: each.process.pid for each in local.status().parts if each.process}


def write_row(thrift1: Address, table: str) -> None:
    connection = happybase.Connection(*thrift1, timeout=60_000)
    connection.create_table(table, {"f": {}})
    connection.table(table).put(b"row", {b"f:cell": b"value"})
    connection.close()


def read_row(thrift1: Address, table: str) -> dict[bytes, bytes]:
    connection = happybase.Connection(*thrift1, timeout=60_000)
    try:
        return dict(connection.table(table).row(b"row"))
    finally:
        connection.close()


def produce(kafka: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka, "acks": "all"})
    producer.produce(topic, b"message")
    assert producer.flush(30) == 0


def consume(kafka: str, topic: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": topic})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(30)
        return message.value() if message is not None and message.error() is None else None
    finally:
        consumer.close()


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def test_other_ports_are_chosen_when_the_defaults_are_taken(
    first_starts: list[dict[str, object]],
) -> None:
    said = first_starts[0]
    ports = {
        int(str(said[name]).rpartition(":")[2])
        for name in ("thrift1", "thrift2", "kafka", "zookeeper")
    }
    assert not ports & set(DEFAULT_PORTS)


@pytest.mark.soak
def test_the_stack_is_ready_in_time(taken_ports: None, command: Command) -> None:
    local = LocalStack(command.home, "timed")
    local.fetch_jars()
    load = os.getloadavg()[0]
    began = time.monotonic()
    try:
        assert command("up", "--instance", "timed").returncode == 0
        took = time.monotonic() - began
    finally:
        local.reset()
    if load > MOST_LOAD * (os.cpu_count() or 1):
        pytest.skip("the machine was busy with other work, which would be measured instead")
    assert took < READY_SECONDS


def test_an_interrupted_start_ends_what_it_has_started(cut_short: CutShort) -> None:
    assert cut_short.after_interrupt == 130, cut_short.said
    assert cut_short.left == {}


def test_ports_of_a_start_that_was_killed_are_not_given_to_others(cut_short: CutShort) -> None:
    assert cut_short.port_of_others != cut_short.its_port


def test_what_a_killed_start_left_is_made_whole(cut_short: CutShort, running: LocalStack) -> None:
    assert pids(running)[Part.HBASE] == cut_short.orphan
    thrift1 = running.up().thrift1
    write_row(thrift1, "whole")
    assert read_row(thrift1, "whole") == {b"f:cell": b"value"}


def test_two_commands_at_once_bring_up_one_stack(
    first_starts: list[dict[str, object]], running: LocalStack
) -> None:
    assert first_starts[0] == first_starts[1]
    assert set(pids(running)) == set(PLANS)


def test_up_again_changes_nothing(running: LocalStack) -> None:
    before, addresses = pids(running), running.addresses()
    assert running.up() == addresses
    assert pids(running) == before


def test_ports_that_are_not_the_default_are_told(running: LocalStack, command: Command) -> None:
    running.kill(Part.THRIFT2)
    told = command("up").stderr
    assert f"thrift2 uses port {running.up().thrift2.port}, because 9091" in told


@pytest.mark.parametrize("part", [pytest.param(Part.HBASE, marks=pytest.mark.soak), Part.THRIFT1])
def test_a_killed_part_alone_is_started_again_at_its_address_with_its_data(
    running: LocalStack, part: Part
) -> None:
    addresses, before = running.up(), pids(running)
    table = f"killed_{part.value}"
    write_row(addresses.thrift1, table)
    running.kill(part)
    assert running.up() == addresses
    after = pids(running)
    assert after.keys() == before.keys()
    assert {each for each in after if after[each] != before[each]} == {part}
    assert read_row(addresses.thrift1, table) == {b"f:cell": b"value"}


@pytest.mark.soak
def test_a_connect_server_comes_and_goes_with_the_stack(
    running: LocalStack, command: Command
) -> None:
    before = pids(running)
    said = json.loads(command("up", "--connect", "--json").stdout)
    assert {**pids(running), Part.CONNECT: 0} == {**before, Part.CONNECT: 0}
    session = SparkSession.builder.remote(said["connect"]).create()
    try:
        assert session.range(5).count() == 5
    finally:
        session.stop()
    assert running.up().connect == said["connect"], "what runs is kept"
    command("down")
    assert pids(running) == {}


def test_everything_killed_at_once_comes_back_with_its_data(running: LocalStack) -> None:
    addresses = running.up()
    write_row(addresses.thrift1, "outage")
    produce(addresses.kafka, "outage")
    for part in PLANS:
        running.kill(part)
    assert all(each.state is PartState.STOPPED for each in running.status().parts)
    again = running.up()
    assert read_row(again.thrift1, "outage") == {b"f:cell": b"value"}
    assert consume(again.kafka, "outage") == b"message"


def test_down_leaves_no_process_and_keeps_the_data(running: LocalStack, command: Command) -> None:
    write_row(running.up().thrift1, "down")
    identities = [each.process for each in running.status().parts if each.process]
    assert command("down").returncode == 0
    assert not any(identity.lives() for identity in identities)
    assert pids(running) == {}
    assert command("status").returncode == 1
    assert read_row(running.up().thrift1, "down") == {b"f:cell": b"value"}


def test_a_reset_leaves_no_process_and_no_file_but_the_lock(running: LocalStack) -> None:
    assert pids(running).keys() == PLANS.keys()
    running.reset()
    assert pids(running) == {}
    assert [each.name for each in running.folder.iterdir()] == ["lock"]
