"""Clients that are many, slow or silent in the handshake keep no other waiting."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

import pytest
from tls_listener import Listener, client, listening, run

from headgate.observer.config import Tls
from headgate.observer.security import tls as module
from headgate.settings import client_side


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01"])
def test_a_client_that_drips_is_cut_off(tls: Tls, sent: bytes) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", tls), seconds=0.05) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(sent)
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            await listener.failed("timeout")
            writer.close()

    run(scenario())


def test_many_clients_shake_hands_at_once(authority: Any, tls: Tls) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", tls)) as listener:
            context = client(authority)
            answers = await asyncio.gather(*(listener.call(context, b"%d" % i) for i in range(50)))
            assert answers == [b"%d" % i for i in range(50)]

    run(scenario())


def test_a_flood_of_failures_is_counted_but_not_logged_line_by_line(tls: Tls) -> None:
    async def scenario() -> None:
        async with listening(client_side("thrift1", tls)) as listener:
            for _ in range(60):
                with socket.create_connection(("127.0.0.1", listener.port)) as stranger:
                    stranger.sendall(b"\0")
                await asyncio.sleep(0)
            while listener.metrics.tls_failures.get(("thrift1", "plain"), 0) < 60:
                await asyncio.sleep(0.005)
            assert len(listener.log) == 20

    run(scenario())


async def hold(port: int, count: int, sent: bytes) -> list[tuple[Any, Any]]:
    """Open connections that send this and then nothing."""
    found = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    for _, writer in found:
        writer.write(sent)
    await asyncio.sleep(0)
    return found


async def served(listener: Listener, authority: Any) -> bool:
    async with asyncio.timeout(8):
        return await listener.call(client(authority)) == b"hello"


def test_silent_connections_keep_no_client_waiting(
    authority: Any, tls: Tls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_HANDSHAKES", 2)

    async def scenario() -> None:
        async with listening(client_side("thrift1", tls), seconds=1000.0) as listener:
            held = await hold(listener.port, 10, b"")
            assert await served(listener, authority)
            assert listener.metrics.tls_failures == {}
            for _, writer in held:
                writer.close()

    run(scenario())


def test_handshakes_that_stand_still_give_way(
    authority: Any, tls: Tls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_HANDSHAKES", 2)
    monkeypatch.setattr(module, "_STALLED_SECONDS", 0.0)
    monkeypatch.setattr(module, "_TURN_SECONDS", 0.001)

    async def scenario() -> None:
        async with listening(client_side("thrift1", tls), seconds=1000.0) as listener:
            held = await hold(listener.port, 5, b"\x16\x03\x01")
            while sum(listener.metrics.tls_failures.values()) < 3:
                await asyncio.sleep(0.001)
            assert await served(listener, authority)
            for _, writer in held:
                writer.close()

    run(scenario())


def test_of_too_many_silent_connections_the_oldest_are_cut_off(
    tls: Tls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_EARLY", 3)

    async def scenario() -> None:
        async with listening(client_side("thrift1", tls), seconds=1000.0) as listener:
            held = await hold(listener.port, 5, b"")
            for reader, _ in held[:2]:
                assert await reader.read() == b""
            assert listener.metrics.tls_failures == {("thrift1", "timeout"): 2}
            assert not any(reader.at_eof() for reader, _ in held[2:])
            for _, writer in held:
                writer.close()

    run(scenario())
