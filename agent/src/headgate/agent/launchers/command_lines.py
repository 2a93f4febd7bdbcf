"""The words of the commands that carry out attempts, by launcher."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, assert_never

from headgate.agent.launchers.job import Job, JobFiles
from headgate.flows import (
    AirflowLauncher,
    CommandLauncher,
    ConnectLauncher,
    SubmitLauncher,
)
from headgate.spark import code_hash, digest_of

_DRIVER: Final = "headgate.spark.driver"
_MAIN: Final = f"from {_DRIVER} import main\n\nmain()\n"
_CLUSTER: Final = "cluster"
_DEFAULTS: Final[Mapping[str, str]] = {"spark.ui.showConsoleProgress": "false"}
"""Where neither the dataflow nor the agent says otherwise: a log is no terminal."""


class NotConfigured(Exception):
    """The launcher lacks an address that neither the dataflow nor the agent gives."""


def command_line(files: JobFiles, job: Job) -> tuple[str, ...]:
    """Return the words of the command that carries out a job, whose files it may add to.

    Raises:
        NotConfigured: an address is missing.
    """
    match job.launcher:
        case CommandLauncher(command=command):
            return command
        case ConnectLauncher(remote=remote):
            if not remote:
                message = (
                    "no Spark Connect server is named; set launchers.connect.remote in agent.toml, "
                    "or `launcher: {connect: {remote: ...}}` in the dataflow"
                )
                raise NotConfigured(message)
            words = ("--remote", remote, "--name", _name(job), "--code", str(files.code))
            return (job.python, "-m", _DRIVER, str(files.request), *words)
        case SubmitLauncher() as launcher:
            return tuple(_submit(files, job, launcher))
        case AirflowLauncher():
            message = "a DAG is run by Airflow, not by a command"
            raise TypeError(message)
        case _:
            assert_never(job.launcher)


def python_of(job: Job) -> dict[str, str]:
    """Return the variables that name the interpreter of a step's own process."""
    launcher = job.launcher
    if isinstance(launcher, SubmitLauncher) and launcher.deploy_mode != _CLUSTER:
        return {"PYSPARK_PYTHON": job.python, "PYSPARK_DRIVER_PYTHON": job.python}
    return {}


def _name(job: Job) -> str:
    request = job.request
    return f"headgate {request.dataflow} {request.action} {request.run}-{request.attempt}"


def _submit(files: JobFiles, job: Job, launcher: SubmitLauncher) -> Iterator[str]:
    in_cluster = launcher.deploy_mode == _CLUSTER
    yield _program(job)
    if launcher.master:
        yield from ("--master", launcher.master)
    if launcher.deploy_mode:
        yield from ("--deploy-mode", launcher.deploy_mode)
    yield from ("--name", _name(job))
    for name, value in {**_DEFAULTS, **launcher.conf}.items():
        yield from ("--conf", f"{name}={value}")
    modules = (str(_modules(files, job.request.python_path)),) if in_cluster else ()
    shipped = (str(files.request),) if in_cluster else ()
    directory = Path(job.directory)
    for option, more, paths in (
        ("--py-files", modules, launcher.py_files),
        ("--files", shipped, launcher.files),
        ("--archives", (), launcher.archives),
        ("--jars", (), launcher.jars),
    ):
        joined = ",".join((*more, *_located(paths, directory)))
        if joined:
            yield from (option, joined)
    main = files.directory / "main.py"
    main.write_text(_MAIN)
    yield str(main)
    if in_cluster:
        yield files.request.name
    else:
        yield from (str(files.request), "--code", str(files.code))


def _program(job: Job) -> str:
    beside = Path(job.python).with_name("spark-submit")
    return job.submit_program or (str(beside) if beside.exists() else "spark-submit")


def _located(paths: Iterable[str], directory: Path) -> Iterator[str]:
    for path in paths:
        yield path if "://" in path else str(directory / path)


def _modules(files: JobFiles, python_path: Iterable[str]) -> Path:
    """Return an archive of all modules in the directories of the step's Python path.

    Its hash is noted as that of the code: a driver in a cluster reaches no file here.
    """
    archive = files.directory / "modules.zip"
    digests: dict[str, bytes] = {}
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as modules:
        for root in map(Path, python_path):
            for path in sorted(root.rglob("*.py")):
                inside = path.relative_to(root)
                name = _module_name(inside)
                hidden = any(part.startswith(".") for part in inside.parts)
                if name not in digests and not hidden:
                    source = path.read_bytes()
                    digests[name] = digest_of(source)
                    modules.writestr(str(inside), source)
    files.code.write_text(code_hash(digests))
    return archive


def _module_name(inside: Path) -> str:
    parts = inside.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
