"""Clients in processes of their own, which send requests for a while and measure the replies."""

from __future__ import annotations

import functools
import multiprocessing
import selectors
import socket
import statistics
import time
from multiprocessing.connection import Connection

from msgspec import Struct

from headgate.wire import MessageReader, MessageType, Transport
from measuring.processor_time import Spent, listening, spent_by

_FEWEST = 5  # requests that a round measures, however slow they are
_REST_SECONDS = 0.03  # after a slice: the events of its last writes are not the next target's

Address = tuple[str, int]
Clients = list[tuple[socket.socket, bytes, int]]
"""Connections, each with its request and the length of the reply."""


class Measured(Struct):
    """One target, one round: requests per second and their median time in seconds."""

    rate: float
    median: float
    requests: int
    spent: Spent = Spent()


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
