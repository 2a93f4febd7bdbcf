"""The agent's configuration: files, variables, and errors with place and cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.agent import ConfigurationError, load_configuration, parse_configuration

LEAST = """
[hbase]
thrift2 = "127.0.0.1:9190"
[kafka]
bootstrap = "127.0.0.1:9092"
"""


def test_two_addresses_are_enough() -> None:
    found = parse_configuration(LEAST, "agent.toml", {})
    assert found.hbase.thrift2 == "127.0.0.1:9190"
    assert found.owner


def test_a_variable_overrides_its_key() -> None:
    variables = {"HEADGATE_AGENT_KAFKA_PARTITIONS": "7", "HEADGATE_AGENT_LEASE_SECONDS": "2.5"}
    found = parse_configuration(LEAST, "agent.toml", variables)
    assert (found.kafka.partitions, found.lease_seconds) == (7, 2.5)


def test_variables_alone_will_do() -> None:
    variables = {
        "HEADGATE_AGENT_HBASE_THRIFT2": "a:1",
        "HEADGATE_AGENT_KAFKA_BOOTSTRAP": "b:2",
    }
    assert load_configuration(None, variables).kafka.bootstrap == "b:2"


@pytest.mark.parametrize(
    ("text", "variables", "message"),
    [
        ("", {}, r"'hbase' is missing; add thrift2"),
        (LEAST + "partition = 3\n", {}, r"agent.toml:6: .*did you mean 'partitions'"),
        (LEAST + "partitions = 0\n", {}, r"agent.toml:6: 'kafka.partitions'"),
        ("lease_seconds = -1\n" + LEAST, {}, r"agent.toml:1: 'lease_seconds'"),
        (LEAST.replace(":9190", ""), {}, r"agent.toml:3: .*host:port"),
        (LEAST, {"HEADGATE_AGENT_HISTORY": "x"}, r"HEADGATE_AGENT_HISTORY"),
        (LEAST, {"HEADGATE_AGENT_HISTORI": "1"}, r"did you mean HEADGATE_AGENT_HISTORY"),
        ("[hbase\n", {}, r"not valid TOML"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    text: str, variables: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_configuration(text, "agent.toml", variables)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--config"):
        load_configuration(tmp_path / "agent.toml", {})
