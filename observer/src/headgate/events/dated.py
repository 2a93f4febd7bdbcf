"""Versions and delete markers that clients have dated ahead in a table.

Where there are any, HBase does not show what was written last. It orders versions and delete
markers by timestamps, not by arrival. A marker hides every put at or below its timestamp, also one
that comes later. Of the versions that no marker hides, a reader sees the one with the highest
timestamp. Three rules follow for a write at the server's own time:

1. With nothing dated ahead in its row, HBase shows what was written, and a delete leaves nothing.
2. With a version of the cell dated ahead, a put stays hidden, and a delete does not reach that
   version. An increment or append climbs above it: its result is what HBase shows.
3. With a marker of the row dated ahead, everything that is put stays hidden.

So it suffices to remember timestamps that writes at the server's time may not have passed yet.
They are few: none where clients leave timestamps to the server, and each goes when time passes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

import msgspec
from msgspec import Struct

from headgate.events.updates import UpdateBatch, UpdateKind

SERVER_TIME = -1
"""Stands in ``UpdateBatch.timestamps`` for the server's own time."""
LATEST = 2**63 - 1
"""HBase's ``HConstants.LATEST_TIMESTAMP``, which clients may send to mean the server's own time."""
CLOCKS_APART = 30_000
"""Milliseconds that the clocks of region servers and observers may be apart: as far as HBase's
master lets those of region servers be (``hbase.master.maxclockskew``)."""
_MOST = 4096
"""Rows to remember: 0.2 MB of every snapshot. The others, of which time passes the timestamps
first, count for the whole table."""

_DELETES = frozenset(
    {
        UpdateKind.DELETE_CELL,
        UpdateKind.DELETE_COLUMN,
        UpdateKind.DELETE_FAMILY,
        UpdateKind.DELETE_FAMILY_VERSION,
        UpdateKind.DELETE_ROW,
    }
)
_WIDE = frozenset(
    {UpdateKind.DELETE_FAMILY, UpdateKind.DELETE_FAMILY_VERSION, UpdateKind.DELETE_ROW}
)
_CLIMBING = frozenset({UpdateKind.INCREMENT, UpdateKind.APPEND})
_DELTAS = frozenset({UpdateKind.INCREMENT_DELTA, UpdateKind.APPEND_DELTA})
_MARKER = b""
"""Stands for a column where a row's delete markers are meant."""


class DatedState(Struct, frozen=True, array_like=True):
    """Highest timestamps that are dated ahead, by row and ``family:qualifier``.

    The entry of a column is for its versions. The entry of the empty column is for the row's delete
    markers. ``versions`` and ``markers`` stand for all rows that are not named. All are Unix
    milliseconds, -1 for none.
    """

    rows: dict[bytes, dict[bytes, int]] = {}
    versions: int = -1
    markers: int = -1


NOTHING_DATED = DatedState()


class Dated:
    """Timestamps that are dated ahead in a table, updated with each batch.

    Args:
        state: what was dated ahead before.
    """

    def __init__(self, state: DatedState = NOTHING_DATED) -> None:
        self._rows: dict[bytes, dict[bytes, int]] = {}
        self._versions = -1
        self._markers = -1
        self._highest = -1
        self.add(state)

    def __bool__(self) -> bool:
        return self._highest >= 0

    def add(self, state: DatedState) -> None:
        """Take in what others know to be dated ahead."""
        self._versions = max(self._versions, state.versions)
        self._markers = max(self._markers, state.markers)
        self._highest = max(self._highest, state.versions, state.markers)
        for row, columns in state.rows.items():
            for column, timestamp in columns.items():
                self.note(row, column, timestamp)

    def doubtful(self, batch: UpdateBatch) -> list[int]:
        """Take in a batch; return the positions of updates after which only a read shows a cell.

        Whether a put with an explicit timestamp is above those of its own cell is not judged here.
        """
        if batch.timestamps.count(SERVER_TIME) == len(batch.timestamps) and (
            self._highest < 0
            or self._highest < min(map(_RECEIVED, batch.requests)) * 1000 - CLOCKS_APART
        ):
            return []
        found: list[int] = []
        start = 0
        for request in batch.requests:
            passed = max(0, int(request.received * 1000) - CLOCKS_APART)
            places = range(start, start + request.cells)
            found += [place for place in places if self._take(batch, place, passed)]
            start += request.cells
        return found

    def _take(self, batch: UpdateBatch, place: int, passed: int) -> bool:
        kind, row, column = batch.kinds[place], batch.rows[place], batch.columns[place]
        timestamp = batch.timestamps[place]
        if timestamp in (SERVER_TIME, LATEST):
            return self._hides(kind, row, column, passed)
        hidden = kind not in _DELETES and timestamp <= self._of(row, _MARKER)
        if timestamp >= passed:
            self.note(row, _MARKER if kind in _DELETES else column, timestamp)
        return hidden

    def _hides(self, kind: int, row: bytes, column: bytes, passed: int) -> bool:
        """Return whether what is dated ahead may outrank a write at the server's time."""
        if kind in _WIDE:
            columns = self._rows.get(row, _NONE)
            family = column.partition(b":")[0] + b":" if column else b""
            return self._versions >= passed or any(
                timestamp >= passed and name != _MARKER and name.startswith(family)
                for name, timestamp in columns.items()
            )
        dated = self._of(row, column)
        if kind == UpdateKind.DELETE_CELL:
            if dated >= passed:
                # Its marker is dated as the version is that it removes.
                self.note(row, _MARKER, dated)
            return True
        if kind in _DELETES:
            return dated >= passed
        if dated >= passed and (kind in _CLIMBING or kind in _DELTAS):
            self.note(row, column, dated + 1)
        hidden = self._of(row, _MARKER) >= passed
        return hidden or (dated >= passed and kind not in _CLIMBING)

    def _of(self, row: bytes, column: bytes) -> int:
        rest = self._versions if column else self._markers
        columns = self._rows.get(row)
        return rest if columns is None else max(rest, columns.get(column, -1))

    def note(self, row: bytes, column: bytes, timestamp: int) -> None:
        """Note a version of a cell or, with an empty column, a delete marker of a row."""
        columns = self._rows.setdefault(row, {})
        columns[column] = max(columns.get(column, -1), timestamp)
        self._highest = max(self._highest, timestamp)
        if len(self._rows) > _MOST:
            self._merge()

    def state(self, most: int = _MOST) -> DatedState:
        """Return what is dated ahead, with the names of so many rows at most."""
        if len(self._rows) > most:
            fewer = Dated(self.state())
            while len(fewer._rows) > most:
                fewer._merge()
            return fewer.state()
        rows = {row: dict(columns) for row, columns in self._rows.items()}
        return DatedState(rows, self._versions, self._markers)

    def _merge(self) -> None:
        """Forget the names of half of the rows: those whose timestamps time passes first."""
        ordered = sorted(self._rows, key=lambda row: max(self._rows[row].values()))
        for row in ordered[: len(ordered) // 2]:
            for column, dated in self._rows.pop(row).items():
                if column == _MARKER:
                    self._markers = max(self._markers, dated)
                else:
                    self._versions = max(self._versions, dated)


def encode_dated(dated: Mapping[str, DatedState]) -> bytes:
    """Return what is dated ahead in tables as bytes; none where nothing is."""
    return _encoder.encode(dated) if dated else b""


def decode_dated(data: bytes) -> dict[str, DatedState]:
    """Return what ``encode_dated`` was given.

    Raises:
        msgspec.MsgspecError: the bytes are none of it.
    """
    return _decoder.decode(data) if data else {}


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(dict[str, DatedState])
_NONE: Mapping[bytes, int] = {}
_RECEIVED = attrgetter("received")
