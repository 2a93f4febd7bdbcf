"""Messages of a table's topic: what was written, and the marks between writes."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from headgate.events.origins import Origin

NO_TTL = -1
"""Time to live of a cell that has none of its own, only its family's."""

MORE_PARTITIONS = ""
"""What an observer marks by itself: rows are spread over more partitions from here on."""


class Outcome(StrEnum):
    """What the observer knows of a request's effect."""

    APPLIED = "applied"
    """The server said that it was done."""
    UNKNOWN = "unknown"
    """It may or may not have been done, wholly or in part: the elements must be read to know."""


class UpdateKind(IntEnum):
    """What one cell of a batch did. The number is the byte in ``UpdateBatch.kinds``."""

    PUT = 0
    DELETE_CELL = 1
    """One version of a column: the one at the timestamp, or the newest where it is -1."""
    DELETE_COLUMN = 2
    """All versions of a column up to the timestamp."""
    DELETE_FAMILY = 3
    """All columns of a family up to the timestamp; the column is ``family:``."""
    DELETE_FAMILY_VERSION = 4
    """The cells of a family at exactly the timestamp; the column is ``family:``."""
    DELETE_ROW = 5
    """All families of the row up to the timestamp; the column is empty."""
    INCREMENT = 6
    """The value is the counter after the increment (8 bytes, big-endian)."""
    INCREMENT_DELTA = 7
    """The value is the amount added; the counter itself must be read."""
    APPEND = 8
    """The value is the cell after the append."""
    APPEND_DELTA = 9
    """The value is what was appended; the cell itself must be read."""


class RequestPart(Struct, frozen=True, array_like=True, gc=False):
    """The cells of one request in one partition: ``cells`` consecutive entries of the batch.

    ``(observer, epoch, intent, piece)`` is its identity in the partition: a second is a duplicate.
    ``ambiguous`` holds the positions, counted from the part's first cell, of cells whose row
    another request wrote while this one was under way, so that the server's order is not known.
    With outcome ``UNKNOWN`` every cell must be read, whatever stands there.

    ``ttls`` holds the times to live that the request gave its cells with the attribute ``_ttl``, in
    ms: empty where it gave none, one number that holds for all cells of the part, or one for each
    cell, ``NO_TTL`` among them. HBase shows such a cell until its timestamp plus the time to live,
    and no longer than its family's own time to live; then an older version may show again. 0: the
    cell never shows. The timestamp is the cell's own where one is given, else the server's: it lies
    between ``received`` and the end of the request. A deletion with a time to live expires too:
    what it hid may come back then. An increment or append without one (``NO_TTL``) keeps that of
    the cell that it read, and counts it from its own new timestamp.

    ``zero_increments`` holds the positions of increments by 0, with which clients read counters.
    Such an increment changes the value of no cell that is there: it renews the cell's timestamp,
    and with it what is left of its time to live. A position in ``ambiguous`` too, or the outcome
    ``UNKNOWN``, says that the cell may be new and must be read: the counter was 0 in the reply, or
    there was no reply to tell.
    """

    intent: int
    method: str
    outcome: Outcome
    received: float
    """When the observer had the whole request: Unix time in seconds."""
    cells: Annotated[int, Meta(ge=0)]
    piece: int = 0
    origin: Origin | None = None
    ambiguous: tuple[int, ...] = ()
    ttls: tuple[int, ...] = ()
    zero_increments: tuple[int, ...] = ()

    def ttl(self, position: int) -> int:
        """Return the time to live in ms of the cell at a position of the part, or ``NO_TTL``."""
        ttls = self.ttls
        if not ttls:
            return NO_TTL
        return ttls[0] if len(ttls) == 1 else ttls[position]


class UpdateBatch(Struct, frozen=True, array_like=True, tag="updates", gc=False):
    """Requests to one table and partition, in the order in which the observer saw them end.

    The cells lie in columns of equal length, request after request: ``kinds[i]``, ``rows[i]``,
    ``columns[i]`` (``family:qualifier``), ``timestamps[i]`` (ms, -1 where the server chose) and
    ``values[i]`` (None where the kind has none or no bound needs it).
    """

    version: int
    observer: str
    epoch: int
    sequence: int
    """Counts the messages of this observer and epoch in this partition from 0; a jump is a gap."""
    watermark: int
    """Every intent below it that concerns this partition stands at a lower offset."""
    table: str
    requests: tuple[RequestPart, ...]
    kinds: bytes
    rows: tuple[bytes, ...]
    columns: tuple[bytes, ...]
    timestamps: tuple[int, ...]
    values: tuple[bytes | None, ...]
    recovered: bool = False
    """Published from the journal after a crash; ``sequence`` then counts nothing."""


class TableChangeKind(StrEnum):
    """A change of a table that destroys cells without naming them."""

    DISABLED = "disabled"
    DROPPED = "dropped"
    TRUNCATED = "truncated"
    FAMILY_DROPPED = "family-dropped"
    MODIFIED = "modified"


class TableChange(Struct, frozen=True, array_like=True, tag="table"):
    """Data definition that went through the observer, in every partition of the table."""

    version: int
    observer: str
    epoch: int
    sequence: int
    intent: int
    table: str
    kind: TableChangeKind
    outcome: Outcome
    received: float
    family: str = ""
    """Text of the family's name as a key."""


class BarrierMark(Struct, frozen=True, array_like=True, tag="barrier"):
    """Nothing that this observer forwarded before it saw barrier ``id`` can still appear here.

    ``id`` is ``MORE_PARTITIONS`` where nobody asked: from here on the observer spreads rows over
    partitions that it did not know before, and a row may be in another one than until now.
    """

    version: int
    observer: str
    epoch: int
    sequence: int
    id: str
    partitions: int
    """Number of the topic's partitions over which the observer spreads rows."""


class Gap(Struct, frozen=True, array_like=True, tag="gap"):
    """The observer let writes pass without events from ``since`` to ``until`` (Unix seconds)."""

    version: int
    observer: str
    epoch: int
    sequence: int
    table: str
    since: float
    until: float
    reason: str


UpdateMessage = UpdateBatch | TableChange | BarrierMark | Gap
