"""What an attempt is handed over with: never more than its launcher may know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.agent.configuration import Airflow, Launchers, Workers
from headgate.agent.launchers.dispatch import FlowLaunchers
from headgate.agent.launchers.permitted import refusal
from headgate.flows import AirflowLauncher, CommandLauncher, Launcher, parse_dataflow

CONFIGURED = "https://airflow.example:8443/team"
KNOWN = ("headgate", "swordfish")


class Handed:
    """Notes the jobs that are started."""

    def __init__(self) -> None:
        self.jobs: list[Any] = []

    def start(self, job: Any) -> None:
        self.jobs.append(job)


def handed(by: Launcher, airflow: Airflow) -> Any:
    jobs = Handed()
    launchers = FlowLaunchers(
        None,  # type: ignore[arg-type]
        jobs,  # type: ignore[arg-type]
        Workers(),
        Launchers(airflow=airflow),
    )
    launchers.start(None, by, "/flows")  # type: ignore[arg-type]
    return jobs.jobs[0]


@pytest.mark.parametrize(
    ("url", "known"),
    [
        ("", True),
        (CONFIGURED, True),
        (CONFIGURED + "/", True),
        ("https://AIRFLOW.example:8443/team", True),
        ("http://airflow.example:8443/team", False),  # in clear
        ("https://airflow.example:8080/team", False),
        ("https://airflow.example/team", False),
        ("https://airflow.example:8443/other", False),
        ("https://airflow.example:8443", False),
        ("https://airflow.example:8443.evil.example/team", False),
        ("https://airflow.example:8443@evil.example/team", False),
        ("https://evil.example/team?https://airflow.example:8443/team", False),
        ("https://airflow.example.evil.example:8443/team", False),
        ("http://evil.example", False),
    ],
)
def test_user_and_password_go_to_the_configured_airflow_alone(url: str, *, known: bool) -> None:
    job = handed(AirflowLauncher("report", url), Airflow(CONFIGURED, *KNOWN))
    assert (job.user, job.password) == (KNOWN if known else ("", ""))
    assert job.launcher.url == (CONFIGURED if known else url)


def test_they_go_nowhere_where_no_airflow_is_configured() -> None:
    job = handed(AirflowLauncher("report", "http://evil.example"), Airflow("", *KNOWN))
    assert (job.user, job.password) == ("", "")


def test_a_command_does_not_learn_them() -> None:
    job = handed(CommandLauncher(("env",)), Airflow(CONFIGURED, *KNOWN))
    assert (job.user, job.password) == ("", "")


KINDS = {
    "session": 'step: "steps:zones"',
    "connect": 'step: "steps:zones", launcher: connect',
    "submit": 'step: "steps:zones", launcher: submit',
    "airflow": "dag: report",
    "command": "command: [make]",
}


def flow_of(step: str, more: str = "") -> Any:
    return parse_dataflow(
        f"name: air\n{more}\ncontainers: {{readings: detectors}}\n"
        "actions:\n  feed: {input: readings}\n"
        f"  zones: {{{step}, when: {{readings: {{sequence: 1}}}}}}\n",
        "air.yaml",
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_launcher_that_is_not_allowed_is_refused_in_words(kind: str) -> None:
    dataflow = flow_of(KINDS[kind])
    assert refusal(dataflow, "/flows", Launchers()) is None
    allowed: Any = tuple(other for other in KINDS if other != kind)
    words = refusal(dataflow, "/flows", Launchers(allowed=allowed))
    assert words is not None
    assert f"'zones' is launched by '{kind}'" in words
    assert "launchers.allowed" in words


def test_a_runnable_is_code_that_has_to_be_allowed_and_to_lie_under_the_roots() -> None:
    dataflow = parse_dataflow(
        "name: n\npython_path: /elsewhere\ncontainers: {c: t}\nactions:\n"
        "  a: {stage: 'm:a', launcher: connect, reads: c, out: x}\n"
        "  b: {stage: 'm:b', launcher: connect, in: {x: a.x}, runnable: {python: 'own:turns'}}\n",
        "n.yaml",
    )
    words = refusal(dataflow, "/flows", Launchers(allowed=("connect",)))
    assert words is not None
    assert "its runnable 'own:turns' is Python that this agent would run" in words
    words = refusal(dataflow, "/flows", Launchers(roots=("/flows",)))
    assert words is not None
    assert "/elsewhere does not lie under" in words


@pytest.mark.parametrize(
    ("directory", "more", "fits"),
    [
        ("inside", "", True),
        ("inside/deep", "", True),
        ("inside/..", "", False),
        ("inside/../outside", "", False),
        ("inside-too", "", False),
        ("link", "", False),
        ("inside", "python_path: [.., deep]", False),
        ("inside", "python_path: [deep, ./deep/../deep]", True),
        ("inside", "python_path: [/tmp]", False),
        ("inside", "launcher: {submit: {py_files: [../x.zip]}}", False),
        ("inside", 'launcher: {submit: {jars: ["file:///etc/x.jar"]}}', False),
        ("inside", 'launcher: {submit: {jars: ["local:/etc/x.jar"]}}', False),
        ("inside", 'launcher: {submit: {jars: ["hdfs://name/x.jar"], files: [deep/y]}}', True),
        ("inside", "spark: {spark.jars: 'deep/x.jar, file:///etc/x.jar'}", False),
        ("inside", "spark: {spark.jars: 'deep/x.jar,hdfs://name/x.jar'}", True),
        ("inside", "spark: {spark.files: ../x}", False),
        ("inside", "spark: {spark.submit.pyFiles: /etc/x.zip}", False),
        ("inside", "spark: {spark.driver.extraClassPath: 'deep:/etc'}", False),
        ("inside", "spark: {spark.app.name: ../x, spark.jars: ','}", True),
        ("inside", "launcher: {submit: {conf: {spark.archives: '/etc/x.zip#x'}}}", False),
        ("inside", "launcher: {submit: {conf: {spark.archives: 'deep/x.zip#x'}}}", True),
    ],
)
def test_files_lie_under_the_roots_wherever_links_lead(
    tmp_path: Path, directory: str, more: str, *, fits: bool
) -> None:
    for name in ("inside/deep", "outside", "inside-too"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    step = 'step: "steps:zones"'
    dataflow = flow_of(f"{step}, {more}") if "launcher" in more else flow_of(step, more)
    launchers = Launchers(roots=(str(tmp_path / "inside"),))
    words = refusal(dataflow, str(tmp_path / directory), launchers)
    assert (words is None) is fits, words
    assert words is None or "launchers.roots" in words
