"""Connections that are idle for longer than HBase's Thrift server keeps them."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import happybase
import pytest
import thriftpy2
from thriftpy2.rpc import make_client
from thriftpy2.thrift import TException
from thriftpy2.transport import TTransportException

from headgate.local import Part
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)
from headgate.observer.upstreams.asking import FORMATS, PING, call

pytestmark = pytest.mark.stack

TWO = thriftpy2.load(
    str(Path(__file__).parents[3] / "hbase" / "thrift2.thrift"), module_name="tests_two_thrift"
)
IDLE = "4000"  # milliseconds: 60 s by default
ROWS = 5


def wait_for_the_end_of_an_idle_connection(server: tuple[str, int]) -> None:
    with socket.create_connection(server, timeout=90) as idle:
        idle.sendall(call(FORMATS[0], PING))
        while idle.recv(4096):
            pass


Start = Callable[..., ObserverProcess]


@pytest.fixture
def start(stack, subscriber, tmp_path: Path) -> Iterator[Start]:
    started: list[ObserverProcess] = []

    def begin(keep_alive: float, thrift1: str, thrift2: str = "") -> ObserverProcess:
        def listener(server: str) -> Listener:
            return Listener("127.0.0.1:0", server, upstream_keep_alive_seconds=keep_alive)

        config = ObserverConfig(
            name="idle",
            thrift1=listener(thrift1),
            thrift2=listener(thrift2) if thrift2 else None,
            kafka=KafkaSettings(str(stack.kafka), control_topic=subscriber.control_topic),
            journal=JournalSettings(str(tmp_path / "journal")),
        )
        started.append(ObserverProcess(config, tmp_path))
        return started[-1]

    yield begin
    for observer in started:
        assert observer.stop() == 0


@pytest.fixture
def table(stack) -> str:
    name: str = stack.table("idle")
    with stack.happybase().table(name).batch() as batch:
        for number in range(ROWS):
            batch.put(b"row%d" % number, {b"f:q": b"1"})
    return name


def test_idle_clients_go_on_through_the_observer_and_fail_without(
    thrift_servers, start: Start, table: str
) -> None:
    servers = [thrift_servers.begin(part, "-t", IDLE) for part in (Part.THRIFT1, Part.THRIFT2)]
    for server in servers:
        server.await_ready()
    observer = start(1.0, thrift1=str(servers[0]), thrift2=str(servers[1]))
    direct1, direct2 = (("127.0.0.1", server.address.port) for server in servers)
    scans, scanners = [], []
    for address in (observer.thrift1, direct1):
        connection = happybase.Connection(*address, timeout=60_000)
        scan = connection.table(table).scan(batch_size=1)
        assert next(scan)[0] == b"row0"
        scans.append(scan)
    for address in (observer.thrift2, direct2):
        client = make_client(TWO.THBaseService, *address, timeout=60_000)
        scanner = client.openScanner(table.encode(), TWO.TScan())
        assert client.getScannerRows(scanner, 1)[0].row == b"row0"
        scanners.append((client, scanner))
    reader = happybase.Connection(*observer.thrift1, timeout=60_000)
    assert reader.table(table).row(b"row0") == {b"f:q": b"1"}
    for _ in range(2):
        wait_for_the_end_of_an_idle_connection(direct1)
    assert reader.table(table).row(b"row1") == {b"f:q": b"1"}
    assert [key for key, _ in scans[0]] == [b"row%d" % each for each in range(1, ROWS)]
    (through, kept), (without, lost) = scanners
    assert through.getScannerRows(kept, 1)[0].row == b"row1"
    for fails in (lambda: next(scans[1]), lambda: without.getScannerRows(lost, 1)):
        with pytest.raises((TTransportException, OSError)):
            fails()


@pytest.mark.soak
def test_a_client_that_was_idle_for_ten_minutes_goes_on(stack, start: Start, table: str) -> None:
    observer = start(20.0, thrift1="{}:{}".format(*stack.thrift1))
    reader = happybase.Connection(*observer.thrift1, timeout=60_000)
    direct = happybase.Connection(*stack.thrift1, timeout=60_000)
    scan = happybase.Connection(*observer.thrift1, timeout=60_000).table(table).scan(batch_size=1)
    for connection in (reader, direct):
        assert connection.table(table).row(b"row0") == {b"f:q": b"1"}
    assert next(scan)[0] == b"row0"
    time.sleep(100)
    # For as long as HBase keeps the scanner, 120 s.
    assert next(scan)[0] == b"row1"
    time.sleep(600)
    assert reader.table(table).row(b"row1") == {b"f:q": b"1"}
    reader.table(table).put(b"row0", {b"f:q": b"1"})
    with pytest.raises((TTransportException, OSError)):
        direct.table(table).row(b"row0")
    with pytest.raises(TException):
        list(scan)
