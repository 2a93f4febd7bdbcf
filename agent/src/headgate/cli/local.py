"""``headgate local``: the local stack from the command line."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headgate.local import (
    LocalStack,
    LocalStackError,
    Part,
    PartState,
    PartStatus,
    Progress,
    StackStatus,
    default_cache,
)

_FOLLOW_SECONDS = 0.3
_INTERRUPTED = 130  # what shells give a command that Ctrl-C ended

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Run HBase, its Thrift servers and Kafka on this machine.",
    pretty_exceptions_show_locals=False,
)

_Home = Annotated[
    Path | None,
    typer.Option(
        help="Folder of all instances, and of the jars. Default: $HEADGATE_HOME, else the user's "
        "data and cache directories.",
        show_default=False,
    ),
]
_Instance = Annotated[
    str, typer.Option(help="Which stack; each has its own data, ports and processes.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@app.command()
def up(
    *,
    home: _Home = None,
    instance: _Instance = "default",
    connect: Annotated[
        bool, typer.Option("--connect", help="Start a Spark Connect server, too.")
    ] = False,
    as_json: _Json = False,
) -> None:
    """Start what does not run yet; return when everything answers."""
    with _outcome(as_json=as_json), _progress() as listen:
        also = (Part.CONNECT,) if connect else ()
        stack = LocalStack(home, instance, cache=default_cache(home), also=also)
        began = time.monotonic()
        addresses = stack.up(listen)
        took = time.monotonic() - began
    if as_json:
        _print_json({"instance": instance, "folder": str(stack.folder), **addresses.as_text()})
        return
    for name, address in addresses.as_text().items():
        typer.echo(f"{name:<10} {address}")
    typer.echo(f"ready after {took:.1f} s; data and logs in {stack.folder}")


@app.command()
def down(*, home: _Home = None, instance: _Instance = "default", as_json: _Json = False) -> None:
    """Stop everything; data, logs and ports stay for the next start."""
    with _outcome(as_json=as_json), _progress() as listen:
        ended = LocalStack(home, instance, cache=default_cache(home)).down(listen)
    if as_json:
        _print_json({"instance": instance, "stopped": [part.value for part in ended]})
    elif ended:
        typer.echo(f"stopped {', '.join(part.value for part in ended)}")
    else:
        typer.echo("nothing was running")


@app.command()
def status(*, home: _Home = None, instance: _Instance = "default", as_json: _Json = False) -> None:
    """Show what runs; the exit code is 0 only if everything answers."""
    with _outcome(as_json=as_json):
        now = LocalStack(home, instance).status()
    if as_json:
        _print_json(_status_json(now))
    else:
        _print_status(now)
    if not now.ready:
        raise typer.Exit(1)


@app.command()
def logs(
    part: Annotated[
        Part | None, typer.Argument(help="Which part; all of them if left out.", show_default=False)
    ] = None,
    home: _Home = None,
    instance: _Instance = "default",
    *,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="How many lines of each log's end.")
    ] = 50,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on printing what is added, until Ctrl-C.")
    ] = False,
    as_json: _Json = False,
) -> None:
    """Print the end of the logs, or where they are with --json."""
    with _outcome(as_json=as_json):
        stack = LocalStack(home, instance)
        files = {each: stack.log(each) for each in ([part] if part else list(Part))}
        present = {each: file for each, file in files.items() if file.exists()}
        if not present:
            raise LocalStackError(
                f"there is no log in {stack.folder / 'logs'}; start the stack: headgate local up"
            )
    if as_json:
        _print_json(
            {
                each.value: {"file": str(file), "lines": _tail(file, lines)}
                for each, file in present.items()
            }
        )
        return
    ends = {each: file.stat().st_size for each, file in present.items()}
    for each, file in present.items():
        for line in _tail(file, lines):
            typer.echo(f"{each.value:<8} {line}")
    if follow:
        _follow(present, ends)


@app.command()
def reset(
    *,
    home: _Home = None,
    instance: _Instance = "default",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: _Json = False,
) -> None:
    """Stop everything and delete the instance's data and logs."""
    with _outcome(as_json=as_json):
        stack = LocalStack(home, instance)
    if not yes:
        if not sys.stdin.isatty():
            _fail(
                "reset deletes all tables and topics of the instance; confirm with --yes",
                as_json=as_json,
            )
        typer.confirm(f"Delete all data in {stack.folder}?", abort=True)
    with _outcome(as_json=as_json), _progress() as listen:
        stack.reset(listen)
    if as_json:
        _print_json({"instance": instance, "reset": True})
    else:
        typer.echo(f"{stack.folder} is empty")


@contextmanager
def _outcome(*, as_json: bool) -> Iterator[None]:
    """Turn the stack's errors and interruptions into messages and exit codes."""
    before = {
        number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    except LocalStackError as error:
        _fail(str(error), as_json=as_json)
    except KeyboardInterrupt:
        typer.echo("interrupted; whatever this command had started is stopped", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_: int, __: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _fail(text: str, *, as_json: bool) -> NoReturn:
    if as_json:
        _print_json({"error": text})
    else:
        typer.echo(f"headgate local: {text}", err=True)
    raise typer.Exit(1)


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """Show progress on standard error: a live line on a terminal, plain lines elsewhere."""
    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        with console.status("looking at what runs") as live:

            def show(progress: Progress) -> None:
                live.update(Text(_sentence(progress)))
                if not progress.total:
                    console.print(_sentence(progress), markup=False)

            yield show
    else:

        def log(progress: Progress) -> None:
            # Each jar is worth a live line, but not a line of its own in a log.
            if progress.done in (0, progress.total) or progress.done % 50 == 0:
                console.print(_sentence(progress), soft_wrap=True, markup=False)

        yield log


def _sentence(progress: Progress) -> str:
    counted = f" {progress.done}/{progress.total}" if progress.total else ""
    return f"{progress.subject}: {progress.text}{counted}"


def _print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, indent=2))


def _status_json(now: StackStatus) -> dict[str, Any]:
    return {
        "instance": now.instance,
        "folder": str(now.folder),
        "ready": now.ready,
        "addresses": now.addresses.as_text() if now.addresses else None,
        "parts": {
            each.part.value: {
                "state": each.state.value,
                "pid": each.process.pid if each.process else None,
                "started": each.process.started if each.process else None,
                "ports": each.ports,
                "memory_bytes": each.memory,
                "log": str(each.log),
            }
            for each in now.parts
        },
    }


def _print_status(now: StackStatus) -> None:
    table = Table(title=f"instance {now.instance} in {now.folder}", title_justify="left")
    for heading in ("part", "state", "pid", "ports", "memory"):
        table.add_column(heading)
    for each in now.parts:
        table.add_row(*_status_row(each))
    Console(highlight=False).print(table)


def _status_row(each: PartStatus) -> tuple[str, str, str, str, str]:
    running = each.state is not PartState.STOPPED
    return (
        each.part.value,
        each.state.value,
        str(each.process.pid) if running and each.process else "",
        ", ".join(f"{name} {number}" for name, number in each.ports.items()),
        f"{each.memory / 2**20:.0f} MiB" if running else "",
    )


def _tail(file: Path, lines: int) -> list[str]:
    if lines == 0:
        return []
    with file.open(errors="backslashreplace") as text:
        return [line.rstrip("\n") for line in text.readlines()[-lines:]]


def _follow(files: dict[Part, Path], ends: dict[Part, int]) -> None:
    try:
        while True:
            time.sleep(_FOLLOW_SECONDS)
            for part, file in files.items():
                size = file.stat().st_size
                if size < ends[part]:
                    ends[part] = 0  # the part was started again, with a new log
                if size > ends[part]:
                    with file.open("rb") as added:
                        added.seek(ends[part])
                        text = added.read()
                    whole = text[: text.rfind(b"\n") + 1]
                    ends[part] += len(whole)
                    for line in whole.decode(errors="backslashreplace").splitlines():
                        typer.echo(f"{part.value:<8} {line}")
    except KeyboardInterrupt:
        return
