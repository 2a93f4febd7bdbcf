"""How long an observer takes to publish a journal that a crash left full.

A journal of small puts of one table is written as the observer writes it, and left as a killed
process leaves it. Then an observer starts, publishes all of it to the real Kafka, and accepts
clients. A second one, on a copy of that journal, is asked to end while it publishes. Printed are
the seconds until each of these, the processor time, the most memory that the observer held, and
what Kafka's topic has afterwards.

    python tests/bench/journal_recovery.py [--mebibytes 512]

``HEADGATE_TEST_STACK`` names a JSON file of a running stack's addresses; otherwise one is started.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from measuring.targets import running_stack
from measuring.thrift_requests import put_request
from msgspec import Struct

from headgate.events import Watch, WatchList, control_key, encode_control, updates_topic
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)
from headgate.observer.recording.journal import Journal

MIB = 1 << 20
SEGMENT_BYTES = JournalSettings("unused").segment_bytes
START_SECONDS = 600.0
SIGNAL_AFTER_SECONDS = 3.0


class Seen(Struct):
    """Processor time and memory that a process was seen to take."""

    processor: float = 0.0
    """Seconds."""
    most: int = 0
    """Bytes of memory."""


@contextmanager
def watched(directory: Path) -> Iterator[Seen]:
    """Look at the observer whose files are in ``directory`` until the block ends."""
    seen = Seen()
    done = threading.Event()
    mine = psutil.Process()

    def look() -> None:
        while not done.wait(0.05):
            for child in mine.children():
                try:
                    if any(str(directory) in word for word in child.cmdline()):
                        times = child.cpu_times()
                        seen.processor = times.user + times.system
                        seen.most = max(seen.most, child.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def filled(directory: Path, table: str, size: int) -> int:
    """Write a journal of this many bytes and let go of it as a killed process does.

    Return how many requests it has.
    """
    journal = Journal(directory, limit_bytes=2 * size, segment_bytes=SEGMENT_BYTES)
    requests = [put_request(table.encode(), number) for number in range(10_000)]
    received = time.time()
    written = count = 0
    while written < size:
        request = requests[count % len(requests)]
        journal.append(request, table, listener=0, dialect=0, received=received)
        written += len(request)
        count += 1
    os.close(journal._lock)
    return count


def configuration(stack: dict[str, str], directory: Path, topic: str) -> ObserverConfig:
    """Return that of an observer whose journal is in ``directory``."""
    return ObserverConfig(
        name="bench",
        thrift1=Listener("127.0.0.1:0", stack["thrift1"]),
        kafka=KafkaSettings(stack["kafka"], control_topic=topic),
        journal=JournalSettings(str(directory / "journal")),
    )


def messages_in(kafka: str, topic: str) -> int:
    """Return how many messages a topic of one partition has."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": uuid.uuid4().hex})
    first, last = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    consumer.close()
    return int(last - first)


def recover(config: ObserverConfig, directory: Path) -> None:
    """Start an observer, wait until it accepts clients, and print what that took."""
    started = time.monotonic()
    with watched(directory) as seen:
        observer = ObserverProcess(config, directory, seconds=START_SECONDS)
        seconds = time.monotonic() - started
        time.sleep(0.2)
    print(
        f"recovered and ready in {seconds:.1f} s, {seen.processor:.1f} s of processor time,"
        f" {seen.most / MIB:.0f} MiB of memory at most",
        flush=True,
    )
    assert observer.stop() == 0
    for line in observer.log.read_text().splitlines():
        if "what earlier epochs left" in line:
            print(line)


def interrupt(config: ObserverConfig, directory: Path) -> None:
    """Ask an observer to end while it publishes, and print how long it takes."""
    command = [
        sys.executable,
        "-m",
        "headgate.observer",
        "--config",
        str(directory / "observer.toml"),
    ]
    with (directory / "interrupted.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        time.sleep(SIGNAL_AFTER_SECONDS)
        sent = time.monotonic()
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    print(
        f"asked to end while it published: ended in {time.monotonic() - sent:.2f} s, status {code}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--mebibytes", type=int, default=512)
    asked = parser.parse_args()
    print(f"Python {platform.python_version()}, {os.cpu_count()} processors")
    with running_stack() as stack, tempfile.TemporaryDirectory() as home:
        table = f"recovered_{uuid.uuid4().hex[:8]}"
        control = f"headgate.control-{table}"
        topic = updates_topic(table)
        admin = AdminClient({"bootstrap.servers": stack["kafka"]})
        for made in admin.create_topics(
            [NewTopic(each, 1, 1) for each in (control, topic)]
        ).values():
            made.result()
        producer = Producer({"bootstrap.servers": stack["kafka"]})
        watch = WatchList(1, "bench", 1, (Watch(table),))
        producer.produce(control, encode_control(watch), control_key(watch))
        producer.flush()
        directory = Path(home) / "observer"
        config = configuration(stack, directory, control)
        count = filled(directory / "journal", table, asked.mebibytes * MIB)
        print(f"{count} puts, {asked.mebibytes} MiB of requests", flush=True)
        recover(config, directory)
        print(f"{messages_in(stack['kafka'], topic)} messages in Kafka")
        filled(directory / "journal", table, asked.mebibytes * MIB)
        interrupt(config, directory)
        admin.delete_topics([control, topic])


if __name__ == "__main__":
    main()
