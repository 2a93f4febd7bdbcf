"""What is settled, the watermark of it, and segments that go with it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from journals import crash, damaged, opened, put, read_whole, requests_of
from structlog.testing import capture_logs

from headgate.observer.recording.epochs import open_epochs


def test_the_watermark_passes_only_what_is_settled(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for _ in range(4):
        put(journal, b"x")
    journal.settle(2)
    journal.settle(1)
    assert journal.watermark == 0
    journal.settle(0)
    assert journal.watermark == 3
    assert journal.unsettled == 1


def test_each_intent_is_told_to_be_settled_once(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    told: list[int] = []
    journal.on_settled = told.append
    for _ in range(3):
        put(journal, b"x")
    for number in (2, 2, 0, 0, 1, 2):
        journal.settle(number)
    assert told == [2, 0, 1]


def test_the_age_of_the_oldest_is_that_of_what_is_not_settled(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    assert journal.oldest_age(100.0) == 0.0
    for received in (12.0, 14.0):
        journal.append(b"x", "t", listener=0, dialect=0, received=received)
    assert journal.oldest_age(12.25) == 0.25
    assert journal.oldest_age(10.0) == 0.0, "the clock was set back"
    journal.settle(0)
    assert journal.oldest_age(20.0) == 6.0
    journal.settle(1)
    assert journal.oldest_age(20.0) == 0.0


def test_a_watermark_that_is_lost_costs_repeats_only(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for request in (b"a", b"b"):
        put(journal, request)
    journal.settle(0)
    journal.save_watermark()
    crash(journal)
    (path,) = tmp_path.glob("*.watermark")
    path.unlink()
    (epoch,) = read_whole(open_epochs(tmp_path, but=-1))
    assert [intent.request for intent in epoch.intents] == [b"a", b"b"]
    assert epoch.damage == ""


def test_only_intents_above_the_watermark_come_back(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for request in (b"a", b"b", b"c"):
        put(journal, request)
    journal.settle(0)
    journal.settle(2)
    journal.save_watermark()
    crash(journal)
    assert requests_of(opened(tmp_path)) == [b"b", b"c"]


def test_a_watermark_torn_while_it_was_written_leaves_the_one_before(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for request in (b"a", b"b", b"c"):
        put(journal, request)
    journal.settle(0)
    journal.save_watermark()
    journal.settle(1)
    journal.save_watermark()
    crash(journal)
    path = tmp_path / f"{journal.epoch:010d}.watermark"
    data = path.read_bytes()
    assert damaged(tmp_path, path, bytes(len(data)))[0] == [b"a", b"b", b"c"]
    assert damaged(tmp_path, path, b"\xff" * 5 + data[5:])[0] == [b"b", b"c"]
    assert damaged(tmp_path, path, data)[0] == [b"c"]


def test_segments_go_when_they_are_wholly_below_the_watermark(tmp_path: Path) -> None:
    journal = opened(tmp_path, segment=100)
    for _ in range(6):
        put(journal, b"x" * 60)
    assert len(list(tmp_path.glob("*.segment"))) == 6
    for number in (0, 1, 3):
        journal.settle(number)
    journal.save_watermark()
    names = sorted(path.name.partition("-")[2] for path in tmp_path.glob("*.segment"))
    assert [int(name.removesuffix(".segment")) for name in names] == [2, 3, 4, 5]
    assert journal.size == sum(path.stat().st_size for path in tmp_path.glob("*.segment"))


def test_a_segment_that_is_not_full_goes_on_when_all_of_it_is_settled(tmp_path: Path) -> None:
    journal = opened(tmp_path, segment=300)
    segments = []
    for _ in range(4):
        journal.settle(put(journal, b"x" * 60))
        journal.save_watermark()
        segments.append([path.name.partition("-")[2] for path in tmp_path.glob("*.segment")])
    first = f"{0:020d}.segment"
    assert segments == [[first], [first], [first], []]
    assert journal.size == 0


def test_a_segment_that_somebody_has_removed_is_not_missed_when_it_may_go(tmp_path: Path) -> None:
    journal = opened(tmp_path, segment=100)
    for number in range(6):
        put(journal, b"x" * 60)
        journal.settle(number)
    next(iter(sorted(tmp_path.glob("*.segment")))).unlink()
    journal.save_watermark()
    assert journal.size == sum(path.stat().st_size for path in tmp_path.glob("*.segment"))


def test_a_segment_that_cannot_be_removed_keeps_no_other_and_is_still_counted(
    tmp_path: Path, monkeypatch
) -> None:
    journal = opened(tmp_path, segment=100)
    for number in range(6):
        put(journal, b"x" * 60)
        journal.settle(number)
    first, *_ = sorted(tmp_path.glob("*.segment"))
    unlink = Path.unlink

    def refuse(path: Path, *, missing_ok: bool = False) -> None:
        if path == first:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    with capture_logs() as log:
        journal.save_watermark()
        put(journal, b"x")
        journal.save_watermark()
    assert [line["reason"] for line in log] == [os.strerror(errno.EIO)]
    assert first in tmp_path.glob("*.segment")
    assert journal.size == sum(path.stat().st_size for path in tmp_path.glob("*.segment"))
