"""What upstreams are found to speak, and what is said when a client speaks another."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headgate.hbase import Dialect
from headgate.observer.config import HealthChecks, Listener, UpstreamProtocol, UpstreamTransport
from headgate.observer.upstreams.asking import FORMATS, PING
from headgate.observer.upstreams.dialing import Dialer
from headgate.observer.upstreams.formats import DetectedFormat, UpstreamFormats, agree
from headgate.observer.upstreams.pool import Upstream, UpstreamPool
from headgate.wire import (
    MessageReader,
    MessageType,
    Protocol,
    StructWriter,
    Transport,
    WireFormat,
    transcode,
    write_message,
)

BUFFERED_BINARY, BUFFERED_COMPACT, FRAMED_BINARY, FRAMED_COMPACT = FORMATS
OLD = WireFormat(Transport.FRAMED, Protocol.OLD_BINARY)


def served(format_: WireFormat, number: int) -> bytes:
    """The reply of a server of HBase's Thrift1 (1) or Thrift2 (2)."""
    body = StructWriter().i32(0, number).end()
    reader = MessageReader()
    reader.feed(write_message(Transport.BUFFERED, PING, MessageType.REPLY, 1, body))
    message = reader.next_message()
    assert message is not None
    return transcode(message, format_.protocol, format_.transport).raw


class Server:
    """Takes one format and closes connections that speak another, or says ``words`` to all."""

    def __init__(self, format_: WireFormat | None, *, number: int = 1, words: bytes = b"") -> None:
        self.format = format_
        self.number = number
        self.words = words
        self.asked = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read(1000)
        if data:
            self.asked += 1
            messages = MessageReader()
            messages.feed(data)
            message = messages.next_message()
            assert message is not None
            if message.format == self.format:
                writer.write(served(message.format, self.number))
            else:
                writer.write(self.words)
        writer.close()


def scene(
    server: Server, script: Callable[[UpstreamFormats, Upstream], Awaitable[Any]], **keys: Any
) -> Any:
    async def run() -> Any:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        address = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        pool = UpstreamPool("thrift1", [address], HealthChecks())
        dialer = Dialer(asyncio.get_running_loop(), pool, 5.0)
        listener = Listener("127.0.0.1:0", address, **keys)
        formats = UpstreamFormats(dialer, Dialect.THRIFT1, listener)
        try:
            return await script(formats, pool.members[0])
        finally:
            listening.close()

    return asyncio.run(run())


@pytest.mark.parametrize("format_", FORMATS, ids=str)
def test_what_a_server_speaks_is_found(format_: WireFormat) -> None:
    async def script(formats: UpstreamFormats, upstream: Upstream) -> None:
        assert await formats.find(upstream) == DetectedFormat(format_, Dialect.THRIFT1)
        assert formats.known(upstream) == format_

    scene(Server(format_), script)


def test_all_who_ask_at_a_time_share_one_question() -> None:
    server = Server(BUFFERED_BINARY)

    async def script(formats: UpstreamFormats, upstream: Upstream) -> None:
        await asyncio.gather(*(formats.find(upstream) for _ in range(20)))

    scene(server, script)
    assert server.asked == 1


def test_a_server_that_comes_back_speaking_another_is_found_anew() -> None:
    server = Server(FRAMED_BINARY)

    async def script(formats: UpstreamFormats, upstream: Upstream) -> None:
        await formats.find(upstream)
        server.format = BUFFERED_COMPACT
        await formats.find(upstream)
        assert formats.known(upstream) == BUFFERED_COMPACT

    scene(server, script)


def test_a_server_that_speaks_no_thrift_is_named_by_what_it_says() -> None:
    async def script(formats: UpstreamFormats, upstream: Upstream) -> str:
        detected = await formats.find(upstream)
        assert formats.known(upstream) is None
        return formats.mismatch(BUFFERED_BINARY, upstream, detected)

    problem = scene(Server(None, words=b"HTTP/1.1 400 Bad Request\r\n\r\n"), script)
    assert "speaks HTTP; unset hbase.regionserver.thrift.http there" in problem


def test_a_server_that_is_gone_is_not_blamed_for_what_it_spoke() -> None:
    async def script(formats: UpstreamFormats, upstream: Upstream) -> None:
        upstream.port = 1
        assert await formats.find(upstream) == DetectedFormat()
        with pytest.raises(ConnectionRefusedError):
            await formats.ask(upstream)

    scene(Server(BUFFERED_BINARY), script)


def test_a_server_under_the_wrong_service_is_told() -> None:
    async def script(formats: UpstreamFormats, upstream: Upstream) -> str:
        await formats.find(upstream)
        return formats.misplaced(upstream)

    problem = scene(Server(BUFFERED_BINARY, number=2), script)
    assert "is HBase's thrift2 server; put it under [thrift2]" in problem
    assert not scene(Server(BUFFERED_BINARY, number=1), script)


def test_old_binary_is_understood_where_strict_is() -> None:
    assert agree(OLD, FRAMED_BINARY)
    assert not agree(OLD, FRAMED_COMPACT)
    assert not agree(OLD, BUFFERED_BINARY)


def test_a_mismatch_names_both_sides_and_the_keys_that_cure_it() -> None:
    async def script(formats: UpstreamFormats, upstream: Upstream) -> str:
        detected = await formats.find(upstream)
        assert not formats.mismatch(FRAMED_COMPACT, upstream, detected)
        return formats.mismatch(BUFFERED_BINARY, upstream, detected)

    problem = scene(Server(FRAMED_COMPACT), script)
    assert problem.startswith("the client speaks buffered/binary, the HBase Thrift server at 127.")
    assert "framed/compact; set the client to framed/compact, or set" in problem
    assert 'upstream_transport = "framed" and upstream_protocol = "compact"' in problem
    assert "under [thrift1] to have headgate translate" in problem


def test_keys_that_do_not_fit_the_server_are_named() -> None:
    async def script(formats: UpstreamFormats, upstream: Upstream) -> str:
        detected = await formats.find(upstream)
        return formats.mismatch(BUFFERED_BINARY, upstream, detected)

    problem = scene(Server(BUFFERED_BINARY), script, upstream_transport=UpstreamTransport.FRAMED)
    assert "headgate is configured to speak framed/binary to the HBase Thrift server" in problem
    assert 'set upstream_transport = "buffered" and upstream_protocol = "binary"' in problem


def test_requests_go_on_as_they_came_unless_the_listener_says_otherwise() -> None:
    async def script(formats: UpstreamFormats, upstream: Upstream) -> None:
        assert formats.wanted(OLD) is OLD
        assert formats.wanted(BUFFERED_COMPACT) is BUFFERED_COMPACT
        transport, protocol = UpstreamTransport.FRAMED, UpstreamProtocol.BINARY
        formats.reconfigure(
            Listener("", "", upstream_transport=transport, upstream_protocol=protocol)
        )
        assert formats.wanted(BUFFERED_COMPACT) == FRAMED_BINARY
        assert formats.wanted(OLD) is OLD

    scene(Server(BUFFERED_BINARY), script)
