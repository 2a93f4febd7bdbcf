"""What is written goes out at once, in order, and never into somebody else's connection."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest
import uvloop

from headgate.observer.sessions.write_buffer import WriteBuffer

Check = Callable[[asyncio.Transport, socket.socket], Coroutine[Any, Any, None]]


def run(check: Check) -> None:
    """Run a check with a transport of the observer's event loop, and the other end."""

    async def connected() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
        try:
            await asyncio.wait_for(check(transport, theirs), 30)
        finally:
            transport.abort()
            theirs.close()

    uvloop.run(connected())


def test_bytes_are_with_the_kernel_when_write_returns() -> None:
    async def check(transport: asyncio.Transport, peer: socket.socket) -> None:
        assert WriteBuffer(transport).write(b"request")
        assert peer.recv(100) == b"request"

    run(check)


def test_what_has_to_be_encrypted_goes_through_its_transport() -> None:
    async def check(transport: asyncio.Transport, peer: socket.socket) -> None:
        class Encrypting:
            """A transport of TLS: its socket is known, and takes nothing but what is encrypted."""

            is_closing = transport.is_closing

            def get_extra_info(self, name: str) -> Any:
                return "a context" if name == "sslcontext" else transport.get_extra_info(name)

            def write(self, data: bytes) -> None:
                transport.write(data[::-1])

        assert WriteBuffer(cast("asyncio.Transport", Encrypting())).write(b"request")
        await asyncio.sleep(0)
        assert peer.recv(100) == b"tseuqer"

    run(check)


@pytest.mark.parametrize("seed", range(5))
def test_a_slow_peer_gets_all_in_order(seed: int) -> None:
    pick = random.Random(seed)
    sent = [
        pick.randbytes(pick.choice([0, 1, 74, 5000, 300_000])) for _ in range(pick.randrange(40))
    ]

    async def check(transport: asyncio.Transport, peer: socket.socket) -> None:
        write_buffer = WriteBuffer(transport)
        loop = asyncio.get_running_loop()
        received = bytearray()
        for data in sent:
            assert write_buffer.write(data)
            if pick.random() < 0.5:
                try:
                    received += peer.recv(pick.randrange(1, 400_000))
                except BlockingIOError:
                    await asyncio.sleep(0)
            if pick.random() < 0.1:
                while transport.get_write_buffer_size():
                    received += await loop.sock_recv(peer, 1 << 20)
        while len(received) < sum(map(len, sent)):
            received += await loop.sock_recv(peer, 1 << 20)
        assert received == b"".join(sent)

    run(check)


def test_what_the_transport_had_before_comes_first() -> None:
    async def check(transport: asyncio.Transport, peer: socket.socket) -> None:
        transport.write(b"first ")
        assert WriteBuffer(transport).write(b"second")
        received = b""
        while len(received) < len(b"first second"):
            received += await asyncio.get_running_loop().sock_recv(peer, 100)
        assert received == b"first second"

    run(check)


def test_what_the_kernel_has_no_room_for_is_sent_later() -> None:
    async def check(transport: asyncio.Transport, peer: socket.socket) -> None:
        write_buffer = WriteBuffer(transport)
        before = 0
        try:
            while True:
                before += os.write(transport.get_extra_info("socket").fileno(), bytes(1000))
        except BlockingIOError:
            assert write_buffer.write(b"last")
        received = b""
        while len(received) < before + 4:
            received += await asyncio.get_running_loop().sock_recv(peer, 1 << 20)
        assert received == bytes(before) + b"last"

    run(check)


def test_nothing_is_written_to_a_connection_that_is_over() -> None:
    async def check(transport: asyncio.Transport, peer: socket.socket) -> None:
        write_buffer = WriteBuffer(transport)
        assert write_buffer.write(b"last")
        transport.abort()
        assert not write_buffer.write(b"lost")
        assert peer.recv(100) == b"last"
        assert await asyncio.get_running_loop().sock_recv(peer, 100) == b""

    run(check)


def test_a_peer_that_has_gone_ends_the_connection() -> None:
    async def check(transport: asyncio.Transport, peer: socket.socket) -> None:
        write_buffer = WriteBuffer(transport)
        peer.close()
        while write_buffer.write(b"to nobody"):
            await asyncio.sleep(0)

    run(check)
