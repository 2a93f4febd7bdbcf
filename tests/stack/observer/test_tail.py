"""``headgate observer tail`` against the real Kafka, as a person uses it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import happybase
import pytest

from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)
from headgate.observer.reading.event_lines import HEADINGS

pytestmark = pytest.mark.stack


@pytest.fixture
def observer(stack, subscriber, tmp_path: Path) -> Iterator[ObserverProcess]:
    config = ObserverConfig(
        name="tailed",
        thrift1=Listener("127.0.0.1:0", str(stack.thrift1)),
        kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic),
        journal=JournalSettings(str(tmp_path / "journal")),
    )
    with ObserverProcess(config, tmp_path / "observer") as process:
        yield process


@contextmanager
def tail(stack, subscriber, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run it; a test that fails meanwhile ends it instead of waiting for it."""
    command = [sys.executable, "-m", "headgate.cli", "observer", "tail", "--kafka", stack.kafka]
    with subprocess.Popen(
        [*command, "--control-topic", subscriber.control_topic, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_table_whose_topic_comes_into_being_later_is_followed_until_ctrl_c(
    stack, subscriber, observer: ObserverProcess
) -> None:
    name = stack.table("tail")
    with tail(stack, subscriber, "--json", "--values") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "no table is watched yet" in process.stderr.readline()
        subscriber.watch(name)
        table = happybase.Connection(*observer.thrift1).table(name)
        table.put(b"r\x00\xff", {b"f:a": b"1"})
        table.counter_inc(b"r", b"f:n", 5)
        lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert process.wait(10) == 0
        assert time.monotonic() - began < 3
        assert "2 updates of 1 table in " in process.stderr.read()
    found = {(e["row"], e["column"], e["kind"], e["value"]) for e in lines}
    assert found == {("r\\x00\\xFF", "f:a", "put", "1"), ("r", "f:n", "increment", "5")}
    assert {(e["table"], e["observer"], e["outcome"]) for e in lines} == {
        (name, "tailed", "applied")
    }


def test_what_was_published_before_is_shown_from_the_beginning_and_not_from_now(
    stack, subscriber, observer: ObserverProcess
) -> None:
    name = stack.table("tail")
    subscriber.watch(name)
    table = happybase.Connection(*observer.thrift1).table(name)
    table.put(b"before", {b"f:a": b"1"})
    subscriber.read(name, subscriber.barrier(name))
    from_beginning = ("--from", "beginning", "--control")
    with (
        tail(stack, subscriber, "--table", name, "--count", "2", *from_beginning) as old,
        tail(stack, subscriber, "--table", name, "--count", "1") as new,
    ):
        assert new.stderr is not None
        assert f"following {name}" in new.stderr.readline()
        table.put(b"after", {b"f:a": b"1"})
        shown, _ = old.communicate(timeout=30)
        assert new.communicate(timeout=30)[0].count(" after ") == 1
    assert " before " in shown
    assert "[barrier] tailed, " in shown
    heading = shown.splitlines()[0]
    assert tuple(heading.split()) == HEADINGS


def test_any_client_says_in_json_who_writes_and_reads_are_told_by_column(
    stack, subscriber, observer: ObserverProcess
) -> None:
    name = stack.table("tail")
    subscriber.watch(name)
    connection = happybase.Connection(*observer.thrift1)
    put = sys.modules["Hbase_thrift"].Mutation(column=b"f:a", value=b"1")
    origin = {b"headgate.origin": b'{"dataflow": "air", "action": "zones", "run": "r", "token": 7}'}
    with tail(stack, subscriber, "--table", name, "--count", "2", "--json") as process:
        assert process.stderr is not None
        process.stderr.readline()
        connection.client.mutateRowTs(name.encode(), b"row", [put], 1_769_860_800_250, origin)
        connection.table(name).put(b"row", {b"f:a": b"2"})
        said, _ = process.communicate(timeout=60)
    first, second = (json.loads(line) for line in said.splitlines())
    assert first["origin"] == {"dataflow": "air", "action": "zones", "run": "r", "token": 7}
    assert (first["timestamp"], second["timestamp"]) == (1_769_860_800_250, None)
    assert second["origin"] is None
    for _ in range(4):
        connection.table(name).row(b"row", columns=[b"f:a"])
    connection.table(name).row(b"row")
    list(connection.table(name).scan(columns=[b"f"]))
    host, port = observer.admin
    text = urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=60).read().decode()
    reads = {line for line in text.splitlines() if f'table="{name}"' in line and "column" in line}
    assert reads == {
        f'headgate_observer_column_reads_total{{column="{column}",table="{name}"}} {count}.0'
        for column, count in (("f:a", 4), ("", 1), ("f:", 1))
    }


def test_kafka_that_does_not_answer_is_named(subscriber) -> None:
    command = [sys.executable, "-m", "headgate.cli", "observer", "tail", "--kafka", "127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "Kafka at 127.0.0.1:1: " in done.stderr
    assert "refused" in done.stderr.lower()
