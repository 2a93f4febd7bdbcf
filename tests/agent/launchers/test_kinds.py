"""What is run for a job, word by word."""

from __future__ import annotations

import itertools
import zipfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from msgspec.structs import replace

from headgate.agent.configuration import Connect, Launchers, Submit
from headgate.agent.launchers import kinds
from headgate.agent.launchers.job import Job, JobFiles
from headgate.agent.launchers.kinds import NotConfigured, backend_of
from headgate.agent.launchers.kinds.backend import Backend
from headgate.agent.launchers.program import Program
from headgate.events import Origin, decode_origin
from headgate.flows import (
    LAUNCHER_KINDS,
    CommandLauncher,
    ConnectLauncher,
    JobLauncher,
    SubmitLauncher,
)
from headgate.spark import StepRequest
from headgate.spark.worker.steps import StepCode, UnknownStep


def program(files: JobFiles, job: Job) -> Program:
    made = backend_of(job.launcher).work(files, job, job.launcher)
    assert isinstance(made, Program)
    return made


def completed(make_job: Any, launcher: JobLauncher, defaults: Launchers) -> JobLauncher:
    job = make_job(launcher)[1]
    done: Job = backend_of(launcher).complete(job, launcher, defaults)
    return done.launcher


def options(words: tuple[str, ...], name: str) -> list[str]:
    return [after for word, after in itertools.pairwise(words) if word == name]


def test_a_command_is_run_as_it_is(make_job: Any) -> None:
    files, job = make_job(CommandLauncher(("report.sh", "--long")))
    assert program(files, job).command == ("report.sh", "--long")


def test_a_command_is_given_the_origin_that_its_writes_are_to_carry(make_job: Any) -> None:
    told = program(*make_job(CommandLauncher(("report.sh",)))).environment
    assert told["HEADGATE_ORIGIN"].startswith("{"), "any language can pass it on"
    assert decode_origin(told["HEADGATE_ORIGIN"].encode()) == Origin("air", "zones", "r 1", 7)


def test_in_client_mode_the_step_is_read_where_it_lies(make_job: Any) -> None:
    launcher = SubmitLauncher("steps:zones", master="spark://h:7077", conf={"spark.x": "1"})
    files, job = make_job(launcher)
    run = program(files, job)
    words = run.command
    assert options(words, "--master") == ["spark://h:7077"]
    assert "spark.x=1" in options(words, "--conf")
    assert options(words, "--py-files") == []
    main, request = str(files.directory / "main.py"), str(files.request)
    assert words[-4:] == (main, request, "--code", str(files.code))
    assert run.environment["PYSPARK_PYTHON"] == "/venv/bin/python"


def test_in_cluster_mode_the_run_and_all_modules_go_along(
    make_job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)  # which would be the user's own choice
    launcher = SubmitLauncher(
        "steps:zones",
        master="yarn",
        deploy_mode="cluster",
        files=("stations.csv", "hdfs://n/places.csv"),
        py_files=("more.zip",),
        archives=("env.tar.gz#env",),
    )
    files, job = make_job(launcher)
    run = program(files, job)
    words = run.command
    assert options(words, "--deploy-mode") == ["cluster"]
    modules, more = options(words, "--py-files")[0].split(",")
    assert "steps.py" in zipfile.ZipFile(modules).namelist()
    assert more == str(tmp_path / "more.zip")
    shipped = options(words, "--files")[0].split(",")
    assert shipped == [str(files.request), str(tmp_path / "stations.csv"), "hdfs://n/places.csv"]
    assert options(words, "--archives") == [str(tmp_path / "env.tar.gz#env")]
    assert words[-1] == "request.json"
    assert "PYSPARK_PYTHON" not in run.environment, "the agent's interpreter is not in the cluster"


def test_in_cluster_mode_the_code_that_goes_along_is_the_code_of_the_run(
    make_job: Any, tmp_path: Path
) -> None:
    launcher = SubmitLauncher("steps:zones", master="yarn", deploy_mode="cluster")
    files, job = make_job(launcher)
    package = tmp_path / "shared"
    package.mkdir()
    (package / "__init__.py").write_text("LEAST = 3\n")
    (package / "units.py").write_text("")
    program(files, job)
    # As a session has it that has read the same modules.
    session = StepCode("a_space_of_its_own")
    for entry in ("steps:zones", "shared.units:__doc__"):
        with suppress(UnknownStep):
            session.load(entry, job.request.python_path)
    assert files.code_hash() == session.hash
    session.close()
    shipped = files.code_hash()
    (package / "units.py").write_text("METRE = 1\n")
    program(files, job)
    assert files.code_hash() != shipped


def test_a_connect_servers_step_notes_its_code(make_job: Any) -> None:
    files, job = make_job(ConnectLauncher("steps:zones", remote="sc://h:1"))
    assert options(program(files, job).command, "--code") == [str(files.code)]
    assert files.code_hash() == "", "nothing was read yet"


def test_the_agents_own_words_hold_where_the_dataflow_says_nothing(make_job: Any) -> None:
    defaults = Launchers(
        submit=Submit(master="yarn", deploy_mode="cluster", conf={"a": "1", "b": "1"}),
        connect=Connect("sc://h:1"),
    )
    written = SubmitLauncher("s:f", deploy_mode="client", conf={"b": "2"})
    assert completed(make_job, written, defaults) == SubmitLauncher(
        "s:f", master="yarn", deploy_mode="client", conf={"a": "1", "b": "2"}
    )
    server = ConnectLauncher("s:f", remote="sc://h:1")
    assert completed(make_job, ConnectLauncher("s:f"), defaults) == server


def test_without_a_connect_server_the_cure_is_named(make_job: Any) -> None:
    files, job = make_job(ConnectLauncher("steps:zones"))
    with pytest.raises(NotConfigured, match=r"launchers\.connect\.remote"):
        program(files, job)


def test_a_job_of_an_agent_before_this_one_is_read(tmp_path: Path) -> None:
    files = JobFiles(tmp_path)
    (tmp_path / "job.json").write_text(
        '{"request":{"dataflow":"air","action":"zones","run":"r 1","attempt":2,"token":7,'
        '"entry":"steps:zones","hbase":{"host":"hbase","port":9191},"kafka":"kafka:9092"},'
        '"launcher":{"type":"submit","step":"steps:zones","python_path":["."],"parameters":{},'
        '"master":"yarn","deploy_mode":"","conf":{"a":"1"},"files":["f"],"py_files":[],'
        '"archives":[],"jars":[]},"directory":"/flows","python":"/venv/bin/python",'
        '"holder":"h","password":"pw","user":"ann","submit_program":"/spark-submit"}'
    )
    job = files.job()
    assert job is not None
    assert job.launcher == SubmitLauncher(
        "steps:zones", master="yarn", conf={"a": "1"}, files=("f",)
    )
    assert (job.user, job.password, job.submit_program) == ("ann", "pw", "/spark-submit")


def test_what_is_run_is_not_told_how_an_agent_proves_itself(make_job: Any) -> None:
    files, job = make_job(CommandLauncher(("report.sh",)))
    told = msgspec.json.decode(files.request.read_bytes(), type=StepRequest)
    assert told == replace(job.request, ledger_proof=b"")
    assert files.job() == job


def test_each_kind_but_the_sessions_has_what_carries_it_out() -> None:
    modules = {name: import_module(f"{kinds.__name__}.{name}") for name in _jobs()}
    for name, module in modules.items():
        assert isinstance(module.BACKEND, Backend), name


def test_the_words_of_jobs_are_those_of_the_table() -> None:
    assert _jobs() == {one.__struct_config__.tag for one in get_args(JobLauncher)}, (
        "a job is written and read by the union"
    )


def _jobs() -> set[str]:
    return set(LAUNCHER_KINDS) - {"session"}
