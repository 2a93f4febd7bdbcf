"""What an action runs and by which launcher: keys of an action, and what is read from them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

from headgate.flows.kinds import (
    ANY_TEXT,
    Anything,
    Either,
    Key,
    ListOf,
    MapOf,
    Numbers,
    Record,
    Single,
)
from headgate.flows.launchers import (
    AirflowLauncher,
    CommandLauncher,
    ConnectLauncher,
    Launcher,
    SessionLauncher,
    SubmitLauncher,
)
from headgate.flows.problems import Findings
from headgate.flows.tree import Entry, Items, Mapping, Scalar, Tree

_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
STEP = rf"{_IDENTIFIER}(?:\.{_IDENTIFIER})*:{_IDENTIFIER}"
"""Pattern of a Python function: ``module:function``."""

LAUNCHED = ("step", "command", "dag")
"""Keys of an action of which one says what is run."""

_FITTING = {"step": ("session", "connect", "submit"), "command": (), "dag": ("airflow",)}
"""Launchers by what they run, the default first; a command has one only."""


def _why_no_step(value: str) -> tuple[str, str]:
    if ".py" in value or "/" in value:
        return "a step is a function, not a file", "write `module:function`, such as `steps:zones`"
    if ":" not in value:
        return "the function is missing", f"write `module:function`, such as `{_as_step(value)}`"
    return "this is not `module:function`", "write the module, a colon, the function: `steps:zones`"


def _as_step(value: str) -> str:
    module, _, function = value.rpartition(".")
    candidate = f"{module}:{function}" if module else f"steps:{value}"
    return candidate if re.fullmatch(STEP, candidate) else "steps:zones"


def _why_no_remote(_: str) -> tuple[str, str]:
    return "this is no Spark Connect address", "write `sc://host:port`, such as `sc://spark:15002`"


def _why_no_url(_: str) -> tuple[str, str]:
    return "this is no address of a web server", "write `http://host:port` or `https://host`"


_TEXT = Single("a text", pattern=ANY_TEXT)
_PATHS = ListOf(Single("a path or a URL", pattern=ANY_TEXT), "a list of paths or URLs")
_SETTINGS = MapOf(
    Single("a text, a number, true or false", pattern=ANY_TEXT, numbers=Numbers(), truth=True),
    "Spark settings",
    ANY_TEXT,
    "setting",
)
_CONNECT = Record(
    "the launcher",
    {
        "remote": Key(
            Single("`sc://host:port`", pattern=r"sc://[^\s]+", why_not=_why_no_remote),
            "the Spark Connect server; default the agent's `launchers.connect.remote`",
        )
    },
)
_SUBMIT = Record(
    "the launcher",
    {
        "master": Key(
            _TEXT,
            "`yarn`, `k8s://https://host:port`, `spark://host:port`, `local[2]`; default the "
            "agent's `launchers.submit.master`",
        ),
        "deploy_mode": Key(
            Single("`client` or `cluster`", words=("client", "cluster")),
            "where the step's own process runs: beside the agent, or in the cluster",
        ),
        "conf": Key(_SETTINGS, "Spark settings, over those of `spark` and of the agent"),
        "files": Key(_PATHS, "files for the working directory of each process"),
        "py_files": Key(_PATHS, "modules, besides the step's own: .py, .zip or .egg"),
        "archives": Key(_PATHS, "archives to unpack, such as `environment.tar.gz#environment`"),
        "jars": Key(_PATHS, "jars for the class path"),
    },
)
_AIRFLOW = Record(
    "the launcher",
    {
        "url": Key(
            Single("`http://host:port`", pattern=r"https?://[^\s]+", why_not=_why_no_url),
            "the Airflow deployment; default the agent's `launchers.airflow.url`",
        )
    },
)
_KINDS = ("session", "connect", "submit")

LAUNCHING = {
    "step": Key(
        Single("`module:function`", pattern=STEP, why_not=_why_no_step),
        "a Python function that takes the run; in a warm Spark session unless `launcher` differs",
    ),
    "command": Key(
        Either(
            "a command or a list of its words",
            (_TEXT, ListOf(_TEXT, "a list of the command's words")),
        ),
        "a program, run without a shell in this file's directory; status 0 commits the run",
    ),
    "dag": Key(
        Single(
            "the id of a DAG",
            pattern=r"[A-Za-z0-9_.\-]{1,250}",
            rule="use letters, digits, `_`, `-` and `.`, at most 250, as Airflow does",
        ),
        "a DAG of Airflow, to be run",
    ),
    "launcher": Key(
        Either(
            "`session`, `connect`, `submit`, or one with its settings",
            (
                Single("`session`, `connect` or `submit`", words=_KINDS),
                Record(
                    "the launcher",
                    {
                        "connect": Key(_CONNECT, "on a Spark Connect server"),
                        "submit": Key(_SUBMIT, "as an application, by spark-submit"),
                        "airflow": Key(_AIRFLOW, "where the DAG is"),
                    },
                    one_of=("connect", "submit", "airflow"),
                    cures={"kind": "name the kind itself: `launcher: {submit: {master: yarn}}`"},
                ),
            ),
        ),
        "how a step is run: in the warm `session` (default), by `connect` or by `submit`",
    ),
    "parameters": Key(
        MapOf(Anything(), "parameters by name", ANY_TEXT, "parameter"),
        "handed to what is run as they are",
    ),
}
"""Keys of an action that say what is run, and how."""


def read_launcher(
    tree: Mapping, python_path: tuple[str, ...], spark: dict[str, str], findings: Findings
) -> Launcher | None:
    """Return how a matched action is run; None for one that is fed from outside, or in error.

    Args:
        tree: the action.
        python_path: where its module may be.
        spark: settings of all the dataflow's sessions.
        findings: where errors go.
    """
    what = next((key for key in LAUNCHED if key in tree.entries), None)
    if what is None:
        return None
    kind, settings = _chosen(tree, what, findings)
    plain = plain_value(tree.get("parameters"))
    parameters: dict[str, Any] = plain if isinstance(plain, dict) else {}
    if what == "command":
        command = _words(tree.entries["command"], findings)
        return CommandLauncher(command, parameters)
    name = _text(tree, what)
    match kind:
        case "airflow":
            return AirflowLauncher(name, _text(settings, "url"), parameters)
        case "connect":
            return ConnectLauncher(name, python_path, parameters, _text(settings, "remote"))
        case "submit":
            return SubmitLauncher(
                name,
                python_path,
                parameters,
                master=_text(settings, "master"),
                deploy_mode=_text(settings, "deploy_mode"),
                conf={**spark, **dict(spark_settings(settings.get("conf")))},
                files=_texts(settings, "files"),
                py_files=_texts(settings, "py_files"),
                archives=_texts(settings, "archives"),
                jars=_texts(settings, "jars"),
            )
        case _:
            return SessionLauncher(name, python_path, parameters)


def _chosen(tree: Mapping, what: str, findings: Findings) -> tuple[str, Mapping]:
    """Return the launcher's kind and its settings."""
    fitting = _FITTING[what]
    written = tree.entries.get("launcher")
    nothing = Mapping({}, tree.at)
    kind, settings = fitting[0] if fitting else "", nothing
    match written.value if written is not None else None:
        case Scalar(text=word):
            kind = word
        case Mapping(entries=entries):
            for word, entry in entries.items():
                kind = word
                settings = entry.value if isinstance(entry.value, Mapping) else nothing
        case _:
            return kind, settings
    if written is not None and kind not in fitting:
        possible = ", ".join(f"`{one}`" for one in fitting)
        findings.error(
            written.value.at,
            f"launcher `{kind}` doesn't run a {what}",
            f"possible for a {what}: {possible}" if fitting else "remove it",
        )
    return kind, settings


def _words(entry: Entry, findings: Findings) -> tuple[str, ...]:
    match entry.value:
        case Scalar(text=text):
            try:
                words = tuple(shlex.split(text))
            except ValueError as error:
                findings.error(entry.value.at, f"the command can't be read: {error}", "quote it")
                return ()
            if not words:
                findings.error(entry.value.at, "the command is empty", "write a program's name")
            return words
        case Items(values=values):
            return tuple(one.text for one in values if isinstance(one, Scalar))
        case _:
            return ()


def spark_settings(tree: Tree | None) -> Iterator[tuple[str, str]]:
    """Yield Spark's settings in a matched mapping, as Spark reads them."""
    for name, entry in tree.entries.items() if isinstance(tree, Mapping) else ():
        if isinstance(entry.value, Scalar):
            value = entry.value.value
            yield name, str(value).lower() if isinstance(value, bool) else entry.value.text


def plain_value(tree: Tree | None) -> object:
    """Return a tree as the values that JSON has; None where there is no tree."""
    match tree:
        case Scalar(value=value):
            return value
        case Items(values=values):
            return [plain_value(value) for value in values]
        case Mapping(entries=entries):
            return {name: plain_value(entry.value) for name, entry in entries.items()}
        case _:
            return None


def _text(tree: Mapping, key: str) -> str:
    written = tree.get(key)
    return written.text if isinstance(written, Scalar) else ""


def _texts(tree: Mapping, key: str) -> tuple[str, ...]:
    written = tree.get(key)
    values = written.values if isinstance(written, Items) else ()
    return tuple(one.text for one in values if isinstance(one, Scalar))
