"""The launcher ``submit``: a step as an application of its own, by ``spark-submit``."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import field

from headgate.flows.grammar.kinds import ANY_TEXT, Key, ListOf, MapOf, Numbers, RecordOf, Single
from headgate.flows.grammar.tree import spark_settings, text_of, texts_of
from headgate.flows.launchers.kind import LauncherKind, LaunchSection, StepLauncher
from headgate.flows.launchers.stage import STAGE
from headgate.flows.launchers.step import STEP


class SubmitLauncher(StepLauncher, frozen=True, tag="submit"):
    """Runs a Python function as an application of its own, by ``spark-submit``.

    ``master``, ``deploy_mode`` and ``conf`` stand over the agent's own defaults; ``files``,
    ``py_files``, ``archives`` and ``jars`` are paths relative to the dataflow file, or URLs.
    """

    master: str = ""
    deploy_mode: str = ""
    conf: dict[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    py_files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()

    @property
    def shipped(self) -> Iterable[str]:
        """All files, modules, archives and jars."""
        return (*self.files, *self.py_files, *self.archives, *self.jars)


def _read(section: LaunchSection) -> SubmitLauncher:
    settings = section.settings
    return SubmitLauncher(
        text_of(section.target),
        section.python_path,
        section.parameters,
        master=text_of(settings.get("master")),
        deploy_mode=text_of(settings.get("deploy_mode")),
        conf={**section.spark, **dict(spark_settings(settings.get("conf")))},
        files=texts_of(settings.get("files")),
        py_files=texts_of(settings.get("py_files")),
        archives=texts_of(settings.get("archives")),
        jars=texts_of(settings.get("jars")),
    )


_PATHS = ListOf(Single("a path or a URL", pattern=ANY_TEXT), "a list of paths or URLs")
_SETTINGS = MapOf(
    Single("a text, a number, true or false", pattern=ANY_TEXT, numbers=Numbers(), truth=True),
    "Spark settings",
    ANY_TEXT,
    "setting",
)
_KEYS = RecordOf(
    "the launcher",
    {
        "master": Key(
            Single("a text", pattern=ANY_TEXT),
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
SUBMIT = LauncherKind(
    "submit", (STEP, STAGE), _read, Key(_KEYS, "as an application, by spark-submit"), by_name=True
)
