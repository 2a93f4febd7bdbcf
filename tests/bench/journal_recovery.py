"""How long an observer takes to publish a journal that a crash left full.

A journal of small puts of one table is written as the observer writes it, and left as a killed
process leaves it. Then an observer starts, publishes all of it to the real Kafka, and accepts
clients. A second one, on a copy of that journal, is asked to end while it publishes. Printed are
the seconds until each of these, the processor time, the most memory that the observer held, and
how many messages Kafka has.

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
import time
import uuid
from pathlib import Path

import psutil
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from measuring.targets import configuration, running_stack, watch
from measuring.thrift_requests import put_request

from headgate.events import updates_topic
from headgate.observer import (
    JournalSettings,
    ObserverConfig,
    ObserverProcess,
)
from headgate.observer.recording.journal import Journal

MIB = 1 << 20
SEGMENT_BYTES = JournalSettings("unused").segment_bytes
START_SECONDS = 600.0


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


def most_memory(pid: int) -> int:
    """Return the most bytes of memory that a process has held so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def recover(config: ObserverConfig, directory: Path) -> None:
    """Start an observer, wait until it accepts clients, and print what that took."""
    started = time.monotonic()
    observer = ObserverProcess(config, directory, seconds=START_SECONDS)
    seconds = time.monotonic() - started
    times = psutil.Process(observer.pid).cpu_times()
    print(
        f"recovered and ready in {seconds:.1f} s, {times.user + times.system:.1f} s of processor"
        f" time, {most_memory(observer.pid) / MIB:.0f} MiB of memory at most",
        flush=True,
    )
    assert observer.stop() == 0
    for line in observer.log.read_text().splitlines():
        if "what earlier epochs left" in line:
            print(line)


def interrupt(directory: Path, kafka: str, topic: str) -> None:
    """Ask an observer to end once it publishes, and print how long it takes."""
    command = [sys.executable, "-m", "headgate.observer"]
    command += ["--config", str(directory / "observer.toml")]
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": topic})
    place = TopicPartition(topic, 0)
    _, end = consumer.get_watermark_offsets(place, timeout=30)
    consumer.assign([TopicPartition(topic, 0, end)])
    with (directory / "interrupted.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        assert consumer.poll(START_SECONDS) is not None, "it published nothing"
        sent = time.monotonic()
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    seconds = time.monotonic() - sent
    _, now = consumer.get_watermark_offsets(place, timeout=30)
    consumer.close()
    print(
        f"asked to end at its first message: ended in {seconds:.2f} s, status {code};"
        f" {end} messages were there before, {now - end} came"
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
        watch(stack, control, table)
        directory = Path(home) / "observer"
        config = configuration(stack, directory, control)
        count = filled(directory / "journal", table, asked.mebibytes * MIB)
        print(f"{count} puts, {asked.mebibytes} MiB of requests", flush=True)
        recover(config, directory)
        filled(directory / "journal", table, asked.mebibytes * MIB)
        interrupt(directory, stack["kafka"], topic)
        admin.delete_topics([control, topic])


if __name__ == "__main__":
    main()
