"""2,000 connections of every lazy kind, against the observer and against the agent."""

from __future__ import annotations

import os
import resource
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import happybase
import psutil
import pytest

from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
    Tls,
)
from headgate.wire import MessageType, StructWriter, Transport, write_message

pytestmark = [pytest.mark.stack, pytest.mark.soak]

MIB = 1 << 20
LARGE = 128 << 10
"""Bytes of a value that nobody takes: HBase's Thrift server holds some for each connection."""
STRANGERS = 2000
SECONDS = 40.0
BACK_SECONDS = 10.0
MOST = 300 * MIB
"""Memory above that of the idle process."""
ANSWER_SECONDS = 60.0
"""Seconds for a probe and for a client with rights: the strangers keep the machine busy, too."""

Address = tuple[str, int]
Steps = Iterator[bytes]
"""Bytes that a stranger sends, bit by bit."""


def silent() -> Steps:
    return iter(())


def slowly(text: bytes) -> Steps:
    for byte in text:
        yield bytes((byte,))


def endless() -> Steps:
    """Yield much at first, so that it counts, and then little, so that it goes on."""
    for _ in range(5):
        yield b"x" * 65536
    while True:
        yield b"x" * 1024


def endless_frame() -> Steps:
    yield (60 * MIB).to_bytes(4) + b"\x80\x01\x00\x01"
    yield from endless()


def endless_put(table: str) -> Callable[[], Steps]:
    def steps() -> Steps:
        body = StructWriter().binary(1, table.encode()).binary(2, b"r").end()[:-1]
        head = write_message(Transport.BUFFERED, "mutateRow", MessageType.CALL, 0, body)
        # A list of one mutation, whose value is announced with 60 MiB.
        yield head + b"\x0f\x00\x03\x0c\x00\x00\x00\x01\x0b\x00\x03" + (60 * MIB).to_bytes(4)
        yield from endless()

    return steps


def reading_nothing(table: str) -> Callable[[], Steps]:
    def steps() -> Steps:
        body = StructWriter().binary(1, table.encode()).binary(2, b"large").binary(3, b"f:q").end()
        get = write_message(Transport.BUFFERED, "get", MessageType.CALL, 0, body)
        while True:
            yield get * 4

    return steps


def first_bytes_of_tls() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="a.example")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


HELLO = first_bytes_of_tls()


def hello_without_end() -> Steps:
    yield HELLO[:-1]


def http(head: bytes) -> Callable[[], Steps]:
    return lambda: slowly(head)


def http_without_reading() -> Steps:
    yield b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 3


def body_without_end() -> Steps:
    yield b"POST /v1/flows HTTP/1.1\r\nHost: a\r\nContent-Length: 60000000\r\n\r\n"
    yield from endless()


class Strangers:
    """Connections that send something once in a second; those that are closed come back later."""

    def __init__(self, kinds: list[tuple[Address, Callable[[], Steps]]]) -> None:
        self.sent = 0
        self._kinds = kinds
        self._over = threading.Event()
        self.open: list[socket.socket] = []
        self.reconnected = 0
        self._threads = [
            threading.Thread(target=self._run, args=(part,), daemon=True) for part in range(4)
        ]
        for thread in self._threads:
            thread.start()

    def _begin(self, number: int) -> tuple[socket.socket, Steps]:
        address, steps = self._kinds[number % len(self._kinds)]
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        connection.connect_ex(address)
        return connection, steps()

    def _run(self, part: int) -> None:
        crowd = {number: self._begin(number) for number in range(part, STRANGERS, 4)}
        back: dict[int, float] = {}
        while not self._over.is_set():
            for number, (connection, steps) in crowd.items():
                if back.get(number, 0.0) > time.monotonic():
                    continue
                if back.pop(number, None) is not None:
                    self.reconnected += 1
                    crowd[number] = self._begin(number)
                    continue
                try:
                    self.sent += connection.send(next(steps, b""))
                except BlockingIOError:
                    continue
                except OSError:
                    connection.close()
                    back[number] = time.monotonic() + BACK_SECONDS
            self._over.wait(1.0)
        for connection, _ in crowd.values():
            connection.close()

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)


@pytest.fixture
def descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def probe(address: Address, path: str) -> None:
    url = "http://{}:{}".format(*address) + path
    with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as answer:
        assert answer.status == 200


def besieged(
    process: int, kinds: list[tuple[Address, Callable[[], Steps]]], serve: Callable[[], None]
) -> None:
    """Serve others among strangers, and compare the memory with that of the idle process."""
    observed = psutil.Process(process)
    serve()
    idle = observed.memory_info().rss
    spent = sum(observed.cpu_times()[:2])
    strangers = Strangers(kinds)
    most, slowest, served = idle, 0.0, 0
    try:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            began = time.monotonic()
            serve()
            served += 1
            slowest = max(slowest, time.monotonic() - began)
            most = max(most, observed.memory_info().rss)
            time.sleep(0.2)
    finally:
        strangers.end()
    print(
        f"{STRANGERS} strangers, {len(kinds)} kinds: idle {idle / MIB:.0f} MiB, "
        f"at most {(most - idle) / MIB:.0f} MiB more; served {served} times, slowest "
        f"{slowest:.2f} s; {strangers.reconnected} connections were closed and made again; "
        f"{strangers.sent / MIB:.0f} MiB sent; {sum(observed.cpu_times()[:2]) - spent:.1f} s of "
        f"processor time; load {os.getloadavg()[0]:.1f}"
    )
    assert most - idle <= MOST
    assert slowest < ANSWER_SECONDS
    serve()


def test_the_observer_serves_its_clients_among_strangers(
    stack: Any,
    subscriber: Any,
    authority: Any,
    descriptors: None,
    tmp_path: Path,
) -> None:
    table = stack.table("strangers")
    stack.happybase().table(table).put(b"large", {b"f:q": b"x" * LARGE})
    certificate, key = authority.issue("observer", "IP:127.0.0.1")
    config = ObserverConfig(
        name="besieged",
        thrift1=Listener("127.0.0.1:0", "{}:{}".format(*stack.thrift1)),
        thrift2=Listener(
            "127.0.0.1:0",
            "{}:{}".format(*stack.thrift2),
            tls=Tls(str(certificate), str(key), str(authority.certificate)),
        ),
        kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic),
        journal=JournalSettings(str(tmp_path / "journal")),
    )
    with ObserverProcess(config, tmp_path) as observer:
        subscriber.watch(table)
        plain, tls, admin = observer.thrift1, observer.thrift2, observer.admin
        client = happybase.Connection(*plain, timeout=int(ANSWER_SECONDS * 1000))

        def serve() -> None:
            client.table(table).put(b"mine", {b"f:q": b"1"})
            again = happybase.Connection(*plain, timeout=int(ANSWER_SECONDS * 1000))
            assert again.table(table).row(b"mine") == {b"f:q": b"1"}
            again.close()
            for path in ("/healthz", "/metrics"):
                probe(admin, path)

        kinds: list[tuple[Address, Callable[[], Steps]]] = [
            (plain, silent),
            (plain, lambda: slowly(b"\x80\x01\x00\x01\x00\x00\x00\x09mutateRow")),
            (plain, endless_frame),
            (plain, endless_put(table)),
            (plain, reading_nothing(table)),
            (plain, http(b"GET / HTTP/1.1\r\nHost: " + b"a" * 1000)),
            (tls, silent),
            (tls, hello_without_end),
            (admin, silent),
            (admin, http(b"GET /metrics HTTP/1.1\r\nHost: " + b"a" * 1000)),
            (admin, http_without_reading),
        ]
        besieged(observer.pid, kinds, serve)


def test_the_agent_answers_among_strangers(
    make_stand: Callable[..., Any], descriptors: None, tmp_path: Path
) -> None:
    agent = make_stand(tmp_path).start_agent()
    host, port = agent.address.removeprefix("http://").rsplit(":", 1)
    api = (host, int(port))

    def serve() -> None:
        for path in ("/livez", "/readyz"):
            probe(api, path)
        agent.ask("GET", "/v1/flows")

    kinds: list[tuple[Address, Callable[[], Steps]]] = [
        (api, silent),
        (api, http(b"GET /v1/flows HTTP/1.1\r\nHost: " + b"a" * 1000)),
        (api, body_without_end),
        (api, http_without_reading),
        (api, hello_without_end),
        (api, endless_frame),
    ]
    besieged(agent.pid, kinds, serve)
