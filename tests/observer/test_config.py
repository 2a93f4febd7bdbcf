"""The observer's configuration: a file, the environment, and mistakes told with their cures."""

import pytest

from headgate.observer import ConfigurationError, Fsync, WhenFull, parse_config
from headgate.observer.lifecycle.process import as_toml
from headgate.observer.publishing.kafka import KafkaProducer

WHOLE = """\
name = "o1"
admin = "127.0.0.1:9180"

[thrift1]
listen = "127.0.0.1:9190"
upstream = "127.0.0.1:9090"

[kafka]
bootstrap = "127.0.0.1:9092"

[kafka.properties]
"security.protocol" = "SSL"

[journal]
directory = "/var/lib/headgate"
fsync = "always"
when_full = "pass"
"""


def problem(text: str, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse_config(text, "observer.toml", environment or {})
    return str(caught.value)


def test_a_configuration_is_written_without_what_is_as_by_default() -> None:
    config = parse_config(WHOLE, "observer.toml", {})
    text = as_toml(config)
    assert parse_config(text, "observer.toml", {}) == config
    assert set(text.split()) <= set(WHOLE.split())


def test_a_file_is_read() -> None:
    config = parse_config(WHOLE, "observer.toml", {})
    assert config.thrift1 is not None
    assert config.thrift1.upstream == "127.0.0.1:9090"
    assert config.thrift2 is None
    assert config.journal.fsync is Fsync.ALWAYS
    assert config.journal.when_full is WhenFull.PASS
    assert config.kafka.properties == {"security.protocol": "SSL"}


def test_the_environment_overrides_the_file() -> None:
    environment = {
        "HEADGATE_OBSERVER_NAME": "o2",
        "HEADGATE_OBSERVER_JOURNAL_LIMIT_BYTES": "99999999",
        "HEADGATE_OBSERVER_THRIFT2_LISTEN": "127.0.0.1:1",
        "HEADGATE_OBSERVER_THRIFT2_UPSTREAM": "127.0.0.1:2",
        "PATH": "/bin",
    }
    config = parse_config(WHOLE, "observer.toml", environment)
    assert config.name == "o2"
    assert config.journal.limit_bytes == 99999999
    assert config.thrift2 is not None


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("fsync =", "fsink =", "toml:16: unknown key 'journal.fsink'; did you mean 'fsync'?"),
        ("[thrift1]", "[thrift3]", "observer.toml:4: unknown key 'thrift3'; did you mean 'thrift"),
        ('"always"', '"sometimes"', "observer.toml:16: 'journal.fsync': Invalid enum value"),
        ('"127.0.0.1:9090"', '"9090"', "observer.toml:6: 'thrift1.upstream': '9090' is no address"),
        ('name = "o1"', "", "'name' is missing; add it at the top"),
        (
            'directory = "/var/lib/headgate"',
            "",
            "observer.toml:14: 'journal.directory' is missing; add it under [journal]",
        ),
        ('name = "o1"', "name = ", "observer.toml: not valid TOML"),
        ('name = "o1"', 'name = "o 1"', "observer.toml:1: 'name'"),
        ('fsync = "always"', "limit_bytes = 10", "'journal.segment_bytes': it is above"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_cure(before: str, after: str, expected: str) -> None:
    assert expected in problem(WHOLE.replace(before, after))


def test_without_a_listener_there_is_nothing_to_do() -> None:
    text = WHOLE.replace("[thrift1]\n", "").replace('listen = "127.0.0.1:9190"\n', "")
    text = text.replace('upstream = "127.0.0.1:9090"\n', "")
    assert "nothing to listen on" in problem(text)


def test_secrets_for_kafka_are_not_shown() -> None:
    text = WHOLE.replace('"security.protocol" = "SSL"', '"sasl.password" = "hunter2"')
    config = parse_config(text, "observer.toml", {})
    assert config.kafka.properties == {"sasl.password": "hunter2"}
    assert "hunter2" not in repr(config)
    assert "sasl.password" in repr(config)
    assert "hunter2" not in problem(text.replace('"hunter2"', '["hunter2"]'))


def test_a_property_that_librdkafka_refuses_is_named_without_its_value() -> None:
    with pytest.raises(ConfigurationError) as caught:
        KafkaProducer("127.0.0.1:1", {"security.protocol": "SSL", "ssl.key.pem": "hunter2"})
    assert "ssl.key.pem failed: not in PEM format" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_an_admin_address_that_others_reach_must_be_wanted() -> None:
    public = WHOLE.replace('admin = "127.0.0.1:9180"', 'admin = "0.0.0.0:9180"')
    assert "observer.toml:2: 'admin': other hosts reach 0.0.0.0" in problem(public)
    assert parse_config("admin_public = true\n" + public, "observer.toml", {}).admin_public


@pytest.mark.parametrize(
    ("addition", "expected"),
    [
        (
            '[thrift1.tls]\ncertificate = "c"\nkey = "k"\nrequire_client_certificate = true',
            "add client_ca under [thrift1.tls]",
        ),
        (
            '[thrift1.tls]\ncertificate = "c"\nkey = "k"\nclient_crl = "l"',
            "clients are not asked for certificates; add client_ca under [thrift1.tls]",
        ),
        ('[thrift1.upstream_tls]\nkey = "k"', "certificate and key belong together"),
        ("[thrift1.origin]", "set either dataflow (with or without action) or writer"),
        ('[thrift1.origin]\nwriter = "unknown"', "is not 'unknown'"),
        ('[[access.rules]]\nallow = "all"', "'access.rules[0].allow': Invalid enum value"),
        ('[[access.rules]]\nallow = "read"\ntables = []', "it names no table"),
        ('[[access.certificates]]\nwriter = "w"', "set exactly one of common_name, dns and uri"),
    ],
)
def test_a_mistake_about_security_is_told_with_its_cure(addition: str, expected: str) -> None:
    assert expected in problem(f"{WHOLE}\n{addition}\n")


def test_a_misspelt_variable_is_told() -> None:
    text = problem(WHOLE, {"HEADGATE_OBSERVER_JOURNAL_LIMIT": "1"})
    assert "did you mean HEADGATE_OBSERVER_JOURNAL_LIMIT_BYTES?" in text


def test_a_wrong_variable_is_named() -> None:
    text = problem(WHOLE, {"HEADGATE_OBSERVER_LEASE_SECONDS": "soon"})
    assert text.startswith("environment: HEADGATE_OBSERVER_LEASE_SECONDS: ")


@pytest.mark.parametrize("written", ['["a:1", "b:2"]', '"a:1, b:2"'])
def test_a_listener_has_one_upstream_or_several(written: str) -> None:
    config = parse_config(WHOLE.replace('"127.0.0.1:9090"', written), "observer.toml", {})
    assert config.thrift1 is not None
    assert config.thrift1.upstreams == ("a:1", "b:2")


def test_the_environment_names_several_upstreams_with_commas() -> None:
    environment = {
        "HEADGATE_OBSERVER_THRIFT1_UPSTREAM": "a:1,b:2",
        "HEADGATE_OBSERVER_THRIFT1_HEALTH_RISE": "5",
    }
    config = parse_config(WHOLE, "observer.toml", environment)
    assert config.thrift1 is not None
    assert config.thrift1.upstreams == ("a:1", "b:2")
    assert config.thrift1.health.rise == 5


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('["a:1", "b"]', "observer.toml:6: 'thrift1.upstream': 'b' is no address"),
        ('["a:1", "a:1"]', "observer.toml:6: 'thrift1.upstream': it names a:1 twice"),
        ("[]", "observer.toml:6: 'thrift1.upstream': it names no server"),
        (
            '"a:1"\nhealth = 3',
            "observer.toml:7: 'thrift1.health' must be a table: [thrift1.health]",
        ),
        ('"a:1"\n[thrift1.health]\nrice = 3', "unknown key 'thrift1.health.rice'; did you mean"),
    ],
)
def test_a_mistake_in_upstreams_is_told(written: str, expected: str) -> None:
    assert expected in problem(WHOLE.replace('"127.0.0.1:9090"', written))


def test_writes_cannot_pass_without_events_where_each_is_answered_with_them() -> None:
    text = WHOLE.replace("[kafka.properties]", 'acknowledge = "kafka"\n\n[kafka.properties]')
    assert "observer.toml:11: 'kafka.acknowledge'" in problem(text)
