"""Tables whose events Kafka does not take, beside twenty whose events it takes.

Kafka is the real one. Of HBase only the answers to puts matter here, so a script gives them.
"""

from __future__ import annotations

import socketserver
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import happybase
import Hbase_thrift  # made by happybase when it is imported
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from thriftpy2.transport import TTransportException

from headgate.events import UpdateBatch, Watch, WatchList, updates_topic
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)
from headgate.observer.upstreams.asking import PING
from headgate.wire import MessageReader, StructWriter, write_reply

pytestmark = pytest.mark.stack

GOOD = 20
SECONDS = 8.0
VALUE = b"v" * 4000
LIMIT = 16 << 20
"""Bytes of the journal: full within five seconds, were good tables to wait for bad ones."""


class Answers(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        reader = MessageReader()
        while data := self.request.recv(1 << 16):
            reader.feed(data)
            while (message := reader.next_message()) is not None:
                result = StructWriter()
                if message.name == PING:
                    result.i32(0, 1)
                self.request.sendall(write_reply(message, result.end()))


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@pytest.fixture
def hbase() -> Iterator[str]:
    with Server(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield "{}:{}".format(*server.server_address)
        server.shutdown()


class Writer:
    """A client that puts into tables in turn, and notes which rows it was told are written."""

    def __init__(self, observer: ObserverProcess, tables: list[str], value: bytes) -> None:
        self.written: set[tuple[str, bytes]] = set()
        self.error: Exception | None = None
        self._connection = happybase.Connection(*observer.thrift1, timeout=60_000)
        self._tables = [self._connection.table(table, use_prefix=False) for table in tables]
        self._value = value
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        try:
            while not self._over.is_set():
                table = self._tables[number % len(self._tables)]
                row = b"row%08d" % number
                table.put(row, {b"f:q": self._value})
                self.written.add((table.name.decode(), row))
                number += 1
        except (Hbase_thrift.IOError, TTransportException, OSError) as error:
            self.error = error

    def end(self) -> None:
        self._over.set()
        self._thread.join(0.5)
        if self._thread.is_alive():  # its put waits for room
            self._connection.close()
            self._thread.join(30)


@pytest.mark.soak
def test_poisoned_tables_beside_good_ones_cost_them_nothing(
    stack, subscriber, hbase: str, tmp_path: Path
) -> None:
    mark = uuid.uuid4().hex[:8]
    good = [f"good{number}_{mark}" for number in range(GOOD)]
    unmade, unwritable, small = bad = [f"{kind}_{mark}" for kind in ("unmade", "full", "small")]
    admin = AdminClient({"bootstrap.servers": stack.kafka, "log_level": 0})
    names = [subscriber.control_topic, *map(updates_topic, good)]
    topics = [NewTopic(name, 1, 1) for name in names]
    topics += [
        NewTopic(updates_topic(unwritable), 1, 1, config={"min.insync.replicas": "2"}),
        NewTopic(updates_topic(small), 1, 1, config={"max.message.bytes": "500"}),
    ]
    for made in admin.create_topics(topics).values():
        made.result(30)
    config = ObserverConfig(
        name="poisoned",
        thrift1=Listener("127.0.0.1:0", hbase),
        # More replicas than there are brokers: the topic that is not there cannot be made.
        kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic, replication=3),
        journal=JournalSettings(
            str(tmp_path / "journal"), limit_bytes=LIMIT, segment_bytes=LIMIT // 16
        ),
    )
    with ObserverProcess(config, tmp_path) as observer:
        subscriber.send(WatchList(1, "tests", 1, tuple(Watch(each) for each in (*good, *bad))))
        subscriber.read(good[0], subscriber.barrier(good[0]))
        bad_writers = [Writer(observer, [table], VALUE) for table in bad]
        good_writers = [Writer(observer, good[part::2], b"v") for part in range(2)]
        time.sleep(SECONDS)
        for writer in (*good_writers, *bad_writers):
            writer.end()
        assert [writer.error for writer in good_writers] == [None, None]
        log = observer.log.read_text(encoding="utf-8")
        waited = [line for line in log.splitlines() if "waits for room" in line]
        assert any(f"table={unmade}" in line for line in waited)
        assert not [line for line in waited if not any(f"table={table}" in line for table in bad)]
        # What was accepted comes once Kafka takes it.
        admin.create_topics([NewTopic(updates_topic(unmade), 1, 1)])[updates_topic(unmade)].result(
            30
        )
        resource = ConfigResource(
            ResourceType.TOPIC,
            updates_topic(unwritable),
            incremental_configs=[
                ConfigEntry("min.insync.replicas", "1", incremental_operation=AlterConfigOpType.SET)
            ],
        )
        admin.incremental_alter_configs([resource])[resource].result(30)
        written = {each for writer in (*good_writers, *bad_writers) for each in writer.written}
        assert {table for table, _ in written} == {*good, *bad}
        barrier = subscriber.barrier(*good, *bad)
        for table in (*good, *bad):
            (messages,) = subscriber.read(table, barrier)
            batches = [each for each in messages if isinstance(each, UpdateBatch)]
            published = {row for batch in batches for row in batch.rows}
            assert {row for name, row in written if name == table} <= published
