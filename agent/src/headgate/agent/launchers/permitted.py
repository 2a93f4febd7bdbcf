"""What dataflows may use of an agent: kinds of launcher, and where their files may lie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from headgate.agent.configuration import Launchers
from headgate.flows import Dataflow, Launcher

_LOCAL: Final = frozenset({"", "file", "local"})
"""Schemes of paths on the machine itself, as Spark names them."""


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
    for written in launcher.shipped:
        url = urlsplit(written)
        if url.scheme in _LOCAL:
            yield Path(unquote(url.path))
        elif "://" not in written:
            yield Path(written)  # a colon in a name makes no URL of it, for spark-submit neither
