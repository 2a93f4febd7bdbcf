"""What can be wrong with the state of a stage, in words for the people who run it."""

from __future__ import annotations

from shlex import quote
from typing import ClassVar
from urllib.parse import unquote


class StateError(Exception):
    """State that cannot be used as it is."""


class DamagedState(StateError):
    """A file of the state that is missing, cut short, altered, or of something else."""

    def __init__(self, file: str, wrong: str) -> None:
        super().__init__(f"{file} {wrong}; have the stage rebuilt: {_rebuild(file)}")
        self.file = file
        self.wrong = wrong

    def __reduce__(self) -> tuple[type[DamagedState], tuple[str, str]]:
        return DamagedState, (self.file, self.wrong)


def _rebuild(file: str) -> str:
    """Return the command by which the stage is rebuilt whose file has this path.

    Nobody knows here whether the stage reads flows: with its sources it is rebuilt in either case.
    """
    named = unquote(file.rpartition("/")[0].rpartition("/")[2]).rpartition("/")
    dataflow, action = (named[0], named[2]) if named[0] else ("DATAFLOW", "ACTION")
    return f"headgate stage rebuild {quote(dataflow)} {quote(action)} --with-sources"


class NewerState(StateError):
    """A file of the state that a newer program wrote."""


class DifferentColumns(StateError):
    """Runs of one bucket whose columns differ."""


class ChangedStage(StateError):
    """State of a stage that is another one now."""

    repeatable: ClassVar[bool] = False
    """Another attempt would fail likewise, until somebody says what becomes of the state."""


class UnwrittenFile(OSError):
    """A file of the state that could not be written; nothing is left of it."""


class UnusableKey(ValueError):
    """A value that can be no key."""


class UnusableName(ValueError):
    """A stage, a run or a holder that no file can be named for."""


class UnsortedRows(ValueError):
    """Rows or keys that are not in the order that the state is kept in, or come twice."""
