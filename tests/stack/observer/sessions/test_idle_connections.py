"""Connections that are idle for longer than HBase's Thrift server keeps them."""

from __future__ import annotations

import socket
from pathlib import Path

import happybase
import pytest
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

IDLE = "1500"  # milliseconds: 60 s by default


def wait_for_the_end_of_an_idle_connection(server: tuple[str, int]) -> None:
    with socket.create_connection(server, timeout=30) as idle:
        idle.sendall(call(FORMATS[0], PING))
        while idle.recv(4096):
            pass


def test_an_idle_client_goes_on_through_the_observer_and_fails_without(
    stack, thrift_servers, subscriber, tmp_path: Path
) -> None:
    table = stack.table("idle")
    server = thrift_servers.start(Part.THRIFT1, "-t", IDLE)
    address = ("127.0.0.1", server.address.port)
    config = ObserverConfig(
        name="idle",
        thrift1=Listener("127.0.0.1:0", str(server)),
        kafka=KafkaSettings(str(stack.kafka), control_topic=subscriber.control_topic),
        journal=JournalSettings(str(tmp_path / "journal")),
    )
    observer = ObserverProcess(config, tmp_path)
    try:
        direct = happybase.Connection(*address)
        through = happybase.Connection(*observer.thrift1)
        for connection in (direct, through):
            connection.table(table).put(b"before", {b"f:q": b"1"})
            assert connection.table(table).row(b"before") == {b"f:q": b"1"}
        for row in (b"first", b"second"):
            wait_for_the_end_of_an_idle_connection(address)
            through.table(table).put(row, {b"f:q": b"2"})
            assert through.table(table).row(row) == {b"f:q": b"2"}
        with pytest.raises((TTransportException, OSError)):
            direct.table(table).row(b"before")
        assert dict(through.table(table).scan()).keys() == {b"before", b"first", b"second"}
    finally:
        assert observer.stop() == 0
