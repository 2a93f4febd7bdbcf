"""``headgate exec``: an untouched program, with writes to HBase that become events."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from shlex import quote
from typing import Annotated, Final

import typer

from headgate.client import ConfigurationError, load_client_config, swapped_environment

app = typer.Typer(add_completion=False)

_PYTHON: Final = re.compile(r"python[0-9.]*(?:\.exe)?")
_MACHINE_CODE: Final = (
    b"\x7fELF",
    b"MZ",
    *(bytes.fromhex(magic) for magic in ("cffaedfe", "cefaedfe", "feedfacf", "cafebabe")),
)
"""How programs of Linux, Windows and macOS begin."""


class _NotPython(Exception):
    """A program that this Python cannot run; the message names the cure."""


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
    try:
        program = _without_interpreter(program)
    except _NotPython as error:
        typer.echo(f"headgate exec: {error}", err=True)
        raise typer.Exit(1) from error
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


def _without_interpreter(words: list[str]) -> list[str]:
    """Return the words without a leading ``python``, where it is the one that runs headgate.

    Raises:
        _NotPython: the first word is another interpreter, or no Python program.
    """
    first, rest = words[0], words[1:]
    if first.startswith("-") or (Path(first).exists() and not _is_machine_code(Path(first))):
        return words
    found = shutil.which(first)
    if found is None and not _is_machine_code(Path(first)):
        return words  # Python itself says that there is no such file.
    found = found or first
    if not _PYTHON.fullmatch(Path(found).name):
        message = (
            f"{found} is not a Python program; only Python programs get the drop-in"
            if _is_machine_code(Path(found))
            else f"there is no file {first!r} here; if {found} is a Python program, name it by "
            f"its path: `headgate exec {' '.join(map(quote, [found, *rest]))}`"
        )
        raise _NotPython(message)
    if not rest:
        message = "name the program to run: `headgate exec app.py`, or `headgate exec -m module`"
        raise _NotPython(message)
    own = Path(sys.executable)
    other = Path(found)
    if (other.parent.resolve(), other.resolve()) != (own.parent.resolve(), own.resolve()):
        message = (
            f"{found} is another Python than headgate's, {own}, which runs the program: install "
            f"headgate there, or leave the word out: `headgate exec {' '.join(map(quote, rest))}`"
        )
        raise _NotPython(message)
    return rest


def _is_machine_code(program: Path) -> bool:
    if not program.is_file():
        return False
    with program.open("rb") as file:
        return file.read(4).startswith(_MACHINE_CODE)


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
