"""What an epoch has on the disk beside its segments, and what epochs that have ended left there."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from headgate.observer.recording.journal_errors import JournalError
from headgate.observer.recording.segments import Intent, Segment, read_segment

_PROGRESS = struct.Struct(">QQI")  # watermark, number of the next intent, checksum
_WATERMARK = struct.Struct(">QI")  # without that number: of versions that did not write it down
_SLOTS: Final = 2  # written in turn, so that a torn write leaves the other


class EpochProgress(Struct, frozen=True):
    """How far an epoch is, as it is written down beside its segments."""

    watermark: int = 0
    """Below it everything is on Kafka."""
    next: int = 0
    """So many requests there were at least: those from the watermark on must be in segments."""


PROGRESS_BYTES: Final = _SLOTS * _PROGRESS.size


def progress_record(progress: EpochProgress, count: int) -> tuple[bytes, int]:
    """Return what is written down the ``count``-th time, and where in the file."""
    data = _PROGRESS.pack(progress.watermark, progress.next, 0)[:-4]
    return data + zlib.crc32(data).to_bytes(4, "big"), count % _SLOTS * _PROGRESS.size


class OpenEpoch(Struct, frozen=True):
    """An epoch that ended without having published everything, with what may be unpublished."""

    epoch: int
    intents: tuple[Intent, ...]
    gaps: dict[str, float] = {}
    """By table, since when (Unix seconds) writes passed without events, unannounced."""
    damage: str = ""
    """Which requests cannot be read any more, in words; their tables are not known."""


def segment_path(directory: Path, epoch: int, first: int) -> Path:
    """Return where the segment is whose first intent has the number ``first``."""
    return directory / f"{epoch:010d}-{first:020d}.segment"


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
    form = _WATERMARK if len(data) == _SLOTS * _WATERMARK.size else _PROGRESS
    watermark = following = 0
    for slot in range(_SLOTS):
        part = data[slot * form.size : (slot + 1) * form.size]
        if len(part) == form.size:
            *values, checksum = form.unpack(part)
            if zlib.crc32(part[:-4]) == checksum:
                watermark = max(watermark, values[0])
                following = max(following, values[-1])
    return EpochProgress(watermark, following)


def has_open_epochs(directory: Path) -> bool:
    """Return whether a directory's journal holds what may not be on Kafka."""
    kinds = ("*.segment", "*.watermark", "*.gaps")
    return any(True for kind in kinds for _ in directory.glob(kind))


def open_epochs(directory: Path, *, but: int) -> list[OpenEpoch]:
    """Return what epochs but the one left in a directory, oldest first.

    Raises:
        JournalError: a segment cannot be read.
    """
    found: dict[int, list[Path]] = {}
    for path in sorted(directory.glob("*.segment")):
        epoch = int(path.name.partition("-")[0])
        if epoch != but:
            found.setdefault(epoch, []).append(path)
    for path in sorted(directory.glob("*.watermark")):
        epoch = int(path.stem)
        if epoch != but:
            found.setdefault(epoch, [])
    epochs = []
    for epoch, paths in sorted(found.items()):
        progress = _read_progress(watermark_path(directory, epoch))
        segments: list[Segment] = []
        for path in paths:
            first = int(path.stem.partition("-")[2])
            try:
                segments.append(read_segment(path.read_bytes(), first))
            except OSError as error:
                raise JournalError(
                    f"{path}: {error.strerror}; without it updates would be lost"
                ) from error
        intents = tuple(
            intent
            for segment in segments
            for intent in segment.intents
            if intent.number >= progress.watermark
        )
        damage = _damage(intents, progress, torn=bool(segments) and not segments[-1].whole)
        epochs.append(OpenEpoch(epoch, intents, _read_gaps(directory, epoch), damage))
    return epochs


def _read_gaps(directory: Path, epoch: int) -> dict[str, float]:
    path = gaps_path(directory, epoch)
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, float])
    except FileNotFoundError:
        return {}
    except msgspec.MsgspecError as error:
        raise JournalError(f"{path}: {error}; without it a gap would be hidden") from error


def _damage(intents: tuple[Intent, ...], progress: EpochProgress, *, torn: bool) -> str:
    """Say which requests from the watermark on are missing; empty if none is."""
    missing = []
    expected = progress.watermark
    for intent in intents:
        if intent.number != expected:
            missing.append(f"{expected} to {intent.number - 1}")
        expected = intent.number + 1
    if expected < progress.next:
        missing.append(f"{expected} to {progress.next - 1}")
    elif torn:
        missing.append(f"{expected} and later")
    return f"requests {', '.join(missing)} cannot be read" if missing else ""
