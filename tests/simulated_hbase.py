"""One region of HBase in memory, by HBase's own rules: every version, every delete marker, a clock.

The oracle of tests about what HBase shows. It knows the server's clock and what became of each
request, which nobody who reads events does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.events import DatedState, UpdateKind

Key = tuple[bytes, bytes]
"""Row and ``family:qualifier``."""


@dataclass
class Version:
    """A version of a cell; of two with one timestamp the later one counts."""

    timestamp: int
    value: bytes
    ttl: int | None = None
    """Milliseconds."""


@dataclass(frozen=True)
class Marker:
    """A delete marker of a row: of a family (of all where None), of one column or of all."""

    timestamp: int
    family: bytes | None
    column: bytes | None
    exact: bool
    """True if the marker hides one timestamp only, and not all up to it."""

    def hides(self, column: bytes, timestamp: int) -> bool:
        """Return whether it hides a version of a column."""
        if self.column is not None and self.column != column:
            return False
        if self.family is not None and self.family != column.partition(b":")[0]:
            return False
        return timestamp == self.timestamp if self.exact else timestamp <= self.timestamp


@dataclass
class SimulatedTable:
    """A table of one family or several; nothing is ever compacted."""

    ttls: dict[bytes, int] = field(default_factory=dict)
    """Milliseconds by family; one that is not named keeps everything."""
    now: int = 0
    """The region server's clock in milliseconds."""
    versions: dict[Key, list[Version]] = field(default_factory=dict)
    markers: dict[bytes, list[Marker]] = field(default_factory=dict)

    def newest(self, row: bytes, column: bytes) -> Version | None:
        """Return the version of a cell that a reader sees now; None where there is none."""
        found: Version | None = None
        for version in self.versions.get((row, column), ()):
            if self._is_expired(column, version):
                continue
            if any(m.hides(column, version.timestamp) for m in self.markers.get(row, ())):
                continue
            if found is None or version.timestamp >= found.timestamp:
                found = version
        return found

    def _is_expired(self, column: bytes, version: Version) -> bool:
        ttls = (version.ttl, self.ttls.get(column.partition(b":")[0]))
        return any(ttl is not None and version.timestamp + ttl < self.now for ttl in ttls)

    def shown(self) -> dict[Key, bytes]:
        """Return what a scan finds now."""
        newest = {key: self.newest(*key) for key in self.versions}
        return {key: version.value for key, version in newest.items() if version is not None}

    def dated(self, since: int) -> DatedState:
        """Return the versions and delete markers of a time or later, hidden ones too."""
        rows: dict[bytes, dict[bytes, int]] = {}
        for (row, column), versions in self.versions.items():
            for version in versions:
                if version.timestamp >= since:
                    columns = rows.setdefault(row, {})
                    columns[column] = max(columns.get(column, -1), version.timestamp)
        for row, markers in self.markers.items():
            for marker in markers:
                if marker.timestamp >= since:
                    columns = rows.setdefault(row, {})
                    columns[b""] = max(columns.get(b"", -1), marker.timestamp)
        return DatedState(rows)

    def put(
        self, row: bytes, column: bytes, value: bytes, timestamp: int = -1, ttl: int | None = None
    ) -> None:
        """Put a version, at the server's time where the timestamp is -1."""
        dated = self.now if timestamp == -1 else timestamp
        self.versions.setdefault((row, column), []).append(Version(dated, value, ttl))

    def increment(self, row: bytes, column: bytes, amount: int) -> bytes:
        """Add to a counter of 8 bytes; return it. It climbs above a version dated ahead."""
        found = self.newest(row, column)
        value = int.from_bytes(found.value[:8].rjust(8, b"\0"), "big") if found else 0
        return self._climb(row, column, ((value + amount) % 2**63).to_bytes(8, "big"), found)

    def append(self, row: bytes, column: bytes, value: bytes) -> bytes:
        """Append to a cell; return what it holds then. It climbs above a version dated ahead."""
        found = self.newest(row, column)
        return self._climb(row, column, (found.value if found else b"") + value, found)

    def _climb(self, row: bytes, column: bytes, value: bytes, found: Version | None) -> bytes:
        dated = self.now if found is None else max(self.now, found.timestamp + 1)
        ttl = None if found is None else found.ttl
        self.versions.setdefault((row, column), []).append(Version(dated, value, ttl))
        return value

    def delete(self, kind: UpdateKind, row: bytes, column: bytes, timestamp: int = -1) -> None:
        """Leave a delete marker, at the server's time where the timestamp is -1."""
        family = column.partition(b":")[0] if column else None
        exact = kind in (UpdateKind.DELETE_CELL, UpdateKind.DELETE_FAMILY_VERSION)
        named = column if kind in (UpdateKind.DELETE_CELL, UpdateKind.DELETE_COLUMN) else None
        if kind is UpdateKind.DELETE_CELL and timestamp == -1:
            newest = self.newest(row, column)
            if newest is None:
                return
            timestamp = newest.timestamp
        dated = self.now if timestamp == -1 else timestamp
        self.markers.setdefault(row, []).append(Marker(dated, family, named, exact))
