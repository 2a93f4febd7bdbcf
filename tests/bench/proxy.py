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
        [--connections 1 8] [--before CHECKOUT]

With ``--before`` the observer of another checkout is a target too, as the commit before a change.
``HEADGATE_TEST_STACK`` names a JSON file of a running stack's addresses; otherwise one is started.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import platform
import socket
import statistics
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path

import happybase
import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from measuring.event_delays import event_delays
from measuring.load import Measured, measure, measure_case
from measuring.processor_time import Spent, listening
from measuring.targets import (
    address_of,
    checked_out,
    compiled,
    running_observer,
    running_stack,
    running_targets,
)
from measuring.thrift_requests import CASES, VALUE, requests_of

from headgate.observer import ObserverProcess

_CONNECTIONS = (1, 8, 64)
_MOST_BATCHES = 8  # connections that send batches: each is a thousand rows under way
_IDLE = 1000
_WARM_SECONDS = 20.0
_WARM_OBSERVER_SECONDS = 1.0
_WARM_OBSERVED_SECONDS = 40.0
_WARM_LINGER_SECONDS = 0.001  # for many requests to the broker
_BATCH_BYTES = 6000  # what an observer sends at once where there are many small writes
_PRELOADED = ["happybase", "confluent_kafka.admin", "headgate.local", "headgate.observer"]
_LINE = "{:<16}{:>5} {:<18}{:>10}{:>10}{:>10}{:>11}{:>8}{:>9}"
_COSTS = "{:<16}{:>5} {:<18}{:>10}{:>10}{:>12}{:>10}"

Case = tuple[str, int]
"""What is sent, and over how many connections."""


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


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--slices", type=int, default=4, help="of each target in each round")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a slice")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--connections", nargs="+", type=int, default=_CONNECTIONS)
    parser.add_argument("--before", type=Path, help="a checkout of another version")
    options = parser.parse_args()
    before = None if options.before is None else checked_out(options.before.resolve())
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
                batch.put(b"row%04d" % number, {b"f:v": VALUE})
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
            with running_targets(stack, table, directory / str(number), source, before) as (
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
