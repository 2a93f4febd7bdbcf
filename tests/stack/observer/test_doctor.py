"""``headgate doctor`` against the real HBase and Kafka, as a person uses it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.observer import (
    JournalSettings,
    KafkaSettings,
    Listener,
    ObserverConfig,
    ObserverProcess,
)

pytestmark = pytest.mark.stack


@pytest.fixture
def observer(stack, subscriber, tmp_path: Path) -> Iterator[ObserverProcess]:
    config = ObserverConfig(
        name="examined",
        thrift1=Listener("127.0.0.1:0", str(stack.thrift1)),
        thrift2=Listener("127.0.0.1:0", str(stack.thrift2)),
        kafka=KafkaSettings(stack.kafka, control_topic=subscriber.control_topic),
        journal=JournalSettings(str(tmp_path / "journal")),
    )
    with ObserverProcess(config, tmp_path) as process:
        yield process


def doctor(*arguments: str) -> tuple[int, list[dict[str, str]]]:
    """Return the exit code and the findings."""
    done = subprocess.run(
        [sys.executable, "-m", "headgate.cli", "doctor", "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not done.stderr, done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def problems(found: list[dict[str, str]]) -> list[str]:
    return [f"{each['step']}: {each['text']}" for each in found if each["verdict"] == "problem"]


@pytest.mark.parametrize("dialect", ["thrift1", "thrift2"])
def test_all_is_well_from_the_address_to_the_event_of_a_write(
    stack, subscriber, observer: ObserverProcess, tmp_path: Path, dialect: str
) -> None:
    name = stack.table("doctor")
    subscriber.watch(name)
    host, port = getattr(observer, dialect)
    config = str(tmp_path / "observer.toml")
    code, found = doctor("--config", config, "--thrift", f"{host}:{port}", "--write", f"{name}:f")
    assert problems(found) == []
    assert code == 0
    told = {each["text"] for each in found if each["step"] == f"thrift {host}:{port}"}
    assert "the observer examined stands in between" in told
    assert any(each.startswith(f"speaks {dialect}, ") for each in told)
    (event,) = [each["text"] for each in found if "its event came" in each["text"]]
    assert event.startswith("its event came from examined after ")
    assert dict(stack.happybase().table(name).scan()) == {}


def test_a_client_that_goes_past_the_observer_is_told_so(
    stack, subscriber, observer: ObserverProcess
) -> None:
    name = stack.table("doctor")
    code, found = doctor(
        "--thrift", str(stack.thrift1),
        "--kafka", stack.kafka,
        "--control-topic", subscriber.control_topic,
        "--write", f"{name}:f",
    )  # fmt: skip
    assert code == 1
    first, *others = problems(found)
    assert "HBase itself answers: no observer is in between" in first
    assert any("no dataflow watches anything" in each for each in others)
    assert any("not tried: no address answered as an observer" in each for each in others)


def test_kafka_that_is_asked_with_the_wrong_security_is_told_with_its_setting(stack) -> None:
    code, found = doctor("--kafka", stack.kafka, "--kafka-property", "security.protocol=ssl")
    assert code == 1
    (problem,) = [each for each in found if each["verdict"] == "problem"]
    assert problem["text"].startswith(("TLS fails", "no connection"))
    assert "ssl" in problem["cure"].lower()


def test_an_upstream_without_tls_is_a_problem_where_the_observer_speaks_it(
    stack, tmp_path: Path
) -> None:
    file = tmp_path / "observer.toml"
    file.write_text(
        f"""
        name = "examined"
        [thrift1]
        listen = "127.0.0.1:0"
        upstream = "{stack.thrift1}"
        [thrift1.upstream_tls]
        [kafka]
        bootstrap = "127.0.0.1:1"
        [journal]
        directory = "{tmp_path / "journal"}"
        """
    )
    code, found = doctor("--config", str(file))
    assert code == 1
    (problem,) = [each for each in found if "TLS" in each["text"]]
    assert problem["step"] == f"thrift1 upstream {stack.thrift1}"
    assert problem["cure"] == "remove [thrift1.upstream_tls] from the observer's file"
