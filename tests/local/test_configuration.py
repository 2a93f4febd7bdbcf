"""An instance's configuration is the templates with its own folders and ports."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from headgate.local import ConfigurationMissingError
from headgate.local.configuration import TEMPLATES, render, write_whole
from headgate.local.places import find_configuration
from headgate.local.processes.ports import Port

VALUES = {"data": "/srv/a&b/data"} | {f"{port.key}_port": str(port.value) for port in Port}


def rendered(tmp_path: Path) -> Path:
    render(find_configuration(), tmp_path, VALUES)
    return tmp_path


def hbase_properties(folder: Path) -> dict[str, str]:
    root = ET.parse(folder / "hbase-site.xml").getroot()
    return {each.findtext("name", ""): each.findtext("value", "") for each in root.iter("property")}


def java_properties(file: Path) -> dict[str, str]:
    lines = file.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_hbase_gets_its_folders_and_its_port(tmp_path: Path) -> None:
    said = hbase_properties(rendered(tmp_path))
    assert said["hbase.rootdir"] == "file:///srv/a&b/data/hbase"
    assert said["hbase.zookeeper.property.clientPort"] == "2181"


def test_hbase_may_be_paused_for_longer_than_a_spark_start(tmp_path: Path) -> None:
    said = hbase_properties(rendered(tmp_path))
    asked = int(said["zookeeper.session.timeout.localHBaseCluster"])
    granted = int(said["hbase.zookeeper.property.maxSessionTimeout"])
    assert 60_000 <= asked <= granted


def test_hbase_keeps_no_bean_of_its_metrics_for_each_region(tmp_path: Path) -> None:
    said = java_properties(rendered(tmp_path) / "hadoop-metrics2-hbase.properties")
    assert said["*.source.start_mbeans"] == "false"


def test_kafka_listens_on_this_host_only(tmp_path: Path) -> None:
    said = java_properties(rendered(tmp_path) / "server.properties")
    assert said["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    assert said["log.dirs"] == "/srv/a&b/data/kafka"


def test_no_name_is_left_unfilled(tmp_path: Path) -> None:
    folder = rendered(tmp_path)
    assert not [name for name in TEMPLATES if "${" in (folder / name).read_text()]


def test_a_template_with_an_unknown_name_is_refused_with_its_file(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in TEMPLATES:
        (source / name).write_text("${nonsense}")
    with pytest.raises(ConfigurationMissingError, match=rf"source/{TEMPLATES[0]}.*nonsense"):
        render(source, tmp_path, VALUES)


def test_a_failed_write_leaves_the_old_text(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "\udcff")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "old"
