"""Removing what a killed HBase left in its ZooKeeper, so that the next one need not wait for it.

HBase's ZooKeeper lives in HBase's own process here. After ``kill -9`` it comes back with the old
sessions, and the new master waits until the old one's has expired: two minutes, since a shorter
session does not survive a Spark start on two busy cores. But whatever was made before the new
process started is known to be dead, so it is deleted, as ZooKeeper itself would do in the end.
"""

from __future__ import annotations

import socket
import struct

from headgate.local.processes.ports import HOST

_ANSWER_SECONDS = 5.0
_SESSION_MS = 12_000
_MOST_REPLY = 1 << 20  # bytes; HBase's folders hold a handful of names

_DELETE, _EXISTS, _GET_CHILDREN, _CLOSE = 2, 3, 8, -11
_NO_NODE = -101

# A process's start is known to a second; HBase makes its nodes later than that, and a forerunner
# made its own many seconds before it could be followed.
_START_SLACK_SECONDS = 1.0

_SINGLE_NODES = ("/hbase/master",)
_FOLDERS = ("/hbase/rs", "/hbase/backup-masters")


def remove_dead_servers(port: int, started: float) -> list[str]:
    """Delete HBase's ephemeral nodes that are older than its process; return their paths.

    Args:
        port: ZooKeeper's.
        started: When HBase's process started, in Unix seconds.

    Raises:
        OSError: If ZooKeeper cannot be reached or breaks off; ask again later.
    """
    before = started - _START_SLACK_SECONDS
    with _Session(port) as session:
        paths = [*_SINGLE_NODES]
        for folder in _FOLDERS:
            paths += [f"{folder}/{name}" for name in session.children(folder)]
        return [path for path in paths if session.delete_ephemeral(path, made_before=before)]


class _Session:
    """The four requests of ZooKeeper's protocol that this needs."""

    def __init__(self, port: int) -> None:
        self._connection = socket.create_connection((HOST, port), timeout=_ANSWER_SECONDS)
        self._number = 0

    def __enter__(self) -> _Session:
        try:
            # Protocol version, last transaction seen, timeout, session and its empty password.
            self._send(struct.pack(">iqiqi16x", 0, 0, _SESSION_MS, 0, 16))
            self._receive()
        except BaseException:
            self._connection.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._ask(_CLOSE, b"")
        finally:
            self._connection.close()

    def children(self, path: str) -> list[str]:
        """Return the names in a folder; none if it is not there."""
        error, body = self._ask(_GET_CHILDREN, _text(path) + b"\x00")
        if error == _NO_NODE:
            return []
        _check(error, path)
        (count,) = struct.unpack_from(">i", body)
        names, offset = [], 4
        for _ in range(count):
            (length,) = struct.unpack_from(">i", body, offset)
            names.append(body[offset + 4 : offset + 4 + length].decode())
            offset += 4 + length
        return names

    def delete_ephemeral(self, path: str, *, made_before: float) -> bool:
        """Delete a node that belongs to a session and is older; say whether it was."""
        error, body = self._ask(_EXISTS, _text(path) + b"\x00")
        if error == _NO_NODE:
            return False
        _check(error, path)
        _, _, made_ms, _, version, _, _, owner = struct.unpack_from(">qqqqiiiq", body)
        if owner == 0 or made_ms / 1000 >= made_before:
            return False
        error, _ = self._ask(_DELETE, _text(path) + struct.pack(">i", version))
        if error == _NO_NODE:
            return False
        _check(error, path)
        return True

    def _ask(self, kind: int, body: bytes) -> tuple[int, bytes]:
        self._number += 1
        self._send(struct.pack(">ii", self._number, kind) + body)
        reply = self._receive()
        _, _, error = struct.unpack_from(">iqi", reply)
        return error, reply[16:]

    def _send(self, body: bytes) -> None:
        self._connection.sendall(struct.pack(">i", len(body)) + body)

    def _receive(self) -> bytes:
        (length,) = struct.unpack(">i", self._exactly(4))
        if not 0 <= length <= _MOST_REPLY:
            raise ConnectionError(f"ZooKeeper announced a reply of {length} bytes")
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        got = b""
        while len(got) < count:
            more = self._connection.recv(count - len(got))
            if not more:
                raise ConnectionError("ZooKeeper closed the connection")
            got += more
        return got


def _text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">i", len(encoded)) + encoded


def _check(error: int, path: str) -> None:
    if error:
        raise ConnectionError(f"ZooKeeper answered {error} for {path}")
