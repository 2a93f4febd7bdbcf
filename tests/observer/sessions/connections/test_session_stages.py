"""What a session waits for, and how it is closed when it waits in vain."""

from __future__ import annotations

import asyncio
from typing import cast
from unittest.mock import Mock

import pytest
from scene import bare_endpoint

from headgate.hbase import Dialect
from headgate.observer.sessions.endpoint import Endpoint
from headgate.observer.sessions.session import Session
from headgate.observer.sessions.sweeping import Stage
from headgate.wire import MessageType, StructWriter, Transport, write_message


class Connection:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.closed = False
        self.paused = False

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def write(self, data: bytes) -> None:
        self.data += data

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, _name: str) -> None:
        return None


@pytest.fixture
def endpoint() -> Endpoint:
    return bare_endpoint(Dialect.THRIFT1)


def connect(endpoint: Endpoint) -> tuple[Session, Connection]:
    session, client = Session(endpoint), Connection()
    session.connection_made(cast("asyncio.Transport", client))
    return session, client


@pytest.fixture
def connected(endpoint: Endpoint) -> tuple[Session, Connection]:
    session, client = connect(endpoint)
    session.upstream_made(cast("asyncio.Transport", Connection()))
    return session, client


def get(row: bytes) -> bytes:
    body = StructWriter().binary(1, b"t").binary(2, row).binary(3, b"f:q").end()
    return write_message(Transport.BUFFERED, "get", MessageType.CALL, 0, body)


BODY = StructWriter().structs(0, []).end()
CELLS = write_message(Transport.BUFFERED, "get", MessageType.REPLY, 0, BODY)


def test_a_client_too_many_is_closed_at_once_and_counted(endpoint: Endpoint) -> None:
    endpoint.most_connections = 1
    first, client = connect(endpoint)
    refused, other = connect(endpoint)
    assert (client.closed, other.closed) == (False, True)
    refused.connection_lost(None)
    assert endpoint.metrics.refusals == {"connections": 1}
    assert endpoint.sessions == {first}
    assert endpoint.metrics.connections == 1


def test_a_session_tells_what_it_waits_for(connected: tuple[Session, Connection]) -> None:
    session, client = connected
    assert session.stage() is Stage.IDLE
    session.data_received(get(b"r")[:5])
    assert session.stage() is Stage.REQUEST
    session.data_received(get(b"r")[5:])
    assert session.stage() is Stage.SERVER
    session.reply_received(CELLS)
    assert session.stage() is Stage.IDLE
    session.expire("idle", at_once=False)
    assert client.closed
    assert session.stage() is Stage.REPLIES


def test_bytes_are_no_progress_but_whole_requests_and_replies_are(
    connected: tuple[Session, Connection],
) -> None:
    session, _ = connected
    session.data_received(get(b"r")[:5])
    half = session.progress()
    session.data_received(get(b"r")[5:10])
    assert session.progress() == half
    session.data_received(get(b"r")[10:])
    taken = session.progress()
    assert taken != half
    session.reply_received(CELLS)
    assert session.progress() != taken


def test_a_client_that_is_too_slow_still_gets_what_it_has_asked_for(
    connected: tuple[Session, Connection],
) -> None:
    session, client = connected
    session.data_received(get(b"r") + get(b"s")[:5])
    session.expire("slow", at_once=False)
    assert not client.closed
    assert session.stage() is Stage.SERVER
    session.reply_received(CELLS)
    assert bytes(client.data) == CELLS
    assert client.closed


def test_others_have_their_turn_while_a_large_request_arrives(
    endpoint: Endpoint, connected: tuple[Session, Connection]
) -> None:
    session, client = connected
    soon = cast("Mock", endpoint.loop).call_soon
    request = get(b"r" * 100_000)
    session.data_received(request[:70_000])
    assert client.paused
    (call, *arguments), _ = soon.call_args
    call(*arguments)
    assert not client.paused
    session.data_received(request[70_000:])
    assert not client.paused
    assert soon.call_count == 1
