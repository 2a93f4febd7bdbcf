"""The launcher ``airflow``: a DAG of an Airflow deployment."""

from __future__ import annotations

from typing import Any

from msgspec import field

from headgate.flows.grammar.kinds import Key, RecordOf, Single
from headgate.flows.grammar.tree import text_of
from headgate.flows.launchers.kind import LauncherKind, LauncherSettings, LaunchSection, Target


class AirflowLauncher(LauncherSettings, frozen=True, tag="airflow"):
    """Runs a DAG of an Airflow deployment; ``parameters`` go into its run's configuration.

    ``url`` is the deployment's address; the agent's own default where empty.
    """

    dag: str
    url: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)


def _why_no_url(_: str) -> tuple[str, str]:
    return "this is no address of a web server", "write `http://host:port` or `https://host`"


def _read(section: LaunchSection) -> AirflowLauncher:
    url = text_of(section.settings.get("url"))
    return AirflowLauncher(text_of(section.target), url, section.parameters)


_KEYS = RecordOf(
    "the launcher",
    {
        "url": Key(
            Single("`http://host:port`", pattern=r"https?://[^\s]+", why_not=_why_no_url),
            "the Airflow deployment; default the agent's `launchers.airflow.url`",
        )
    },
)
AIRFLOW = LauncherKind(
    "airflow",
    (
        Target(
            "dag",
            Key(
                Single(
                    "the id of a DAG",
                    pattern=r"[A-Za-z0-9_.\-]{1,250}",
                    rule="use letters, digits, `_`, `-` and `.`, at most 250, as Airflow does",
                ),
                "a DAG of Airflow, to be run",
            ),
        ),
    ),
    _read,
    Key(_KEYS, "where the DAG is"),
)
