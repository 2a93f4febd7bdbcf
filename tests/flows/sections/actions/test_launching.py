"""What an action runs, and by which launcher."""

from __future__ import annotations

import pytest

from headgate.flows import (
    AirflowLauncher,
    CommandLauncher,
    ConnectLauncher,
    DataflowErrors,
    Launcher,
    Severity,
    SubmitLauncher,
    parse_dataflow,
)


def flow(action: str, more: str = "") -> str:
    return f"name: f\ncontainers: {{c: t}}\nactions:\n  a: {{{action}, reads: c}}\n{more}"


def launcher(action: str, more: str = "") -> Launcher:
    return parse_dataflow(flow(action, more), "f.yaml").launchers["a"]


def problem(action: str) -> tuple[str, str]:
    with pytest.raises(DataflowErrors) as raised:
        parse_dataflow(flow(action), "f.yaml")
    (found,) = (p for p in raised.value.problems if p.severity is Severity.ERROR)
    return found.message, found.cure


def test_a_command_is_split_as_a_shell_would() -> None:
    assert launcher("command: 'python report.py \"two words\"'") == CommandLauncher(
        ("python", "report.py", "two words")
    )
    assert launcher("command: [a, b c]") == CommandLauncher(("a", "b c"))


def test_a_dag_is_run_by_airflow() -> None:
    assert launcher("dag: daily, parameters: {day: 1}") == AirflowLauncher(
        "daily", parameters={"day": 1}
    )
    assert launcher("dag: daily, launcher: {airflow: {url: 'http://a:1'}}") == AirflowLauncher(
        "daily", "http://a:1"
    )


def test_a_step_runs_where_its_launcher_says() -> None:
    assert launcher("step: 's:f', launcher: connect") == ConnectLauncher("s:f")
    assert launcher("step: 's:f', launcher: {connect: {remote: 'sc://h:1'}}") == ConnectLauncher(
        "s:f", remote="sc://h:1"
    )
    written = "{submit: {master: yarn, deploy_mode: cluster, conf: {a: true}, files: [x]}}"
    assert launcher(f"step: 's:f', launcher: {written}") == SubmitLauncher(
        "s:f", master="yarn", deploy_mode="cluster", conf={"a": "true"}, files=("x",)
    )


def test_an_application_takes_the_dataflows_spark_settings_too() -> None:
    found = launcher("step: 's:f', launcher: {submit: {conf: {b: 2}}}", "spark: {a: 1, b: 1}")
    assert isinstance(found, SubmitLauncher)
    assert found.conf == {"a": "1", "b": "2"}


def test_concurrency_and_priority_are_the_dataflows() -> None:
    dataflow = parse_dataflow(flow("step: 's:f'", "concurrency: 2\npriority: -1\n"), "f.yaml")
    assert (dataflow.concurrency, dataflow.priority) == (2, -1)


@pytest.mark.parametrize(
    ("action", "message", "cure"),
    [
        ("command: x, launcher: submit", "`submit` doesn't run a command", "remove it"),
        ("dag: x, launcher: submit", "`submit` doesn't run a dag", "`airflow`"),
        (
            "step: 's:f', launcher: {airflow: {url: 'http://a'}}",
            "`airflow` doesn't run a step",
            "`session`, `connect`, `submit`",
        ),
        ("command: 'a \"b'", "can't be read", "quote"),
        ("step: 's:f', launcher: {connect: {remote: 'h:1'}}", "no Spark Connect", "sc://"),
        ("step: 's:f', launcher: {submit: {deploy_mode: yarn}}", "`yarn` is not", "`client`"),
        ("step: 's:f', command: x", "`command` can't stand beside `step`", "keep"),
    ],
)
def test_what_cannot_be_run_is_told_with_its_cure(action: str, message: str, cure: str) -> None:
    found = problem(action)
    assert message in found[0]
    assert cure in found[1]
