"""What is run for a job, word by word."""

from __future__ import annotations

import itertools
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from headgate.agent.configuration import Connect, Launchers, Submit
from headgate.agent.launchers.command_lines import NotConfigured, command_line, python_of
from headgate.agent.launchers.commands import environment
from headgate.agent.launchers.dispatch import complete
from headgate.events import Origin, decode_origin
from headgate.flows import CommandLauncher, ConnectLauncher, SubmitLauncher
from headgate.spark import StepRequest
from headgate.spark.steps import StepCode, UnknownStep


def options(words: tuple[str, ...], name: str) -> list[str]:
    return [after for word, after in itertools.pairwise(words) if word == name]


def test_a_command_is_run_as_it_is(make_job: Any) -> None:
    files, job = make_job(CommandLauncher(("report.sh", "--long")))
    assert command_line(files, job) == ("report.sh", "--long")


def test_a_command_is_given_the_origin_that_its_writes_are_to_carry(make_job: Any) -> None:
    told = environment(*make_job(CommandLauncher(("report.sh",))))
    assert told["HEADGATE_ORIGIN"].startswith("{"), "any language can pass it on"
    assert decode_origin(told["HEADGATE_ORIGIN"].encode()) == Origin("air", "zones", "r 1", 7)


def test_in_client_mode_the_step_is_read_where_it_lies(make_job: Any) -> None:
    launcher = SubmitLauncher("steps:zones", master="spark://h:7077", conf={"spark.x": "1"})
    files, job = make_job(launcher)
    words = command_line(files, job)
    assert options(words, "--master") == ["spark://h:7077"]
    assert "spark.x=1" in options(words, "--conf")
    assert options(words, "--py-files") == []
    main, run = str(files.directory / "main.py"), str(files.request)
    assert words[-4:] == (main, run, "--code", str(files.code))
    assert python_of(job)["PYSPARK_PYTHON"] == "/venv/bin/python"


def test_in_cluster_mode_the_run_and_all_modules_go_along(make_job: Any, tmp_path: Path) -> None:
    launcher = SubmitLauncher(
        "steps:zones",
        master="yarn",
        deploy_mode="cluster",
        files=("stations.csv", "hdfs://n/places.csv"),
        py_files=("more.zip",),
        archives=("env.tar.gz#env",),
    )
    files, job = make_job(launcher)
    words = command_line(files, job)
    assert options(words, "--deploy-mode") == ["cluster"]
    modules, more = options(words, "--py-files")[0].split(",")
    assert "steps.py" in zipfile.ZipFile(modules).namelist()
    assert more == str(tmp_path / "more.zip")
    shipped = options(words, "--files")[0].split(",")
    assert shipped == [str(files.request), str(tmp_path / "stations.csv"), "hdfs://n/places.csv"]
    assert options(words, "--archives") == [str(tmp_path / "env.tar.gz#env")]
    assert words[-1] == "request.json"
    assert python_of(job) == {}, "the agent's interpreter is not in the cluster"


def test_in_cluster_mode_the_code_that_goes_along_is_the_code_of_the_run(
    make_job: Any, tmp_path: Path
) -> None:
    launcher = SubmitLauncher("steps:zones", master="yarn", deploy_mode="cluster")
    files, job = make_job(launcher)
    package = tmp_path / "shared"
    package.mkdir()
    (package / "__init__.py").write_text("LEAST = 3\n")
    (package / "units.py").write_text("")
    command_line(files, job)
    # As a session has it that has read the same modules.
    session = StepCode("a_space_of_its_own")
    for entry in ("steps:zones", "shared.units:__doc__"):
        with suppress(UnknownStep):
            session.load(entry, job.request.python_path)
    assert files.code_hash() == session.hash
    session.close()
    shipped = files.code_hash()
    (package / "units.py").write_text("METRE = 1\n")
    command_line(files, job)
    assert files.code_hash() != shipped


def test_a_connect_servers_step_notes_its_code(make_job: Any) -> None:
    files, job = make_job(ConnectLauncher("steps:zones", remote="sc://h:1"))
    assert options(command_line(files, job), "--code") == [str(files.code)]
    assert files.code_hash() == "", "nothing was read yet"


def test_the_agents_own_words_hold_where_the_dataflow_says_nothing(make_job: Any) -> None:
    defaults = Launchers(
        submit=Submit(master="yarn", deploy_mode="cluster", conf={"a": "1", "b": "1"}),
        connect=Connect("sc://h:1"),
    )
    completed = complete(SubmitLauncher("s:f", deploy_mode="client", conf={"b": "2"}), defaults)
    assert completed == SubmitLauncher(
        "s:f", master="yarn", deploy_mode="client", conf={"a": "1", "b": "2"}
    )
    assert complete(ConnectLauncher("s:f"), defaults) == ConnectLauncher("s:f", remote="sc://h:1")


def test_without_a_connect_server_the_cure_is_named(make_job: Any) -> None:
    files, job = make_job(ConnectLauncher("steps:zones"))
    with pytest.raises(NotConfigured, match=r"launchers\.connect\.remote"):
        command_line(files, job)


def test_what_is_run_is_not_told_how_an_agent_proves_itself(make_job: Any) -> None:
    files, job = make_job(CommandLauncher(("report.sh",)))
    told = msgspec.json.decode(files.request.read_bytes(), type=StepRequest)
    assert told == replace(job.request, ledger_proof=b"")
    assert files.job() == job
