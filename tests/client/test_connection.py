"""A connection to a server that is not there, breaks, or answers with an error."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from headgate.client import ConnectionFailed, RequestRefused, Thrift2Connection

_CALL = b"\x80\x01\x00\x01"
_REPLY = b"\x80\x01\x00\x02"


@contextmanager
def server(answer: Callable[[socket.socket], object]) -> Iterator[int]:
    """Serve one connection by a function and give the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                answer(client)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_nobody_at_the_address_is_told_with_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    with pytest.raises(ConnectionFailed, match=f"127.0.0.1:{port}"):
        Thrift2Connection("127.0.0.1", port)


def test_a_break_before_the_reply_is_told_with_the_address_and_keeps_the_cause() -> None:
    with server(lambda client: client.recv(65536) and None) as port:
        connection = Thrift2Connection("127.0.0.1", port)

        with pytest.raises(ConnectionFailed, match=f"get to 127.0.0.1:{port}") as caught:
            connection.get("t", b"row")
    assert caught.value.__cause__ is not None


def test_a_broken_connection_stays_closed() -> None:
    with server(lambda client: client.recv(65536) and None) as port:
        connection = Thrift2Connection("127.0.0.1", port)
        with pytest.raises(ConnectionFailed):
            connection.get("t", b"row")

        with pytest.raises(ConnectionFailed, match="open a new one"):
            connection.get("t", b"row")


def test_no_reply_in_time_breaks_the_connection() -> None:
    released = threading.Event()
    with server(lambda client: client.recv(65536) and released.wait(30) and None) as port:
        connection = Thrift2Connection("127.0.0.1", port, timeout=0.05)
        try:
            with pytest.raises(ConnectionFailed, match="timed out"):
                connection.get("t", b"row")
        finally:
            released.set()


def test_an_error_of_the_server_leaves_the_connection_usable() -> None:
    refusal = (
        _REPLY + b"\0\0\0\x03get" + b"\0\0\0\0"
        + b"\x0c\0\x01" + b"\x0b\0\x01\0\0\0\x0bno\nsuch row" + b"\0" + b"\0"
    )  # fmt: skip
    found = (
        _REPLY + b"\0\0\0\x03get" + b"\0\0\0\0"
        + b"\x0c\0\0" + b"\x0f\0\x02\x0c\0\0\0\0" + b"\0" + b"\0"
    )  # fmt: skip

    def answer(client: socket.socket) -> None:
        for reply in (refusal, found):
            assert client.recv(65536).startswith(_CALL)
            client.sendall(reply)

    with server(answer) as port, Thrift2Connection("127.0.0.1", port) as connection:
        with pytest.raises(RequestRefused, match=r"no$") as caught:
            connection.get("t", b"row")
        assert caught.value.detail == "no\nsuch row"
        assert connection.get("t", b"row") == {}


def test_a_column_without_family_is_refused_before_anything_is_sent() -> None:
    with (
        server(lambda client: client.settimeout(5)) as port,
        Thrift2Connection("127.0.0.1", port) as connection,
        pytest.raises(ValueError, match="family:qualifier"),
    ):
        connection.put("t", [(b"row", {b"plain": b"1"})])
