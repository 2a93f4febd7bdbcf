"""``headgate flow``: dataflow files and the dataflows that agents run."""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console
from rich.markup import escape

from headgate.cli.agent_client import (
    AgentOption,
    keep_shown,
)
from headgate.cli.app import CommandEntry, LazyCommands
from headgate.cli.flow.asking import ANSWER, NameArgument, ask, fail, printed
from headgate.cli.flow.explaining import explain_lines
from headgate.cli.flow.views import Line, attempt_words, list_lines, show_lines
from headgate.cli.flow.wave_times import wave_time
from headgate.cli.json_document import JsonOption
from headgate.settings import ConfigurationError, KeyRing, key_path, read_keys, shell_word


class FlowCommands(LazyCommands):
    """The commands that load what others need not wait for: dataflow files, replays, learning."""

    entries = (
        CommandEntry(
            "check",
            "Check dataflow files: every error and warning with its place and what to do about it.",
            "agent",
            "flow.check",
        ),
        CommandEntry(
            "schema", "Print the JSON Schema of dataflow files, for editors.", "agent", "flow.check"
        ),
        CommandEntry(
            "import",
            "Make a dataflow file of an Oozie workflow: actions, their order and their bounds.",
            "agent",
            "flow.oozie",
            "import_file",
        ),
        CommandEntry(
            "export",
            "Give back the plain Oozie workflow, without the elements that Oozie doesn't know.",
            "agent",
            "flow.oozie",
            "export_file",
        ),
        CommandEntry(
            "submit",
            "Hand a dataflow to the agents and wait until what it watches is watched.",
            "agent",
            "flow.submitting",
        ),
        CommandEntry(
            "update",
            "Change a dataflow while it runs; what is unchanged keeps its state.",
            "agent",
            "flow.submitting",
        ),
        CommandEntry(
            "tune",
            "Propose bounds for a target, by replaying what was recorded under many.",
            "agent,local",
            "flow.tune",
            "flow_tune",
        ),
        CommandEntry(
            "train",
            "Train the models of learned triggers on the newest waves.",
            "agent",
            "flow.train",
        ),
        CommandEntry(
            "knowledge",
            "Write what a dataflow was learned from to a Parquet file, take one in, or delete.",
            "agent",
            "flow.train",
        ),
    )


app = typer.Typer(
    cls=FlowCommands,
    name="flow",
    no_args_is_help=True,
    add_completion=False,
    help="Check, submit and look at dataflows.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(keep_shown)

_KEY_VARIABLE = "HEADGATE_KEY_FILE"
_NOT_YET = 3  # exit status: the agent did what was asked, and it does not have the effect meant

WideOption = Annotated[
    bool, typer.Option("--wide", help="One line a row, however long, with whole dates.")
]

_console = Console()


@app.command("list")
def list_flows(
    *, wide: WideOption = False, agent: AgentOption = None, json: JsonOption = False
) -> None:
    """List all dataflows."""
    rows = ask("GET", "/v1/flows", agent, json=json)
    if printed(rows, json=json):
        return
    if rows:
        _show(list_lines(rows, _width(wide=wide)))
    else:
        _console.print("No dataflow was submitted yet.")


@app.command()
def show(
    name: NameArgument,
    *,
    wide: WideOption = False,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """Show a dataflow: its actions, its last runs, and the tracebacks of failed ones."""
    view = ask("GET", f"/v1/flows/{name}", agent, json=json)
    if not printed(view, json=json):
        _show(show_lines(view, _width(wide=wide)))


@app.command()
def explain(
    name: NameArgument,
    *,
    wide: WideOption = False,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """Say why each action last ran and what is missing for its next run."""
    explanation = ask("GET", f"/v1/flows/{name}/explain", agent, json=json)
    if printed(explanation, json=json):
        return
    _show(explain_lines(explanation, _width(wide=wide)))


@app.command()
def pause(name: NameArgument, *, agent: AgentOption = None, json: JsonOption = False) -> None:
    """Launch nothing any more; updates are still counted."""
    answer = ask("POST", f"/v1/flows/{name}/pause", agent, json=json)
    if not printed(answer, json=json):
        _console.print(f"Dataflow {name} is paused; updates are counted.")


@app.command()
def resume(name: NameArgument, *, agent: AgentOption = None, json: JsonOption = False) -> None:
    """Launch again."""
    answer = ask("POST", f"/v1/flows/{name}/resume", agent, json=json)
    if not printed(answer, json=json):
        _console.print(f"Dataflow {name} is resumed.")


@app.command()
def remove(
    name: NameArgument,
    *,
    keep_knowledge: Annotated[
        bool,
        typer.Option(
            "--keep-knowledge", help="Keep what was learned of it for one of the same name."
        ),
    ] = False,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """Stop a dataflow and forget all of its state, history, pairs and models; tables stay."""
    keep = "?knowledge=keep" if keep_knowledge else ""
    answer = ask("DELETE", f"/v1/flows/{name}{keep}", agent, json=json)
    if not printed(answer, json=json):
        _console.print(f"Dataflow {name} is removed.")


@app.command()
def sign(
    name: NameArgument,
    *,
    key_file: Annotated[
        Path | None,
        typer.Option(
            help="The key that the agents share, if not the one in your state folder "
            f"[variable {_KEY_VARIABLE}]."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Sign it without being asked.")] = False,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """Show what a row of the state table would run, and have it run: of an earlier version."""
    from headgate.agent import Refused, Seals, unsigned
    from headgate.agent import sign as seal

    row = ask("GET", f"/v1/flows/{name}/sign", agent, json=json)
    value = b64decode(row["value"])
    try:
        definition = unsigned(name, value)
        seals = Seals(_keys(key_file), row["table"])
    except (Refused, ConfigurationError) as error:
        fail(str(error), json=json)
    if not json:
        _console.print(
            f"[bold]{name}[/bold], revision {definition.revision}, profile "
            f"{escape(ascii(definition.profile or 'none'))}; paths begin at "
            f"{escape(ascii(definition.directory))}:"
        )
        shown = "".join(c if c.isprintable() or c == "\n" else ascii(c) for c in definition.source)
        _console.print(shown, markup=False, highlight=False)
    if not (yes or typer.confirm("Shall agents run this?", err=json)):
        raise typer.Exit(1)
    body = {"value": value, "seal": seal(seals, name, value)}
    signed = ask("POST", f"/v1/flows/{name}/sign", agent, body, json=json)
    if not printed(signed, json=json):
        _console.print(f"Dataflow {name}, revision {signed['revision']}, is signed.")


def _keys(key_file: Path | None) -> KeyRing:
    path = key_file or Path(os.environ.get(_KEY_VARIABLE) or key_path()).expanduser()
    return read_keys(path)


@app.command()
def run(
    name: NameArgument,
    action: Annotated[str, typer.Argument(help="The action to run, whatever its bounds say.")],
    *,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """Run one action now; the exit status is 3 where the run has to wait for something else."""
    answer = ask("POST", f"/v1/flows/{name}/run", agent, {"action": action}, json=json)
    if not printed(answer, json=json):
        if answer["run"] is not None:
            said = f"{action} of {name} is launched as {answer['run']}"
        elif answer["follows"]:
            said = f"{action} of {name} runs again as soon as it can: {answer['waits']}"
        else:
            said = (
                f"{action} of {name} is asked for and does not run yet: {answer['waits']}. "
                "It runs once that is over"
            )
        _console.print(
            f"{said}; see `headgate flow show {shell_word(name)}`.", markup=False, highlight=False
        )
    if answer["run"] is None and not answer["follows"]:
        raise typer.Exit(_NOT_YET)


@app.command()
def cancel(
    name: NameArgument,
    action: Annotated[str, typer.Argument(help="The action whose attempt is to end.")],
    *,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """End an attempt; it is tried again as after any failure, unless the dataflow is paused."""
    answer = ask("POST", f"/v1/flows/{name}/cancel", agent, {"action": action}, json=json)
    if not printed(answer, json=json):
        _console.print(f"The attempt of {action} of {name} is being ended.")


@app.command()
def logs(
    name: NameArgument,
    of: Annotated[str, typer.Argument(help="An action, whose newest attempt is shown, or a run.")],
    *,
    attempt: Annotated[int | None, typer.Option(help="Which attempt, if not the newest.")] = None,
    lines: Annotated[int, typer.Option(help="How many lines from the end.", min=1)] = 200,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """Show what an attempt printed."""
    which = f"&attempt={attempt}" if attempt is not None else ""
    path = f"/v1/flows/{name}/logs?of={quote(of, safe='')}&lines={lines}{which}"
    view = ask("GET", path, agent, json=json)
    if printed(view, json=json):
        return
    _console.print(attempt_words(view["run"]), markup=False, highlight=False)
    if not view["file"]:
        _console.print("It has no log on the host of the agent that runs the dataflow now.")
        return
    _console.print(view["file"], markup=False, highlight=False, soft_wrap=True)
    typer.echo(view["text"])


@app.command()
def release(
    name: NameArgument,
    action: Annotated[
        str | None, typer.Argument(help="The action; all that are in quarantine, if none.")
    ] = None,
    *,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """Let actions out of quarantine."""
    answer = ask("POST", f"/v1/flows/{name}/release", agent, {"action": action}, json=json)
    if not printed(answer, json=json):
        _console.print(f"Released: {', '.join(answer['actions'])}.")


@app.command()
def retry(
    name: NameArgument,
    action: Annotated[
        str | None, typer.Argument(help="The action; all of which something failed, if none.")
    ] = None,
    *,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """Run at once what failed: without its backoff, or out of quarantine."""
    answer = ask("POST", f"/v1/flows/{name}/retry", agent, {"action": action}, json=json)
    if not printed(answer, json=json):
        _console.print(f"Tried again: {', '.join(answer['actions'])}.")


@app.command()
def mark(
    name: NameArgument,
    action: Annotated[
        list[str] | None,
        typer.Argument(help="Input actions whose wave ends; all of them, if none."),
    ] = None,
    *,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait until the wave's runs have ended.", min=0)
    ] = 0,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="The wave's own time: ISO 8601 with offset or Z, or Unix seconds; now, if none.",
        ),
    ] = None,
    agent: AgentOption = None,
    json: JsonOption = False,
) -> None:
    """End a wave of input: bounds are evaluated on all that was written before.

    With --wait the exit status is 3 where the wave is not settled in time, or settled although a
    step could not answer it: it is in quarantine, paused, or nothing starts it.
    """
    body: dict[str, Any] = {"actions": action or []}
    try:
        if time is not None:  # agents from before waves had times refuse the field
            body["time"] = wave_time(time)
    except ConfigurationError as error:
        fail(str(error), json=json)
    marked = ask("POST", f"/v1/flows/{name}/waves", agent, body, json=json)
    wave = marked["wave"]
    status: Any = {**marked, "settled": False, "waiting": "", "troubles": []}
    if wait:
        path = f"/v1/flows/{name}/waves/{wave}?wait={wait:g}"
        status = marked | ask("GET", path, agent, json=json, seconds=wait + ANSWER)
    if not printed(status, json=json):
        if not status["settled"]:
            waiting = f"; waiting for {status['waiting']}" if status["waiting"] else ""
            said = f"Wave {wave} of {name} has ended{waiting}."
        elif status["troubles"]:
            troubles = "".join(f"\n- {trouble}" for trouble in status["troubles"])
            said = f"Wave {wave} of {name} is at rest, but not all of it is done:{troubles}"
        else:
            said = f"Wave {wave} of {name} is settled."
        _console.print(said, markup=False, highlight=False)
    if wait and (status["troubles"] or not status["settled"]):
        raise typer.Exit(_NOT_YET)


def _width(*, wide: bool) -> int | None:
    return None if wide else _console.width


def _show(lines: Iterable[Line]) -> None:
    for line in lines:
        _console.print(line.text, style=line.style, markup=False, highlight=False, soft_wrap=True)
