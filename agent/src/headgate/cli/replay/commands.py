"""``headgate replay``: what other bounds would have saved and cost."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec import Struct
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headgate.agent import (
    POLICIES,
    RECORDED,
    AgentConfiguration,
    AgentError,
    FlowRecording,
    FlowReplay,
    HBase,
    KafkaOptions,
    ModelSource,
    load_configuration,
    stored_models,
)
from headgate.cli.json_document import JsonOption, print_document
from headgate.engine import DataflowSpec
from headgate.flows import DataflowErrors, load_dataflow, parse_dataflow
from headgate.replay import ModelKey, OutputReplay, RecordingError, Replayed
from headgate.settings import ConfigurationError, key_path, read_keys

DEFAULT_FILE = Path("agent.toml")
_KEY_VARIABLE = "HEADGATE_KEY_FILE"

KafkaOption = Annotated[
    str | None,
    typer.Option("--kafka", help="Kafka's servers; otherwise the agent's configuration says them."),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="The agent's TOML file [default: agent.toml, if there is one].",
    ),
]


class ReplayedOutput(Struct, frozen=True):
    """The error of what a step writes. ε is Σ|x−x′| / Σ max(|x|, |x′|) over the container."""

    container: str
    mean_error: float
    max_error: float
    max_difference: float
    """In the values' units."""
    mean_changed: float
    """Share of the cells that differ."""


class ReplayedStep(Struct, frozen=True):
    """One step under some bounds."""

    action: str
    recorded_runs: int
    runs: int
    saved: float
    waves: tuple[int, ...]
    """The wave of each run."""
    outputs: tuple[ReplayedOutput, ...]


class ReplayedBounds(Struct, frozen=True):
    """All steps under some bounds."""

    bounds: str
    recorded_runs: int
    runs: int
    saved: float
    steps: tuple[ReplayedStep, ...]


class ReplayResult(Struct, frozen=True):
    """What ``--json`` prints."""

    dataflow: str
    waves: int
    seconds: float
    updates: int
    agrees: bool
    """Whether the replay of the recorded bounds gives the recorded runs."""
    disagreement: tuple[str, ...]
    warnings: tuple[str, ...]
    replays: tuple[ReplayedBounds, ...]
    picture: str = ""


def replay(
    name: Annotated[str, typer.Argument(help="Name of the dataflow.")],
    *,
    bounds: Annotated[
        list[Path] | None,
        typer.Option(
            "--bounds",
            "-b",
            help="Dataflow file with other bounds. Repeat it to compare several.",
        ),
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(help="Bound profile of the files, or of the recorded one without --bounds."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw runs and errors: .html, .svg or .png."),
    ] = None,
    kafka: KafkaOption = None,
    hbase: Annotated[
        str | None,
        typer.Option(
            "--hbase",
            help="Thrift2 address of the agents' HBase, which has the models of triggers; "
            "otherwise the agent's configuration says it.",
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            help="The key with which agents sign models, if not the configured one, or that in "
            f"your state folder [variable {_KEY_VARIABLE}]."
        ),
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Say how often each step would have run under other bounds, and with what error.

    Reads the recorded updates and decisions of a dataflow from Kafka and lets the agent's own
    engine decide again, by the models that decided then; no step is run and nothing is written.
    The error of a step is that of what it would have shown against what was recorded at the same
    time.
    """
    console = Console(stderr=json)
    with outcome(console, "replay"):
        models = model_source(hbase, key_file, config)
        recording = FlowRecording(kafka_of(kafka, config), name, POLICIES, models)
        found = recording.replay(_others(recording, bounds or [], profile or []))
        result = result_of(found)
        if picture is not None:
            # Drawing needs an extra that `headgate flow tune`, which imports this, does not.
            from headgate.cli.replay.picture import draw

            result = msgspec.structs.replace(result, picture=str(draw(found.report, picture)))
    if json:
        print_document(result)
        return
    show(console, result)


def kafka_of(servers: str | None, config: Path | None) -> KafkaOptions:
    """Return where Kafka is.

    Raises:
        ConfigurationError: neither says it.
    """
    if servers is not None:
        return KafkaOptions(bootstrap=servers)
    configured = _configured(config)
    if configured is None:
        raise ConfigurationError(
            "say where Kafka is: --kafka HOST:PORT, or --config with the agent's TOML file"
        )
    return configured.kafka


def model_source(address: str | None, key_file: Path | None, config: Path | None) -> ModelSource:
    """Return where models are; it is looked at where some are needed, and not before.

    Args:
        address: ``host:port`` of HBase; that of the configuration where None.
        key_file: the agents' key; the configured one, or the user's own, where None.
        config: the agent's TOML file; the one in the current directory, if any, where None.
    """

    def find(dataflow: str, wanted: Sequence[ModelKey]) -> Mapping[ModelKey, bytes]:
        configured = _configured(config)
        if address is not None:
            hbase = HBase(address, configured.hbase.state_table) if configured else HBase(address)
        elif configured is not None:
            hbase = configured.hbase
        else:
            raise ConfigurationError(
                f"models decided when steps of {dataflow!r} ran, and agents keep them in HBase: "
                "say where with --hbase HOST:PORT (a Thrift2 server, or an observer), or --config "
                "with the agent's TOML file"
            )
        named = (configured.key_file if configured else "") or os.environ.get(_KEY_VARIABLE)
        keys = read_keys(Path(key_file or named or key_path()).expanduser())
        return stored_models(hbase, keys, dataflow, wanted)

    return find


def _configured(config: Path | None) -> AgentConfiguration | None:
    path = config or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    return None if path is None else load_configuration(path, os.environ)


def _others(
    recording: FlowRecording, paths: list[Path], profiles: list[str]
) -> dict[str, DataflowSpec]:
    others: dict[str, DataflowSpec] = {}
    chosen: list[str | None] = [*profiles] or [None]
    for path in paths:
        for profile in chosen:
            label = path.name if profile is None else f"{path.name}, {profile}"
            if label in others:
                label = str(path) if profile is None else f"{path}, {profile}"
            others[label] = load_dataflow(path, profile).spec
    if not paths:
        dataflow = recording.dataflow
        for profile in profiles:
            others[profile] = parse_dataflow(dataflow.source, dataflow.file, profile).spec
    return others


def result_of(found: FlowReplay) -> ReplayResult:
    """Return a replay in the form that ``--json`` prints."""
    report = found.report
    return ReplayResult(
        dataflow=report.dataflow,
        waves=report.replays[0].waves,
        seconds=report.seconds,
        updates=report.updates,
        agrees=not found.disagreement,
        disagreement=tuple(
            f"{d.action} in wave {d.wave}: {d.recorded} runs recorded, {d.replayed} replayed"
            for d in found.disagreement
        ),
        warnings=report.warnings,
        replays=tuple(map(_bounds, report.replays)),
    )


def _bounds(replayed: Replayed) -> ReplayedBounds:
    return ReplayedBounds(
        bounds=replayed.label,
        recorded_runs=replayed.recorded,
        runs=replayed.runs,
        saved=replayed.saved,
        steps=tuple(
            ReplayedStep(
                action=step.action,
                recorded_runs=step.recorded,
                runs=len(step.runs),
                saved=step.saved,
                waves=tuple(run.wave for run in step.runs),
                outputs=tuple(map(_output, step.outputs)),
            )
            for step in replayed.steps
        ),
    )


def _output(output: OutputReplay) -> ReplayedOutput:
    return ReplayedOutput(
        output.container, output.mean, output.worst, output.largest, output.changed
    )


def show(console: Console, result: ReplayResult) -> None:
    """Print a result for people."""
    for replayed in result.replays:
        console.print(_table(replayed))
    console.print(
        f"{result.dataflow}: {result.waves} waves, {result.updates} updated cells, "
        f"{result.seconds:.0f} s of record. ε = Σ|x−x′| / Σmax(|x|, |x′|), recorded against shown."
    )
    if result.agrees:
        console.print(f"Replayed {RECORDED}, every run falls where the agent made it.")
    else:
        console.print(
            f"[yellow]Replayed {RECORDED}, {len(result.disagreement)} waves have other runs than "
            f"the agent made; the first: {escape(result.disagreement[0])}[/yellow]"
        )
    for warning in result.warnings:
        console.print(f"[yellow]{escape(warning)}[/yellow]")
    if result.picture:
        console.print(f"Picture: [bold]{escape(result.picture)}[/bold]", soft_wrap=True)


def _table(replayed: ReplayedBounds) -> Table:
    title = f"{replayed.bounds}: {replayed.runs} runs of {replayed.recorded_runs} recorded"
    table = Table(title=escape(title), title_justify="left", title_style="bold")
    table.add_column("step")
    for heading in ("recorded", "runs", "saved"):
        table.add_column(heading, justify="right")
    table.add_column("output")
    for heading in ("mean ε", "max ε", "max"):
        table.add_column(heading, justify="right")
    for step in replayed.steps:
        saved = f"{100 * step.saved:.0f} %" if step.recorded_runs else ""
        head: list[str] = [step.action, str(step.recorded_runs), str(step.runs), saved]
        for output in step.outputs:
            table.add_row(
                *head,
                output.container,
                f"{100 * output.mean_error:.2f} %",
                f"{100 * output.max_error:.2f} %",
                f"{output.max_difference:.4g}",
            )
            head = [""] * len(head)
        if not step.outputs:
            table.add_row(*head, "", "", "", "")
    return table


@contextmanager
def outcome(console: Console, command: str) -> Iterator[None]:
    """Turn what goes wrong into one message and an exit code."""
    try:
        yield
    except DataflowErrors as errors:
        for problem in errors.problems:
            place = f"{problem.file}:{problem.line}:{problem.column}"
            console.print(
                f"[red]{escape(place)}: {escape(problem.message)}[/red] {escape(problem.cure)}",
                soft_wrap=True,
            )
        raise typer.Exit(1) from errors
    except (RecordingError, AgentError, ConfigurationError, OSError, ValueError) as error:
        console.print(f"[red]headgate {command}:[/red] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(1) from error
