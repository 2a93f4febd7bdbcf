"""``headgate stage``: what stages remember, whether it is whole, and having it made anew."""

from __future__ import annotations

import json as text_json
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import pyarrow as pa
import typer
from msgspec import to_builtins
from rich.console import Console

from headgate.cli.agent_client import AgentOption, keep_shown
from headgate.cli.flow.asking import ask, fail, printed
from headgate.cli.flow.views import Line
from headgate.cli.json_document import JsonOption, print_document
from headgate.cli.stage.finding import (
    FoundState,
    LocationOption,
    ManifestOption,
    found_state,
    required_state,
    stage_status,
    stage_statuses,
    unknown_writes,
)
from headgate.cli.stage.views import comparison_lines, row_lines, stage_lines, state_document
from headgate.cli.stage.writing import Format, csv_text, json_lines, plain, write_pieces
from headgate.events import key_bytes, key_text
from headgate.incremental import (
    SAMPLE,
    Key,
    StateError,
    StoredState,
    UnusableKey,
    compare_states,
    stage_name,
)
from headgate.settings import shell_word

app = typer.Typer(
    name="stage",
    no_args_is_help=True,
    add_completion=False,
    help="Look after what stages of dataflows remember.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(keep_shown)

_NOT_YET: Final = 3  # exit status: the agent did what was asked, and nothing came of it yet
_DAMAGED: Final = 4  # exit status of `verify`: something is not as it was written
_DIFFERENT: Final = 4  # exit status of `compare`
_ROWS: Final = 100
"""Shown where nothing else is said: more are for a file."""

DataflowArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the dataflow.")]
ActionArgument = Annotated[str, typer.Argument(help="The stage: an action of the dataflow.")]

_console = Console()


@app.command()
def show(
    name: DataflowArgument,
    action: Annotated[
        str | None, typer.Argument(help="The stage; all of the dataflow, if none.")
    ] = None,
    *,
    state: LocationOption = None,
    manifest: ManifestOption = None,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """Show stages: what waits for them, who holds them, and what their states come to."""
    if state is not None:
        if action is None:
            fail("name the stage: a folder does not say which there are", json=json)
        found = [FoundState(required_state(name, action, state, manifest, agent, json=json))]
        names = [action]
    else:
        if action is None:
            statuses = stage_statuses(name, agent, json=json)
        else:
            statuses = [stage_status(name, action, agent, json=json)]
        found = [found_state(name, status, manifest if action else None) for status in statuses]
        names = [status["action"] for status in statuses]
    if json:
        print_document([_document(one, each) for one, each in zip(names, found, strict=True)])
        return
    for one, each in zip(names, found, strict=True):
        _show(stage_lines(each, stage_name(name, one), _console.width))


def _document(action: str, found: FoundState) -> dict[str, Any]:
    return {
        "action": action,
        "status": found.status,
        "state": None if found.stored is None else state_document(found.stored),
        "trouble": found.trouble,
    }


@app.command("state")
def show_state(
    name: DataflowArgument,
    action: ActionArgument,
    *,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            help="A group, by its key: text (a byte is \\\\xFF), or JSON for others (5, 1.5, null, "
            "true; a list is a key of several columns). What may be either is looked for as both.",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help=f"Rows at most; {_ROWS}, or all of them into a file.", min=1)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File that rows go to; its name says the format."),
    ] = None,
    format_: Annotated[
        Format | None, typer.Option("--format", help="The format, if it is another.")
    ] = None,
    state: LocationOption = None,
    manifest: ManifestOption = None,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """Show the rows of a stage's state, or write them to a file: CSV, JSON lines or Parquet."""
    stored = required_state(name, action, state, manifest, agent, json=json)
    format_ = format_ or _format(output, json=json)
    if output is not None:
        _write(stored, _keys(key or ()), limit, output, format_, json=json)
        return
    if format_ is Format.PARQUET:
        fail("Parquet is for a file: name it with --output", json=json)
    most = _ROWS if limit is None else limit
    try:
        rows = stored.arrow(_keys(key or ()), most)
    except (StateError, UnusableKey, OSError) as error:
        fail(str(error), json=json)
    if json:
        print_document(plain(rows))
    elif format_ is Format.TABLE:
        _show(row_lines(rows, _console.width))
        if len(rows) == most:
            _console.print(f"The first {most} rows; more with --limit, all with --output FILE.")
    else:
        text = json_lines(rows) if format_ is Format.JSON else csv_text(rows)
        typer.echo(text.decode(), nl=False)


def _write(
    stored: StoredState,
    keys: list[Key],
    limit: int | None,
    output: Path,
    format_: Format,
    *,
    json: bool,
) -> None:
    if format_ is Format.TABLE:
        fail("a table is for people; name csv, json or parquet", json=json)
    try:
        whole = not keys and limit is None
        pieces = stored.pieces() if whole else iter([stored.arrow(keys, limit)])
        count = write_pieces(pieces, output, format_)
    except (StateError, UnusableKey) as error:
        fail(str(error), json=json)
    except (OSError, pa.ArrowException) as error:
        fail(f"{output} could not be written: {error}", json=json)
    if not printed({"rows": count, "file": str(output)}, json=json):
        _console.print(f"{count} rows are in {output}.", markup=False, highlight=False)


def _format(output: Path | None, *, json: bool) -> Format:
    if output is None:
        return Format.TABLE
    suffix = output.suffix.removeprefix(".")
    known = {"csv": Format.CSV, "json": Format.JSON, "parquet": Format.PARQUET}
    if suffix not in known:
        fail(f"{output} says no format; end it with .csv, .json or .parquet", json=json)
    return known[suffix]


def _keys(written: Iterable[str]) -> list[Key]:
    found: list[Key] = []
    for text in written:
        found += _spellings(text)
        try:
            value = text_json.loads(text)
        except ValueError:
            continue
        if isinstance(value, list):
            parts = [_spellings(part) if isinstance(part, str) else [part] for part in value]
            found += product(*parts)
        elif not isinstance(value, dict):
            found.append(value)
            if type(value) is int:
                found.append(float(value))
    return found


def _spellings(text: str) -> list[Key]:
    """Return the keys that a text may mean: itself, and a row or qualifier as text or bytes."""
    key = key_bytes(text)
    return list(dict.fromkeys((text, key_text(key), key)))


@app.command()
def rebuild(
    name: DataflowArgument,
    action: ActionArgument,
    *,
    with_sources: Annotated[
        bool,
        typer.Option(
            "--with-sources", help="Rebuild the stages, too, that make what it reads, however far."
        ),
    ] = False,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """Make a state anew from all that the inputs hold, and those of all stages that read of it.

    A run under way ends first. The exit status is 3 where nothing could be launched yet.
    """
    path = f"/v1/flows/{quote(name, safe='')}/stages/rebuild"
    answer = ask("POST", path, agent, {"action": action, "with_sources": with_sources}, json=json)
    answer["unknown"] = unknown_writes(name, answer)
    if not printed(answer, json=json):
        for each in answer["actions"]:
            if each in answer["runs"]:
                said = f"{each} of {name} begins with nothing in run {answer['runs'][each]}"
            else:
                said = f"{each} of {name} is rebuilt as soon as it can: {answer['waits'][each]}"
            _console.print(f"{said}.", markup=False, highlight=False)
        for each, written in answer.get("written", {}).items():
            _console.print(
                f"Cells that {each} has written to {', '.join(written)} and does not write any "
                "more are removed, unless somebody else has written them since; the log of the run "
                f"counts both: `headgate flow logs {shell_word(name)}`.",
                markup=False,
                highlight=False,
            )
        for each, unknown in answer["unknown"].items():
            for words in unknown:
                _console.print(f"Of {each}, {words}.", markup=False, highlight=False)
        _console.print(f"See `headgate flow show {shell_word(name)}`.", highlight=False)
    if not answer["runs"]:
        raise typer.Exit(_NOT_YET)


@app.command()
def compact(
    name: DataflowArgument,
    action: ActionArgument,
    *,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """Merge the files of a state in a run of its own, which reads nothing of the inputs.

    The exit status is 3 where the run has to wait for something else than one under way.
    """
    path = f"/v1/flows/{quote(name, safe='')}/stages/compact"
    answer = ask("POST", path, agent, {"action": action}, json=json)
    if not printed(answer, json=json):
        if answer["run"] is not None:
            said = f"{action} of {name} is compacted by {answer['run']}"
        else:
            said = f"{action} of {name} is compacted as soon as it can: {answer['waits']}"
        _console.print(
            f"{said}; see `headgate flow show {shell_word(name)}`.", markup=False, highlight=False
        )
    if answer["run"] is None and not answer["follows"]:
        raise typer.Exit(_NOT_YET)


@app.command()
def verify(
    name: DataflowArgument,
    action: ActionArgument,
    *,
    state: LocationOption = None,
    manifest: ManifestOption = None,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """Read all files of a state and check that they are what was written.

    The exit status is 4 where one is not, and 1 where not even the manifest can be read.
    """
    stored = required_state(name, action, state, manifest, agent, json=json)
    damaged = list(stored.damaged())
    # A state in a folder does not say whether its stage reads flows of others.
    cure = f"headgate stage rebuild {shell_word(name)} {shell_word(action)} --with-sources"
    if json:
        print_document(
            {
                "manifest": stored.name,
                "files": stored.files,
                "damaged": damaged,
                "cure": cure if damaged else "",
            }
        )
    else:
        _tell_damage(stored, damaged, cure)
    if damaged:
        raise typer.Exit(_DAMAGED)


@app.command()
def compare(
    name: DataflowArgument,
    action: ActionArgument,
    other: Annotated[
        str,
        typer.Argument(
            metavar="OTHER",
            help="The other state: a manifest, or `previous` for the one before, which right "
            "after a rebuild is what the rebuild has replaced.",
        ),
    ],
    *,
    sample: Annotated[
        int, typer.Option(help="Groups at most, drawn from both states at random.", min=1)
    ] = SAMPLE,
    state: LocationOption = None,
    manifest: ManifestOption = None,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """Compare the rows of groups with those of another state of the stage.

    The exit status is 4 where some differ. Numbers that are a billionth of each other apart do not.
    """
    stored = required_state(name, action, state, manifest, agent, json=json)
    if other == "previous" and not stored.manifest.previous:
        fail(f"{stored.name} is the first state of {action} of {name}", json=json)
    wanted = stored.manifest.previous if other == "previous" else other
    try:
        before = stored.at(wanted)
    except (StateError, OSError) as error:
        fail(f"{error} [of earlier states the last two are kept]", json=json)
    try:
        found = compare_states(stored, before, sample)
    except (StateError, OSError) as error:
        fail(str(error), json=json)
    if json:
        print_document({"manifest": stored.name, "other": wanted, **to_builtins(found)})
    else:
        _show(comparison_lines(found))
    if found.different:
        raise typer.Exit(_DIFFERENT)


def _tell_damage(stored: StoredState, damaged: list[Any], cure: str) -> None:
    of = f"{stored.files} files of epoch {stored.manifest.epoch}"
    if not damaged:
        _console.print(f"All {of} are as they were written.", highlight=False)
        return
    for file in damaged:
        _console.print(
            f"{file.file} {file.wrong}", style="red", markup=False, highlight=False, soft_wrap=True
        )
    _console.print(
        f"{len(damaged)} of {of} are damaged; `{cure}` makes the state anew.",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _show(lines: Iterable[Line]) -> None:
    for line in lines:
        _console.print(line.text, style=line.style, markup=False, highlight=False, soft_wrap=True)
