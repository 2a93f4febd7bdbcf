"""``headgate local`` answers people in words and programs in JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headgate.cli.local import app
from headgate.local import LocalStack, LocalStackError
from headgate.local.processes.locks import exclusive
from headgate.local.processes.parts import PLANS


@pytest.fixture
def local(tmp_path: Path):
    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "headgate.cli", "local", *arguments],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "HEADGATE_HOME": str(tmp_path), **environment},
            check=False,
        )

    return run


def test_the_status_of_a_stack_that_never_ran_is_stopped_and_fails(local) -> None:
    done = local("status", "--json")
    said = json.loads(done.stdout)
    assert done.returncode == 1
    assert said["ready"] is False
    assert {name: part["state"] for name, part in said["parts"].items()} == {
        part.value: "stopped" for part in PLANS
    }


def test_taking_down_what_does_not_run_is_no_error(local) -> None:
    done = local("down")
    assert (done.returncode, done.stdout) == (0, "nothing was running\n")


def test_without_java_up_says_what_to_install(local, tmp_path: Path) -> None:
    done = local("up", PATH=str(tmp_path), JAVA_HOME="", HEADGATE_JAVA_PLACES="")
    assert done.returncode == 1
    assert "apt-get install openjdk-17" in done.stderr


def test_errors_are_json_where_json_was_asked_for(local, tmp_path: Path) -> None:
    done = local("up", "--json", PATH=str(tmp_path), JAVA_HOME="", HEADGATE_JAVA_PLACES="")
    assert done.returncode == 1
    assert "Java 17 or 21" in json.loads(done.stdout)["error"]


def test_data_is_not_deleted_unasked(local, tmp_path: Path) -> None:
    data = tmp_path / "instances" / "default" / "data"
    data.mkdir(parents=True)
    done = local("reset")
    assert done.returncode == 1
    assert "--yes" in done.stderr
    assert data.exists()


def test_reset_deletes_data_logs_and_ports(local, tmp_path: Path) -> None:
    folder = tmp_path / "instances" / "default"
    (folder / "data").mkdir(parents=True)
    (folder / "logs").mkdir()
    (folder / "instance.json").write_text("{}")
    assert local("reset", "--yes").returncode == 0
    assert [each.name for each in folder.iterdir()] == ["lock"]


def test_logs_print_the_end_of_a_part(local, tmp_path: Path) -> None:
    logs = tmp_path / "instances" / "default" / "logs"
    logs.mkdir(parents=True)
    (logs / "kafka.log").write_text("one\ntwo\nthree\n")
    assert local("logs", "kafka", "-n", "2").stdout.split() == ["kafka", "two", "kafka", "three"]


def test_without_logs_the_cure_is_said(local) -> None:
    done = local("logs")
    assert done.returncode == 1
    assert "headgate local up" in done.stderr


def test_progress_is_shown_where_json_is_asked_for_too(tmp_path: Path) -> None:
    lock = tmp_path / "instances" / "default" / "lock"
    with exclusive(lock, 0, lambda _: None):
        process = subprocess.Popen(
            [sys.executable, "-m", "headgate.cli", "local", "down", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "HEADGATE_HOME": str(tmp_path)},
        )
        assert process.stderr is not None
        assert process.stderr.readline().startswith("lock: waiting for process")
    said, _ = process.communicate()
    assert json.loads(said) == {"instance": "default", "stopped": []}


def test_the_jars_lie_below_the_home_that_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HEADGATE_CACHE", raising=False)
    asked: list[Path | None] = []

    class Unstarted(LocalStack):
        def __init__(self, *arguments: Any, cache: Path | None = None, **more: Any) -> None:
            asked.append(cache)
            raise LocalStackError("not in this test")

    monkeypatch.setattr("headgate.cli.local.LocalStack", Unstarted)
    CliRunner().invoke(app, ["up", "--home", str(tmp_path)])
    assert asked == [tmp_path / "cache"]
