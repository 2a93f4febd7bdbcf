"""The log of a real observer: a line about a write leads to the client and to the write's event."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest

from headgate.events import Outcome, UpdateBatch
from headgate.observer import (
    Check,
    HealthChecks,
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)
from headgate.settings import LogFormat
from headgate.wire import MessageType, StructWriter, Transport, write_message

pytestmark = pytest.mark.stack


@pytest.fixture
def breaking():
    """A server that closes its connections at the first request."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield "{}:{}".format(*listening.getsockname())
        listening.shutdown(socket.SHUT_RDWR)


def put(table: str) -> bytes:
    mutation = StructWriter().binary(2, b"f:q").binary(3, b"v").end()
    body = StructWriter().binary(1, table.encode()).binary(2, b"row").structs(3, [mutation])
    return write_message(Transport.BUFFERED, "mutateRow", MessageType.CALL, 4711, body.end())


def test_a_line_about_a_write_names_its_client_and_its_event(
    stack, subscriber, breaking: str, tmp_path: Path
) -> None:
    table = stack.table("logged")
    config = ObserverConfig(
        name="logging",
        thrift1=Listener("127.0.0.1:0", breaking, health=HealthChecks(check=Check.CONNECT)),
        kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic),
        journal=JournalSettings(str(tmp_path / "journal")),
        log_format=LogFormat.JSON,
    )
    with ObserverProcess(config, tmp_path) as observer:
        subscriber.watch(table)
        with socket.create_connection(observer.thrift1, timeout=30) as client:
            address = "{}:{}".format(*client.getsockname())
            client.sendall(put(table))
            assert client.recv(1) == b""
        with socket.create_connection(observer.thrift1, timeout=30) as stranger:
            stranger.sendall(b"\xff" * 40)
            assert stranger.recv(1) == b""
        messages = [
            each for part in subscriber.read(table, subscriber.barrier(table)) for each in part
        ]
    (batch,) = [each for each in messages if isinstance(each, UpdateBatch)]
    (request,) = batch.requests
    assert request.outcome is Outcome.UNKNOWN

    lines = [json.loads(line) for line in observer.log.read_text().splitlines()]
    assert {line["observer"] for line in lines} == {"logging"}
    (broken,) = [line for line in lines if "requests under way" in line["event"]]
    assert (broken["epoch"], broken["intents"]) == (batch.epoch, [request.intent])
    assert (broken["methods"], broken["tables"]) == (["mutateRow"], [table])
    assert (broken["listener"], broken["client"]) == ("thrift1", address)
    (refused,) = [line for line in lines if line["event"] == "client refused"]
    assert refused["connection"] == broken["connection"] + 1
