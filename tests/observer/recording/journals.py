"""Journals of tests: opened, written to, left as a crash leaves them, and read again."""

from __future__ import annotations

import os
from pathlib import Path

from headgate.observer.recording.epochs import open_epochs
from headgate.observer.recording.journal import Journal


def opened(directory: Path, *, limit: int = 1 << 20, segment: int = 1 << 16) -> Journal:
    return Journal(directory, limit_bytes=limit, segment_bytes=segment)


def put(journal: Journal, request: bytes, table: str = "t") -> int:
    return journal.append(request, table, listener=0, dialect=0, received=12.5)


def requests_of(journal: Journal) -> list[bytes]:
    return [intent.request for epoch in journal.open_epochs() for intent in epoch.intents]


def crash(journal: Journal) -> None:
    """Let go of the lock, as the kernel does for a killed process, and do nothing else."""
    os.close(journal._lock)


def damaged(directory: Path, path: Path, data: bytes) -> tuple[list[bytes], str]:
    """What a start finds if a file of an earlier epoch holds this."""
    path.write_bytes(data)
    (epoch,) = open_epochs(directory, but=-1)
    return [intent.request for intent in epoch.intents], epoch.damage
