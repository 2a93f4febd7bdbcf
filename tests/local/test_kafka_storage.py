"""Kafka's folder is formatted from what its tool once wrote for the same release."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.local.places import find_configuration
from headgate.local.processes.kafka_storage import NODE, KafkaStorage

JARS = [Path("/jars/kafka/4.3.1/kafka-4.3.1.jar"), Path("/jars/log4j/2.24.3/log4j-2.24.3.jar")]
FEATURES = b"features of a release"


@pytest.fixture
def formatted(tmp_path: Path) -> Path:
    """A folder as the tool leaves it."""
    folder = tmp_path / "formatted"
    folder.mkdir()
    (folder / "bootstrap.checkpoint").write_bytes(FEATURES)
    return folder


def names(data: Path) -> dict[str, str]:
    lines = (data / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_before_the_tool_has_run_nothing_is_made(tmp_path: Path) -> None:
    assert not KafkaStorage(tmp_path / "cache", JARS).format(tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_other_instances_have_the_features_and_names_of_their_own(
    tmp_path: Path, formatted: Path
) -> None:
    KafkaStorage(tmp_path / "cache", JARS).keep(formatted)
    places = [tmp_path / "one" / "kafka", tmp_path / "two" / "kafka"]
    assert all(KafkaStorage(tmp_path / "cache", JARS).format(data) for data in places)
    assert {(data / "bootstrap.checkpoint").read_bytes() for data in places} == {FEATURES}
    one, two = map(names, places)
    assert one.keys() == two.keys() == {"version", "node.id", "cluster.id", "directory.id"}
    assert len({each[name] for each in (one, two) for name in ("cluster.id", "directory.id")}) == 4


def test_another_release_has_features_of_its_own(tmp_path: Path, formatted: Path) -> None:
    KafkaStorage(tmp_path / "cache", JARS).keep(formatted)
    assert not KafkaStorage(tmp_path / "cache", JARS[1:]).format(tmp_path / "data")


def test_what_others_may_write_is_passed_over(tmp_path: Path, formatted: Path) -> None:
    KafkaStorage(tmp_path / "cache", JARS).keep(formatted)
    (kept,) = (tmp_path / "cache" / "kafka").iterdir()
    kept.chmod(0o666)
    assert not KafkaStorage(tmp_path / "cache", JARS).format(tmp_path / "data")


def test_the_broker_has_the_number_of_its_template() -> None:
    template = (find_configuration() / "server.properties").read_text().splitlines()
    assert f"node.id={NODE}" in template
