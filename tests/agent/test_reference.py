"""docs/agent.md names every key and every metric, and its example is valid."""

import re
from pathlib import Path

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from headgate.agent import (
    AgentConfiguration,
    Airflow,
    ApiAccess,
    BarrierOptions,
    CellMemory,
    Connect,
    HBase,
    KafkaOptions,
    Launchers,
    Resources,
    ScanOptions,
    SensorConfiguration,
    SensorKafka,
    Submit,
    Workers,
    parse_configuration,
)
from headgate.agent.configuration import TrainingOptions
from headgate.agent.metrics import AgentMetrics
from headgate.settings import ServerTls, UpstreamTls

REFERENCE = (Path(__file__).parents[2] / "docs" / "agent.md").read_text()


def keys() -> set[str]:
    tables: dict[str, type[msgspec.Struct]] = {
        "launchers.connect": Connect,
        "launchers.submit": Submit,
        "launchers.airflow": Airflow,
        "hbase": HBase,
        "kafka": KafkaOptions,
        "workers": Workers,
        "scans": ScanOptions,
        "barriers": BarrierOptions,
        "resources": Resources,
        "cells": CellMemory,
        "access": ApiAccess,
        "tls": ServerTls,
        "training": TrainingOptions,
        "peers": UpstreamTls,
    }
    own = {field.name for field in msgspec.structs.fields(AgentConfiguration)}
    launchers = {field.name for field in msgspec.structs.fields(Launchers)}
    found = own - tables.keys() - {"launchers"}
    found |= {f"launchers.{name}" for name in launchers if f"launchers.{name}" not in tables}
    for name, table in tables.items():
        found |= {f"{name}.{field.name}" for field in msgspec.structs.fields(table)}
    return found


def test_every_key_is_described_and_no_other() -> None:
    section = REFERENCE.partition("## Keys")[2].partition("## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert {key for row in rows for key in re.findall(r"`([^`]+)`", row)} == keys()


def test_every_key_of_the_sensor_is_described_and_no_other() -> None:
    section = REFERENCE.partition("## The sensor")[2].partition("## ")[0]
    named = set(re.findall(r"^\| `([^`]+)`", section, re.MULTILINE))
    own = {field.name for field in msgspec.structs.fields(SensorConfiguration)} - {"kafka"}
    assert named == own | {f"kafka.{field.name}" for field in msgspec.structs.fields(SensorKafka)}


def test_the_example_beyond_loopback_is_valid() -> None:
    section = REFERENCE.partition("## Who may do what")[2]
    example = section.partition("```toml\n")[2].partition("```")[0]
    text = example.replace(
        "[access]", '[hbase]\nthrift2 = "h:1"\n[kafka]\nbootstrap = "k:1"\n[access]', 1
    )
    assert (
        parse_configuration(text, "docs/agent.md", {}).access.certificates[0].name == "deployment"
    )


def test_the_example_is_valid() -> None:
    example, *_ = re.findall(r"```toml\n(.*?)```", REFERENCE, re.DOTALL)
    assert parse_configuration(example, "docs/agent.md", {}).name == "agent-1"


def test_every_metric_is_described() -> None:
    section = REFERENCE.partition("## Metrics")[2]
    named = set(re.findall(r"`([a-z_]+)(?:\{[a-z,]+\})?`", section))
    for family in text_string_to_metric_families(AgentMetrics().text().decode()):
        name = family.name.removeprefix("headgate_agent_")
        assert {name, f"{name}_total"} & named, name
