"""The launcher ``command``: a program, which no launcher has to be named for."""

from __future__ import annotations

import shlex
from typing import Any

from msgspec import field

from headgate.flows.grammar.kinds import ANY_TEXT, Either, Key, ListOf, Single
from headgate.flows.grammar.tree import Scalar, texts_of
from headgate.flows.launchers.kind import LauncherKind, LauncherSettings, LaunchSection, Target


class CommandLauncher(LauncherSettings, frozen=True, tag="command"):
    """Runs a program in the directory of the dataflow file; exit status 0 commits the run."""

    command: tuple[str, ...]
    parameters: dict[str, Any] = field(default_factory=dict)


def _read(section: LaunchSection) -> CommandLauncher:
    return CommandLauncher(_words(section), section.parameters)


def _words(section: LaunchSection) -> tuple[str, ...]:
    target = section.target
    if not isinstance(target, Scalar):
        return texts_of(target)
    try:
        words = tuple(shlex.split(target.text))
    except ValueError as error:
        section.findings.error(target.at, f"the command can't be read: {error}", "quote it")
        return ()
    if not words:
        section.findings.error(target.at, "the command is empty", "write a program's name")
    return words


_TEXT = Single("a text", pattern=ANY_TEXT)
COMMAND = LauncherKind(
    "command",
    (
        Target(
            "command",
            Key(
                Either(
                    "a command or a list of its words",
                    (_TEXT, ListOf(_TEXT, "a list of the command's words")),
                ),
                "a program, run without a shell in this file's directory; status 0 commits the run",
            ),
        ),
    ),
    _read,
)
