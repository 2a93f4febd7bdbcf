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

    assert program_origin(load_client_config(KAFKA)) is None
    assert program_origin(named) == Origin("", "", "", 0, "etl")


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
