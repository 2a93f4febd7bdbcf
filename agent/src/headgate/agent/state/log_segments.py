"""Segments of the logs of engines: rows beside the state row, which alone says what they count.

A segment is written once, before the state row that names it, under a number that no other owner of
the dataflow ever uses: so whoever was taken over can neither change one nor have one believed.
What no state row names is left over from an end between the two, and the next owner removes it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator

from headgate.agent.errors import DamagedState
from headgate.agent.state.rows import Rows
from headgate.engine import Kept, LogSegment

CHUNK = 1 << 20
"""Bytes in one cell: HBase handles cells of this size well, larger ones badly."""
_PREFIX = b"cells/"
_SEAL = b"state:seal"
_SEALED = struct.Struct(">QI")  # the segment's size and its checksum
_DIGITS = 16  # of a number, which has 64 bits
_COUNTER_BITS = 32  # of a number; the owner's epoch above them
_READ = 16
"""Segments read at once: as many megabytes at most, where values have a usual length."""


def first_segment(epoch: int) -> int:
    """Return the number of the first segment that an owner of this epoch may write."""
    return epoch << _COUNTER_BITS


class SegmentRows:
    """Rows of segments. Every call may raise ``Unreachable`` when the table cannot be reached."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def write(self, name: str, segments: Iterable[LogSegment]) -> None:
        """Write segments of a dataflow's log."""
        for segment in segments:
            row = _row(name, segment.stream, segment.number)
            seal = {_SEAL: _SEALED.pack(len(segment.data), zlib.crc32(segment.data))}
            for number, start in enumerate(range(0, len(segment.data), CHUNK)):
                chunk = {b"state:%05d" % number: segment.data[start : start + CHUNK]}
                last = start + CHUNK >= len(segment.data)
                self._rows.put(row, chunk | seal if last else chunk)

    def read(self, name: str, kept: Iterable[Kept]) -> Iterator[bytes]:
        """Yield segments in their order.

        Raises:
            DamagedState: one is missing or not whole.
        """
        for one in kept:
            for first in range(one.first, one.end, _READ):
                end = min(first + _READ, one.end)
                found = dict(
                    self._rows.scan(_row(name, one.stream, first), _row(name, one.stream, end))
                )
                for number in range(first, end):
                    yield _whole(name, number, found.get(_row(name, one.stream, number)))

    def drop(self, name: str, dropped: Iterable[Kept]) -> None:
        """Delete segments that nothing needs any more."""
        rows = [
            _row(name, one.stream, number)
            for one in dropped
            for number in range(one.first, one.end)
        ]
        if rows:
            self._rows.drop(rows)

    def tidy(self, name: str, epoch: int, kept: Iterable[Kept]) -> None:
        """Delete the segments that owners before this epoch wrote, those apart that are kept."""
        needed = {
            _row(name, one.stream, number) for one in kept for number in range(one.first, one.end)
        }
        prefix = _PREFIX + name.encode()
        found = self._rows.names(prefix + b"/", prefix + b"0")  # "0" follows "/"
        below = first_segment(epoch)
        left = [r for r in found if r not in needed and int(r[-_DIGITS:], 16) < below]
        if left:
            self._rows.drop(left)


def _row(name: str, stream: str, number: int) -> bytes:
    return b"%s%s/%s/%016x" % (_PREFIX, name.encode(), stream.encode(), number)


def _whole(name: str, number: int, columns: dict[bytes, bytes] | None) -> bytes:
    if columns is None:
        raise DamagedState(name, f"segment {number:x} is missing")
    chunks = sorted(column for column in columns if column != _SEAL)
    data = b"".join(columns[column] for column in chunks)
    if columns.get(_SEAL) != _SEALED.pack(len(data), zlib.crc32(data)):
        raise DamagedState(name, f"segment {number:x} is not whole")
    return data
