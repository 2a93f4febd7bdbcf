"""Programs that write to HBase's own Thrift server, and what they have told Kafka."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from headgate.events import (
    UpdateBatch,
    UpdateMessage,
    Watch,
    WatchList,
    decode_update,
    updates_topic,
)

Cell = tuple[bytes, bytes, bytes | None]


class Programs:
    """Runs Python programs with a client's configuration of the test's own."""

    def __init__(self, stack, subscriber, directory: Path) -> None:
        self._stack = stack
        self._subscriber = subscriber
        self._directory = directory
        self._started: list[subprocess.Popen[str]] = []
        self.journal = directory / "journal"
        host, port = stack.thrift1
        self.variables = {
            "HEADGATE_CLIENT_KAFKA_BOOTSTRAP": stack.kafka,
            "HEADGATE_CLIENT_KAFKA_CONTROL_TOPIC": subscriber.control_topic,
            "HEADGATE_CLIENT_JOURNAL_DIRECTORY": str(self.journal),
            "HEADGATE_CLIENT_NAME": f"program-{subscriber.control_topic[-6:]}",
            "HEADGATE_CLIENT_LEASE_SECONDS": "1",
            "THRIFT1_HOST": host,
            "THRIFT1_PORT": str(port),
        }

    def watch(self, *tables: str) -> None:
        """Watch the tables from the next program on."""
        watches = tuple(Watch(table) for table in tables)
        self._subscriber.send(WatchList(1, "tests", int(time.time()), watches))

    def environment(self) -> dict[str, str]:
        """Return the variables that programs get."""
        return {**os.environ, **self.variables}

    def command(self, program: str, *arguments: str) -> list[str]:
        path = self._directory / f"program-{len(list(self._directory.glob('program-*')))}.py"
        path.write_text(program, encoding="utf-8")
        return [str(path), *arguments]

    def start(
        self, program: str, *arguments: str, through: tuple[str, ...] = (), **variables: str
    ) -> subprocess.Popen[str]:
        """Start a program; ``through`` are the words between Python and it."""
        process = subprocess.Popen(
            [sys.executable, *through, *self.command(program, *arguments)],
            env={**self.environment(), **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def run(
        self, program: str, *arguments: str, through: tuple[str, ...] = (), **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end."""
        process = self.start(program, *arguments, through=through, **variables)
        out, error = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, error)

    def batches(self, table: str) -> list[UpdateBatch]:
        """Return the update messages that the table's topic holds now."""
        return [m for m in self.messages(table) if isinstance(m, UpdateBatch)]

    def cells(self, table: str) -> list[Cell]:
        """Return row, column and value of every cell in them."""
        return [
            cell
            for batch in self.batches(table)
            for cell in zip(batch.rows, batch.columns, batch.values, strict=True)
        ]

    def messages(self, table: str) -> list[UpdateMessage]:
        """Return everything that the table's topic holds now."""
        topic = updates_topic(table)
        consumer = Consumer(
            {
                "bootstrap.servers": self._stack.kafka,
                "group.id": "tests",
                "enable.auto.commit": False,
                "enable.partition.eof": False,
            }
        )
        try:
            found = consumer.list_topics(timeout=10).topics.get(topic)
            places = [TopicPartition(topic, p) for p in (found.partitions if found else ())]
            left = 0
            for place in places:
                place.offset, end = consumer.get_watermark_offsets(place, timeout=10)
                left += end - place.offset
            if not left:
                return []
            consumer.assign(places)
            messages: list[UpdateMessage] = []
            deadline = time.monotonic() + 30
            while left:
                assert time.monotonic() < deadline, f"{left} messages of {topic} did not come"
                for record in consumer.consume(min(left, 500), 0.5):
                    if record.error() is None:
                        messages.append(decode_update(record.value()))
                        left -= 1
            return messages
        finally:
            consumer.close()

    def await_rows(self, table: str, rows: set[bytes], seconds: float = 20.0) -> None:
        """Wait until there is an event for each of the rows."""
        deadline = time.monotonic() + seconds
        while not rows <= {row for row, *_ in self.cells(table)}:
            assert time.monotonic() < deadline, "rows without an event"
            time.sleep(0.2)

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def programs(stack, subscriber, tmp_path: Path) -> Iterator[Programs]:
    programs = Programs(stack, subscriber, tmp_path)
    yield programs
    programs.close()


Started = Callable[..., subprocess.Popen[str]]
