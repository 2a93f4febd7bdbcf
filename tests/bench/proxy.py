"""What the observer costs: against a direct connection, and against HAProxy as a bare TCP proxy.

All targets are measured in one run, in alternating slices of each round, by clients in a process
of their own that send prepared bytes and wait for each reply. Proxies are started anew for each
round. The table is watched, the journal is on and events go to Kafka with acks of all replicas.
Printed are medians over rounds, of ratios too, which are taken round by round, and what one request
costs in processor time: of the target's first thread (an observer's own code; HAProxy has no
other) in user mode and in the kernel, of its other threads (librdkafka's), and of Kafka's broker.
``put`` is what happybase's ``put`` sends, ``mutateRows`` of one row. With a C compiler, the
observer of ``make wheel`` is a target too.

    python tests/bench/proxy.py [--rounds 7] [--slices 4] [--seconds 0.5] [--cases get put]
        [--connections 1 8]

``HEADGATE_TEST_STACK`` names a JSON file of a running stack's addresses; otherwise one is started.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import platform
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import happybase
import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from msgspec import Struct

from headgate.events import (
    UpdateBatch,
    Watch,
    WatchList,
    control_key,
    decode_update,
    encode_control,
    updates_topic,
)
from headgate.local import Lifetime, LocalStack
from headgate.observer import Journal, Kafka, Listener, ObserverConfig, ObserverProcess
from headgate.wire import (
    MessageReader,
    MessageType,
    StructWriter,
    Transport,
    write_message,
)

_ROWS = 1000  # of a batch, as in the targets
_VALUE = b"0123456789abcdef"
_FEWEST = 5  # requests that a round measures, however slow they are
_CONNECTIONS = (1, 8, 64)
_MOST_BATCHES = 8  # connections that send batches: each is a thousand rows under way
_IDLE = 1000
_WARM_SECONDS = 20.0
_WARM_OBSERVER_SECONDS = 1.0
_WARM_OBSERVED_SECONDS = 40.0
_WARM_LINGER_SECONDS = 0.001  # for many requests to the broker
_REST_SECONDS = 0.03  # after a slice: the events of its last writes are not the next target's
_BATCH_BYTES = 6000  # what an observer sends at once where there are many small writes
_PACED = 1000  # writes whose events are timed
_PRELOADED = ["happybase", "confluent_kafka.admin", "headgate.local", "headgate.observer"]
_LINE = "{:<16}{:>5} {:<18}{:>10}{:>10}{:>10}{:>11}{:>8}{:>9}"
_COSTS = "{:<16}{:>5} {:<18}{:>10}{:>10}{:>12}{:>10}"
_ROOT = Path(__file__).resolve().parents[2]

Address = tuple[str, int]
Clients = list[tuple[socket.socket, bytes, int]]
"""Connections, each with its request and the length of the reply."""
Case = tuple[str, int]
"""What is sent, and over how many connections."""


class Spent(Struct, frozen=True):
    """Processor time, in seconds: since a process began, or of some requests."""

    user: float = 0.0
    """Of the target's first thread."""
    kernel: float = 0.0
    """Likewise."""
    threads: float = 0.0
    """Of its others, in either mode."""
    broker: float = 0.0
    """Of Kafka's broker."""

    def plus(self, other: Spent, times: int = 1) -> Spent:
        """Return the sum with so many times another."""
        return Spent(
            self.user + times * other.user,
            self.kernel + times * other.kernel,
            self.threads + times * other.threads,
            self.broker + times * other.broker,
        )


class Measured(Struct):
    """One target, one round: requests per second and their median time in seconds."""

    rate: float
    median: float
    requests: int
    spent: Spent = Spent()


def _call(name: str, body: bytes) -> bytes:
    return write_message(Transport.BUFFERED, name, MessageType.CALL, 0, body)


def _mutation(value: bytes) -> bytes:
    return (
        StructWriter().bool(1, value=False).binary(2, b"f:v").binary(3, value).bool(4, True).end()
    )


def get_request(table: bytes, connection: int) -> bytes:
    """Return a Thrift1 ``get`` of one cell."""
    row = b"row%04d" % connection
    body = StructWriter().binary(1, table).binary(2, row).binary(3, b"f:v").mapping(4, {}).end()
    return _call("get", body)


def put_request(table: bytes, connection: int) -> bytes:
    """Return what happybase's ``put`` of one cell sends: Thrift1's ``mutateRows`` of one row."""
    row = StructWriter().binary(1, b"row%04d" % connection).structs(2, [_mutation(_VALUE)]).end()
    body = StructWriter().binary(1, table).structs(2, [row]).mapping(3, {}).end()
    return _call("mutateRows", body)


def mutate_request(table: bytes, connection: int) -> bytes:
    """Return a Thrift1 ``mutateRow`` of one cell."""
    row = b"row%04d" % connection
    writer = StructWriter().binary(1, table).binary(2, row)
    return _call("mutateRow", writer.structs(3, [_mutation(_VALUE)]).mapping(4, {}).end())


def batch_request(table: bytes, connection: int) -> bytes:
    """Return a Thrift1 ``mutateRows`` of 1,000 rows of one cell."""
    rows = [
        StructWriter()
        .binary(1, b"batch%d-%04d" % (connection, i))
        .structs(2, [_mutation(_VALUE)])
        .end()
        for i in range(_ROWS)
    ]
    body = StructWriter().binary(1, table).structs(2, rows).mapping(3, {}).end()
    return _call("mutateRows", body)


CASES: dict[str, Callable[[bytes, int], bytes]] = {
    "get": get_request,
    "put": put_request,
    "mutateRow": mutate_request,
    "1,000-row batch": batch_request,
}


def requests_of(name: str, table: str, count: int) -> list[bytes]:
    """Return a case's request for each of some connections."""
    return [CASES[name](table.encode(), connection) for connection in range(count)]


def _reply_length(client: socket.socket, request: bytes) -> int:
    """Send a request once and return how long its reply is: later ones are as long."""
    client.sendall(request)
    reader = MessageReader(transport=Transport.BUFFERED)
    while True:
        reader.feed(client.recv(1 << 20))
        reply = reader.next_message()
        if reply is not None:
            if reply.type is not MessageType.REPLY:
                message = f"the server refuses the request: {reply.raw!r}"
                raise RuntimeError(message)
            return len(reply.raw)


def generate(address: Address, requests: list[bytes], seconds: float, results: Connection) -> None:
    """Send each connection's request again and again, each after the reply to the one before."""
    clients = []
    for request in requests:
        client = socket.create_connection(address)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        clients.append((client, request, _reply_length(client, request)))
    send = _send_in_turn if len(clients) == 1 else _send_at_once
    results.send(send(clients, seconds))
    for client, _, _ in clients:
        client.close()


def _send_in_turn(clients: Clients, seconds: float) -> Measured:
    ((client, request, length),) = clients
    times: list[float] = []
    clock = time.perf_counter
    began = started = clock()
    end = started + seconds
    while began < end or len(times) < _FEWEST:
        client.sendall(request)
        received = 0
        while received < length:
            received += len(client.recv(1 << 20))
        now = clock()
        times.append(now - began)
        began = now
    return Measured(len(times) / (began - started), statistics.median(times), len(times))


def _send_at_once(clients: Clients, seconds: float) -> Measured:
    times: list[float] = []
    begun: dict[int, float] = {}
    received_of: dict[int, int] = {}
    clock = time.perf_counter
    last = started = clock()
    end = started + seconds
    with selectors.DefaultSelector() as selector:
        for client, request, length in clients:
            selector.register(client, selectors.EVENT_READ, (client, request, length))
            received_of[client.fileno()] = 0
            begun[client.fileno()] = clock()
            client.sendall(request)
        while begun:
            for key, _ in selector.select(1.0):
                client, request, length = key.data
                number = key.fd
                received_of[number] += len(client.recv(1 << 20))
                if received_of[number] < length:
                    continue
                received_of[number] = 0
                now = clock()
                if now < end or len(times) < _FEWEST:
                    times.append(now - begun[number])
                    begun[number] = last = now
                    client.sendall(request)
                else:
                    # Of what was under way at the end only the replies are taken.
                    del begun[number]
    return Measured(len(times) / (last - started), statistics.median(times), len(times))


def measure(address: Address, requests: list[bytes], seconds: float) -> Measured:
    """Return what new clients, in a process of their own, measure in a while.

    On which processor the system puts them weighs as much as what is measured here.
    """
    context = multiprocessing.get_context("forkserver")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=generate, args=(address, requests, seconds, sending))
    process.start()
    sending.close()
    measured: Measured = receiving.recv()
    process.join()
    return measured


def spent_by(target: int | None, broker: int | None) -> Spent:
    """Return the processor time of processes since they began; None: it is not known."""
    user = kernel = threads = 0.0
    if target is not None:
        for thread in psutil.Process(target).threads():
            if thread.id == target:
                user, kernel = thread.user_time, thread.system_time
            else:
                threads += thread.user_time + thread.system_time
    of_broker = psutil.Process(broker).cpu_times() if broker is not None else None
    return Spent(
        user, kernel, threads, of_broker.user + of_broker.system if of_broker is not None else 0.0
    )


def listening(address: Address) -> int | None:
    """Return the process that listens on a port of this machine; None where it is not found."""
    for connection in psutil.net_connections("tcp"):
        here = connection.laddr
        if connection.status == psutil.CONN_LISTEN and here and here.port == address[1]:
            return connection.pid
    return None


def measure_case(
    targets: dict[str, Address],
    requests: list[bytes],
    slices: int,
    seconds: float,
    broker: int | None,
) -> dict[str, Measured]:
    """Return what each target does in some slices, which go forth and back between the targets.

    How fast a shared machine is changes within a second. ``broker`` is Kafka's process.
    """
    parts: dict[str, list[Measured]] = {target: [] for target in targets}
    processes = {
        target: listening(address) for target, address in targets.items() if target != "direct"
    }
    forth = list(targets.items())
    for number in range(slices):
        for target, address in forth if number % 2 else reversed(forth):
            process = processes.get(target)
            before = spent_by(process, broker)
            measured = measure(address, requests, seconds)
            time.sleep(_REST_SECONDS)
            measured.spent = spent_by(process, broker).plus(before, -1)
            parts[target].append(measured)
    return {
        target: Measured(
            statistics.fmean(part.rate for part in measured),
            statistics.median(part.median for part in measured),
            sum(part.requests for part in measured),
            functools.reduce(Spent.plus, (part.spent for part in measured)),
        )
        for target, measured in parts.items()
    }


@contextmanager
def running_stack() -> Iterator[dict[str, str]]:
    """Yield the addresses of a stack: the one that the environment names, or a new one."""
    named = os.environ.get("HEADGATE_TEST_STACK")
    if named:
        written = json.loads(Path(named).read_text())
        yield {
            key: str(value) if ":" in str(value) else f"127.0.0.1:{value}"
            for key, value in written.items()
        }
        return
    with tempfile.TemporaryDirectory() as home:
        stack = LocalStack(Path(home), "bench", lifetime=Lifetime.WITH_CALLER)
        try:
            yield stack.up().as_text()
        finally:
            stack.down()


def address_of(text: str) -> Address:
    """Return host and port of ``host:port``."""
    host, _, port = text.rpartition(":")
    return host, int(port)


@contextmanager
def running_haproxy(upstream: str, directory: Path) -> Iterator[Address | None]:
    """Yield the address of a HAProxy in TCP mode before the upstream; None without HAProxy."""
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        print("haproxy is not installed (Debian package haproxy): its columns are left out")
        yield None
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    configuration = directory / "haproxy.cfg"
    configuration.write_text(
        "global\n  maxconn 1000\n  nbthread 1\n"
        "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n"
        f"listen thrift\n  bind 127.0.0.1:{port}\n  server hbase {upstream}\n"
    )
    process = subprocess.Popen(
        [program, "-db", "-f", str(configuration)], stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        yield "127.0.0.1", port
    finally:
        process.terminate()
        process.wait()


@contextmanager
def running_observer(
    stack: dict[str, str],
    table: str,
    directory: Path,
    source: Path | None = None,
    **kafka: float,
) -> Iterator[ObserverProcess]:
    """Yield an observer that watches the table; its code is ``source``, where that is given.

    ``kafka`` are keys of its configuration.
    """
    topic = f"headgate.control-bench-{uuid.uuid4().hex[:12]}"
    config = ObserverConfig(
        name="bench",
        thrift1=Listener("127.0.0.1:0", stack["thrift1"]),
        kafka=Kafka(stack["kafka"], control_topic=topic, **kafka),
        journal=Journal(str(directory / "journal")),
    )
    producer = Producer({"bootstrap.servers": stack["kafka"]})
    path = os.environ.get("PYTHONPATH")
    if source is not None:
        os.environ["PYTHONPATH"] = str(source)
    try:
        observer = ObserverProcess(config, directory / "observer")
    finally:
        if source is not None:
            os.environ.pop("PYTHONPATH")
            if path is not None:
                os.environ["PYTHONPATH"] = path
    with observer:
        watch = WatchList(1, "bench", 1, (Watch(table),))
        producer.produce(topic, encode_control(watch), control_key(watch))
        producer.flush()
        time.sleep(1)
        yield observer


def compiled(directory: Path) -> Path | None:
    """Return a directory with the compiled package; None where it cannot be made."""
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        print("no C compiler: the compiled observer is left out")
        return None
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-build-isolation", "--wheel-dir", str(directory), str(_ROOT)]
    subprocess.run(
        command, env={**os.environ, "HATCH_BUILD_HOOK_ENABLE_CUSTOM": "true"}, check=True
    )
    (wheel,) = directory.glob("*.whl")
    unpacked = directory / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    return unpacked


def _row(name: str, connections: int, target: str, found: dict[str, list[Measured]]) -> str:
    def ratios(below: str) -> list[float]:
        return [a.rate / b.rate for a, b in zip(found[target], found.get(below, ()), strict=False)]

    def text(ratio: list[float]) -> str:
        return f"{statistics.median(ratio):.3f}" if ratio else "-"

    median = statistics.median(m.median for m in found[target])
    added = statistics.median(
        a.median - b.median for a, b in zip(found[target], found["direct"], strict=True)
    )
    over = ratios("HAProxy")
    return _LINE.format(
        name,
        connections,
        target,
        f"{median * 1e6:.0f}",
        f"{added * 1e6:.0f}",
        text(ratios("direct")),
        text(over),
        f"{max(over):.2f}" if over else "-",
        f"{statistics.median(m.rate for m in found[target]):.0f}",
    )


def _costs(name: str, connections: int, target: str, measured: list[Measured]) -> str:
    """Return a line of what one request costs, in microseconds of processor time."""
    requests = sum(each.requests for each in measured)
    spent = functools.reduce(Spent.plus, (each.spent for each in measured))
    times = (spent.user, spent.kernel, spent.threads, spent.broker)
    per_request = [f"{each / requests * 1e6:.1f}" for each in times]
    if target == "direct":
        per_request[:3] = ["-"] * 3
    return _COSTS.format(name, connections, target, *per_request)


def event_delays(stack: dict[str, str], table: str, address: Address) -> list[float]:
    """Return how long after its reply each of many writes was read from Kafka, in seconds."""
    consumer = Consumer(
        {"bootstrap.servers": stack["kafka"], "group.id": uuid.uuid4().hex, "fetch.wait.max.ms": 5}
    )
    topic = updates_topic(table)
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    places = [TopicPartition(topic, number) for number in partitions]
    for place in places:
        place.offset = consumer.get_watermark_offsets(place, timeout=10)[1]
    consumer.assign(places)
    arrived: dict[bytes, float] = {}

    def read() -> None:
        deadline = time.monotonic() + 60
        while len(arrived) < _PACED and time.monotonic() < deadline:
            record = consumer.poll(1)
            now = time.perf_counter()
            if record is None or record.error() is not None:
                continue
            batch = decode_update(record.value() or b"")
            if isinstance(batch, UpdateBatch):
                arrived.update((row, now) for row in batch.rows if row.startswith(b"paced"))

    reader = threading.Thread(target=read)
    reader.start()
    replied: dict[bytes, float] = {}
    connection = happybase.Connection(*address)
    cells = connection.table(table)
    for number in range(_PACED):
        row = b"paced%06d" % number
        cells.put(row, {b"f:v": _VALUE})
        replied[row] = time.perf_counter()
        time.sleep(0.002)
    reader.join()
    consumer.close()
    connection.close()
    return sorted(arrived[row] - at for row, at in replied.items() if row in arrived)


def warm_broker(bootstrap: str, seconds: float) -> None:
    """Send messages as observers do, one after the other, until Java has compiled the broker.

    It does so for some ten thousand requests, on the processors that are measured: an observer
    alone, with a hundred requests a second, would be measured beside the compiler.
    """
    topic = f"bench-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, num_partitions=1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        producer.produce(topic, os.urandom(_BATCH_BYTES), partition=0)
        producer.flush()
    admin.delete_topics([topic])[topic].result(30)


def idle_memory(observer: ObserverProcess) -> float:
    """Return the bytes that the observer needs for one more connection that does nothing."""
    process = psutil.Process(observer.pid)
    before = process.memory_info().rss
    clients = [socket.create_connection(observer.thrift1) for _ in range(_IDLE)]
    time.sleep(1)
    after = process.memory_info().rss
    for client in clients:
        client.close()
    return (after - before) / _IDLE


@contextmanager
def running_targets(
    stack: dict[str, str], table: str, directory: Path, source: Path | None
) -> Iterator[tuple[dict[str, Address], ObserverProcess]]:
    """Yield what is compared, and the last of the observers: the compiled one, if there is one."""
    targets = {"direct": address_of(stack["thrift1"])}
    directory.mkdir()
    with ExitStack() as running:
        haproxy = running.enter_context(running_haproxy(stack["thrift1"], directory))
        if haproxy is not None:
            targets["HAProxy"] = haproxy
        observer = running.enter_context(running_observer(stack, table, directory / "plain"))
        targets["headgate"] = observer.thrift1
        if source is not None:
            observer = running.enter_context(
                running_observer(stack, table, directory / "compiled", source)
            )
            targets["headgate compiled"] = observer.thrift1
        yield targets, observer


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--slices", type=int, default=4, help="of each target in each round")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a slice")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--connections", nargs="+", type=int, default=_CONNECTIONS)
    options = parser.parse_args()
    cases = [
        (name, count)
        for name in options.cases
        for count in options.connections
        if name != "1,000-row batch" or count <= _MOST_BATCHES
    ]
    found: dict[Case, dict[str, list[Measured]]] = {}
    multiprocessing.set_forkserver_preload(_PRELOADED)
    with ExitStack() as running:
        stack = running.enter_context(running_stack())
        directory = Path(running.enter_context(tempfile.TemporaryDirectory()))
        table = f"bench_{uuid.uuid4().hex[:12]}"
        host, port = address_of(stack["thrift1"])
        connection = happybase.Connection(host, port)
        connection.create_table(table, {"f": {"max_versions": 1}})
        with connection.table(table).batch() as batch:
            for number in range(max(_CONNECTIONS)):
                batch.put(b"row%04d" % number, {b"f:v": _VALUE})
        source = compiled(directory / "wheel")
        broker = listening(address_of(stack["kafka"]))
        print(
            f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
            f"{options.rounds} rounds of {options.slices} slices of {options.seconds:g} s; medians "
            "over rounds; ratios of requests per second",
            flush=True,
        )
        # Java compiles what has run often enough: Kafka's broker and HBase.
        warm_broker(stack["kafka"], _WARM_SECONDS)
        for name in CASES:
            measure((host, port), requests_of(name, table, 8), _WARM_SECONDS)
        # The broker is compiled anew, to a great part, for requests that come after pauses.
        with running_observer(
            stack, table, directory / "warm", source, linger_seconds=_WARM_LINGER_SECONDS
        ) as observer:
            measure(observer.thrift1, requests_of("put", table, 8), _WARM_OBSERVED_SECONDS)
        for number in range(options.rounds):
            print(f"round {number + 1}", file=sys.stderr, flush=True)
            # Where a process's memory happens to lie makes it some percents faster or slower.
            with running_targets(stack, table, directory / str(number), source) as (
                targets,
                observer,
            ):
                if number == 0:
                    print(f"an idle connection: {idle_memory(observer) / 1024:.1f} KiB")
                for address in targets.values():
                    measure(address, requests_of("put", table, 8), _WARM_OBSERVER_SECONDS)
                for name, count in cases:
                    of_targets = found.setdefault((name, count), {})
                    requests = requests_of(name, table, count)
                    measured = measure_case(
                        targets, requests, options.slices, options.seconds, broker
                    )
                    for target, each in measured.items():
                        of_targets.setdefault(target, []).append(each)
                if number == options.rounds - 1:
                    delays = event_delays(stack, table, observer.thrift1)
        print(
            _LINE.format(
                "", "conn.", "", "p50 us", "+p50 us", "/direct", "/HAProxy", "best", "req/s"
            )
        )
        for (name, count), of_targets in found.items():
            for target in of_targets:
                print(_row(name, count, target, of_targets))
        print("\nprocessor time of one request, in us")
        print(_COSTS.format("", "conn.", "", "user", "kernel", "librdkafka", "broker"))
        for (name, count), of_targets in found.items():
            for target, measured_rounds in of_targets.items():
                print(_costs(name, count, target, measured_rounds))
        print(
            f"an event is read from Kafka {delays[len(delays) // 2] * 1e3:.1f} ms after the reply "
            f"(median), {delays[len(delays) * 99 // 100] * 1e3:.1f} ms (p99 of {len(delays)})"
        )
        connection = happybase.Connection(host, port)
        connection.disable_table(table)
        connection.delete_table(table)


if __name__ == "__main__":
    main()
