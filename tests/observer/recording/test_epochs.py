"""Epochs: one for each start, what each of them left, and its gaps."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from journals import crash, left_in, opened, put, requests_of

from headgate.observer.recording.journal import Journal
from headgate.observer.recording.journal_errors import JournalError


def test_each_start_is_a_new_epoch(tmp_path: Path) -> None:
    epochs = []
    for _ in range(3):
        journal = opened(tmp_path)
        epochs.append(journal.epoch)
        journal.close()
    assert epochs == [epochs[0], epochs[0] + 1, epochs[0] + 2]


def test_a_lost_directory_does_not_bring_old_epochs_back(tmp_path: Path) -> None:
    journal = Journal(
        tmp_path, limit_bytes=1 << 20, segment_bytes=1 << 16, first_epoch=1_700_000_000
    )
    assert journal.epoch == 1_700_000_000


def test_a_second_observer_is_refused_the_directory(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    with pytest.raises(JournalError, match="in use by another observer"):
        opened(tmp_path)
    journal.close()
    opened(tmp_path).close()


def test_a_clean_end_leaves_nothing_to_recover(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.settle(put(journal, b"a"))
    journal.close()
    assert opened(tmp_path).open_epochs() == []


def test_an_end_with_unsettled_requests_leaves_them(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    put(journal, b"a")
    journal.close()
    assert requests_of(opened(tmp_path)) == [b"a"]


def test_an_epoch_without_requests_is_remembered_until_it_is_forgotten(tmp_path: Path) -> None:
    first = opened(tmp_path)
    crash(first)
    second = opened(tmp_path)
    assert [epoch.epoch for epoch in second.open_epochs()] == [first.epoch]
    second.forget_epoch(first.epoch)
    assert second.open_epochs() == []


def test_several_crashes_leave_their_epochs_in_order(tmp_path: Path) -> None:
    for request in (b"a", b"b"):
        journal = opened(tmp_path)
        put(journal, request)
        crash(journal)
    last = opened(tmp_path)
    assert requests_of(last) == [b"a", b"b"]
    for left in (1, 0):
        last.forget_epoch(last.open_epochs()[0].epoch)
        segments = list(tmp_path.glob("*.segment"))
        assert (len(segments), last.size) == (left, sum(each.stat().st_size for each in segments))


def test_a_gap_that_was_not_announced_comes_back(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.save_gaps({"t": 7.0})
    crash(journal)
    (epoch,) = left_in(opened(tmp_path))
    assert epoch.gaps == {"t": 7.0}


def test_a_gap_that_was_announced_does_not_come_back(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for gaps in ({"t": 7.0}, {}):
        journal.save_gaps(gaps)
    crash(journal)
    (epoch,) = left_in(opened(tmp_path))
    assert epoch.gaps == {}


def test_gaps_that_cannot_be_read_are_not_taken_for_none(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.save_gaps({"t": 7.0})
    crash(journal)
    (path,) = tmp_path.glob("*.gaps")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(JournalError, match="a gap would be hidden"):
        opened(tmp_path).open_epochs()


def test_gaps_that_a_newer_headgate_wrote_are_refused(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.save_gaps({"t": 7.0})
    crash(journal)
    (path,) = tmp_path.glob("*.gaps")
    path.write_bytes(b'{"version": 2, "passed": ["t"]}')
    with pytest.raises(JournalError, match=f"{path.name}: .*a newer headgate wrote it"):
        opened(tmp_path).open_epochs()


def test_a_gap_is_on_the_disk_before_its_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opened(tmp_path)
    synced: list[str] = []
    sync = os.fsync

    def noted(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        sync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    journal.save_gaps({"t": 7.0})
    assert synced == [f"{journal.epoch:010d}.draft", tmp_path.name]


def test_a_clean_end_keeps_a_gap_that_was_not_announced(tmp_path: Path) -> None:
    journal = Journal(tmp_path, limit_bytes=1000, segment_bytes=1000)
    epoch = journal.epoch
    journal.save_gaps({"t": 5.0})
    journal.close()
    later = Journal(tmp_path, limit_bytes=1000, segment_bytes=1000)
    assert [(each.epoch, each.gaps) for each in later.open_epochs()] == [(epoch, {"t": 5.0})]
    later.close()
