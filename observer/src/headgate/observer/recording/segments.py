"""A segment of the journal as it is on the disk, and what can be read of one that is damaged.

It is a header with the version of all that, and then records; a record is a fixed header, the
table's name and the request's bytes exactly as the client sent them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from headgate.events import StoredFormat

JOURNAL: Final = StoredFormat("journal")
"""Format of all files in a journal's directory."""
MAGIC: Final = b"HGJ"
ASIDE_MAGIC: Final = b"HGA"
"""First bytes of a file of requests set aside; between its records numbers may be missing."""
# magic, version, epoch, first intent (set aside: how many there are); checksum of these
SEGMENT = struct.Struct(">3sBIQI")
# checksum of what follows; lengths of table name and request; intent, time, listener, dialect
_RECORD = struct.Struct(">IHIQdBB")
CHECKED = struct.Struct(">HIQdBB")  # the same without the checksum, which does not cover itself
_CHECKED_FROM = _RECORD.size - CHECKED.size
_NUMBER_AT: Final = 10  # of the intent's number in a record
_SOUGHT: Final = 64  # numbers that are looked for behind a damaged record


class Intent(Struct, frozen=True):
    """A request that was about to be forwarded."""

    number: int
    """Counts the journalled requests of the epoch from 0."""
    received: float
    """Unix time in seconds."""
    listener: int
    dialect: int
    table: str
    request: bytes


class SegmentReader:
    """The requests of one segment or of one file of requests set aside, read one after another."""

    def __init__(self, data: bytes, first: int) -> None:
        """Read the bytes of a segment whose first intent has the number ``first``."""
        self._data = data
        self._first = first
        self.whole = True
        """True if nothing behind the last intent is damaged.

        A last record that a crash cut short does not count as damaged. The value is known once all
        intents were read.
        """

    def __iter__(self) -> Iterator[Intent]:
        """Yield what can be read.

        Damaged records are left out: numbers are missing there. Where a record cannot be read, the
        number of the next one, which is known, shows where to go on.

        Raises:
            NewerFormat: a newer headgate wrote the file.
        """
        data = self._data
        if read_header(data) is None:
            self.whole = len(data) < SEGMENT.size
            return
        position = SEGMENT.size
        expected = self._first
        while position < len(data):
            found = _read_record(data, position)
            if found is None:
                following = _find_record(data, position, expected + 1)
                if following >= 0:
                    position = following
                    continue
                found = _mended_last(data, position)
                if found is None:
                    self.whole = _cut_short(data, position, expected)
                    return
            intent, position = found
            yield intent
            expected = intent.number + 1


def header_of(magic: bytes, epoch: int, number: int) -> bytes:
    """Return what a file begins with; ``number`` is of the first intent, or of how many."""
    header = SEGMENT.pack(magic, JOURNAL.version, epoch, number, 0)[:-4]
    return header + zlib.crc32(header).to_bytes(4, "big")


def read_header(data: bytes) -> int | None:
    """Return the number that a file's header ends with; None if there is none, or a damaged one.

    Raises:
        NewerFormat: a newer headgate wrote the file.
    """
    if len(data) < SEGMENT.size:
        return None
    magic, version, _, number, checksum = SEGMENT.unpack_from(data)
    if magic not in (MAGIC, ASIDE_MAGIC) or zlib.crc32(data[: SEGMENT.size - 4]) != checksum:
        return None
    JOURNAL.check(version)
    return int(number)


def record_of(intent: Intent) -> bytes:
    """Return an intent as it stands in a segment."""
    name = intent.table.encode("utf-8", "surrogateescape")
    checked = CHECKED.pack(
        len(name),
        len(intent.request),
        intent.number,
        intent.received,
        intent.listener,
        intent.dialect,
    )
    record = checked + name + intent.request
    return zlib.crc32(record).to_bytes(4, "big") + record


def _read_record(data: bytes, position: int) -> tuple[Intent, int] | None:
    """Return the record at a position and the position behind it; None if it is damaged."""
    name_at = position + _RECORD.size
    if name_at > len(data):
        return None
    checksum, name_length, length, number, received, listener, dialect = _RECORD.unpack_from(
        data, position
    )
    request_at = name_at + name_length
    end = request_at + length
    checked = memoryview(data)[position + _CHECKED_FROM : end]
    if end > len(data) or zlib.crc32(checked) != checksum:
        return None
    table = data[name_at:request_at].decode("utf-8", "surrogateescape")
    return Intent(number, received, listener, dialect, table, data[request_at:end]), end


def _find_record(data: bytes, damaged: int, expected: int) -> int:
    """Return where the first whole record behind a damaged one is; -1 if nowhere."""
    for number in range(expected, expected + _SOUGHT):
        sought = number.to_bytes(8, "big")
        at = data.find(sought, damaged + _NUMBER_AT)
        while at >= 0:
            found = _read_record(data, at - _NUMBER_AT)
            if found is not None and found[0].number == number:
                return at - _NUMBER_AT
            at = data.find(sought, at + 1)
    return -1


def _mended_last(data: bytes, position: int) -> tuple[Intent, int] | None:
    """Return the record at a position if it is whole but for one of its lengths.

    By the damaged length it looks like one that was cut short, but for its checksum.
    """
    if position + _RECORD.size > len(data):
        return None
    checksum, name_length, length, *others = _RECORD.unpack_from(data, position)
    there = len(data) - position - _RECORD.size
    for lengths in ((name_length, there - name_length), (there - length, length)):
        if 0 <= lengths[0] < 1 << 16 and 0 <= lengths[1] < 1 << 32:
            head = _RECORD.pack(checksum, *lengths, *others)
            found = _read_record(head + data[position + _RECORD.size :], 0)
            if found is not None:
                return found[0], len(data)
    return None


def _cut_short(data: bytes, position: int, expected: int) -> bool:
    """Return whether the record at a position is the beginning of one: a write that did not end.

    Such a one has the expected number; anything else behind the last record was a whole one.
    """
    if len(data) - position < _RECORD.size:
        return True
    _, name_length, length, number, _, listener, dialect = _RECORD.unpack_from(data, position)
    if number != expected or listener > 1 or dialect > 1:
        return False
    return position + _RECORD.size + int(name_length) + int(length) > len(data)
