"""Tables are watched by pattern from their first write on, with no agent and no dataflow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import ExitStack, closing
from pathlib import Path

import happybase
import pytest
from confluent_kafka.admin import AdminClient
from msgspec.structs import replace

from headgate.events import UpdateBatch, updates_topic
from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
    Watching,
)
from headgate.observer.lifecycle.process import as_toml

pytestmark = pytest.mark.stack


def test_a_table_that_is_created_later_is_watched_from_its_first_write(
    stack, subscriber, tmp_path: Path
) -> None:
    prefix = f"by-pattern-{uuid.uuid4().hex[:8]}"
    config = ObserverConfig(
        name="patterns",
        thrift1=Listener("127.0.0.1:0", str(stack.thrift1)),
        kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic),
        journal=JournalSettings(str(tmp_path / "journal")),
        watch=Watching((f"default:{prefix}_*",)),
    )
    names = [f"{prefix}_1", f"{prefix}_2", f"{prefix}-other"]
    command = [sys.executable, "-m", "headgate.cli", "observer", "tail", "--kafka", stack.kafka]
    command += ["--control-topic", subscriber.control_topic, "--json", "--table", f"{prefix}_*"]
    # From the beginning: on a busy machine it may begin after the writes.
    command += ["--from", "beginning", "--count", "4"]
    with ExitStack() as open_now:
        observer = open_now.enter_context(ObserverProcess(config, tmp_path / "observer"))
        tail = open_now.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        open_now.callback(tail.kill)  # its end is awaited wherever an assertion fails
        connection = open_now.enter_context(closing(happybase.Connection(*observer.thrift1)))
        for name in names:
            connection.create_table(name, {"f": {}})
        for number in range(2):
            for name in names:
                connection.table(name).put(b"row-%d" % number, {b"f:v": b"1"})
        with pytest.raises(Exception, match="_absent"):
            connection.table(f"{prefix}_absent").put(b"row", {b"f:v": b"1"})
        for name in names[:2]:
            found = subscriber.read(name, subscriber.barrier(name))
            rows = [r for part in found for m in part if isinstance(m, UpdateBatch) for r in m.rows]
            assert sorted(rows) == [b"row-0", b"row-1"]
        assert tail.stdout is not None
        shown = [json.loads(line) for line in tail.stdout]
        assert tail.wait() == 0
    assert sorted({(line["table"], line["row"]) for line in shown}) == [
        (name, f"row-{number}") for name in names[:2] for number in range(2)
    ]
    topics = AdminClient({"bootstrap.servers": stack.kafka}).list_topics(timeout=10).topics
    assert updates_topic(names[2]) not in topics
    assert updates_topic(f"{prefix}_absent") not in topics


def test_patterns_change_at_work(stack, subscriber, tmp_path: Path) -> None:
    prefix = f"by-change-{uuid.uuid4().hex[:8]}"
    config = ObserverConfig(
        name="changing",
        thrift1=Listener("127.0.0.1:0", str(stack.thrift1)),
        kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic),
        journal=JournalSettings(str(tmp_path / "journal")),
    )
    name = f"{prefix}_1"
    with (
        ObserverProcess(config, tmp_path) as observer,
        closing(happybase.Connection(*observer.thrift1)) as connection,
    ):
        connection.create_table(name, {"f": {}})
        connection.table(name).put(b"before", {b"f:v": b"1"})
        wanted = replace(config, watch=Watching((f"{prefix}_*",)))
        (tmp_path / "observer.toml").write_text(as_toml(wanted))
        os.kill(observer.pid, signal.SIGHUP)
        deadline = time.monotonic() + 30
        while "configuration reloaded" not in observer.log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        connection.table(name).put(b"after", {b"f:v": b"1"})
        found = subscriber.read(name, subscriber.barrier(name))
    rows = [r for part in found for m in part if isinstance(m, UpdateBatch) for r in m.rows]
    assert rows == [b"after"]
