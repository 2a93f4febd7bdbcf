"""What tables held at a moment of the past, by their events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from msgspec.structs import replace

from headgate.engine import Codec, CodecName, Rivals, WatchedContainer, decode_one, decoder_of
from headgate.events import (
    CLOCKS_APART,
    LATEST,
    NO_TTL,
    SERVER_TIME,
    Container,
    Item,
    Outcome,
    TableChange,
    UpdateBatch,
    UpdateKind,
    key_bytes,
    partition_of,
    printable_key,
)
from headgate.replay.histories import (
    Marker,
    Moment,
    Version,
    hides,
    not_below,
    relevant_markers,
    relevant_versions,
    shown,
    unsure,
)
from headgate.replay.recording import NotRecorded

Cell = tuple[str, bytes, bytes]
"""Table, row and ``family:qualifier``."""

UNKNOWN = bytes(bytearray(b"unknown"))
"""Stands, by identity, for the value of a cell that exists and whose value no event has."""

Value = bytes | None
"""None where there is no cell."""

Write = tuple[int, Cell, Value, Value]
"""Position of the request, the cell, its value before and after."""


class RecordedTables:
    """The cells of tables as HBase shows them, kept by every update."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[Cell, bytes]] = {}
        self._columns: dict[str, dict[bytes, None]] = {}
        self._versions: dict[Cell, list[Version]] = {}
        self._markers: dict[tuple[str, bytes], list[Marker]] = {}
        """Delete markers, by table and row."""
        self._rivals: dict[str, Rivals] = {}
        self._place = 0
        self.guesses = 0
        """Updates after which no event tells what HBase shows: the likeliest is taken."""
        self.guessed: set[Cell] = set()
        """Cells of which no event tells what HBase shows now."""
        self._mortal: set[Cell] = set()
        """Cells with a version that has a time to live of its own."""
        self._vague: set[Cell] = set()
        """Cells with a version, or one that is deleted, of a time of the client's that no event
        told: whether another of such a time is above it, or hidden, nobody knows."""
        self._forgotten: set[Cell] = set()
        """Cells with a version below one of the client's time that is kept no more."""
        self._ttls: dict[str, Mapping[bytes, int]] = {}
        self._due: dict[str, float] = {}
        """Moments before which no cell of a table expires, by table, in Unix milliseconds."""

    def set_ttls(self, table: str, found: Mapping[str, int]) -> None:
        """Take note of the times to live that a scan has found.

        Args:
            table: which.
            found: milliseconds, by family (as the text of a key).
        """
        ttls = {key_bytes(family): ttl for family, ttl in found.items()}
        if self._ttls.get(table, {}) != ttls:
            self._ttls[table] = ttls
            self._due[table] = 0.0

    def expired(self, table: str, now: float) -> list[Cell]:
        """Return cells that are held here, and that their family's time to live may have ended.

        HBase's clock decides, so those that end within ``CLOCKS_APART`` are among them.

        Args:
            table: which.
            now: Unix time in seconds.
        """
        soon = 1000 * now + CLOCKS_APART
        if soon < self._due.get(table, math.inf):
            return []
        ends = {cell: self._end(cell) for cell in self._tables.get(table, {})}
        self._due[table] = min(ends.values(), default=math.inf)
        return [cell for cell, end in ends.items() if end <= soon]

    def _end(self, cell: Cell) -> float:
        ttl = self._ttls.get(cell[0], {}).get(cell[2].partition(b":")[0])
        versions = self._versions.get(cell)
        if ttl is None or not versions:
            return math.inf
        return max(version.moment.time for version in versions) + ttl

    def value(self, cell: Cell) -> Value:
        """Return what a cell holds now."""
        return self._tables.get(cell[0], {}).get(cell)

    def cells(self, container: Container, table: str) -> Iterator[tuple[Cell, bytes]]:
        """Yield the cells of a container's part in one table."""
        items = [item for item in container.items if item.table == table]
        for cell, value in self._tables.get(table, {}).items():
            if any(item.has_row(cell[1]) and item.has_column(cell[2]) for item in items):
                yield cell, value

    def apply(self, batch: UpdateBatch) -> list[Write]:
        """Take a batch; return what each of its updates did."""
        self._tables.setdefault(batch.table, {})
        self._columns.setdefault(batch.table, {})
        disordered = set(self._rivals.setdefault(batch.table, Rivals()).doubtful(batch))
        writes: list[Write] = []
        position = 0
        for number, request in enumerate(batch.requests):
            applied = request.outcome is Outcome.APPLIED
            ambiguous = {position + place for place in request.ambiguous} | disordered
            for i in range(position, position + request.cells):
                given = batch.timestamps[i] not in (SERVER_TIME, LATEST)
                time = batch.timestamps[i] if given else int(request.received * 1000)
                self._place += 1
                # When a time to live ends, on HBase's clock, no event tells.
                lasts = request.ttl(i - position) == NO_TTL
                sure = applied and lasts and i not in ambiguous
                if not lasts:
                    self._mortal.add((batch.table, batch.rows[i], batch.columns[i]))
                moment = Moment(time, given, self._place, sure)
                writes += self._update(batch, i, number, moment)
            position += request.cells
        return writes

    def _update(self, batch: UpdateBatch, i: int, number: int, moment: Moment) -> list[Write]:
        kind, row, column = batch.kinds[i], batch.rows[i], batch.columns[i]
        cell = (batch.table, row, column)
        if kind in _VALUES:
            self._columns[batch.table][column] = None
            found = batch.values[i] if kind in _KNOWN else None
            version = Version(moment, UNKNOWN if found is None else found)
            return [(number, *self._put(cell, version, climbs=kind not in _PUTS))]
        one_version = kind in (UpdateKind.DELETE_CELL, UpdateKind.DELETE_FAMILY_VERSION)
        if one_version and not moment.given:
            # An older version may show now, of which nothing is known.
            gone = self._deleted(kind, batch.table, row, column)
            return [(number, *self._lose_version(one)) for one in gone]
        prefix, whole = (column, True)
        if kind in (UpdateKind.DELETE_FAMILY, UpdateKind.DELETE_FAMILY_VERSION):
            prefix, whole = column.partition(b":")[0] + b":", False
        elif kind == UpdateKind.DELETE_ROW:
            prefix, whole = b"", False
        marker = Marker(moment, prefix, whole, one_version)
        place = batch.table, row
        self._markers[place] = relevant_markers(self._markers.get(place, []), marker)
        gone = self._deleted(kind, batch.table, row, column)
        return [(number, *self._look(one, exact=one_version)) for one in gone]

    def _put(self, cell: Cell, version: Version, *, climbs: bool) -> tuple[Cell, Value, Value]:
        versions = self._versions.get(cell, [])
        hidden = partial(hides, cell[2], self._markers.get(cell[:2], []))
        if climbs and cell in self._mortal:
            # It starts from what has not expired, and lives as long as that.
            version = unsure(version)
        elif version.moment.given and cell in self._vague:
            # Those below need not be kept: what shows is a guess while this one may be there.
            versions = not_below(versions, version.moment)
            version = unsure(version)
        elif version.moment.sure and not not_below(versions, version.moment):
            self._mortal.discard(cell)
        if climbs:
            if not version.moment.sure:
                self._vague.add(cell)
            versions, version = _climbed(versions, version, hidden)
        if hidden(version) is not False:
            self._versions[cell] = [*versions, version]  # what is below may be shown
        else:
            self._versions[cell] = relevant_versions(versions, version)
            if version.moment.given and len(self._versions[cell]) <= len(versions):
                self._forgotten.add(cell)
        return self._look(cell)

    def _lose_version(self, cell: Cell) -> tuple[Cell, Value, Value]:
        before = self._tables[cell[0]].pop(cell, None)
        # Which of them it was is not always known, and those below may be shown again.
        left = [unsure(one) for one in self._versions.pop(cell, []) if one.moment.given]
        if left:
            self._versions[cell] = left
        self._vague.add(cell)
        self.guesses += before is not None
        self.guessed.add(cell)
        return cell, before, None

    def _look(self, cell: Cell, *, exact: bool = False) -> tuple[Cell, Value, Value]:
        """Note what HBase shows of a cell now; return what it showed before, and that."""
        table = self._tables[cell[0]]
        before = table.get(cell)
        versions = self._versions.get(cell, [])
        markers = self._markers.get(cell[:2], [])
        now = shown(cell[2], versions, markers)
        value = None if now.version is None else now.version.value
        sure = now.sure
        perhaps = exact and (value is None or cell in self._forgotten)
        if perhaps and shown(cell[2], versions, markers[:-1]).version is not now.version:
            # The delete has hidden the newest, so that one may show that is kept no more.
            sure = False
            self._vague.add(cell)
        self.guesses += not sure
        if sure and value is not None:
            self.guessed.discard(cell)
        elif not sure:
            self.guessed.add(cell)
        if value is None:
            table.pop(cell, None)
            if now.sure:
                self._versions.pop(cell, None)
        else:
            table[cell] = value
            if cell[0] in self._due:
                self._due[cell[0]] = min(self._due[cell[0]], self._end(cell))
        return cell, before, value

    def _deleted(self, kind: int, table: str, row: bytes, column: bytes) -> list[Cell]:
        if kind == UpdateKind.DELETE_ROW:
            named = list(self._columns[table])
        elif kind in (UpdateKind.DELETE_FAMILY, UpdateKind.DELETE_FAMILY_VERSION):
            family = column.partition(b":")[0] + b":"
            named = [c for c in self._columns[table] if c.startswith(family)]
        else:
            return [(table, row, column)]
        held = self._tables[table]
        return [cell for c in named if (cell := (table, row, c)) in held]

    def change(self, change: TableChange, partition: int, partitions: int) -> list[Write]:
        """Take a change of a table that destroys cells; return what became of each."""
        table = self._tables.get(change.table, {})
        family = key_bytes(change.family) + b":" if change.family else b""

        def lost(row: bytes) -> bool:
            return partition_of(row, partitions) == partition

        gone = [cell for cell in table if cell[2].startswith(family) and lost(cell[1])]
        for cell in [c for c in self._versions if c[0] == change.table and c[2].startswith(family)]:
            if lost(cell[1]):
                del self._versions[cell]
        for place in [p for p in self._markers if p[0] == change.table and not family]:
            if lost(place[1]):
                del self._markers[place]
        return [(0, cell, table.pop(cell), None) for cell in gone]


_VALUES = frozenset(
    {
        UpdateKind.PUT,
        UpdateKind.INCREMENT,
        UpdateKind.APPEND,
        UpdateKind.INCREMENT_DELTA,
        UpdateKind.APPEND_DELTA,
    }
)
_PUTS = frozenset({UpdateKind.PUT})
_KNOWN = frozenset({UpdateKind.PUT, UpdateKind.INCREMENT, UpdateKind.APPEND})


class ContainerExtent:
    """Which cells lie in a container, and the numbers in them."""

    def __init__(self, watched: WatchedContainer) -> None:
        self.id = watched.id
        self.numeric = watched.codec.name is not CodecName.OPAQUE
        self._codec: Codec = watched.codec
        self._decode = decoder_of(watched.codec) if self.numeric else None
        self._items: tuple[Item, ...] = watched.container.items
        self._known: dict[tuple[str, bytes], tuple[Item, ...]] = {}

    def has(self, cell: Cell) -> bool:
        """Return whether a cell lies in the container."""
        table, row, column = cell
        items = self._known.get((table, column))
        if items is None:
            items = tuple(i for i in self._items if i.table == table and i.has_column(column))
            if len(self._known) < _MAX_COLUMNS:
                self._known[table, column] = items
        return any(item.has_row(row) for item in items)

    def number(self, cell: Cell, value: Value) -> float:
        """Return the number in a value; 0 for no cell and for what has no number.

        Raises:
            NotRecorded: events leave out the value.
        """
        if value is None or self._decode is None:
            return 0.0
        if value is UNKNOWN:
            table, _, column = cell
            raise NotRecorded(
                f"events of table {table!r} leave out values of column '{printable_key(column)}', "
                f"so the error of container {self.id!r} cannot be computed; write it with puts "
                "through an observer that publishes values, or give the container codec: opaque"
            )
        found = decode_one(self._decode, value)
        return found if found == found else 0.0


_MAX_COLUMNS = 65_536  # qualifiers may be data: without a limit the cache would hold them all


def _climbed(
    versions: list[Version], version: Version, hidden: Callable[[Version], bool | None]
) -> tuple[list[Version], Version]:
    """Return the versions below a write that climbs above all, and it at the time it then has."""
    above = [
        one for one in not_below(versions, version.moment) if one.moment.given and not hidden(one)
    ]
    if not above:
        return versions, version
    # Whether it has climbed is known of versions that are certainly there, dated ahead.
    certain = version.moment.sure and all(
        one.moment.sure and version.moment.is_above(one.moment) is False and hidden(one) is False
        for one in above
    )
    time = max(one.moment.time for one in above) + 1
    moment = replace(version.moment, time=time, given=True, sure=certain)
    below = versions if certain else relevant_versions(versions, unsure(version))
    return below, replace(version, moment=moment)
