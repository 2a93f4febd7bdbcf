"""Clients that are many, slow, silent or large: what they cost, and that others are served."""

from __future__ import annotations

import resource
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator

import happybase
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from headgate.observer import (
    Check,
    HealthChecks,
    JournalSettings,
    KafkaSettings,
    LimitSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)
from headgate.wire import MessageType, StructWriter, Transport, write_message

pytestmark = pytest.mark.stack

MIB = 1 << 20
IDLE = 5000
REQUEST_SECONDS = 2.0
GETS_MEANWHILE = 10
BUSY_SECONDS = 2.0
"""Processor time for one step of a batch of 64 MiB, such as decoding it: about 0.4 s."""
WITHIN_BUFFERS = 24 * MIB
"""More than what sockets and transports on the way hold, and much less than what is sent."""


class ScriptedServer:
    """In HBase's place, where it has to be slow on purpose: serves each client by ``serve``."""

    def __init__(self) -> None:
        self.serve: Callable[[socket.socket], object] = lambda _connection: None
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listening.getsockname())
        self._taken: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._taken.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            self.serve(connection)
        except OSError:
            return

    def close(self) -> None:
        self._listening.close()
        for connection in self._taken:
            connection.close()


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    scripted = ScriptedServer()
    yield scripted
    scripted.close()


@pytest.fixture(scope="module")
def subscriber(stack, make_subscriber):
    return make_subscriber(stack.kafka)


@pytest.fixture(scope="module")
def observer(
    stack, subscriber, server: ScriptedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ObserverProcess]:
    directory = tmp_path_factory.mktemp("observer")
    config = ObserverConfig(
        name="o1",
        thrift1=Listener("127.0.0.1:0", str(stack.thrift1)),
        thrift2=Listener("127.0.0.1:0", server.address, health=HealthChecks(check=Check.CONNECT)),
        kafka=KafkaSettings(str(stack.kafka), control_topic=subscriber.control_topic),
        journal=JournalSettings(str(directory / "journal")),
        limits=LimitSettings(connections=IDLE + 20, request_seconds=REQUEST_SECONDS),
        shutdown_seconds=3.0,
    )
    with ObserverProcess(config, directory) as process:
        yield process


@pytest.fixture(autouse=True)
def _many_descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < IDLE + 1000:
        pytest.skip(f"the limit of open files is {before[1]}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def samples(observer: ObserverProcess, name: str) -> dict[tuple[str, ...], float]:
    host, port = observer.admin
    text = urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=10).read().decode()
    return {
        tuple(sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == f"headgate_observer_{name}"
    }


def connections(observer: ObserverProcess) -> float:
    return samples(observer, "connections")[()]


def memory(observer: ObserverProcess) -> int:
    return psutil.Process(observer.pid).memory_info().rss


def busy(observer: ObserverProcess) -> float:
    """Return the processor time in seconds that the observer has taken."""
    times = psutil.Process(observer.pid).cpu_times()
    return times.user + times.system


def await_that(what: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def get(table: bytes = b"t", row: bytes = b"r") -> bytes:
    column = StructWriter().binary(1, row).end()
    body = StructWriter().binary(1, table).struct(2, column).end()
    return write_message(Transport.BUFFERED, "get", MessageType.CALL, 0, body)


def assert_others_are_served(observer: ObserverProcess) -> None:
    host, port = observer.thrift1
    client = happybase.Connection(host, port, timeout=5000)
    assert isinstance(client.tables(), list)
    client.close()


def test_idle_connections_cost_little_and_open_nothing_at_hbase(
    observer: ObserverProcess,
) -> None:
    assert_others_are_served(observer)
    await_that(lambda: connections(observer) == 0)
    before = memory(observer)
    idle = [socket.create_connection(observer.thrift1) for _ in range(IDLE)]
    await_that(lambda: connections(observer) == IDLE)
    each = (memory(observer) - before) / IDLE
    print(f"{each / 1024:.1f} KiB for each of {IDLE} idle connections")
    assert each < 64 * 1024
    assert sum(samples(observer, "upstream_connections").values()) == 0
    assert_others_are_served(observer)
    for connection in idle:
        connection.close()
    await_that(lambda: connections(observer) == 0)


def test_clients_beyond_the_limit_are_closed_at_once_and_counted(
    observer: ObserverProcess,
) -> None:
    await_that(lambda: connections(observer) == 0)
    taken = [socket.create_connection(observer.thrift1) for _ in range(IDLE + 20)]
    await_that(lambda: connections(observer) == IDLE + 20)
    refused = socket.create_connection(observer.thrift1, timeout=5)
    assert refused.recv(1) == b""
    assert samples(observer, "connections_refused_total")[("connections",)] == 1
    taken.pop().close()
    await_that(lambda: connections(observer) == IDLE + 19)
    assert_others_are_served(observer)
    for connection in (*taken, refused):
        connection.close()
    await_that(lambda: connections(observer) == 0)


@pytest.mark.parametrize("drip", [False, True], ids=["half-sent", "slow-drip"])
def test_a_request_that_does_not_arrive_is_given_up(observer: ObserverProcess, drip: bool) -> None:
    before = samples(observer, "connections_refused_total").get(("slow",), 0)
    began = time.monotonic()
    with socket.create_connection(observer.thrift1, timeout=0.1) as client:
        request = get(b"t" * 200)
        client.sendall(request[:10])
        for byte in request[10:]:
            try:
                if drip:
                    client.send(bytes([byte]))
                assert client.recv(1) == b""
                break
            except TimeoutError:
                continue
            except ConnectionError:
                # A byte that comes after the end is answered with a reset.
                assert drip
                break
    assert REQUEST_SECONDS <= time.monotonic() - began < REQUEST_SECONDS + 4
    assert samples(observer, "connections_refused_total")[("slow",)] == before + 1


def test_a_client_that_does_not_read_stops_the_server_not_the_memory(
    observer: ObserverProcess, server: ScriptedServer
) -> None:
    size = 256 * MIB
    piece = b"\x0b" * MIB
    sent = 0

    def stream(connection: socket.socket) -> None:
        nonlocal sent
        if not connection.recv(4096):
            return
        connection.sendall(write_message(Transport.BUFFERED, "get", MessageType.REPLY, 0, b""))
        while sent < size:
            connection.sendall(piece)
            sent += len(piece)
        connection.shutdown(socket.SHUT_RDWR)

    server.serve = stream
    before = memory(observer)
    with socket.create_connection(observer.thrift2, timeout=10) as client:
        client.sendall(get())
        await_that(lambda: sent)
        assert_others_are_served(observer)
        await_quiet(lambda: sent)
        assert sent < WITHIN_BUFFERS
        assert memory(observer) - before < WITHIN_BUFFERS
        received = 0
        while data := client.recv(MIB):
            received += len(data)
    assert received >= size


def test_a_server_that_does_not_read_stops_the_client_not_the_memory(
    observer: ObserverProcess, server: ScriptedServer
) -> None:
    held = threading.Event()
    server.serve = lambda _connection: held.wait(60)
    requests = get(row=b"r" * 5000) * 200
    sent = 0
    before = memory(observer)
    with socket.create_connection(observer.thrift2, timeout=10) as client:
        client.setblocking(False)
        deadline = time.monotonic() + 1.5
        while time.monotonic() < deadline and sent < 256 * MIB:
            try:
                sent += client.send(requests)
            except BlockingIOError:
                time.sleep(0.01)
        assert sent < WITHIN_BUFFERS
        assert memory(observer) - before < WITHIN_BUFFERS
        assert_others_are_served(observer)
    held.set()


def large_batch(table: str, size: int) -> bytes:
    """Return a buffered ``putMultiple`` of so many bytes, in values of 1 KiB."""
    value = StructWriter().binary(1, b"f").binary(2, b"a").binary(3, b"v" * 1024).end()
    count = size // (len(value) + 32)
    puts = [
        StructWriter().binary(1, b"row-%010d" % number).structs(2, [value]).end()
        for number in range(count)
    ]
    body = StructWriter().binary(1, table.encode()).structs(2, puts).end()
    return write_message(Transport.BUFFERED, "putMultiple", MessageType.CALL, 0, body)


def test_others_are_served_while_a_large_batch_of_a_watched_table_comes_and_goes(
    stack, subscriber, observer: ObserverProcess, server: ScriptedServer
) -> None:
    batch = large_batch("large", 64 * MIB - 65536)

    def swallow(connection: socket.socket) -> None:
        left = len(batch)
        while left and (data := connection.recv(MIB)):
            left -= len(data)
        connection.sendall(
            write_message(Transport.BUFFERED, "putMultiple", MessageType.REPLY, 0, b"\0")
        )
        connection.recv(1)

    server.serve = swallow
    subscriber.watch("large")
    answered = threading.Event()

    def send() -> None:
        with socket.create_connection(observer.thrift2, timeout=60) as client:
            client.sendall(batch)
            assert client.recv(MIB)
            answered.set()

    small = happybase.Connection(*observer.thrift1).table(stack.table("small"))
    small.row(b"r")
    before = memory(observer)
    sending = threading.Thread(target=send)
    sending.start()
    waits = []
    published = False
    while not published:
        began = busy(observer)
        small.row(b"r")
        waits.append(busy(observer) - began)
        if answered.is_set():
            published = samples(observer, "journal_unsettled_requests")[()] == 0
    sending.join()
    grown = (memory(observer) - before) / MIB
    print(f"{len(waits)} gets meanwhile, one behind {max(waits):.2f} s; {grown:.0f} MiB more")
    assert len(waits) >= GETS_MEANWHILE
    assert max(waits) < BUSY_SECONDS


def await_quiet(value: Callable[[], int], seconds: float = 0.5) -> None:
    """Wait until a value has not changed for so long."""
    last, since = value(), time.monotonic()
    while time.monotonic() - since < seconds:
        time.sleep(0.02)
        if value() != last:
            last, since = value(), time.monotonic()
