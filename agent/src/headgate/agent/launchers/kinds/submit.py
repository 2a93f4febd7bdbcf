"""Steps as applications of their own, by ``spark-submit``."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import structs

from headgate.agent.configuration import Launchers
from headgate.agent.launchers.job import Job, JobFiles
from headgate.agent.launchers.kinds.backend import DRIVER, Backend, run_name
from headgate.agent.launchers.program import Program
from headgate.flows import SubmitLauncher
from headgate.spark import code_hash, digest_of

_MAIN: Final = f"from {DRIVER} import main\n\nmain()\n"
_CLUSTER: Final = "cluster"
_DEFAULTS: Final[Mapping[str, str]] = {"spark.ui.showConsoleProgress": "false"}
"""Where neither the dataflow nor the agent says otherwise: a log is no terminal."""


class SubmitBackend(Backend[SubmitLauncher]):
    """Runs ``spark-submit``, which waits until the application has ended."""

    def complete(self, job: Job, launcher: SubmitLauncher, defaults: Launchers) -> Job:
        """See ``Backend``."""
        submit = defaults.submit
        launcher = structs.replace(
            launcher,
            master=launcher.master or submit.master,
            deploy_mode=launcher.deploy_mode or submit.deploy_mode,
            conf={**submit.conf, **launcher.conf},
        )
        return structs.replace(job, launcher=launcher, submit_program=submit.program)

    def work(self, files: JobFiles, job: Job, launcher: SubmitLauncher) -> Program:
        """See ``Backend``."""
        variables = {}
        if launcher.deploy_mode != _CLUSTER:
            # In the cluster, the step's interpreter is the one that was shipped there.
            variables = {"PYSPARK_PYTHON": job.python, "PYSPARK_DRIVER_PYTHON": job.python}
        return Program(files, job, tuple(_submit(files, job, launcher)), variables)


def _submit(files: JobFiles, job: Job, launcher: SubmitLauncher) -> Iterator[str]:
    in_cluster = launcher.deploy_mode == _CLUSTER
    yield _program(job)
    if launcher.master:
        yield from ("--master", launcher.master)
    if launcher.deploy_mode:
        yield from ("--deploy-mode", launcher.deploy_mode)
    yield from ("--name", run_name(job))
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


BACKEND: Final = SubmitBackend()
