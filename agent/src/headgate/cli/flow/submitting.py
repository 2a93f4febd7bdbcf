"""``headgate flow submit`` and ``headgate flow update``: dataflow files for agents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from headgate.cli.agent_client import AgentOption
from headgate.cli.flow.asking import NameArgument, ask, fail, printed
from headgate.cli.flow.check import show_problems
from headgate.cli.json_document import JsonOption
from headgate.flows import Dataflow, DataflowErrors, Problem, load_dataflow

MissingOption = Annotated[
    bool, typer.Option("--allow-missing-tables", help="Tables may be created later.")
]

_console = Console()


def submit(
    path: Annotated[Path, typer.Argument(help="Dataflow file (YAML).")],
    *,
    profile: Annotated[
        str | None, typer.Option(help="Which of the file's bound profiles applies.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--as", help="Name of this instance, if not the file's own name."),
    ] = None,
    shadow: Annotated[
        bool, typer.Option("--shadow", help="Decide, show what would run, launch nothing.")
    ] = False,
    allow_missing_tables: MissingOption = False,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """Hand a dataflow to the agents and wait until what it watches is watched."""
    dataflow = _loaded(path, profile, name, json=json)
    body = {
        "source": dataflow.source,
        "file": str(path),
        "directory": str(path.resolve().parent),
        "profile": dataflow.profile,
        "name": name,
        "shadow": shadow,
        "allow_missing_tables": allow_missing_tables,
    }
    row = ask("POST", "/v1/flows", agent, body, json=json)
    if not printed({**row, "warnings": msgspec.to_builtins(dataflow.warnings)}, json=json):
        where = f"with agent {row['owner']}" if row["owner"] else "here"
        _console.print(f"Dataflow {row['name']}, revision {row['revision']}, runs {where}.")


def update(
    name: NameArgument,
    path: Annotated[
        Path | None, typer.Argument(help="Dataflow file (YAML); what was submitted, if none.")
    ] = None,
    *,
    profile: Annotated[
        str | None, typer.Option(help="Which of the file's bound profiles applies from now.")
    ] = None,
    no_profile: Annotated[
        bool, typer.Option("--no-profile", help="No profile: the file's own bounds apply.")
    ] = False,
    shadow: Annotated[
        bool | None, typer.Option("--shadow/--launch", help="Decide only, or launch again.")
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Start a new Spark session: modules are read again.")
    ] = False,
    allow_missing_tables: MissingOption = False,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """Change a dataflow while it runs; what is unchanged keeps its state."""
    body: dict[str, Any] = {
        "shadow": shadow,
        "reload": reload,
        "allow_missing_tables": allow_missing_tables,
    }
    warnings: tuple[Problem, ...] = ()
    if path is not None:
        # A profile that is in force already may be missing here: only the agent knows it.
        dataflow = _loaded(path, profile, name, json=json)
        warnings = dataflow.warnings
        body |= {
            "source": dataflow.source,
            "file": str(path),
            "directory": str(path.resolve().parent),
        }
    if profile is not None or no_profile:
        body["profile"] = profile
    updated = ask("POST", f"/v1/flows/{name}/update", agent, body, json=json)
    if printed({**updated, "warnings": msgspec.to_builtins(warnings)}, json=json):
        return
    for change in updated["changes"]:
        _console.print(
            f"{change['part']}: {change['kind']}, {change['words']}", markup=False, highlight=False
        )
    same = "" if updated["changes"] else ", nothing is another than before"
    _console.print(f"Dataflow {name}, revision {updated['flow']['revision']}{same}.")


def _loaded(path: Path, profile: str | None, name: str | None, *, json: bool) -> Dataflow:
    """Read a file, show what `check` warns of, and end with its problems if it has any."""
    try:
        dataflow = load_dataflow(path, profile, name)
    except DataflowErrors as errors:
        if json:
            problems = msgspec.to_builtins(errors.problems)
            fail("the dataflow file is not in order", json=True, problems=problems)
        lines = (
            path.read_bytes().decode(errors="backslashreplace").splitlines()
            if path.is_file()
            else []
        )
        show_problems(str(path), errors.problems, lines)
        raise typer.Exit(1) from errors
    if dataflow.warnings and not json:
        show_problems(str(path), dataflow.warnings, dataflow.source.splitlines())
    return dataflow
