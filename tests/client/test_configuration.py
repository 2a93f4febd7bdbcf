"""What the drop-in client is told."""

import re
from pathlib import Path

import msgspec
import pytest

from headgate.client.configuration import (
    ClientConfig,
    load_client_config,
    observer_config,
    program_origin,
)
from headgate.events import Origin
from headgate.settings import ConfigurationError

REFERENCE = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
KAFKA = {"HEADGATE_CLIENT_KAFKA_BOOTSTRAP": "127.0.0.1:9092"}


def test_one_variable_is_enough():
    config = load_client_config(KAFKA)

    assert config.kafka.bootstrap == "127.0.0.1:9092"


def test_the_journal_is_in_the_users_state_unless_it_is_named():
    config = observer_config(load_client_config(KAFKA), {"XDG_STATE_HOME": "state"})

    assert config.journal.directory == str(Path("state", "headgate", "clients", "default"))


def test_other_journals_give_other_names():
    names = {
        observer_config(load_client_config(KAFKA), {"XDG_STATE_HOME": state}).name
        for state in ("one", "other")
    }

    assert len(names) == 2


def test_what_the_drop_in_cannot_do_is_refused():
    with pytest.raises(ConfigurationError, match=r"HEADGATE_CLIENT_KAFKA_ACKNOWLEDGE.*observer"):
        load_client_config({**KAFKA, "HEADGATE_CLIENT_KAFKA_ACKNOWLEDGE": "kafka"})


def test_a_program_is_who_its_configuration_says():
    named = load_client_config({**KAFKA, "HEADGATE_CLIENT_ORIGIN_WRITER": "etl"})

    assert program_origin(load_client_config(KAFKA), {}) is None
    assert program_origin(named, {}) == Origin("", "", "", 0, "etl")


RUN = {"HEADGATE_ORIGIN": '{"dataflow": "air", "action": "zones", "run": "zones-17", "token": 7}'}


@pytest.mark.parametrize(
    ("configured", "origin"),
    [
        ({}, Origin("air", "zones", "zones-17", 7)),
        ({"DATAFLOW": "air"}, Origin("air", "zones", "zones-17", 7)),
        ({"DATAFLOW": "air", "ACTION": "zones"}, Origin("air", "zones", "zones-17", 7)),
        ({"DATAFLOW": "air", "ACTION": "feed"}, Origin("air", "feed", "", 0)),
        ({"WRITER": "etl"}, Origin("", "", "", 0, "etl")),
    ],
)
def test_a_program_that_headgate_starts_writes_as_its_run(configured, origin):
    told = {f"HEADGATE_CLIENT_ORIGIN_{key}": value for key, value in configured.items()}

    assert program_origin(load_client_config({**KAFKA, **told}), RUN) == origin


def test_an_origin_in_the_environment_that_cannot_be_read_is_told():
    with pytest.raises(ConfigurationError, match="HEADGATE_ORIGIN cannot be used"):
        program_origin(load_client_config(KAFKA), {"HEADGATE_ORIGIN": "{}"})


@pytest.mark.parametrize(
    "told",
    [
        {"HEADGATE_CLIENT_ORIGIN_WRITER": "etl", "HEADGATE_CLIENT_ORIGIN_DATAFLOW": "aqhi"},
        {"HEADGATE_CLIENT_ORIGIN_ACTION": "map"},
    ],
)
def test_a_program_is_not_two(told):
    with pytest.raises(ConfigurationError, match="dataflow"):
        load_client_config({**KAFKA, **told})


def test_the_example_is_valid(tmp_path):
    (example,) = re.findall(r"```toml\n(.*?)```", REFERENCE, re.DOTALL)
    (tmp_path / "client.toml").write_text(example, encoding="utf-8")

    config = load_client_config({"HEADGATE_CLIENT_CONFIG": str(tmp_path / "client.toml")})

    assert config.journal.directory == "/var/lib/headgate/clients"


def test_every_key_is_described():
    described = set(re.findall(r"^\| `(\w+)", REFERENCE, re.MULTILINE))
    own = {field.name for field in msgspec.structs.fields(ClientConfig)} - {"kafka", "journal"}

    assert own <= described
