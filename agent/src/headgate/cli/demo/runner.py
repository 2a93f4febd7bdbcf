"""The one runner of all demonstrations: it starts services, sends the waves, prints the report."""

from __future__ import annotations

import inspect
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Protocol, get_type_hints

import typer
from rich.console import Console
from rich.markup import escape

from headgate.cli.demo.dataflows import AgentDataflows
from headgate.cli.demo.example import Example, SettledWave, Stand, Times, Trial
from headgate.cli.demo.hbase import FreshTables, create_tables, put_rows
from headgate.cli.demo.narration import HomeOption, Narrator, outcome
from headgate.cli.demo.services import DemoServices
from headgate.flows import Dataflow, parse_dataflow


class Services(Protocol):
    """The services that run dataflows.

    Attributes:
        thrift1: the proxy for HBase's first Thrift API: host and port.
        api: the agent's address, ``http://host:port``.
        folder: for files that steps write.
    """

    thrift1: tuple[str, int]
    api: str
    folder: Path


class Audience(Protocol):
    """Hears what goes on."""

    def say(self, text: str) -> None:
        """Take one line."""
        ...

    def done(self, waves: int) -> None:
        """Take how many waves are over."""
        ...


def send(trial: Trial, services: Services, audience: Audience) -> float:
    """Submit a trial's dataflows to running services, and send all of its waves.

    Returns:
        Seconds from the first wave until the last was measured.

    Raises:
        DemoError: a dataflow is stuck.
    """
    submissions = trial.dataflows(services.folder)
    parsed = [parse_dataflow(one.text, one.file.name) for one in submissions]
    names = [one.name for one in parsed]
    dataflows = AgentDataflows(services.api)
    try:
        audience.say("tables: creating")
        create_tables(*services.thrift1, [one.spec for one in parsed])
        audience.say(f"dataflow{'s' * (len(names) > 1)}: submitting {', '.join(names)}")
        with ThreadPoolExecutor(len(names)) as pool:
            list(pool.map(lambda one: dataflows.submit(one.text, one.file), submissions))
        audience.say(f"Spark: starting {_sessions(parsed)}")
        dataflows.wait_warm(names)
        stand = Stand(FreshTables(*services.thrift1), dataflows, audience.say)
        newest = dict.fromkeys(names, -1)
        first = time.monotonic()
        for number, wave in enumerate(trial.feed(stand), 1):
            began = time.monotonic()
            for table, puts in wave.puts.items():
                put_rows(stand.tables, table, puts)
            dataflows.end_wave(names, wave.time)
            seconds = time.monotonic() - began
            runs = {name: dataflows.committed(name, newest[name]) for name in names}
            newest |= {name: found[-1].number for name, found in runs.items() if found}
            audience.done(number)
            for line in trial.measure(SettledWave(number, wave.label, runs, seconds), stand):
                audience.say(line)
        return time.monotonic() - first
    finally:
        dataflows.close()


def _sessions(parsed: Sequence[Dataflow]) -> str:
    if len(parsed) == 1:
        return "a session"
    pools = {one.spark_pool for one in parsed}
    shared = len(pools) == 1 and "" not in pools
    return "the session of all dataflows" if shared else "a session for each dataflow"


def demonstration(
    *input_errors: type[Exception],
) -> Callable[[Callable[..., Example]], Callable[..., None]]:
    """Make a command of a function that returns an example.

    The command has the function's options, and those of every demonstration behind them.

    Args:
        input_errors: what the function raises when the input cannot be read.
    """

    def decorate(make: Callable[..., Example]) -> Callable[..., None]:
        def command(
            *,
            home: HomeOption = None,
            keep: Annotated[
                bool, typer.Option("--keep", help="Leave tables, logs and charts behind.")
            ] = False,
            as_json: Annotated[
                bool, typer.Option("--json", help="Print the result as one JSON document.")
            ] = False,
            **own: Any,
        ) -> None:
            console = Console(stderr=as_json)
            began = time.monotonic()
            with outcome(console, *input_errors):
                example = make(**own)
                times = _run(example, home, console, began, keep=keep)
            report = example.report(times)
            if as_json:
                typer.echo(json.dumps(report.document, indent=1))
            else:
                for part in report.shown:
                    console.print(part)
                if report.page is not None:
                    where = escape(str(report.page))
                    console.print(f"Report: [bold]{where}[/bold]", soft_wrap=True)
                console.print(
                    f"{time.monotonic() - began:.0f} s in all; everything that was started has "
                    "ended."
                )
            if report.status:
                raise typer.Exit(report.status)

        parameters = []
        for function in (make, command):
            hints = get_type_hints(function, include_extras=True)
            parameters += [
                parameter.replace(annotation=hints[name])
                for name, parameter in inspect.signature(function).parameters.items()
                if parameter.kind is not inspect.Parameter.VAR_KEYWORD
            ]
        command.__name__, command.__doc__ = make.__name__, make.__doc__
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorate


def _run(
    example: Example, home: Path | None, console: Console, began: float, *, keep: bool
) -> Times:
    """Send an example's waves through services of its own."""
    with Narrator(console, example.waves) as narrator:
        with DemoServices(home, keep=keep, on_progress=narrator.progress) as services:
            waves = send(example, services, narrator)
            starting = time.monotonic() - began - waves
        if keep:
            narrator.say(f"kept: {services.folder}")
    return Times(starting, waves)


def machine_in_words() -> str:
    """Return what figures depend on: cores, system and Python's version."""
    system = f"{platform.system()} {platform.machine()}"
    return f"{os.cpu_count()} cores, {system}, Python {platform.python_version()}"
