"""``headgate flow import`` and ``headgate flow export``: dataflow files and Oozie's workflows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from headgate.cli.flow.check import show_problems
from headgate.cli.json_document import JsonOption, print_document
from headgate.flows import (
    DataflowErrors,
    ImportChoices,
    Problem,
    export_workflow,
    import_workflow,
    load_dataflow,
    load_workflow_text,
    plain_workflow,
)

OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write; standard output, if none.")
]


class ImportedFile(Struct, frozen=True):
    """What ``--json`` prints of an import; the text is empty where there is an error.

    ``steps`` are the functions that the dataflow's actions call: they are still to be written.
    """

    file: str
    in_order: bool
    dataflow: str = ""
    steps: tuple[str, ...] = ()
    text: str = ""
    problems: tuple[Problem, ...] = ()


class ExportedFile(Struct, frozen=True):
    """What ``--json`` prints of an export; the text is empty where there is an error."""

    file: str
    in_order: bool
    text: str = ""
    problems: tuple[Problem, ...] = ()


def import_file(
    path: Annotated[Path, typer.Argument(help="An Oozie workflow, with or without bounds.")],
    *,
    output: OutputOption = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the dataflow, if not the workflow's own.")
    ] = None,
    module: Annotated[
        str, typer.Option(help="Python module with the functions that the actions call.")
    ] = "steps",
    fed: Annotated[
        list[str] | None,
        typer.Option("--input", help="An action that is not launched but fed from outside."),
    ] = None,
    decision: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NODE|all", help="The branch to take, of a decision."),
    ] = None,
    sub_workflow: Annotated[
        list[str] | None,
        typer.Option(metavar="ACTION=FILE", help="A local copy of a sub-workflow's workflow.xml."),
    ] = None,
    known: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="A property of the job."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Make a dataflow file of an Oozie workflow: actions, their order and their bounds."""
    files: dict[str, str] = {}
    try:
        text = files[str(path)] = load_workflow_text(path)
        copies = {
            action: (load_workflow_text(copy), copy)
            for action, copy in _pairs("--sub-workflow", sub_workflow).items()
        }
        files |= {copy: text for text, copy in copies.values()}

        def beside(file: str, inner: str) -> tuple[str, str] | None:
            found = _beside(file, inner)
            if found is None:
                return None
            files[found] = load_workflow_text(found)
            return files[found], found

        choices = ImportChoices(
            name,
            module,
            _pairs("--decision", decision),
            copies,
            tuple(fed or ()),
            _pairs("--property", known),
            beside,
        )
        imported = import_workflow(text, str(path), choices)
    except DataflowErrors as errors:
        if json:
            print_document(ImportedFile(str(path), in_order=False, problems=errors.problems))
        _show(errors.problems, files, json=json)
        raise typer.Exit(1) from errors
    _show(imported.warnings, files, json=json)
    if output is not None:
        _write(output, imported.text)
    if json:
        print_document(
            ImportedFile(
                str(path),
                in_order=True,
                dataflow=imported.name,
                steps=imported.steps,
                text=imported.text,
                problems=imported.warnings,
            )
        )
    elif output is None:
        typer.echo(imported.text, nl=False)
    else:
        typer.echo(f"{output}: dataflow {imported.name}, of {path}")
    if not json and imported.steps:
        functions = ", ".join(imported.steps)
        typer.echo(f"{path}: its actions call functions that are yours: {functions}", err=True)


def export_file(
    path: Annotated[Path, typer.Argument(help="An imported dataflow file, or a workflow.")],
    *,
    output: OutputOption = None,
    json: JsonOption = False,
) -> None:
    """Give back the plain Oozie workflow, without the elements that Oozie doesn't know."""
    lines: dict[str, str] = {}
    try:
        text = lines[str(path)] = load_workflow_text(path)
        if text.lstrip().startswith("<"):
            plain = plain_workflow(text, str(path))
        else:
            plain = export_workflow(load_dataflow(path))
    except DataflowErrors as errors:
        if json:
            print_document(ExportedFile(str(path), in_order=False, problems=errors.problems))
        _show(errors.problems, lines, json=json)
        raise typer.Exit(1) from errors
    if output is not None:
        _write(output, plain)
    if json:
        print_document(ExportedFile(str(path), in_order=True, text=plain))
    elif output is None:
        typer.echo(plain, nl=False)


def _beside(file: str, inner: str) -> str | None:
    """Return the workflow file at a path from the folder of another; None where there is none."""
    place = os.path.normpath(Path(file).parent / inner)
    for found in (place, str(Path(place, "workflow.xml"))):
        if Path(found).is_file():
            return found
    return None


def _pairs(option: str, written: list[str] | None) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for one in written or ():
        name, separator, value = one.partition("=")
        if not (name and separator and value):
            raise typer.BadParameter(f"`{one}` is not NAME=VALUE", param_hint=option)
        pairs[name] = value
    return pairs


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(
            f"{output} can't be written: {error.strerror or error}", param_hint="--output"
        ) from error


def _show(problems: tuple[Problem, ...], files: dict[str, str], *, json: bool) -> None:
    if json:
        return
    for file in dict.fromkeys(problem.file for problem in problems):
        own = tuple(problem for problem in problems if problem.file == file)
        show_problems(file, own, files.get(file, "").split("\n"))
