"""TLS to clients: who is refused, what is said of it, and that it is counted."""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import partial
from typing import Any

import pytest
from tls_listener import client, listening, run

from headgate.observer.config import Tls
from headgate.settings import client_side
from headgate.wire import MessageReader, MessageType, StructWriter, Transport, write_message

GET = write_message(
    Transport.FRAMED,
    "get",
    MessageType.CALL,
    7,
    StructWriter().binary(1, b"t").binary(2, b"r").binary(3, b"f:q").end(),
)


def shake_hands(port: int, context: ssl.SSLContext) -> None:
    """Connect as happybase does: a blocking client says why it leaves, the event loop's not."""
    with (
        socket.create_connection(("127.0.0.1", port)) as connection,
        context.wrap_socket(connection, server_hostname="127.0.0.1"),
    ):
        pass


def test_a_client_that_trusts_the_listener_is_served(authority: Any, tls: Tls) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", tls)) as listener:
            assert await listener.call(client(authority)) == b"hello"
            assert not listener.metrics.tls_failures

    run(scenario())


def test_a_client_with_the_wrong_ca_gives_up_and_that_is_told(
    other_authority: Any, tls: Tls
) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", tls)) as listener:
            shake = partial(shake_hands, listener.port, client(other_authority))
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.get_running_loop().run_in_executor(None, shake)
            line = await listener.failed("refused_by_client")
            assert "give it that CA" in line["text"]

    run(scenario())


def test_tls_below_1_2_is_refused(authority: Any, tls: Tls) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", tls)) as listener:
            context = client(authority)
            with pytest.deprecated_call():
                context.minimum_version = ssl.TLSVersion.TLSv1
                context.maximum_version = ssl.TLSVersion.TLSv1_1
            context.set_ciphers("ALL:@SECLEVEL=0")
            with pytest.raises(OSError):
                await listener.call(context)
            assert "below 1.2" in (await listener.failed("version"))["text"]

    run(scenario())


def test_a_client_without_tls_is_told_what_to_do_in_thrift(tls: Tls) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", tls)) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(GET)
            answer = MessageReader()
            answer.feed(await reader.read())
            message = answer.next_message()
            assert message is not None
            assert (message.name, message.type) == ("get", MessageType.REPLY)
            assert b"turn TLS on in the client" in message.raw
            await listener.failed("plain")
            writer.close()

    run(scenario())


def test_what_is_neither_tls_nor_thrift_is_closed(tls: Tls) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", tls)) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert await reader.read() == b""
            await listener.failed("plain")
            writer.close()

    run(scenario())


def test_a_client_that_leaves_during_the_handshake_is_counted(tls: Tls) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", tls)) as listener:
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(b"\x16\x03\x01")
            writer.close()
            await listener.failed("closed")

    run(scenario())


def test_one_that_connects_and_leaves_is_no_failure(authority: Any, tls: Tls) -> None:
    """Load balancers look in that way."""

    async def scenario() -> None:
        async with listening(client_side("thrift1", tls)) as listener:
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.close()
            await writer.wait_closed()
            # Who comes later is served later.
            assert await listener.call(client(authority)) == b"hello"
            assert not listener.metrics.tls_failures

    run(scenario())


def test_a_host_of_no_network_gets_no_handshake(authority: Any, tls: Tls) -> None:
    async def scenario() -> None:
        credentials = client_side("thrift1", tls)
        async with listening(credentials, admits=lambda _host: False) as listener:
            with pytest.raises(OSError):
                await listener.call(client(authority))
            assert not listener.metrics.tls_failures

    run(scenario())
