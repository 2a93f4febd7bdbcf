"""The observer in front of several of HBase's Thrift servers, of which some die or hang."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import happybase
import Hbase_thrift  # made by happybase when it is imported
import pytest
from thriftpy2.thrift import TException
from thriftpy2.transport import TTransportException

from headgate.events import Outcome, UpdateBatch
from headgate.local import Part
from headgate.observer import (
    HealthChecks,
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)
from headgate.observer.upstreams.asking import FORMATS, PING, call

pytestmark = pytest.mark.stack

CHECKS = HealthChecks(interval_seconds=0.3, timeout_seconds=0.5, rise=2, fall=2, hung_seconds=1.0)


@pytest.fixture(scope="module")
def servers(thrift_servers) -> list[Any]:
    """Three Thrift1 servers of the stack's HBase."""
    return [thrift_servers.begin(Part.THRIFT1) for _ in range(3)]


@pytest.fixture(scope="module")
def subscriber(stack, make_subscriber) -> Any:
    return make_subscriber(stack.kafka)


def configuration(stack, subscriber, upstreams: list[Any], directory: Path) -> ObserverConfig:
    return ObserverConfig(
        name=directory.name,
        thrift1=Listener("127.0.0.1:0", tuple(str(each) for each in upstreams), health=CHECKS),
        kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic),
        journal=JournalSettings(str(directory / "journal")),
        lease_seconds=3.0,
        connect_seconds=2.0,
    )


@pytest.fixture(scope="module")
def shared(
    stack, subscriber, servers: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ObserverProcess]:
    for server in servers:
        server.await_ready()
    directory = tmp_path_factory.mktemp("o")
    with ObserverProcess(
        configuration(stack, subscriber, servers, directory), directory
    ) as observer:
        yield observer


@pytest.fixture
def observer(shared: ObserverProcess, servers: list[Any]) -> ObserverProcess:
    """In front of three servers that all are well, whatever the test before did to them."""
    for server in servers:
        server.revive()
    for server in servers:
        server.await_ready()
        await_health(shared, server, "healthy")
    return shared


def connect(address: tuple[str, int], seconds: float = 30.0) -> happybase.Connection:
    return happybase.Connection(*address, timeout=int(seconds * 1000))


def ask(observer: ObserverProcess, path: str) -> str:
    host, port = observer.admin
    return urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=10).read().decode()


def view(observer: ObserverProcess) -> dict[str, Any]:
    """What /upstreams says, by address."""
    return {each["upstream"]: each for each in json.loads(ask(observer, "/upstreams"))["thrift1"]}


def await_health(observer: ObserverProcess, server: Any, health: str, seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while view(observer)[str(server)]["health"] != health:
        assert time.monotonic() < deadline, view(observer)
        time.sleep(0.05)


def connections(observer: ObserverProcess) -> list[int]:
    return [each["connections"] for each in view(observer).values()]


def await_connections(observer: ObserverProcess, count: int) -> None:
    deadline = time.monotonic() + 60
    while sum(connections(observer)) > count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def await_more(acknowledged: list[list[bytes]], count: int) -> None:
    """Wait until each client has written so many more rows."""
    targets = [len(rows) + count for rows in acknowledged]
    deadline = time.monotonic() + 60
    while any(len(rows) < target for rows, target in zip(acknowledged, targets, strict=True)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_connections_are_spread(observer: ObserverProcess, servers: list[Any]) -> None:
    clients = [connect(observer.thrift1) for _ in range(6)]
    for client in clients:
        client.tables()
    assert connections(observer) == [2, 2, 2]
    for client in clients[::3]:  # both of one server
        client.close()
    await_connections(observer, 4)
    later = [connect(observer.thrift1) for _ in range(2)]
    for client in later:
        client.tables()
    assert connections(observer) == [2, 2, 2]
    metrics = ask(observer, "/metrics")
    for server in servers:
        labels = f'{{listener="thrift1",upstream="{server}"}}'
        assert f"headgate_observer_upstream_up{labels} 1.0" in metrics
        assert f"headgate_observer_upstream_connections{labels} 2.0" in metrics
    for client in (*clients, *later):
        client.close()
    await_connections(observer, 0)


def test_a_killed_upstream_harms_only_its_own_clients(
    stack, subscriber, observer: ObserverProcess, servers: list[Any]
) -> None:
    name = stack.table("upstreams")
    subscriber.watch(name)
    done = threading.Event()
    acknowledged: list[list[bytes]] = [[] for _ in range(6)]
    breaks = [0] * 6

    def write(at: int) -> None:
        table = connect(observer.thrift1).table(name)
        written = acknowledged[at]
        while not done.is_set():
            row = b"%d-%06d" % (at, len(written))
            try:
                table.put(row, {b"f:a": row})
            except (OSError, TTransportException):
                breaks[at] += 1
                table = connect(observer.thrift1).table(name)
            else:
                written.append(row)

    threads = [threading.Thread(target=write, args=(at,), daemon=True) for at in range(6)]
    for thread in threads:
        thread.start()
    await_more(acknowledged, 30)
    killed = servers[1]
    killed.kill()
    await_health(observer, killed, "unhealthy")
    await_more(acknowledged, 30)
    assert connections(observer) == [3, 0, 3]
    killed.restart()
    await_health(observer, killed, "healthy")
    late = connect(observer.thrift1)
    late.tables()
    assert view(observer)[str(killed)]["connections"] == 1
    done.set()
    for thread in threads:
        thread.join()
    late.close()
    # Two of six were pinned to it. Each met one broken connection at most, and none where nothing
    # was under way: new ones went elsewhere.
    assert sorted(breaks)[:4] == [0, 0, 0, 0]
    assert max(breaks) <= 1
    outcomes: dict[bytes, list[Outcome]] = {}
    for row, outcome in published(subscriber, name):
        outcomes.setdefault(row, []).append(outcome)
    written = [row for rows in acknowledged for row in rows]
    assert len(written) > 300
    assert all(Outcome.APPLIED in outcomes.get(row, ()) for row in written)
    assert sum(found.count(Outcome.UNKNOWN) for found in outcomes.values()) <= 2


def published(subscriber, table: str) -> list[tuple[bytes, Outcome]]:
    """Row and outcome of each update; every request has one row with one cell."""
    return [
        (row, part.outcome)
        for partition in subscriber.read(table, subscriber.barrier(table))
        for batch in partition
        if isinstance(batch, UpdateBatch)
        for row, part in zip(batch.rows, batch.requests, strict=True)
    ]


def test_requests_at_a_frozen_upstream_are_cut_off(
    stack, subscriber, observer: ObserverProcess, servers: list[Any]
) -> None:
    name = stack.table("upstreams")
    subscriber.watch(name)
    clients = [connect(observer.thrift1) for _ in range(3)]
    for client in clients:
        client.tables()
    frozen = servers[0]
    frozen.freeze()
    results: list[str] = [""] * 3

    def write(at: int) -> None:
        try:
            clients[at].table(name).put(b"row-%d" % at, {b"f:a": b"1"})
            results[at] = "acknowledged"
        except TTransportException:
            results[at] = "broken"

    started = time.monotonic()
    threads = [threading.Thread(target=write, args=(at,)) for at in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["acknowledged", "acknowledged", "broken"]
    assert CHECKS.hung_seconds < time.monotonic() - started < 15
    seen = view(observer)[str(frozen)]
    assert seen["health"] == "unhealthy"
    assert "no answer to a health check" in seen["reason"]
    # The frozen server holds the write: what becomes of it nobody knows.
    hung = b"row-%d" % results.index("broken")
    rows = (b"row-0", b"row-1", b"row-2")
    assert sorted(published(subscriber, name)) == [
        (row, Outcome.UNKNOWN if row == hung else Outcome.APPLIED) for row in rows
    ]


def test_while_one_upstream_serves_clients_see_nothing_of_the_others(
    stack, subscriber, observer: ObserverProcess, servers: list[Any], tmp_path: Path
) -> None:
    for server in servers:
        server.kill()
    with pytest.raises(Hbase_thrift.IOError) as caught:
        connect(observer.thrift1).tables()
    for server in servers:
        assert f"{server} (Connection refused)" in caught.value.message.decode()
    servers[2].restart()
    # Not healthy yet, but the only one that takes connections.
    connect(observer.thrift1).tables()
    # An observer starts, too.
    with ObserverProcess(configuration(stack, subscriber, servers, tmp_path), tmp_path) as second:
        client = connect(second.thrift1)
        client.tables()
        assert connections(second) == [0, 0, 1]


# -- what a client sees when its server dies: the same as without the observer


class Scan:
    """A scan by hand, and what its client sees when it goes on with it."""

    def __init__(self, address: tuple[str, int], table: str) -> None:
        self._address = address
        self._client = connect(address, 5.0)
        self._scanner = self._client.client.scannerOpen(table.encode(), b"", [b"f:a"], {})
        self.seen: list[str] = []
        self.go_on()

    def go_on(self) -> None:
        """Read ten more rows, or see why not."""
        try:
            rows = self._client.client.scannerGetList(self._scanner, 10)
            self.seen.append(f"{len(rows)} rows from {rows[0].row!r}")
        except (OSError, TTransportException, TException) as error:
            text = getattr(error, "message", error)
            self.seen.append(f"{type(error).__name__}: {text!r}")

    def reconnect(self) -> None:
        """Go on with the old scanner on a new connection."""
        self._client = connect(self._address, 5.0)


def test_a_server_killed_in_a_scan_looks_the_same_through_the_observer(
    stack, observer: ObserverProcess, servers: list[Any]
) -> None:
    name = stack.table("upstreams")
    with stack.happybase().table(name).batch() as batch:
        for i in range(50):
            batch.put(b"%03d" % i, {b"f:a": b"x"})
    through = Scan(observer.thrift1, name)
    (pinned,) = (each for each in servers if view(observer)[str(each)]["connections"])
    direct = Scan(tuple(pinned.address), name)
    for scan in (through, direct):
        scan.go_on()
    pinned.kill()
    # A request that meets the end on its way is answered by a reset, from HBase as from here.
    await_connections(observer, 0)
    for scan in (through, direct):
        scan.go_on()
    pinned.restart()
    for scan in (through, direct):
        scan.reconnect()
        scan.go_on()
    assert through.seen == direct.seen
    assert through.seen[:2] == ["10 rows from b'000'", "10 rows from b'010'"]
    assert through.seen[2].startswith("TTransportException")
    assert "scanner ID is invalid" in through.seen[3]


@pytest.mark.soak
def test_an_idle_connection_ends_when_the_server_ends_it(
    stack, subscriber, thrift_servers, tmp_path: Path
) -> None:
    server = thrift_servers.start(Part.THRIFT1, "-t", "1500")
    ping = call(FORMATS[0], PING)
    seconds: list[float] = []
    with ObserverProcess(
        configuration(stack, subscriber, [server], tmp_path), tmp_path
    ) as observer:
        for address in (tuple(server.address), observer.thrift1):
            with socket.create_connection(address, timeout=10) as client:
                client.sendall(ping)
                assert client.recv(1000)
                begun = time.monotonic()
                assert client.recv(1000) == b""
                seconds.append(time.monotonic() - begun)
    assert all(1 < each < 3 for each in seconds), seconds
