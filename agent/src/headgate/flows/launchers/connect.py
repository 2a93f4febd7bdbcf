"""The launcher ``connect``: a step in a process of its own, on a Spark Connect server."""

from __future__ import annotations

from headgate.flows.grammar.kinds import Key, RecordOf, Single
from headgate.flows.grammar.tree import text_of
from headgate.flows.launchers.kind import LauncherKind, LaunchSection, StepLauncher
from headgate.flows.launchers.stage import STAGE
from headgate.flows.launchers.step import STEP


class ConnectLauncher(StepLauncher, frozen=True, tag="connect"):
    """Runs a Python function in a process of its own, on a Spark Connect server.

    ``remote`` is ``sc://host:port``; the agent's own default where empty.
    """

    remote: str = ""


def _why_no_remote(_: str) -> tuple[str, str]:
    return "this is no Spark Connect address", "write `sc://host:port`, such as `sc://spark:15002`"


def _read(section: LaunchSection) -> ConnectLauncher:
    return ConnectLauncher(
        text_of(section.target),
        section.python_path,
        section.parameters,
        text_of(section.settings.get("remote")),
    )


_KEYS = RecordOf(
    "the launcher",
    {
        "remote": Key(
            Single("`sc://host:port`", pattern=r"sc://[^\s]+", why_not=_why_no_remote),
            "the Spark Connect server; default the agent's `launchers.connect.remote`",
        )
    },
)
CONNECT = LauncherKind(
    "connect", (STEP, STAGE), _read, Key(_KEYS, "on a Spark Connect server"), by_name=True
)
