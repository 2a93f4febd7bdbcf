"""The agent's configuration: files, variables, and errors with place and cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.agent import ConfigurationError, load_configuration, parse_configuration
from headgate.agent.process import own_names

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


TLS = '[tls]\ncertificate = "a.pem"\nkey = "a.key"\n'
GRANT = '[[access.certificates]]\nname = "alice"\nrole = "read"\n'


@pytest.mark.parametrize("api", ["0.0.0.0:7680", "[::]:7680", "10.0.0.1:0", "agent-1:7680"])
def test_an_agent_that_others_reach_starts_only_with_a_guard(api: str) -> None:
    text = f'api = "{api}"\n{LEAST}'
    with pytest.raises(ConfigurationError, match=r"agent\.toml:1: 'api'.*\[tls\].*access\.proxied"):
        parse_configuration(text, "agent.toml", {})
    assert parse_configuration(text + TLS, "agent.toml", {}).tls is not None
    assert parse_configuration(f"{text}[access]\nproxied = true\n", "agent.toml", {}).access.proxied


@pytest.mark.parametrize("api", ["127.0.0.1:7680", "localhost:0", "[::1]:7680", "127.8.9.1:1"])
def test_an_agent_that_only_its_machine_reaches_needs_nothing(api: str) -> None:
    assert parse_configuration(f'api = "{api}"\n{LEAST}', "agent.toml", {}).tls is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GRANT + 'dns = "a"\n', r"access\.certificates\[0\].*client_ca"),
        (TLS + 'client_ca = "c"\n' + GRANT, r"access\.certificates\[0\].*exactly one"),
        (
            TLS + 'client_ca = "c"\n' + GRANT + 'dns = "a"\nuri = "b"\n',
            r"access\.certificates\[0\].*exactly one",
        ),
        (TLS + "require_client_certificate = true\n", r"require_client_certificate.*client_ca"),
        (TLS + 'client_crl = "c"\n', r"client_crl.*client_ca"),
        ('[peers]\nkey = "k"\n', r"peers.*belong together"),
        ('[[access.certificates]]\nname = "a\\nb"\nrole = "read"\ndns = "a"\n', "name"),
        (GRANT.replace("read", "root") + 'dns = "a"\n', r"role"),
        ('[launchers]\nallowed = ["shell"]\n', r"launchers\.allowed"),
    ],
)
def test_access_that_means_nothing_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_configuration(LEAST + text, "agent.toml", {})


@pytest.mark.parametrize(
    ("api", "advertised", "names"),
    [
        ("127.0.0.1:7680", "127.0.0.1:7680", {"127.0.0.1", "Gate"}),
        ("0.0.0.0:7680", "https://Agent-1:7680", {"Agent-1", "Gate"}),
        ("0.0.0.0:7680", "0.0.0.0:7680", {"Gate"}),
        ("[::]:7680", "https://[::]:7680", {"Gate"}),
        ("10.0.0.1:7680", "https://[fd00::1]:7680", {"10.0.0.1", "fd00::1", "Gate"}),
    ],
)
def test_an_api_is_called_by_what_it_listens_on_and_tells_others(
    api: str, advertised: str, names: set[str]
) -> None:
    text = f'api = "{api}"\n{LEAST}[access]\nproxied = true\nhosts = ["Gate"]\n'
    configuration = parse_configuration(text, "agent.toml", {})
    assert own_names(configuration, advertised) == {name.lower() for name in names}
