"""What a connection tells of its other end."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import cast

from headgate.observer.sessions.connection_pair import has_left, has_taken_all


def transport(connection: socket.socket) -> asyncio.BaseTransport:
    found = SimpleNamespace(get_extra_info={"socket": connection}.get)
    return cast("asyncio.BaseTransport", found)


def test_a_peer_that_closed_has_left() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        assert not has_left(transport(ours))
        theirs.close()
        assert has_left(transport(ours))


def test_a_peer_that_ended_its_half_has_left() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.shutdown(socket.SHUT_WR)
        assert has_left(transport(ours))


def test_what_a_peer_does_not_read_is_not_taken() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert has_taken_all(transport(ours))
        ours.send(b"x" * 1000)
        assert not has_taken_all(transport(ours))
        theirs.recv(1000)
        assert has_taken_all(transport(ours))


def test_a_connection_that_is_over_has_nothing_more_to_take() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    theirs.close()
    assert has_taken_all(transport(ours))
