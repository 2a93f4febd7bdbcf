"""The runner: in which order a trial is asked, and what becomes of a report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from headgate.cli.demo import runner
from headgate.cli.demo.commands import DEMOS
from headgate.cli.demo.commands import app as demos
from headgate.cli.demo.dataflows import CommittedRun
from headgate.cli.demo.example import Report, SettledWave, Stand, Submission, Times, Wave
from headgate.cli.demo.services import DemoServices

TEXT = """
name: {name}
containers: {{readings: "t f:a", sums: "{name}-sums s:a"}}
actions:
  feed: {{input: readings}}
  sum: {{step: "steps:sum", reads: readings, writes: sums}}
"""


class Scripted:
    """Services, the agent and an example, which all write down what is asked of them."""

    thrift1 = ("127.0.0.1", 1)
    api = "http://127.0.0.1:1"
    folder = Path("stand")

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str, pool: str = "") -> None:
        self.asked: list[str] = []
        self.said: list[str] = []
        self.names = names
        self.pool = pool
        self.settled: list[SettledWave] = []
        monkeypatch.setattr(runner, "AgentDataflows", lambda api: Agent(self))
        monkeypatch.setattr(runner, "create_tables", self.create)
        monkeypatch.setattr(runner, "put_rows", self.put)

    def create(self, host: str, port: int, specs: Sequence[Any]) -> None:
        self.asked.append(f"tables of {' '.join(spec.name for spec in specs)}")

    def put(self, _: Any, table: str, puts: Iterable[Any]) -> None:
        self.asked.append(f"put {len(list(puts))} into {table}")

    def say(self, text: str) -> None:
        self.said.append(text)

    def done(self, waves: int) -> None:
        self.said.append(f"{waves} done")

    def dataflows(self, folder: Path) -> Sequence[Submission]:
        self.asked.append(f"dataflows in {folder}")
        pool = f"spark_pool: {self.pool}\n" if self.pool else ""
        return [Submission(TEXT.format(name=one) + pool, Path("air.yaml")) for one in self.names]

    def feed(self, stand: Stand) -> Iterator[Wave]:
        rows = [(b"r", {b"f:a": b"1"})]
        yield Wave("first", {"t": rows})
        self.asked.append("next")
        yield Wave("second", {"t": rows * 2}, time=60.0)
        stand.say("no more")

    def measure(self, wave: SettledWave, stand: Stand) -> Iterable[str]:
        self.asked.append(f"measure {wave.label}")
        self.settled.append(wave)
        yield f"{wave.label} was measured"


class Agent:
    def __init__(self, script: Scripted) -> None:
        self._script = script

    def submit(self, text: str, file: Path) -> None:
        self._script.asked.append(f"submit {text.split()[1]} of {file}")

    def wait_warm(self, names: Sequence[str]) -> None:
        self._script.asked.append(f"warm {' '.join(names)}")

    def end_wave(self, names: Sequence[str], time: float | None) -> None:
        self._script.asked.append(f"end {' '.join(names)} at {time}")

    def committed(self, name: str, after: int) -> list[CommittedRun]:
        return [CommittedRun(after + n, "sum", "", 0.0, 1.0) for n in (1, 2)]

    def close(self) -> None:
        self._script.asked.append("close")


def test_each_wave_is_measured_before_the_next_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Scripted(monkeypatch, "a")
    assert runner.send(script, script, script) >= 0
    assert script.asked == [
        "dataflows in stand",
        "tables of a",
        "submit a of air.yaml",
        "warm a",
        "put 1 into t",
        "end a at None",
        "measure first",
        "next",
        "put 2 into t",
        "end a at 60.0",
        "measure second",
        "close",
    ]
    measured = ["1 done", "first was measured", "2 done", "second was measured"]
    assert script.said[-5:] == [*measured, "no more"]


def test_runs_are_those_since_the_wave_before_by_dataflow(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Scripted(monkeypatch, "a", "b")
    runner.send(script, script, script)
    for name in ("a", "b"):
        runs = [[run.number for run in wave.runs[name]] for wave in script.settled]
        assert runs == [[0, 1], [2, 3]]
    assert [wave.number for wave in script.settled] == [1, 2]


@pytest.mark.parametrize(
    ("names", "pool", "submitting", "starting"),
    [
        (("a",), "", "dataflow: submitting a", "a session"),
        (("a", "b"), "", "dataflows: submitting a, b", "a session for each dataflow"),
        (("a", "b"), "p", "dataflows: submitting a, b", "the session of all dataflows"),
    ],
)
def test_what_is_started_is_said(
    monkeypatch: pytest.MonkeyPatch,
    names: tuple[str, ...],
    pool: str,
    submitting: str,
    starting: str,
) -> None:
    script = Scripted(monkeypatch, *names, pool=pool)
    runner.send(script, script, script)
    assert script.said[1:3] == [submitting, f"Spark: starting {starting}"]


def test_a_trial_that_fails_closes_the_connection_to_the_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Failing(Scripted):
        def measure(self, wave: SettledWave, stand: Stand) -> Iterable[str]:
            raise ArithmeticError

    script = Failing(monkeypatch, "a")
    with pytest.raises(ArithmeticError):
        runner.send(script, script, script)
    assert script.asked[-1] == "close"


class Told(Exception):
    pass


class Finding:
    """An example that has found something."""

    waves = 3

    def __init__(self, found: str, page: str, status: int) -> None:
        self._report = Report({"found": found}, ["shown"], Path(page) if page else None, status)

    def report(self, times: Times) -> Report:
        assert times.waves == 2.0
        return self._report


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    def sent(*_: object) -> float:
        return 2.0

    monkeypatch.setattr(runner, "send", sent)
    monkeypatch.setattr(DemoServices, "__enter__", lambda self: self)
    monkeypatch.setattr(DemoServices, "close", lambda _: None)

    @runner.demonstration(Told)
    def find(
        *,
        found: Annotated[str, typer.Option(help="A word.")] = "gold",
        page: str = "",
        status: int = 0,
    ) -> Any:
        """Find something."""
        if found == "nothing":
            raise Told("there is [nothing]")
        return Finding(found, page, status)

    app = typer.Typer()
    app.command("find")(find)
    return app


def run(command: typer.Typer, home: Path, *arguments: str) -> Any:
    return CliRunner().invoke(command, [*arguments, "--home", str(home)], env={"COLUMNS": "200"})


def test_a_report_is_shown_to_people_and_its_page_named(
    command: typer.Typer, tmp_path: Path
) -> None:
    done = run(command, tmp_path, "--page", "p.html")
    assert done.exit_code == 0
    shown, page, end = done.output.splitlines()[-3:]
    assert (shown, page) == ("shown", "Report: p.html")
    assert end.endswith("s in all; everything that was started has ended.")


def test_programs_get_one_document_and_nothing_else(command: typer.Typer, tmp_path: Path) -> None:
    done = run(command, tmp_path, "--json", "--found", "silver")
    assert json.loads(done.stdout) == {"found": "silver"}


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_the_exit_status_is_that_of_the_report(
    command: typer.Typer, tmp_path: Path, form: tuple[str, ...]
) -> None:
    assert run(command, tmp_path, *form, "--status", "3").exit_code == 3


def test_input_that_cannot_be_read_is_one_message(command: typer.Typer, tmp_path: Path) -> None:
    done = run(command, tmp_path, "--found", "nothing")
    assert done.exit_code == 1
    assert done.output == "headgate demo: there is [nothing]\n"
    assert not list(tmp_path.iterdir())


def test_a_stand_that_is_kept_is_named(command: typer.Typer, tmp_path: Path) -> None:
    assert f"kept: {tmp_path / 'demos'}" in run(command, tmp_path, "--keep").output
    assert "kept" not in run(command, tmp_path).output


def test_a_command_has_the_example_s_options_and_those_of_all(
    command: typer.Typer, tmp_path: Path
) -> None:
    text = run(command, tmp_path, "--help").output
    assert "Find something." in text
    places = [text.index(option) for option in ("--found", "--home", "--keep", "--json")]
    assert places == sorted(places)


def test_every_demonstration_is_listed_with_its_summary() -> None:
    done = CliRunner().invoke(demos, ["--help"], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    lines = [line.strip("│ ").split(maxsplit=1) for line in done.output.splitlines()]
    summaries = {line[0]: line[1] for line in lines if len(line) > 1}
    assert all(summaries[name].endswith(".") for name in DEMOS)


@pytest.mark.parametrize("name", DEMOS)
def test_every_demonstration_says_its_options(name: str) -> None:
    done = CliRunner().invoke(demos, [name, "--help"], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert "--home" in done.output
