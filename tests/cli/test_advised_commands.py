"""Every command that a message advises is there, with the options and arguments that it names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from headgate.cli.app import app

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path for root in ("agent", "observer") for path in (ROOT / root / "src").rglob("*.py")
)
VALUE = "VALUE"
CONTEXT: Any = typer.main.get_command(app).make_context("headgate", ["flow"])


def texts(tree: ast.Module) -> Iterator[str]:
    """The texts of a module that are no docstrings, values in them as ``VALUE``."""
    documented = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    inside = {
        part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values
    }
    elsewhere = documented | inside
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else VALUE for part in node.values
            )
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in elsewhere
        ):
            yield node.value


def advised() -> dict[str, set[str]]:
    """Commands, by what is advised, with the files that advise them."""
    found: dict[str, set[str]] = {}
    for path in SOURCES:
        source = path.read_text()
        for text in (
            texts(ast.parse(source)) if "`headgate " in source or "headgate s" in source else ()
        ):
            for command in re.findall(r"`(headgate [a-z][^`]*)`", text):
                found.setdefault(command, set()).add(path.name)
            for command in re.findall(r"(?:: |^)(headgate (?:flow|stage) [^`;,.]*)$", text):
                found.setdefault(command, set()).add(path.name)
    return found


ADVISED = advised()


def test_messages_advise_commands() -> None:
    assert len(ADVISED) > 25, "they are found at all"


@pytest.mark.parametrize("line", sorted(ADVISED))
def test_the_command_is_there(line: str) -> None:
    words = line.split()[1:]
    command, context = CONTEXT.command, CONTEXT
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"{line}: no `{words[0]}` ({ADVISED[line]})"
        # Some are imported when they are called, as here.
        _, command, _ = command.resolve_command(context, [words.pop(0)])
        if line.startswith("headgate exec "):
            return  # what comes after it is a program of the user's
        context = command.make_context(command.name, [], parent=context, resilient_parsing=True)
    options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    given = 0
    takes_value = False
    for word in words:
        if word.startswith("-"):
            name = word.partition("=")[0]
            assert name in options, f"{line}: there is no option {name} ({ADVISED[line]})"
            option = next(one for one in command.params if name in (*one.opts, *one.secondary_opts))
            takes_value = not option.is_flag
        elif takes_value:
            takes_value = False
        else:
            given += 1
    at_most = sum(one.nargs if one.nargs > 0 else 99 for one in arguments)
    assert given <= at_most, f"{line}: it takes {at_most} arguments ({ADVISED[line]})"
