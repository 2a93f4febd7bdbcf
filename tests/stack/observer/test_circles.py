"""Two observers, each of which is the upstream of the other."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import happybase
import Hbase_thrift  # made by happybase when it is imported
import psutil
import pytest
from msgspec.structs import replace

from headgate.observer import (
    HealthChecks,
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)
from headgate.observer.lifecycle.process import as_toml

pytestmark = pytest.mark.stack

_MOST = 40
"""Descriptors that two checks at once, and the clients here, may take."""


def health(observer: ObserverProcess) -> str:
    host, port = observer.admin
    with urllib.request.urlopen(f"http://{host}:{port}/upstreams", timeout=10) as answer:
        text: str = json.dumps(json.load(answer))
        return text


def await_that(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_circle_of_two_observers_is_named_and_ends(stack, subscriber, tmp_path: Path) -> None:
    table = stack.table("circles")
    health_checks = HealthChecks(interval_seconds=0.5, rise=1)

    def configuration(name: str, upstream: str) -> ObserverConfig:
        return ObserverConfig(
            name=name,
            thrift1=Listener("127.0.0.1:0", upstream, health=health_checks),
            kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic),
            journal=JournalSettings(str(tmp_path / name / "journal")),
        )

    def point(observer: ObserverProcess, config: ObserverConfig, upstream: str) -> None:
        assert config.thrift1 is not None
        listener = replace(config.thrift1, upstream=upstream)
        path = tmp_path / config.name / "observer.toml"
        path.write_text(as_toml(replace(config, thrift1=listener)))
        os.kill(observer.pid, signal.SIGHUP)

    first_config = configuration("first", str(stack.thrift1))
    with ObserverProcess(first_config, tmp_path / "first") as first:
        second_config = configuration("second", "{}:{}".format(*first.thrift1))
        with ObserverProcess(second_config, tmp_path / "second") as second:
            through = happybase.Connection(*second.thrift1)
            through.table(table).put(b"before", {b"f:q": b"1"})
            processes = [psutil.Process(each.pid) for each in (first, second)]
            before = [each.num_fds() for each in processes]
            point(first, first_config, "{}:{}".format(*second.thrift1))
            await_that(lambda: "in a circle" in health(first) and "in a circle" in health(second))
            for observer in (first, second):
                with pytest.raises(Hbase_thrift.IOError, match=r"first#.* -> second#"):
                    happybase.Connection(*observer.thrift1).table(table).row(b"before")
            for process, count in zip(processes, before, strict=True):
                assert process.num_fds() < count + _MOST
            point(first, first_config, str(stack.thrift1))
            await_that(lambda: "in a circle" not in health(first) + health(second))
            again = happybase.Connection(*second.thrift1).table(table)
            again.put(b"after", {b"f:q": b"2"})
            assert again.row(b"before") == {b"f:q": b"1"}
            assert through.table(table).row(b"after") == {b"f:q": b"2"}
        assert "observers pass this request on in a circle" in second.log.read_text()
