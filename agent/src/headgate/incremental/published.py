"""Increments in files for everybody: what is visible, and how it becomes so once it is committed.

Files of rows are written before the commit, in a folder for each attempt. They count once an entry
in ``_increments`` names them, which is put there after the commit: at once by whoever commits, or
else by the stage's next run before it does anything. So entries are those of committed runs, in
their order and without a gap but for the newest, which may come late.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from headgate.incremental.state.errors import DamagedState, NewerState, StateError
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.manifest import Manifest, Publication, read_manifest
from headgate.incremental.topics.kafka import KafkaTopics
from headgate.incremental.topics.sending import TopicSinks, send
from headgate.spark import KafkaAddress, StageRequest, decode_result

if TYPE_CHECKING:
    import pandas as pd

INCREMENT: Final = "_increment"
"""The column of rows in files that says which increment they came with: its number."""
ENTRIES: Final = "_increments"
"""The folder of entries; readers of whole directories pass over what begins so."""
_VERSION: Final = 1
_ENTRY: Final = re.compile(rf"{ENTRIES}/(\d{{20}}-[0-9a-f]+)\.json")
_FOLDER: Final = re.compile(r"(\d{20}-[0-9a-f]+)/.+")


class DamagedIncrement(StateError):
    """An entry, or a file that an entry names, that is not what was published."""


def increment_name(number: int, holder: str) -> str:
    """Return the name of an increment: of its entry, and of the folder with its files.

    Args:
        number: the fencing token of the attempt.
        holder: of the attempt, in hexadecimal digits.
    """
    return f"{number:020d}-{holder}"


def publish(
    manifest: Manifest,
    store: FileStore,
    sinks: TopicSinks,
    stores: Callable[[str], FileStore] = FileStore.at,
) -> None:
    """Make increments visible whose run is committed; those that are stay as they are.

    Args:
        manifest: that was committed.
        store: where the stage's files are.
        sinks: where topics are written.
        stores: returns what opens files at another location.

    Raises:
        OSError: an entry could not be written.
        UnsentIncrement: Kafka does not take what goes to a topic.
        DamagedState: a file with what goes to a topic is not what it was.
    """
    for location, publication in manifest.publications.items():
        entry = f"{ENTRIES}/{publication.name}.json"
        stores(location).place_bytes(entry, msgspec.json.encode(publication))
    for sending in manifest.sendings:
        send(sending, store, sinks)


def publish_committed(request: StageRequest, result: str, kafka: KafkaAddress) -> None:
    """Make visible what a committed run of a stage has written to files, or has for topics.

    Args:
        request: of the attempt that was committed.
        result: what the commit names.
        kafka: where topics are.

    Raises:
        StateError: the manifest, or a file with what goes to a topic, cannot be read.
        OSError: an entry could not be written.
        UnsentIncrement: Kafka does not take what goes to a topic.
    """
    named = decode_result(result)
    if request.sinks and named is not None:
        store = FileStore.at(request.location)
        publish(read_manifest(store, named.manifest), store, KafkaTopics(kafka))


def entry_names(store: FileStore) -> list[str]:
    """Return the names of the increments that are visible at a location, in their order."""
    found = map(_ENTRY.fullmatch, store.names(f"{ENTRIES}/"))
    return sorted(match[1] for match in found if match is not None)


def unnamed_folders(store: FileStore, before: int) -> list[str]:
    """Return the folders of attempts that no entry names and that cannot be committed any more.

    Args:
        store: of the location.
        before: the number of an attempt that has claimed its run after all of them ended.
    """
    found = {match[1] for match in map(_FOLDER.fullmatch, store.names()) if match is not None}
    named = set(entry_names(store))
    return sorted(name for name in found - named if int(name.partition("-")[0]) < before)


def read_entry(store: FileStore, name: str) -> Publication:
    """Return what an entry says.

    Raises:
        DamagedIncrement: it is missing, or no entry.
        NewerState: a newer program wrote it.
    """
    path = f"{ENTRIES}/{name}.json"
    try:
        data = store.read_bytes(path)
        version = msgspec.json.decode(data, type=dict[str, object]).get("version")
        if isinstance(version, int) and version > _VERSION:
            message = (
                f"{store.path(path)} is of version {version} and this program reads {_VERSION} at "
                "most; upgrade it"
            )
            raise NewerState(message)
        publication = msgspec.json.decode(data, type=Publication)
    except DamagedState as error:
        raise DamagedIncrement(f"{error.file} {error.wrong}; it was there a moment ago") from error
    except msgspec.MsgspecError as error:
        message = (
            f"{store.path(path)} is no entry of an increment ({error}): put back what it was; "
            "the stage that publishes here does so anew after `headgate stage rebuild DATAFLOW "
            "ACTION --with-sources`"
        )
        raise DamagedIncrement(message) from error
    return publication


class PublishedIncrements:
    """What a stage has published in files at a location: whole increments of committed runs.

    It is looked up once: what is published later is not seen, and files that are named do not
    change. Nobody has to be asked, and no headgate need run.

    Args:
        location: as ``uri`` in the dataflow file has it, from the root: a path, or a URI.
        until: the number of the last increment to see; all that there are, if None.

    Raises:
        DamagedIncrement: an entry is no entry.
        NewerState: a newer program wrote one.

    Attributes:
        increments: from the last on that is whole, the oldest first.
    """

    def __init__(self, location: str, until: int | None = None) -> None:
        self._location = str(location).rstrip("/")
        self._store = FileStore.at(location)
        found: list[Publication] = []
        for name in reversed(entry_names(self._store)):
            publication = read_entry(self._store, name)
            if until is None or publication.increment <= until:
                found.append(publication)
                if publication.whole:
                    break
        self.increments = tuple(reversed(found))

    def files(self, after: int | None = None) -> list[str]:
        """Return where the files are, for whoever reads Parquet: Spark, DuckDB, Polars, pandas.

        Args:
            after: the number of an increment that was read: only those of later ones. All, if it
                is older than the last whole one: then what was read before does not count.
        """
        later = [
            each
            for each in self.increments
            if after is None or self._is_replaced(after) or each.increment > after
        ]
        return [f"{self._location}/{file.path}" for each in later for file in each.files]

    def _is_replaced(self, after: int) -> bool:
        first = self.increments[0] if self.increments else None
        return first is not None and first.whole and after < first.increment

    def arrow(self, after: int | None = None) -> pa.Table:
        """Return the rows with the number of their increment in ``_increment``, in order.

        Args:
            after: as in ``files``.

        Raises:
            DamagedIncrement: a file is missing, or has not the length that it was written with.
        """
        wanted = set(self.files(after))
        tables = [
            self._table(file.path, file.bytes)
            for each in self.increments
            for file in each.files
            if f"{self._location}/{file.path}" in wanted
        ]
        return pa.concat_tables(tables) if tables else self._nothing()

    def _nothing(self) -> pa.Table:
        """Return no rows, with the flow's columns where anything has been published."""
        for file in (file for each in self.increments for file in each.files):
            return self._table(file.path, file.bytes).slice(0, 0)
        return pa.schema([(INCREMENT, pa.int64())]).empty_table()

    def _table(self, name: str, length: int) -> pa.Table:
        try:
            data = self._store.read_bytes(name)
        except DamagedState as error:
            raise DamagedIncrement(f"{error.file} is missing; the entry still names it") from error
        if len(data) != length:
            message = f"{self._store.path(name)} has {len(data)} bytes instead of {length}"
            raise DamagedIncrement(message)
        return pq.read_table(pa.BufferReader(data))

    def pandas(self, after: int | None = None) -> pd.DataFrame:
        """Return the same as ``arrow`` as a frame of pandas."""
        return self.arrow(after).to_pandas()
