"""``headgate exec``: an untouched program, with writes to HBase that become events."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from headgate.client import ConfigurationError, load_client_config, swapped_environment

app = typer.Typer(add_completion=False)


@app.command(
    "exec",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def run_program(
    program: Annotated[
        list[str],
        typer.Argument(
            metavar="SCRIPT.py|-m MODULE [ARGUMENTS]...", help="As after the command python."
        ),
    ],
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="TOML file of the drop-in client; HEADGATE_CLIENT_CONFIG otherwise.",
        ),
    ] = None,
) -> None:
    """Run a Python program with headgate's drop-in in the place of happybase.

    The program becomes this process: its arguments, output, tracebacks and exit code are its own.
    Python programs that it starts get the drop-in too.
    """
    ignoring = _ignores_environment(program)
    if ignoring:
        typer.echo(
            f"headgate exec: Python's option {ignoring} ignores the environment, through which the "
            "drop-in comes; leave it out",
            err=True,
        )
        raise typer.Exit(1)
    environment = swapped_environment(os.environ, config)
    try:
        load_client_config(environment)
    except ConfigurationError as error:
        typer.echo(f"headgate exec: {error}", err=True)
        raise typer.Exit(1) from error
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *program], environment)  # noqa: S606 - as asked


def _ignores_environment(words: list[str]) -> str:
    """Return Python's option that makes it ignore its environment, if it is there."""
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word[:2] in ("-m", "-c"):
            break
        if word in ("-W", "-X"):
            next(rest, None)
        elif word[:2] not in ("-W", "-X", "--") and set("IE") & set(word):
            return word
    return ""
