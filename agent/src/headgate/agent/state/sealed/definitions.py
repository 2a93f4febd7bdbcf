"""Definitions of dataflows: which of them agents believe, and what is wrong with the others."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from headgate.agent.errors import AgentError, Refused, UnknownDataflow
from headgate.agent.state.cell_values import UnreadableCell, read_cell
from headgate.agent.state.sealed.leases import CREDIBLE, Lease
from headgate.agent.state.sealed.revisions import Revisions
from headgate.agent.state.sealed.seals import Seals
from headgate.settings import shell_argument

PREFIX = b"flow/"
PREFIX_END = b"flow0"  # "0" follows "/"

DEFINITION = b"spec:definition"
SEAL = b"spec:seal"
_LONGEST_NAME: Final = 1000
"""Bytes. Files take 100 characters; rows of strangers, which agents list, may be longer, up to what
HBase takes as a row beside the prefixes of the state table."""
_SHOWN: Final = 60  # characters of a name that is none, in messages

_encode = msgspec.msgpack.Encoder().encode


class Definition(Struct, frozen=True):
    """What was submitted. ``revision`` counts submits of the name from 1."""

    name: str
    source: str
    directory: str
    revision: int
    submitted: float
    """Unix time in seconds."""
    profile: str | None = None
    """Which of the file's bound profiles applies."""
    shadow: bool = False
    """Whether it decides and launches nothing."""


class RowState(StrEnum):
    """Why a row is listed and not run."""

    DAMAGED = "damaged"
    """It cannot be read."""
    UNSIGNED = "unsigned"
    """No agent has signed it: it is of an earlier version, or of somebody else."""
    OUTDATED = "outdated"
    """An agent has signed it, and later another one, or its removal."""


class SetAside(Struct, frozen=True):
    """A row that is not run, and in words why, and what helps."""

    name: str
    state: RowState
    words: str
    revision: int = 0
    submitted: float = 0.0


class RowSetAside(AgentError):
    """A dataflow is not run as it stands in the state table."""

    def __init__(self, row: SetAside) -> None:
        super().__init__(f"dataflow {row.name} is not run: {row.words}")
        self.row = row


def unsigned(name: str, value: bytes) -> Definition:
    """Return what the bytes of a definition say that nobody has signed yet.

    Raises:
        Refused: they say nothing that could be signed.
    """
    try:
        return read_cell(value, Definition)
    except UnreadableCell as error:
        raise Refused(
            f"dataflow {name} has no definition that can be read ({error}); submit it again"
        ) from error


class DefinitionCells:
    """Definitions as they stand in rows of the state table."""

    def __init__(self, seals: Seals, revisions: Revisions) -> None:
        self._seals = seals
        self._revisions = revisions

    def read(self, row: bytes, columns: dict[bytes, bytes], lease: Lease) -> Definition:
        """Return the definition in a row, which an agent has signed and none has replaced.

        Raises:
            UnknownDataflow: there is none.
            RowSetAside: it is not to be run.
        """
        name = shown_name(row)
        if DEFINITION not in columns:
            raise UnknownDataflow(
                f"no dataflow is called {name!r}; see them with `headgate flow list`, or submit it"
            )
        value = columns[DEFINITION]
        again = f"submit it again, or forget it with `headgate flow remove {shell_argument(name)}`"
        try:
            check_name(row.removeprefix(PREFIX).decode())
            definition = read_cell(value, Definition)
        except (Refused, UnicodeDecodeError) as error:
            cure = f"in the HBase shell: deleteall '{self._seals.table}', \"{_quoted(row)}\""
            raise _set_aside(name, RowState.DAMAGED, f"{error}; delete the row {cure}") from error
        except UnreadableCell as error:
            raise _set_aside(
                name, RowState.DAMAGED, f"its definition cannot be read ({error}); {again}"
            ) from error
        if definition.name != name:
            other = f"its row holds the definition of {definition.name!r}; {again}"
            raise _set_aside(name, RowState.DAMAGED, other)
        if not self._seals.holds(row, DEFINITION, value, columns.get(SEAL, b"")):
            raise _set_aside(
                name,
                RowState.UNSIGNED,
                "no agent with this agent's key has signed it; look at what it would run and "
                f"sign it with `headgate flow sign {shell_argument(name)}`, or {again}",
                definition,
            )
        newest = max(self._revisions.highest(name), lease.revision)
        if definition.revision < newest:
            removed = lease.owner is None and lease.revision == newest
            cause = (
                "its removal was cut short, or an older row was put back after it"
                if removed
                else "an older row was put back"
            )
            raise _set_aside(
                name,
                RowState.OUTDATED,
                f"it is revision {definition.revision}, and {newest} was seen: {cause}; {again}",
                definition,
            )
        self._revisions.note(name, definition.revision)
        return definition

    def cells(self, row: bytes, definition: Definition) -> dict[bytes, bytes]:
        """Return what to put for a definition."""
        value = _encode(definition)
        return {DEFINITION: value, SEAL: self._seals.seal(row, DEFINITION, value)}

    def next_revision(self, name: str, columns: dict[bytes, bytes], lease: Lease) -> int:
        """Return a revision above all that were seen, and above what stands in the row."""
        standing = 0
        if DEFINITION in columns:
            try:
                found = read_cell(columns[DEFINITION], Definition).revision
                standing = found if found in range(CREDIBLE) else 0
            except UnreadableCell:
                standing = 0  # it is about to be replaced
        return max(self._revisions.highest(name), lease.revision, standing) + 1

    def renewed_seal(self, row: bytes, columns: dict[bytes, bytes]) -> dict[bytes, bytes]:
        """Return what to put where a definition is signed with a key that another has replaced."""
        if self._seals.is_current(columns[SEAL]):
            return {}
        return {SEAL: self._seals.seal(row, DEFINITION, columns[DEFINITION])}


def check_name(name: str) -> None:
    """Refuse a name that could not be a row.

    Raises:
        Refused: it is empty, has a slash, or is longer than HBase takes a row.
    """
    if not _is_possible(name):
        raise Refused(
            f"{name[:_SHOWN]!r} cannot name a dataflow; use letters, digits, '-', '_' and '.'"
        )


def row_of(name: str) -> bytes:
    """Return the row of a dataflow.

    Raises:
        UnknownDataflow: no dataflow can have this name.
    """
    if not _is_possible(name):
        raise UnknownDataflow(f"no dataflow is called {name[:_SHOWN]!r}, and none could be")
    return PREFIX + name.encode()


def _is_possible(name: str) -> bool:
    return bool(name) and "/" not in name and len(name.encode()) <= _LONGEST_NAME


def sign(seals: Seals, name: str, value: bytes) -> bytes:
    """Return the signature of the bytes of a dataflow's definition."""
    return seals.seal(row_of(name), DEFINITION, value)


def shown_name(row: bytes) -> str:
    """Return the name in a row in printable letters, whatever bytes it has."""
    text = row.removeprefix(PREFIX).decode(errors="backslashreplace")
    return text if text.isprintable() else ascii(text)[1:-1]


def _quoted(row: bytes) -> str:
    return "".join(
        chr(byte) if (chr(byte).isalnum() and byte < 128) or byte in b"/-_." else f"\\x{byte:02X}"
        for byte in row
    )


def _set_aside(
    name: str, state: RowState, words: str, definition: Definition | None = None
) -> RowSetAside:
    if definition is None:
        return RowSetAside(SetAside(name, state, words))
    return RowSetAside(SetAside(name, state, words, definition.revision, definition.submitted))
