"""Requests that wait apart from the segments: of tables whose events Kafka does not take.

One such request would keep every segment behind it for as long as it waits. So what is unsettled in
the oldest segment is copied to a file of its own, and the segment goes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import structlog
from msgspec import Struct

from headgate.observer.recording.epochs import aside_path, write_aside
from headgate.observer.recording.segments import SegmentReader, record_of

_log = structlog.get_logger("headgate.observer.recording.asides")


class CopiedAside(Struct, frozen=True):
    """The unsettled requests of a segment, copied to a file of their own."""

    path: Path
    received: dict[int, float]
    """When each of them came, by number."""
    size: int
    """Bytes of the file."""


def copy_aside(segment: Path, epoch: int, first: int, numbers: Collection[int]) -> CopiedAside:
    """Copy the requests with these numbers from a segment to a file of their own.

    It takes up to a second for a segment of 32 MiB: call it in a thread.

    Raises:
        OSError: the file system refused.
    """
    found = [
        intent for intent in SegmentReader(segment.read_bytes(), first) if intent.number in numbers
    ]
    path = aside_path(segment)
    size = write_aside(path, epoch, [record_of(intent) for intent in found])
    return CopiedAside(path, {intent.number: intent.received for intent in found}, size)


class PinnedSegment(Struct, frozen=True):
    """The oldest segment, which goes only when nothing in it is unsettled."""

    path: Path
    epoch: int
    first: int
    end: int
    """The number behind its last intent."""
    numbers: list[int]
    """Those that are unsettled."""

    @property
    def most_is_unsettled(self) -> bool:
        """True where more than half of its intents are unsettled."""
        return 2 * len(self.numbers) > self.end - self.first

    def copy(self) -> CopiedAside:
        """Copy what is unsettled to a file of its own; it blocks: call it in a thread.

        Raises:
            OSError: the file system refused.
        """
        return copy_aside(self.path, self.epoch, self.first, frozenset(self.numbers))


class _File:
    __slots__ = ("left", "path", "size")

    def __init__(self, path: Path, left: set[int], size: int) -> None:
        self.path = path
        self.left = left
        """Numbers of its requests that are not settled."""
        self.size = size


class Asides:
    """The requests of one epoch that were set aside; a file of them goes once all are settled."""

    def __init__(self) -> None:
        """Begin with none."""
        self._by_number: dict[int, _File] = {}
        self._received: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    def __contains__(self, number: int) -> bool:
        return number in self._by_number

    @property
    def oldest(self) -> float | None:
        """When the oldest of the requests came, in Unix seconds; None if there is none."""
        return next(iter(self._received.values()), None)

    def add(self, copied: CopiedAside, unsettled: Sequence[int]) -> int:
        """Keep a file for those of its requests that are still unsettled; return its bytes."""
        if not unsettled:
            _remove(copied.path)
            return 0
        file = _File(copied.path, set(unsettled), copied.size)
        for number in unsettled:
            self._by_number[number] = file
            self._received[number] = copied.received[number]
        return file.size

    def settle(self, number: int) -> int:
        """Note that a request is settled; return how many bytes on the disk are free by that."""
        file = self._by_number.pop(number)
        del self._received[number]
        file.left.discard(number)
        if file.left:
            return 0
        _remove(file.path)
        return file.size


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        # It goes with its epoch, at the next start.
        _log.error("requests set aside are not removed", file=str(path), reason=error.strerror)
