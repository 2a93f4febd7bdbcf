"""Names of files: unique, and saying whose they are, so that nothing is ever overwritten."""

from __future__ import annotations

from urllib.parse import quote
from uuid import uuid4

from msgspec import Struct
from xxhash import xxh3_64_hexdigest

from headgate.incremental.state.errors import UnusableName

_LONGEST = 200
"""Bytes of a name's part: file systems take 255, and a task's number and the kind come after it."""

_MANIFEST = ".manifest"


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
        return f"{self.run_prefix}{self.attempt}.{_part(self.holder)}."

    @property
    def run_prefix(self) -> str:
        """What the names of all files of all attempts of its run begin with."""
        return f"{folder(self.stage)}{_part(self.run)}."

    @classmethod
    def of_upkeep(cls, stage: str, run: str, attempt: int, holder: str, manifest: str) -> Writer:
        """Return an attempt that changes the files of a state and not the state.

        Its names say with which state it begins: as long as that is the one that is committed it
        may still be committed itself, beside an epoch.
        """
        return cls(stage, f"{_upkeep_of(manifest)}{run}", attempt, holder)

    def rows_name(self) -> str:
        """Return a new name for a file of rows."""
        return f"{self.prefix}{uuid4().hex}.arrow"

    def manifest_name(self) -> str:
        """Return a new name for a manifest."""
        return f"{self.prefix}{uuid4().hex}{_MANIFEST}"


def is_manifest(name: str) -> bool:
    """Return whether a file is called as manifests are."""
    return name.endswith(_MANIFEST)


def upkeep_prefix(stage: str, manifest: str) -> str:
    """Return what the names of all files begin with that upkeep of a state writes."""
    return f"{folder(stage)}{_upkeep_of(manifest)}"


def _upkeep_of(manifest: str) -> str:
    return f"upkeep-{xxh3_64_hexdigest(manifest.encode())}-"


def folder(stage: str) -> str:
    """Return what the names of all files of a stage begin with, and those of no other stage."""
    return f"{_part(stage)}/"


def _part(text: str) -> str:
    """Return text without what separates parts of names, or folders."""
    return quote(text, safe="").replace(".", "%2E")
