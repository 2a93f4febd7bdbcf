"""Journals of tests: opened, written to, left as a crash leaves them, and read again."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from headgate.observer.recording.epochs import OpenEpoch, open_epochs
from headgate.observer.recording.journal import Journal
from headgate.observer.recording.segments import Intent, SegmentReader


def opened(directory: Path, *, limit: int = 1 << 20, segment: int = 1 << 16) -> Journal:
    return Journal(directory, limit_bytes=limit, segment_bytes=segment)


def put(journal: Journal, request: bytes, table: str = "t") -> int:
    return journal.append(request, table, listener=0, dialect=0, received=12.5)


def requests_of(journal: Journal) -> list[bytes]:
    return [intent.request for epoch in left_in(journal) for intent in epoch.intents]


class Left(Struct):
    """Requests, damage and gaps that an earlier epoch left, read as a whole."""

    epoch: int
    intents: tuple[Intent, ...]
    damage: str
    gaps: dict[str, float]


def left_in(journal: Journal) -> list[Left]:
    return read_whole(journal.open_epochs())


def read_whole(epochs: Iterable[OpenEpoch]) -> list[Left]:
    found = []
    for epoch in epochs:
        intents: list[Intent] = []
        damage = []
        for part in epoch.parts():
            intents += part.intents()
            damage.append(part.damage)
        damage.append(epoch.missing_at_the_end)
        words = "; ".join(filter(None, damage))
        found.append(Left(epoch.epoch, tuple(intents), words, epoch.gaps))
    return found


class Segment(Struct):
    intents: tuple[Intent, ...]
    whole: bool


def read_segment(data: bytes, first: int) -> Segment:
    reader = SegmentReader(data, first)
    intents = tuple(reader)
    return Segment(intents, reader.whole)


def crash(journal: Journal) -> None:
    """Let go of the lock, as the kernel does for a killed process, and do nothing else."""
    os.close(journal._lock)


def damaged(directory: Path, path: Path, data: bytes) -> tuple[list[bytes], str]:
    """What a start finds if a file of an earlier epoch holds this."""
    path.write_bytes(data)
    (epoch,) = read_whole(open_epochs(directory, but=-1))
    return [intent.request for intent in epoch.intents], epoch.damage
