"""Only what a killed HBase left behind is deleted from its ZooKeeper."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from headgate.local.processes.zookeeper import remove_dead_servers

STARTED = 1_000_000.0
LONG_BEFORE = STARTED - 60
AFTER = STARTED + 2


class Node:
    def __init__(self, made: float, owner: int) -> None:
        self.made = made
        self.owner = owner


class ScriptedZooKeeper:
    """Answers connect, exists, getChildren, delete and close from a table of nodes."""

    def __init__(self, nodes: dict[str, Node]) -> None:
        self.nodes = nodes
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._thread.join(5)
        self._server.close()

    def _serve(self) -> None:
        connection, _ = self._server.accept()
        with connection, connection.makefile("rwb") as stream:
            self._request(stream)
            self._reply(stream, struct.pack(">iiqi16x", 0, 12_000, 1, 16))
            while True:
                body = self._request(stream)
                number, kind = struct.unpack_from(">ii", body)
                if kind == -11:
                    self._reply(stream, struct.pack(">iqi", number, 0, 0))
                    return
                (length,) = struct.unpack_from(">i", body, 8)
                error, answer = self._answer(kind, body[12 : 12 + length].decode())
                self._reply(stream, struct.pack(">iqi", number, 0, error) + answer)

    def _answer(self, kind: int, path: str) -> tuple[int, bytes]:
        if kind == 8:
            names = [each.removeprefix(path + "/") for each in self.nodes if path + "/" in each]
            listed = [struct.pack(">i", len(name)) + name.encode() for name in names]
            return (0, struct.pack(">i", len(names)) + b"".join(listed)) if names else (-101, b"")
        node = self.nodes.get(path)
        if node is None:
            return -101, b""
        if kind == 2:
            del self.nodes[path]
            return 0, b""
        made = int(node.made * 1000)
        return 0, struct.pack(">qqqqiiiqiiq", 1, 1, made, made, 0, 0, 0, node.owner, 0, 0, 1)

    def _request(self, stream) -> bytes:
        (length,) = struct.unpack(">i", stream.read(4))
        return stream.read(length)

    def _reply(self, stream, body: bytes) -> None:
        stream.write(struct.pack(">i", len(body)) + body)
        stream.flush()


@pytest.fixture
def zookeeper() -> Iterator[ScriptedZooKeeper]:
    scripted = ScriptedZooKeeper({})
    yield scripted
    scripted.close()


def test_master_and_region_server_of_a_killed_process_are_deleted(
    zookeeper: ScriptedZooKeeper,
) -> None:
    zookeeper.nodes |= {
        "/hbase/master": Node(LONG_BEFORE, owner=7),
        "/hbase/rs/localhost,1,1": Node(LONG_BEFORE, owner=7),
    }
    deleted = remove_dead_servers(zookeeper.port, STARTED)
    assert deleted == ["/hbase/master", "/hbase/rs/localhost,1,1"]
    assert zookeeper.nodes == {}


def test_what_the_running_process_made_stays(zookeeper: ScriptedZooKeeper) -> None:
    zookeeper.nodes |= {
        "/hbase/master": Node(AFTER, owner=8),
        "/hbase/rs/localhost,2,2": Node(AFTER, owner=8),
    }
    assert remove_dead_servers(zookeeper.port, STARTED) == []
    assert len(zookeeper.nodes) == 2


def test_what_belongs_to_no_session_stays(zookeeper: ScriptedZooKeeper) -> None:
    zookeeper.nodes |= {"/hbase/master": Node(LONG_BEFORE, owner=0)}
    assert remove_dead_servers(zookeeper.port, STARTED) == []


def test_an_empty_zookeeper_is_left_as_it_is(zookeeper: ScriptedZooKeeper) -> None:
    assert remove_dead_servers(zookeeper.port, STARTED) == []


def test_a_zookeeper_that_breaks_off_is_an_error_to_try_again_after() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        threading.Thread(target=lambda: server.accept()[0].close(), daemon=True).start()
        with pytest.raises(OSError, match=r"ZooKeeper closed the connection|reset"):
            remove_dead_servers(port, STARTED)
