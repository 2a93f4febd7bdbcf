"""``headgate doctor`` looks at what is named, and at nothing else that lies about."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

OTHERS = """
name = "somebody-elses"
admin = "127.0.0.1:1"
[thrift1]
listen = "127.0.0.1:1"
upstream = "127.0.0.1:1"
[kafka]
bootstrap = "127.0.0.1:1"
control_topic = "others.control"
[kafka.properties]
"security.protocol" = "SSL"
[journal]
directory = "journal"
"""


@pytest.fixture
def doctor(tmp_path: Path):
    (tmp_path / "observer.toml").write_text(OTHERS)

    def run(*arguments: str) -> list[dict[str, str]]:
        done = subprocess.run(
            [sys.executable, "-m", "headgate.cli", "doctor", "--json", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def test_the_file_of_the_directory_is_left_out_where_an_address_is_named(doctor) -> None:
    found = doctor("--thrift", "127.0.0.1:2")
    steps = [each["step"] for each in found]
    assert steps == ["configuration", "thrift 127.0.0.1:2", "kafka"]
    assert found[0]["verdict"] == "note"
    assert found[0]["cure"] == "if it is of this one, name it: --config observer.toml"
    assert "somebody-elses" not in json.dumps(found)


def test_a_named_broker_is_spoken_to_without_the_properties_of_that_file(doctor) -> None:
    found = doctor("--kafka", "127.0.0.1:2")
    (kafka,) = [each for each in found if each["step"].startswith("kafka")]
    assert kafka["step"] == "kafka 127.0.0.1:2"
    assert "SSL" not in json.dumps(found)


@pytest.mark.parametrize("named", [(), ("--config", "observer.toml", "--thrift", "127.0.0.1:2")])
def test_the_file_is_looked_at_where_it_is_named_or_nothing_is(doctor, named) -> None:
    found = doctor(*named)
    assert {"step": "configuration", "verdict": "ok"}.items() <= next(
        each for each in found if each["step"] == "configuration"
    ).items()
    assert "journal journal" in [each["step"] for each in found]
