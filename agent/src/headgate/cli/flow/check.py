"""``headgate flow check`` and ``headgate flow schema``: dataflow files, without a running agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from headgate.cli.json_document import JsonOption, print_document
from headgate.flows import (
    Dataflow,
    DataflowErrors,
    PoolMember,
    Problem,
    Severity,
    load_dataflow,
    pool_conflict,
    pool_member,
    schema_text,
)

_POOL_KEY = "spark_pool"


class CheckedFile(Struct, frozen=True):
    """What ``--json`` prints of one file; the dataflow's name is empty where there is an error."""

    file: str
    in_order: bool
    dataflow: str = ""
    profiles: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def check(
    paths: Annotated[list[Path], typer.Argument(help="Dataflow files (YAML).")],
    *,
    imports: Annotated[
        bool,
        typer.Option("--imports", help="Import the steps' modules too, which runs them."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Check dataflow files: every error and warning with its place and what to do about it."""
    pools: list[PoolMember] = []
    checked = [_checked(path, pools, imports=imports, as_text=not json) for path in paths]
    if json:
        print_document(checked)
    if not all(one.in_order for one in checked):
        raise typer.Exit(1)


def schema() -> None:
    """Print the JSON Schema of dataflow files, for editors."""
    typer.echo(schema_text(), nl=False)


def _pool_problems(
    dataflow: Dataflow, directory: Path, pools: list[PoolMember]
) -> tuple[Problem, ...]:
    """Return what keeps a dataflow out of the pool of those before it, which it joins."""
    member = pool_member(dataflow, str(directory))
    if member is None:
        return ()
    conflict = pool_conflict(member, pools)
    pools.append(member)
    if conflict is None:
        return ()
    what, _, cure = conflict.partition("; ")
    line = dataflow.source[: dataflow.source.index(_POOL_KEY)].count("\n") + 1
    return (Problem(dataflow.file, line, 1, what, cure),)


def _checked(path: Path, pools: list[PoolMember], *, imports: bool, as_text: bool) -> CheckedFile:
    try:
        dataflow = load_dataflow(path)
    except DataflowErrors as errors:
        checked = CheckedFile(str(path), in_order=False, problems=errors.problems)
    else:
        missing = _pool_problems(dataflow, path.resolve().parent, pools)
        if imports:
            # Comparing stages loads NumPy and Arrow, for which no other command has to wait.
            from headgate.cli.flow.imports import import_problems

            missing = (*import_problems(dataflow, path.resolve().parent), *missing)
        checked = CheckedFile(
            str(path),
            in_order=not any(problem.severity is Severity.ERROR for problem in missing),
            dataflow=dataflow.name,
            profiles=dataflow.profiles,
            problems=(*missing, *dataflow.warnings),
        )
        if as_text and checked.in_order:
            typer.echo(_in_order(dataflow))
    if as_text and checked.problems:
        lines = (
            path.read_bytes().decode(errors="backslashreplace").splitlines()
            if path.is_file()
            else []
        )
        show_problems(checked.file, checked.problems, lines)
    return checked


def show_problems(file: str, problems: tuple[Problem, ...], lines: list[str]) -> None:
    """Print problems of one file, each with its line and cure, and how many they are."""
    for problem in problems:
        _show(problem, lines)
    _show_count(file, problems)


def _in_order(dataflow: Dataflow) -> str:
    bounds = sum(len(action.bounds) for action in dataflow.spec.actions)
    files = f", files in {_counted(len(dataflow.files), 'place')}" if dataflow.files else ""
    topics = f", {_counted(len(dataflow.topics), 'topic')}" if dataflow.topics else ""
    containers = len(dataflow.spec.containers) - len(dataflow.outside)
    return (
        f"{dataflow.file}: dataflow {dataflow.name} is in order: "
        f"{_counted(len(dataflow.spec.actions), 'action')}, {_counted(bounds, 'bound')}, "
        f"{_counted(containers, 'container')}{files}{topics}"
    )


def _show(problem: Problem, lines: list[str]) -> None:
    colour = typer.colors.RED if problem.severity is Severity.ERROR else typer.colors.YELLOW
    place = f"{problem.file}:{problem.line}:{problem.column}:"
    severity = typer.style(f"{problem.severity}:", fg=colour, bold=True)
    typer.echo(f"{place} {severity} {problem.message}", err=True)
    if problem.line <= len(lines):
        margin = f"{problem.line:>5} | "
        pointer = " " * (len(margin) + problem.column - 1)
        typer.echo(f"{margin}{lines[problem.line - 1]}", err=True)
        typer.echo(f"{pointer}{typer.style('^', fg=colour, bold=True)}", err=True)
    typer.echo(f"        {problem.cure}\n", err=True)


def _show_count(file: str, problems: tuple[Problem, ...]) -> None:
    errors = sum(problem.severity is Severity.ERROR for problem in problems)
    warnings = len(problems) - errors
    counts = [
        _counted(number, noun)
        for number, noun in ((errors, "error"), (warnings, "warning"))
        if number
    ]
    typer.echo(f"{file}: {' and '.join(counts)}", err=True)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
