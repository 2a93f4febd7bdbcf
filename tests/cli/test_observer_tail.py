"""Where ``headgate observer tail`` looks for Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.cli.observer_tail import kafka_place
from headgate.events import CONTROL_TOPIC
from headgate.observer import KafkaPlace

FILE = """
name = "one"
[thrift1]
listen = "127.0.0.1:1"
upstream = "127.0.0.1:1"
[kafka]
bootstrap = "one:9092"
control_topic = "one.control"
[kafka.properties]
"security.protocol" = "SSL"
[journal]
directory = "journal"
"""
OF_THE_FILE = KafkaPlace("one:9092", {"security.protocol": "SSL"}, "one.control")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "observer.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path)


def test_the_file_of_the_directory_says_it_where_nothing_does() -> None:
    assert kafka_place(None, None, None, None) == OF_THE_FILE


def test_another_broker_is_not_asked_for_that_files_topic_with_its_properties() -> None:
    assert kafka_place(None, "two:9092", None, None) == KafkaPlace("two:9092", {}, CONTROL_TOPIC)


def test_a_file_that_is_named_adds_what_a_named_broker_does_not_say() -> None:
    place = kafka_place(Path("observer.toml"), "two:9092", None, None)
    assert place == KafkaPlace("two:9092", OF_THE_FILE.properties, "one.control")
