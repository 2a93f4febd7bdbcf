"""What an epoch has on the disk beside its segments, and what epochs that have ended left there."""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from headgate.events import NewerFormat
from headgate.observer.recording.journal_errors import JournalError
from headgate.observer.recording.segments import (
    ASIDE_MAGIC,
    JOURNAL,
    Intent,
    SegmentReader,
    header_of,
    read_header,
    record_of,
)

_MAGIC: Final = b"HGW"
# magic, version, watermark, number of the next intent; checksum of these
_PROGRESS = struct.Struct(">3sBQQI")
SEGMENT_SUFFIX: Final = ".segment"
ASIDE: Final = ".aside"
"""Suffix of files of requests set aside, because Kafka takes no events of their tables."""
_SLOTS: Final = 2  # written in turn, so that a torn write leaves the other


class _Gaps(Struct, frozen=True):
    version: int
    since: dict[str, float]
    """Unix seconds since which writes passed without events, by table."""


class EpochProgress(Struct, frozen=True):
    """How far an epoch is, as it is written down beside its segments."""

    watermark: int = 0
    """Below it everything is on Kafka."""
    next: int = 0
    """So many requests there were at least: those from the watermark on must be in segments."""


_OWN_NAME: Final = re.compile(r"([0-9]{10,19})(?:-[0-9]+)?\.[a-z-]+")
_HIGHEST: Final = (1 << 53) - 1
"""Epochs: the time in seconds is far below it, and every reader of JSON takes it as it is."""
PROGRESS_BYTES: Final = _SLOTS * _PROGRESS.size


def progress_record(progress: EpochProgress, count: int) -> tuple[bytes, int]:
    """Return what is written down the ``count``-th time, and where in the file."""
    data = _PROGRESS.pack(_MAGIC, JOURNAL.version, progress.watermark, progress.next, 0)[:-4]
    return data + zlib.crc32(data).to_bytes(4, "big"), count % _SLOTS * _PROGRESS.size


def segment_path(directory: Path, epoch: int, first: int) -> Path:
    """Return where the segment is whose first intent has the number ``first``."""
    return directory / f"{epoch:010d}-{first:020d}{SEGMENT_SUFFIX}"


def aside_path(segment: Path) -> Path:
    """Return where the requests of a segment are that were set aside."""
    return segment.with_suffix(ASIDE)


def watermark_path(directory: Path, epoch: int) -> Path:
    """Return where it is written down below which intent everything of an epoch is on Kafka."""
    return directory / f"{epoch:010d}.watermark"


def gaps_path(directory: Path, epoch: int) -> Path:
    """Return where it is written down since when writes passed without events."""
    return directory / f"{epoch:010d}.gaps"


def _read_progress(path: Path) -> EpochProgress:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return EpochProgress()
    watermark = following = 0
    for slot in range(_SLOTS):
        part = data[slot * _PROGRESS.size : (slot + 1) * _PROGRESS.size]
        if len(part) == _PROGRESS.size:
            magic, version, *numbers, checksum = _PROGRESS.unpack(part)
            if magic == _MAGIC and zlib.crc32(part[:-4]) == checksum:
                _check_version(version, path)
                watermark = max(watermark, numbers[0])
                following = max(following, numbers[1])
    return EpochProgress(watermark, following)


def _check_version(version: int, path: Path) -> None:
    try:
        JOURNAL.check(version)
    except ValueError as error:
        raise JournalError(f"{path}: {error}") from error


def has_open_epochs(directory: Path) -> bool:
    """Return whether a directory's journal holds what may not be on Kafka."""
    kinds = ("*.segment", "*.aside", "*.watermark", "*.gaps")
    return any(True for kind in kinds for _ in directory.glob(kind))


def save_gaps(directory: Path, epoch: int, gaps: Mapping[str, float]) -> None:
    """Write down since when (Unix seconds) writes of which tables passed without events.

    Raises:
        JournalError: the file system refused.
    """
    path = gaps_path(directory, epoch)
    draft = path.with_suffix(".draft")
    try:
        if not gaps:
            path.unlink(missing_ok=True)
            return
        with draft.open("wb") as file:
            file.write(msgspec.json.encode(_Gaps(JOURNAL.version, dict(gaps))))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        sync_directory(directory)
    except OSError as error:
        raise JournalError(
            f"journal {directory}: {error.strerror}; free space on its disk"
        ) from error


def _read_gaps(directory: Path, epoch: int) -> dict[str, float]:
    path = gaps_path(directory, epoch)
    try:
        data = path.read_bytes()
        JOURNAL.check_json(data)
        return msgspec.json.decode(data, type=_Gaps).since
    except FileNotFoundError:
        return {}
    except NewerFormat as error:
        raise JournalError(f"{path}: {error}") from error
    except ValueError as error:
        raise JournalError(f"{path}: {error}; without it a gap would be hidden") from error


class EpochPart:
    """One file of an earlier epoch: a segment, or requests that were set aside from one.

    ``intents`` reads it. After that ``damage`` and ``end`` are known.
    """

    def __init__(self, path: Path, epoch: int, expected: int) -> None:
        self.path = path
        self.epoch = epoch
        self.first = int(path.stem.partition("-")[2])
        self.is_aside = path.suffix == ASIDE
        self._expected = expected
        self.damage = ""
        """Requests that cannot be read any more, in words; their tables are not known."""
        self.end = expected
        """The number behind the last request up to here, of the epoch."""
        self.torn = False
        """True if something behind the last readable request is damaged."""

    def intents(self) -> Iterator[Intent]:
        """Yield what may be unpublished, in the order of its numbers.

        Raises:
            JournalError: the file cannot be read, or a newer headgate wrote it.
        """
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise JournalError(
                f"{self.path}: {error.strerror}; without it updates would be lost"
            ) from error
        try:
            count = read_header(data)
        except ValueError as error:
            raise JournalError(f"{self.path}: {error}") from error
        reader = SegmentReader(data, self.first)
        if self.is_aside:
            yield from self._set_aside(count, reader)
            return
        missing: list[str] = []
        expected = self._expected
        for intent in reader:
            if intent.number < expected:
                continue
            if intent.number != expected:
                missing.append(f"{expected} to {intent.number - 1}")
            expected = intent.number + 1
            yield intent
        self.end = expected
        self.torn = not reader.whole
        if missing:
            self.damage = f"requests {', '.join(missing)} cannot be read"

    def _set_aside(self, written: int | None, reader: SegmentReader) -> Iterator[Intent]:
        """Yield requests; ``written`` is how many there were, None where the header is damaged."""
        count = 0
        for intent in reader:
            count += 1
            yield intent
        if written is None:
            written = count + 1
        if count < written:
            self.damage = f"{written - count} requests that were set aside cannot be read"


class OpenEpoch:
    """An epoch that ended without having published everything."""

    def __init__(self, directory: Path, epoch: int, paths: Sequence[Path]) -> None:
        self.epoch = epoch
        self.gaps = _read_gaps(directory, epoch)
        """Unix seconds since which writes passed without events, unannounced, by table."""
        self._directory = directory
        self._paths = sorted(paths)
        self._progress = _read_progress(watermark_path(directory, epoch))
        self._expected = self._progress.watermark
        self._torn = False

    def parts(self) -> Iterator[EpochPart]:
        """Yield the epoch's files: what was set aside, then the segments in their order.

        Each must be read before the next is asked for.
        """
        for suffix in (ASIDE, SEGMENT_SUFFIX):
            for path in self._paths:
                if path.suffix != suffix:
                    continue
                part = EpochPart(path, self.epoch, self._expected)
                yield part
                self._expected = part.end
                self._torn = part.torn

    @property
    def missing_at_the_end(self) -> str:
        """Words for the unreadable requests behind the last part; empty if none is missing.

        It is known once all parts were read.
        """
        if self._expected < self._progress.next:
            return f"requests {self._expected} to {self._progress.next - 1} cannot be read"
        return f"requests {self._expected} and later cannot be read" if self._torn else ""

    def keep_gaps(self, gaps: Mapping[str, float]) -> None:
        """Write down which gaps are still to be announced, by table.

        Raises:
            JournalError: the file system refused.
        """
        self.gaps = dict(gaps)
        save_gaps(self._directory, self.epoch, self.gaps)

    def forget(self, part: EpochPart, kept: Iterable[Intent]) -> int:
        """Remove a part that is on Kafka but for ``kept``, which is set aside from a segment.

        Returns by how many bytes the directory has grown: mostly it shrinks.

        Raises:
            JournalError: the file system refused.
        """
        records = [record_of(intent) for intent in kept]
        grown = 0
        try:
            size = part.path.stat().st_size
            if not part.is_aside:
                if records:
                    grown = write_aside(aside_path(part.path), self.epoch, records)
                self._save_progress(part.end)
            elif records:
                return 0
            part.path.unlink()
        except OSError as error:
            raise JournalError(
                f"journal {self._directory}: {error.strerror}; free space on its disk"
            ) from error
        return grown - size

    def _save_progress(self, watermark: int) -> None:
        """Write down that everything below a number is on Kafka, or was set aside."""
        progress = EpochProgress(watermark, max(watermark, self._progress.next))
        path = watermark_path(self._directory, self.epoch)
        draft = path.with_suffix(".draft")
        record, _ = progress_record(progress, 0)
        with draft.open("wb") as file:
            file.write(record.ljust(PROGRESS_BYTES, b"\0"))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)


def epoch_of(path: Path) -> int:
    """Return the epoch that a file of a journal belongs to.

    Raises:
        JournalError: this is no file that a journal has made.
    """
    found = _OWN_NAME.fullmatch(path.name)
    epoch = int(found[1]) if found is not None else _HIGHEST + 1
    if epoch > _HIGHEST or not path.is_file():
        raise JournalError(
            f"{path} is not a file that a journal makes; move it out of the journal's directory"
        )
    return epoch


def read_epoch(path: Path, otherwise: int) -> int:
    """Return the number of the last epoch as it was written down; ``otherwise`` where none was.

    Raises:
        JournalError: it cannot be read, or is no number that an epoch can have.
    """
    try:
        last = int(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        return otherwise
    except OSError as error:
        raise JournalError(
            f"{path} cannot be read ({error.strerror}); move it away, and restore it from a backup"
        ) from error
    except ValueError as error:
        raise JournalError(f"{path} holds no number; restore it from a backup") from error
    if last not in range(_HIGHEST):
        raise JournalError(f"{path} holds no number of an epoch; restore it from a backup")
    return last


def open_epochs(directory: Path, *, but: int) -> list[OpenEpoch]:
    """Return what epochs but the one left in a directory, oldest first.

    Raises:
        JournalError: a file of theirs cannot be read.
    """
    found: dict[int, list[Path]] = {}
    for suffix in (SEGMENT_SUFFIX, ASIDE):
        for path in directory.glob(f"*{suffix}"):
            found.setdefault(epoch_of(path), []).append(path)
    for path in directory.glob("*.watermark"):
        found.setdefault(epoch_of(path), [])
    return [
        OpenEpoch(directory, epoch, paths) for epoch, paths in sorted(found.items()) if epoch != but
    ]


def write_aside(path: Path, epoch: int, records: Sequence[bytes]) -> int:
    """Write a file of requests that are set aside, so that it is there whole or not at all.

    Returns its length in bytes.

    Raises:
        OSError: the file system refused.
    """
    data = b"".join((header_of(ASIDE_MAGIC, epoch, len(records)), *records))
    draft = path.with_suffix(".aside-draft")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)
    return len(data)


def open_directory(directory: Path) -> int:
    """Return a descriptor of a directory, to be synced and closed."""
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def sync_directory(directory: Path) -> None:
    """Have the names in a directory reach the disk.

    Raises:
        OSError: the file system refused.
    """
    handle = open_directory(directory)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
