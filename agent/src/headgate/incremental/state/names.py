"""Names of files: unique, and saying whose they are, so that nothing is ever overwritten."""

from __future__ import annotations

from urllib.parse import quote
from uuid import uuid4

from msgspec import Struct

from headgate.incremental.state.errors import UnusableName

_LONGEST = 200
"""Bytes of a name's part: file systems take 255, and a task's number and the kind come after it."""


class Writer(Struct, frozen=True):
    """One attempt of one run of a stage, as one holder makes it.

    Raises:
        UnusableName: a part is empty, or they are too long for a file's name.
    """

    stage: str
    run: str
    attempt: int
    holder: str

    def __post_init__(self) -> None:
        if not (self.stage and self.run and self.holder):
            message = f"a stage, a run and a holder have names, unlike those of {self}"
            raise UnusableName(message)
        for part in self.prefix.split("/"):
            if len(part) > _LONGEST:
                message = (
                    f"{part} would be more than {_LONGEST} bytes of a file's name: give the stage, "
                    "the run or the holder a shorter one"
                )
                raise UnusableName(message)

    @property
    def prefix(self) -> str:
        """What the names of all its files begin with, and those of no other attempt."""
        return f"{folder(self.stage)}{_part(self.run)}.{self.attempt}.{_part(self.holder)}."

    def rows_name(self) -> str:
        """Return a new name for a file of rows."""
        return f"{self.prefix}{uuid4().hex}.arrow"

    def manifest_name(self) -> str:
        """Return a new name for a manifest."""
        return f"{self.prefix}{uuid4().hex}.manifest"


def folder(stage: str) -> str:
    """Return what the names of all files of a stage begin with, and those of no other stage."""
    return f"{_part(stage)}/"


def _part(text: str) -> str:
    """Return text without what separates parts of names, or folders."""
    return quote(text, safe="").replace(".", "%2E")
