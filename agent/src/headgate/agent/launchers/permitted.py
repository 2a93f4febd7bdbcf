"""What dataflows may use of an agent: kinds of launcher, and where their files may lie."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from headgate.agent.configuration import Launchers
from headgate.flows import Dataflow, Launcher, SubmitLauncher

_LOCAL: Final = frozenset({"", "file", "local"})
"""Schemes of paths on the machine itself, as Spark names them."""

_FILE_SETTINGS: Final = frozenset(
    {
        "spark.archives",
        "spark.files",
        "spark.jars",
        "spark.jars.ivySettings",
        "spark.kerberos.keytab",
        "spark.kubernetes.driver.podTemplateFile",
        "spark.kubernetes.executor.podTemplateFile",
        "spark.metrics.conf",
        "spark.scheduler.allocation.file",
        "spark.submit.pyFiles",
        "spark.yarn.archive",
        "spark.yarn.dist.archives",
        "spark.yarn.dist.files",
        "spark.yarn.dist.jars",
        "spark.yarn.dist.pyFiles",
        "spark.yarn.jars",
        "spark.yarn.keytab",
    }
)
"""Settings of Spark that hold paths or URLs, with commas between, which it reads here."""

_PATH_SETTINGS: Final = frozenset({"spark.driver.extraClassPath", "spark.driver.extraLibraryPath"})
"""Settings of Spark that hold paths as ``PATH`` does."""


def refusal(dataflow: Dataflow, directory: str, launchers: Launchers) -> str | None:
    """Return why a dataflow may not run here, in words; None where it may.

    Args:
        dataflow: as it was read.
        directory: the dataflow file's, from which its paths start.
        launchers: the agent's options.
    """
    for action, launcher in dataflow.launchers.items():
        kind = launcher.kind
        if kind not in launchers.allowed:
            return (
                f"action {action!r} is launched by {kind!r}, which is not among this agent's "
                f"launchers.allowed ({', '.join(launchers.allowed)})"
            )
    asked = {
        **dict.fromkeys(dataflow.user_runnables, "runnable"),
        **dict.fromkeys(dataflow.user_metrics, "metric"),
    }
    if asked and "session" not in launchers.allowed:
        entry, what = next(iter(asked.items()))
        return (
            f"its {what} {entry!r} is Python that this agent would run, but 'session' is not among "
            "its launchers.allowed"
        )
    roots = [Path(root).expanduser().resolve() for root in launchers.roots]
    base = Path(directory)
    modules = map(Path, dataflow.python_path if asked else ())
    places = [
        base,
        *modules,
        *_named_by(dataflow.spark),
        *(place for each in dataflow.launchers.values() for place in _places(each)),
    ]
    for place in places if roots else ():
        # Links are followed: it counts where the code lies, not what it is called.
        found = (base / place.expanduser()).resolve()
        if not any(found.is_relative_to(root) for root in roots):
            return (
                f"{found} does not lie under this agent's launchers.roots "
                f"({', '.join(map(str, roots))}); put the dataflow's files there"
            )
    return None


def _places(launcher: Launcher) -> Iterator[Path]:
    yield from map(Path, launcher.directories)
    yield from _local(launcher.shipped)
    if isinstance(launcher, SubmitLauncher):
        yield from _named_by(launcher.conf)


def _named_by(settings: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files that settings of Spark name."""
    for name, value in settings.items():
        if name in _FILE_SETTINGS:
            yield from _local(filter(None, map(str.strip, value.split(","))))
        elif name in _PATH_SETTINGS:
            yield from map(Path, filter(None, value.split(os.pathsep)))


def _local(written_paths: Iterable[str]) -> Iterator[Path]:
    for written in written_paths:
        url = urlsplit(written)
        if url.scheme in _LOCAL:
            yield Path(unquote(url.path))
        elif "://" not in written:
            yield Path(written)  # a colon in a name makes no URL of it, for spark-submit neither
