"""The journal: what was forwarded, kept on disk until Kafka has its events.

A directory belongs to one observer, which holds a lock on it. ``epoch`` counts its starts.
``<epoch>-<first intent>.segment`` has requests as records. ``<epoch>.watermark`` says below which
intent everything is on Kafka or set aside (a segment wholly below it is removed) and how many
intents there were at least, so that a segment that is lost is missed. ``<epoch>-<first
intent>.aside`` has those of a segment's requests that were set aside.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import structlog

from headgate.observer.recording.asides import Asides, CopiedAside, PinnedSegment
from headgate.observer.recording.epochs import (
    PROGRESS_BYTES,
    EpochPart,
    EpochProgress,
    OpenEpoch,
    epoch_of,
    gaps_path,
    open_directory,
    open_epochs,
    progress_record,
    read_epoch,
    save_gaps,
    segment_path,
    sync_directory,
    watermark_path,
)
from headgate.observer.recording.journal_errors import JournalError, JournalFull, JournalInUse
from headgate.observer.recording.segments import CHECKED, MAGIC, Intent, header_of

_log = structlog.get_logger("headgate.observer.recording.journal")

_COPIED: Final = 4096
"""Bytes of a request that are copied behind its header sooner than written from two places."""

_crc32: Final = zlib.crc32
_pack: Final = CHECKED.pack
_write: Final = os.write


class _Segment:
    __slots__ = ("end", "first", "path", "size")

    def __init__(self, path: Path, first: int) -> None:
        self.path = path
        self.first = first
        self.end = first
        self.size = 0


def _write_all(handle: int, head: bytes, body: bytes) -> int:
    """Write both; return their length. A short write is completed."""
    total = len(head) + len(body)
    written = os.writev(handle, (head, body)) if body else _write(handle, head)
    if written < total:
        rest = memoryview(head + body)[written:]
        while rest:
            rest = rest[os.write(handle, rest) :]
    return total


class Journal:
    """An observer's journal, opened for a new epoch.

    ``append`` before forwarding, ``settle`` when nothing of the intent is left to publish.
    """

    def __init__(
        self, directory: Path, *, limit_bytes: int, segment_bytes: int, first_epoch: int = 1
    ) -> None:
        """Take the directory and begin an epoch.

        ``first_epoch`` is used where there was none before. It must be above any epoch that the
        observer had in a directory that was lost, or new events would be taken for old ones: the
        time in seconds is.

        Raises:
            JournalError: the directory cannot be used, or another observer uses it.
        """
        self._directory = directory
        self._limit = limit_bytes
        self._segment_limit = segment_bytes
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise JournalError(
                f"journal {directory}: {error.strerror}; name a directory that can be written"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise JournalInUse(
                f"journal {directory} is in use by another observer; end it, or give this one "
                "its own [journal] directory"
            ) from error
        self.epoch: int = self._begin_epoch(first_epoch)
        self.watermark = 0
        """Every intent below it is settled."""
        self.on_settled: Callable[[int], None] | None = None
        """Called with each intent that is settled, once."""
        self._next = 0
        self._settled: set[int] = set()
        self._table, self._name = "", b""
        """Of the last request, and as it stands in records."""
        self._times: deque[float] = deque()
        """When the intents from the watermark on came."""
        self._segments: list[_Segment] = []
        self._asides = Asides()
        self._bytes = self._left_over_bytes()
        self._segment: _Segment | None = None
        self._handle = -1
        self._dirty = False
        self.refused = False
        """True if the last request could not be written to the disk."""
        self._unsynced: list[int] = []
        self._written = EpochProgress()
        self._times_written = 0
        self._watermark_handle = self._begin_watermark()

    def _begin_watermark(self) -> int:
        path = watermark_path(self._directory, self.epoch)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # Its place on the disk is taken now: it must be there when nothing else is left.
            os.pwrite(handle, bytes(PROGRESS_BYTES), 0)
        except OSError as error:
            os.close(handle)
            os.close(self._lock)
            raise JournalError(
                f"journal {self._directory}: {error.strerror}; free space on its disk"
            ) from error
        return handle

    def begin_above(self, epoch: int) -> int:
        """Begin another epoch, above one that was heard of elsewhere, and return it.

        Where requests were recorded in the present one already, it stays.

        Raises:
            JournalError: the directory cannot be written.
        """
        if not self._next:
            os.close(self._watermark_handle)
            watermark_path(self._directory, self.epoch).unlink()
            self.epoch = self._begin_epoch(epoch, above=epoch)
            self._watermark_handle = self._begin_watermark()
        return self.epoch

    def _begin_epoch(self, first_epoch: int, above: int = 0) -> int:
        path = self._directory / "epoch"
        last = read_epoch(path, first_epoch - 1)
        epoch = max([last, above, *map(epoch_of, self._directory.glob("*.segment"))]) + 1
        draft = self._directory / "epoch.draft"
        try:
            with draft.open("w", encoding="ascii") as file:
                file.write(f"{epoch}\n")
                file.flush()
                os.fsync(file.fileno())
            draft.rename(path)
            sync_directory(self._directory)
        except OSError as error:
            os.close(self._lock)
            raise JournalError(
                f"journal {self._directory}: {error.strerror}; free space on its disk"
            ) from error
        return epoch

    def _left_over_bytes(self) -> int:
        kinds = ("*.segment", "*.aside")
        return sum(path.stat().st_size for kind in kinds for path in self._directory.glob(kind))

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self._bytes

    @property
    def unsettled(self) -> int:
        """Number of intents that are not settled."""
        return self._next - self.watermark - len(self._settled) + len(self._asides)

    @property
    def next_intent(self) -> int:
        """The number that the next intent will have."""
        return self._next

    def reconfigure(self, *, limit_bytes: int, segment_bytes: int) -> None:
        """Have other limits from now on."""
        self._limit = limit_bytes
        self._segment_limit = segment_bytes

    def has_room(self, length: int) -> bool:
        """Return whether a request of the length can be appended below the limit.

        One that is alone always fits: a limit below a single request would block it for ever.
        """
        return self._bytes + length <= self._limit or self.unsettled == 0

    def oldest_age(self, now: float) -> float:
        """Return for how many seconds the oldest unsettled intent has waited."""
        oldest = self._asides.oldest
        if oldest is None:
            oldest = self._times[0] if self._times else now
        return max(0.0, now - oldest)

    def append(
        self, request: bytes, table: str, *, listener: int, dialect: int, received: float
    ) -> int:
        """Write a request down; return its intent's number.

        Raises:
            JournalFull: the limit is reached.
            JournalError: the file system refused.
        """
        length = len(request)
        if not self.has_room(length):
            raise JournalFull(f"journal {self._directory} has reached {self._limit} bytes")
        if table != self._table:
            self._table, self._name = table, table.encode("utf-8", "surrogateescape")
        name = self._name
        number = self._next
        segment = self._segment
        self.refused = True
        if segment is None or segment.size >= self._segment_limit:
            segment = self._begin_segment()
        header = _pack(len(name), length, number, received, listener, dialect) + name
        if length <= _COPIED:
            head, body = header + request, b""
        else:
            head, body = header, request
        checksum = _crc32(head)
        if body:
            checksum = _crc32(body, checksum)
        try:
            written = _write_all(self._handle, checksum.to_bytes(4, "big") + head, body)
        except OSError as error:
            self._cut_torn(segment)
            raise JournalError(
                f"journal {self._directory}: {error.strerror}; free space on its disk"
            ) from error
        self.refused = False
        segment.size += written
        segment.end = number + 1
        self._bytes += written
        self._next = number + 1
        self._times.append(received)
        self._dirty = True
        if number == segment.first:
            # From here on it is missed if it is lost.
            self._write_progress()
        return number

    def _cut_torn(self, segment: _Segment) -> None:
        try:
            os.ftruncate(self._handle, segment.size)
            os.lseek(self._handle, segment.size, os.SEEK_SET)
        except OSError:
            # It stays torn at the end of its segment, where readers leave it out.
            self._close_segment()
            if segment.end == segment.first:
                self._segments.remove(segment)
                self._bytes -= segment.size

    def _begin_segment(self) -> _Segment:
        self._close_segment()
        path = segment_path(self._directory, self.epoch, self._next)
        segment = _Segment(path, self._next)
        try:
            self._handle = os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
            )
            header = header_of(MAGIC, self.epoch, self._next)
            segment.size = _write_all(self._handle, header, b"")
            # What is in a file is not safe before the file's name is.
            self._unsynced.append(open_directory(self._directory))
        except OSError as error:
            raise JournalError(
                f"journal {self._directory}: {error.strerror}; free space on its disk"
            ) from error
        self._bytes += segment.size
        self._segments.append(segment)
        self._segment = segment
        return segment

    def _close_segment(self) -> None:
        if self._handle >= 0:
            # The loop must not wait for the disk: whoever syncs takes over what is not synced.
            if self._dirty:
                self._unsynced.append(self._handle)
                self._dirty = False
            else:
                os.close(self._handle)
            self._handle = -1
            self._segment = None

    def settle(self, number: int) -> None:
        """Note that all of the intent's events are on Kafka, or that it has none."""
        watermark, settled = self.watermark, self._settled
        if number < watermark or (number != watermark and number in settled):
            if number in self._asides:
                self._bytes -= self._asides.settle(number)
                if self.on_settled is not None:
                    self.on_settled(number)
            return
        if self.on_settled is not None:
            self.on_settled(number)
        if number != watermark:
            settled.add(number)
            return
        while True:
            watermark += 1
            self._times.popleft()
            if not settled or watermark not in settled:
                break
            settled.remove(watermark)
        self.watermark = watermark

    def settle_all(self, numbers: Iterable[int]) -> None:
        """Settle many, lowest first: then few have to be kept until those below them are."""
        for number in sorted(numbers):
            self.settle(number)

    def save_watermark(self) -> None:
        """Write the watermark down and remove the segments below it.

        One that is behind only costs repeats, so this need not follow every ``settle``.
        """
        progress = self._written
        same = self.watermark == progress.watermark and self._next == progress.next
        if not same:
            self._write_progress()
        if not same or self.refused:
            self._remove_segments()

    def _write_progress(self) -> None:
        progress = EpochProgress(self.watermark, self._next)
        record, place = progress_record(progress, self._times_written)
        try:
            os.pwrite(self._watermark_handle, record, place)
        except OSError as error:
            # Files that copy when they are written need space even for this: segments that go make
            # room. A crash right now would only make readers look for requests that are published.
            _log.error("the journal's watermark is not written", reason=error.strerror)
        else:
            self._times_written += 1
            self._written = progress

    def _remove_segments(self) -> None:
        active = self._segment
        if (
            active is not None
            and self.watermark == self._next
            and (active.size >= self._segment_limit or self.refused)
        ):
            # Nobody needs it, so nobody syncs it; its space may be what is missing.
            self._dirty = False
            self._close_segment()
        while self._segments:
            segment = self._segments[0]
            if segment is self._segment or segment.end > self.watermark:
                return
            try:
                segment.path.unlink(missing_ok=True)
            except OSError as error:
                # It goes with its epoch, at the next start.
                _log.error(
                    "a segment of the journal is not removed",
                    segment=str(segment.path),
                    reason=error.strerror,
                )
            else:
                self._bytes -= segment.size
            self._segments.pop(0)

    # -- what must not keep the rest

    @property
    def segments(self) -> int:
        """How many segments the epoch has on the disk."""
        return len(self._segments)

    def pinned_segment(self) -> PinnedSegment:
        """Return the oldest segment, of which there must be one, with what is unsettled in it.

        The segment ends with that: later requests go to another.
        """
        segment = self._segments[0]
        if segment is self._segment:
            self._close_segment()
        settled = self._settled
        numbers = [
            number
            for number in range(max(self.watermark, segment.first), segment.end)
            if number not in settled
        ]
        return PinnedSegment(segment.path, self.epoch, segment.first, segment.end, numbers)

    def set_aside(self, pinned: PinnedSegment, copied: CopiedAside) -> None:
        """Go on as if everything in a segment were settled: what is not is in another file."""
        settled = self._settled
        left = [number for number in pinned.numbers if number not in settled]
        left = [number for number in left if number >= self.watermark]
        self._bytes += self._asides.add(copied, left)
        if self.watermark < pinned.end:
            for _ in range(pinned.end - self.watermark):
                self._times.popleft()
            settled.difference_update(range(self.watermark, pinned.end))
            self.watermark = pinned.end
            while self.watermark in settled:
                settled.remove(self.watermark)
                self._times.popleft()
                self.watermark += 1
        self.save_watermark()

    def take_unsynced(self) -> list[int]:
        """Return descriptors of what must reach the disk, for ``os.fdatasync``.

        They belong to the caller, who closes them: a segment may end while another thread syncs it.
        """
        taken, self._unsynced = self._unsynced, []
        if self._dirty:
            self._dirty = False
            taken.append(os.dup(self._handle))
        return taken

    def open_epochs(self) -> list[OpenEpoch]:
        """Return what earlier epochs left behind, oldest first; ``forget_epoch`` ends each.

        Raises:
            JournalError: a segment cannot be read.
        """
        return open_epochs(self._directory, but=self.epoch)

    def save_gaps(self, gaps: Mapping[str, float]) -> None:
        """Write down since when (Unix seconds) writes of which tables pass without events.

        Raises:
            JournalError: the file system refused.
        """
        save_gaps(self._directory, self.epoch, gaps)

    def forget_part(self, epoch: OpenEpoch, part: EpochPart, kept: Iterable[Intent]) -> None:
        """Remove a file of an earlier epoch that is on Kafka but for ``kept``, which is set aside.

        Raises:
            JournalError: the file system refused.
        """
        self._bytes += epoch.forget(part, kept)

    def forget_epoch(self, epoch: int) -> None:
        """Remove what an earlier epoch left, once it is all on Kafka."""
        for path in self._directory.glob(f"{epoch:010d}-*"):
            if path.suffix in (".segment", ".aside"):
                self._bytes -= path.stat().st_size
            path.unlink()
        gaps_path(self._directory, epoch).unlink(missing_ok=True)
        watermark_path(self._directory, epoch).unlink(missing_ok=True)

    def close(self) -> None:
        """Sync and let go of the directory. With nothing unsettled, no trace of the epoch stays."""
        self.save_watermark()
        self._close_segment()
        for handle in self._unsynced:
            os.fdatasync(handle)
            os.close(handle)
        os.close(self._watermark_handle)
        # A gap that was not announced is left to the next start.
        gap = gaps_path(self._directory, self.epoch).exists()
        if not self.unsettled and not gap:
            self.forget_epoch(self.epoch)
        os.close(self._lock)

    def abandon(self) -> None:
        """Let go of the files in a forked child, which must not write to its parent's journal."""
        for handle in (self._handle, self._watermark_handle, self._lock, *self._unsynced):
            if handle >= 0:
                os.close(handle)
