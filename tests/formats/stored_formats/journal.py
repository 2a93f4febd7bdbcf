"""The observer's journal: what is on the disk until Kafka has its events."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from headgate.observer.publishing.unpublished import Unpublished, UnpublishedWrites
from headgate.observer.recording.dropped import DroppedTables
from headgate.observer.recording.epochs import EpochProgress, open_epochs, watermark_path
from headgate.observer.recording.journal import Journal
from headgate.observer.recording.segments import JOURNAL, Intent
from stored_formats.case import Case, same_length, value

EPOCH = 1735689600
INTENTS = (
    Intent(0, 1735689600.25, 0, 0, "air:detectors", b"a request as its client sent it"),
    Intent(1, 1735689600.5, 1, 1, "t", b""),
    Intent(2, 1735689601.0, 0, 1, "\udcff", bytes(range(256))),
)
NAMES = {
    ".segment": f"{EPOCH}-{0:020d}.segment",
    ".aside": f"{EPOCH}-{0:020d}.aside",
    ".watermark": f"{EPOCH}.watermark",
    ".gaps": f"{EPOCH}.gaps",
}


def _journal(directory: Path) -> Journal:
    """Return a journal with three requests, of which the first is settled, and a gap."""
    journal = Journal(directory, limit_bytes=1 << 20, segment_bytes=1 << 20, first_epoch=EPOCH)
    for one in INTENTS:
        journal.append(
            one.request,
            one.table,
            listener=one.listener,
            dialect=one.dialect,
            received=one.received,
        )
    journal.settle(0)
    journal.save_watermark()
    journal.save_gaps({"air:detectors": 1735689602.5, "t": 1735689603.0})
    return journal


def _written(suffix: str) -> bytes:
    with TemporaryDirectory() as folder:
        journal = _journal(Path(folder))
        if suffix == ".aside":
            pinned = journal.pinned_segment()
            data = pinned.copy().path.read_bytes()
        else:
            data = (Path(folder) / NAMES[suffix]).read_bytes()
        journal.abandon()
    return data


def _read(suffix: str) -> Callable[[bytes], object]:
    def read(data: bytes) -> object:
        with TemporaryDirectory() as folder:
            (Path(folder) / NAMES[suffix]).write_bytes(data)
            if suffix == ".gaps":
                watermark_path(Path(folder), EPOCH).touch()
            (epoch,) = open_epochs(Path(folder), but=0)
            parts = list(epoch.parts()) if suffix in (".segment", ".aside") else []
            intents = tuple(intent for part in parts for intent in part.intents())
            assert not any(part.damage for part in parts)
            return intents or epoch.gaps or epoch._progress

    return read


def _epoch_written() -> bytes:
    with TemporaryDirectory() as folder:
        _journal(Path(folder)).close()
        return (Path(folder) / "epoch").read_bytes()


def _next_epoch(data: bytes) -> int:
    with TemporaryDirectory() as folder:
        (Path(folder) / "epoch").write_bytes(data)
        journal = Journal(Path(folder), limit_bytes=1, segment_bytes=1)
        journal.close()
        return journal.epoch


def _dropped_written() -> bytes:
    with TemporaryDirectory() as folder:
        noted = UnpublishedWrites()
        DroppedTables(Path(folder), noted, lambda save: save())
        noted.note("air:detectors", 1735689600.25, "nobody watched it", 10)
        noted.note_others(1735689601.0, "nobody watched them")
        return next(Path(folder).iterdir()).read_bytes()


def _dropped_read(data: bytes) -> object:
    with TemporaryDirectory() as folder:
        (Path(folder) / "dropped.json").write_bytes(data)
        noted = UnpublishedWrites()
        DroppedTables(Path(folder), noted, lambda save: save())
        return noted.all()


def _of_version_2(data: bytes) -> bytes:
    """Return a file whose header, or whose second slot, is of the next version."""
    size = 24 if data[:3] == b"HGW" else 20
    newer = data[:3] + b"\x02" + data[4 : size - 4]
    return newer + zlib.crc32(newer).to_bytes(4, "big") + data[size:]


_JSON = same_length(b'"version":1', b'"version":2')
CASES = [
    Case(
        JOURNAL.name,
        "requests.segment",
        _read(".segment"),
        value(INTENTS),
        lambda: _written(".segment"),
        newer=_of_version_2,
    ),
    Case(
        JOURNAL.name,
        "requests.aside",
        _read(".aside"),
        value(INTENTS[1:]),
        lambda: _written(".aside"),
        newer=_of_version_2,
    ),
    Case(
        JOURNAL.name,
        "progress.watermark",
        _read(".watermark"),
        value(EpochProgress(1, 3)),
        lambda: _written(".watermark"),
        newer=_of_version_2,
    ),
    Case(
        JOURNAL.name,
        "since.gaps",
        _read(".gaps"),
        value({"air:detectors": 1735689602.5, "t": 1735689603.0}),
        lambda: _written(".gaps"),
        newer=_JSON,
    ),
    Case(
        JOURNAL.name,
        "dropped.json",
        _dropped_read,
        value(
            {
                "air:detectors": Unpublished(1735689600.25, "nobody watched it"),
                "": Unpublished(1735689601.0, "nobody watched them"),
            }
        ),
        _dropped_written,
        newer=_JSON,
    ),
    Case(JOURNAL.name, "epoch", _next_epoch, value(EPOCH + 1), _epoch_written),
]
