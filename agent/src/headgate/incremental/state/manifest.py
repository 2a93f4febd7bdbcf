"""Manifests: all that a stage's state is after an epoch, under the one name that is committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct
from xxhash import xxh3_128_digest

from headgate.incremental.state.buckets import Bucket, check_partition
from headgate.incremental.state.errors import DamagedState, NewerState
from headgate.incremental.state.files import FileRef, FileStore
from headgate.incremental.state.rows import Match

_MAGIC = b"HGMANIF"
_VERSION = 1
_CHECKSUM_SIZE = 16
_HEADER = len(_MAGIC) + 1 + _CHECKSUM_SIZE


class BucketState(Struct, frozen=True):
    """The files of a bucket."""

    bucket: Bucket
    base: FileRef | None = None
    runs: tuple[FileRef, ...] = ()
    """Newer than the base, the newest last."""

    @property
    def files(self) -> tuple[FileRef, ...]:
        """All of them, the newest last."""
        return self.runs if self.base is None else (self.base, *self.runs)


class PublishedFile(Struct, frozen=True):
    """A file of rows for everybody."""

    path: str
    """From the location on."""
    rows: int
    bytes: int


class Publication(Struct, frozen=True):
    """An increment of a flow that is in files for everybody, as the entry says that names them."""

    name: str
    """Of the entry, and of the folder that has the files: sorted, later increments come later."""
    increment: int
    """Its number: larger than that of any before it; numbers are left out."""
    stage: str
    flow: str
    run: str
    whole: bool
    """Whether it is all that there is: what was published before it does not count any more."""
    columns: dict[str, str]
    """By name, Arrow's types of the flow's own."""
    files: tuple[PublishedFile, ...] = ()
    version: int = 1


class Sending(Struct, frozen=True):
    """An increment of a flow that is sent to a topic."""

    topic: str
    identity: str
    """Of the transactions that send it, and of the group that has account of what was sent."""
    increment: int
    """Its number: larger than that of any before it; numbers are left out."""
    stage: str
    flow: str
    key: str
    """The column that is the messages' key; none where empty."""
    whole: bool
    """Whether it is all that there is: what was sent before it does not count any more."""
    files: tuple[FileRef, ...]
    """Of the stage, with the rows in their order."""

    @property
    def rows(self) -> int:
        """How many they are."""
        return sum(ref.rows for ref in self.files)


class WaitingUnits(Struct, frozen=True):
    """Units of all groups that came when no group was there; the next run with groups has them."""

    files: tuple[FileRef, ...]
    """Files of the stage, with the units in their order."""
    increments: tuple[str, ...] = ()
    """Names of the increments that they came in, where another stage makes the flow."""

    @property
    def rows(self) -> int:
        """How many they are."""
        return sum(ref.rows for ref in self.files)


class WrittenCells(Struct, frozen=True):
    """Cells that a stage has written to a container and not deleted since, by row and column."""

    table: str
    """The table of the container."""
    cells: BucketState
    """Files with the cells, as those of a state have its rows."""
    since: float = 0.0
    """Moment from which on all cells are known, in Unix seconds; 0 if they always were."""


class WrittenBy(Struct, frozen=True):
    """Properties of the stage that wrote a state, besides its version; empty in older states."""

    keys: dict[str, str] = {}
    """Declarations that decide on groups and their order, in words; see ``StageShape``."""
    settings: dict[str, str] = {}
    """Other declarations of the stage, in words; see ``StageShape``."""
    modules: dict[str, str] = {}
    """Hash of the syntax tree of each module of the stage's code, by module."""
    containers: dict[str, str] = {}
    """Hash of the cells, codec and keys of each input flow that is a container, by flow."""
    files: dict[str, str] = {}
    """SHA-256 of each file under ``depends``, by path as written."""


class Manifest(Struct, frozen=True):
    """The state of a stage after an epoch, what the epoch put out, and what it has read."""

    stage: str
    code: str
    """The version of the stage's code that wrote it."""
    epoch: int
    match: Match
    buckets: tuple[BucketState, ...]
    """A partition of the hash space."""
    previous: str = ""
    """The name of the manifest that the epoch began with; none at the first."""
    schemas: dict[str, bytes] = {}
    """Arrow schemas, serialised, of flows by their names."""
    outputs: dict[str, tuple[FileRef, ...]] = {}
    """What the epoch put out, by flow."""
    cursors: dict[str, bytes] = {}
    """How far each source was read, in the source's own words."""
    publications: dict[str, Publication] = {}
    """By location, what becomes visible there once the manifest is committed."""
    sendings: tuple[Sending, ...] = ()
    """What is sent to topics once the manifest is committed, if it was not by then."""
    written_by: WrittenBy = WrittenBy()
    waiting: dict[str, tuple[WaitingUnits, ...]] = {}
    """Units of all groups that no group has been given yet, by input flow, the oldest first."""
    written: dict[str, WrittenCells] = {}
    """Cells written to the container of a flow's name, by output flow."""

    @property
    def names(self) -> frozenset[str]:
        """The names of all files that it needs, without its own."""
        waiting = [units.files for flow in self.waiting.values() for units in flow]
        written = [each.cells.files for each in self.written.values()]
        sent = [each.files for each in self.sendings]
        put_out = (*self.outputs.values(), *sent, *waiting, *written)
        outputs = [ref.name for refs in put_out for ref in refs]
        return frozenset(outputs).union(ref.name for bucket in self.buckets for ref in bucket.files)


class _Named(Struct, frozen=True):
    """A manifest with the name of its file, so that no other file passes for it."""

    name: str
    manifest: Manifest


def write_manifest(store: FileStore, name: str, manifest: Manifest) -> None:
    """Write a manifest to a new file.

    Raises:
        ValueError: its buckets are no partition of the hash space.
        UnwrittenFile: it could not be written, or there is a file of that name.
    """
    check_partition([state.bucket for state in manifest.buckets])
    body = msgspec.msgpack.encode(_Named(name, manifest))
    store.write_bytes(name, _MAGIC + bytes([_VERSION]) + _checksum(_VERSION, body) + body)


def _checksum(version: int, body: bytes) -> bytes:
    return xxh3_128_digest(bytes([version]) + body)


def read_manifest(store: FileStore, name: str) -> Manifest:
    """Return the manifest that a file holds.

    Raises:
        DamagedState: the file is missing, cut short, altered, or holds something else.
        NewerState: a newer program wrote it.
    """
    data = store.read_bytes(name)
    path = store.path(name)
    if data[: len(_MAGIC)] != _MAGIC:
        raise DamagedState(path, "is no manifest" if data else "is empty")
    if len(data) < _HEADER:
        raise DamagedState(path, f"was cut short after {len(data)} bytes")
    version = data[len(_MAGIC)]
    if version > _VERSION:
        message = (
            f"{path} is a manifest of version {version} and this program reads {_VERSION} at most; "
            "upgrade it, or rebuild the stage"
        )
        raise NewerState(message)
    body = data[_HEADER:]
    if _checksum(version, body) != data[_HEADER - _CHECKSUM_SIZE : _HEADER]:
        raise DamagedState(path, "was altered or cut short: its checksum differs")
    try:
        named = msgspec.msgpack.decode(body, type=_Named)
        check_partition([state.bucket for state in named.manifest.buckets])
    except ValueError as error:
        raise DamagedState(path, f"is no manifest ({error})") from error
    if named.name != name:
        raise DamagedState(path, f"is the manifest {named.name!r}")
    return named.manifest


def unneeded(
    listing: Iterable[str],
    kept_manifests: Mapping[str, Manifest],
    living_prefixes: Iterable[str],
) -> list[str]:
    """Return the names of files that can be removed, in the order of the listing.

    The listing has to be the oldest of the three: taken first, then the attempts that live, then
    the manifests. Otherwise an attempt may begin and commit in between, and what it wrote would be
    taken for garbage.

    Args:
        listing: names of files, of one stage or of several.
        kept_manifests: by name, those that a cursor, a commit or a person may still ask for.
        living_prefixes: of the names that attempts may still be writing (``Writer.prefix``).
    """
    needed = set(kept_manifests).union(*(one.names for one in kept_manifests.values()))
    living = tuple(living_prefixes)
    return [name for name in listing if name not in needed and not name.startswith(living)]
