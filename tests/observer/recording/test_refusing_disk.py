"""A journal on a disk that refuses: what was taken stays, and it goes on later."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from journals import crash, left_in, opened, put, requests_of

from headgate.observer.recording.journal_errors import JournalError


@pytest.fixture
def file_limit() -> Iterator[Callable[[int], None]]:
    """Let the kernel refuse what would make a file larger, as a full disk does: in its middle."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


def test_a_record_that_found_no_room_leaves_no_trace(
    tmp_path: Path, file_limit: Callable[[int], None]
) -> None:
    journal = opened(tmp_path)
    put(journal, b"first")
    file_limit(300)
    with pytest.raises(JournalError, match="free space on its disk"):
        put(journal, b"x" * 1000)
    assert put(journal, b"small") == 1
    file_limit(1 << 20)
    assert put(journal, b"y" * 1000) == 2
    crash(journal)
    assert requests_of(opened(tmp_path)) == [b"first", b"small", b"y" * 1000]


@pytest.mark.parametrize("before", [[], [b"first"]])
def test_a_torn_record_that_cannot_be_cut_off_ends_its_segment(
    tmp_path: Path,
    file_limit: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    before: list[bytes],
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    journal = opened(tmp_path)
    for request in before:
        put(journal, request)
    file_limit(300)
    monkeypatch.setattr(os, "ftruncate", refuse)
    with pytest.raises(JournalError):
        put(journal, b"x" * 1000)
    file_limit(1 << 20)
    put(journal, b"next")
    crash(journal)
    (epoch,) = left_in(opened(tmp_path))
    assert [intent.request for intent in epoch.intents] == [*before, b"next"]
    assert epoch.damage == ""
    for number in range(len(before) + 1):
        journal.settle(number)
    journal._close_segment()
    journal.save_watermark()
    assert not list(tmp_path.glob(f"{journal.epoch:010d}-*.segment"))
    assert journal.size == 0


def test_a_new_segment_that_finds_no_room_is_tried_again(
    tmp_path: Path, file_limit: Callable[[int], None]
) -> None:
    journal = opened(tmp_path, segment=100)
    put(journal, b"x" * 100)
    file_limit(10)
    for _ in range(3):
        with pytest.raises(JournalError, match="free space on its disk"):
            put(journal, b"second")
    file_limit(1 << 20)
    put(journal, b"second")
    crash(journal)
    assert requests_of(opened(tmp_path)) == [b"x" * 100, b"second"]


def test_a_watermark_that_cannot_be_written_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opened(tmp_path)
    journal.settle(put(journal, b"a"))

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", refuse)
        journal.save_watermark()
    put(journal, b"b")
    journal.save_watermark()
    crash(journal)
    assert requests_of(opened(tmp_path)) == [b"b"]


def test_a_start_without_room_on_the_disk_says_so(
    tmp_path: Path, file_limit: Callable[[int], None]
) -> None:
    file_limit(0)
    with pytest.raises(JournalError, match="free space on its disk"):
        opened(tmp_path)
    file_limit(1 << 20)
    opened(tmp_path).close()


def test_the_watermark_has_its_place_on_the_disk_before_there_is_one(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    (path,) = tmp_path.glob("*.watermark")
    sizes = [path.stat().st_size]
    for _ in range(3):
        journal.settle(put(journal, b"a"))
        journal.save_watermark()
        sizes.append(path.stat().st_size)
    assert sizes == [2 * 24] * 4  # two slots, written in turn


def test_what_must_reach_the_disk_is_known_though_a_new_segment_cannot_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opened(tmp_path, segment=500)
    put(journal, b"x" * 600)

    def refuse(*_place: object, **_mode: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(JournalError, match="No space left"):
            put(journal, b"y" * 400)
    handles = journal.take_unsynced()
    assert handles
    for handle in handles:
        os.fdatasync(handle)
        os.close(handle)
    assert put(journal, b"z") == 1


def test_a_segment_that_is_settled_makes_room_for_the_next_request(
    tmp_path: Path, file_limit: Callable[[int], None]
) -> None:
    journal = opened(tmp_path)
    file_limit(1000)
    for size in (600, 600, 900):
        number = journal.next_intent
        try:
            put(journal, b"x" * size)
        except JournalError:
            journal.save_watermark()
            put(journal, b"x" * size)
        journal.settle(number)
        journal.save_watermark()
    assert journal.next_intent == 3


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("nobody may mount a file system here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_disk_that_is_full_heals_once_kafka_has_everything(small_disk: Path) -> None:
    journal = opened(small_disk)
    waiting: list[int] = []
    refusals = 0
    for _ in range(100):
        try:
            waiting.append(put(journal, b"x" * 3000))
        except JournalError:
            refusals += 1
            assert waiting, "it refuses though nothing waits"
            journal.settle_all(waiting)
            waiting.clear()
            journal.save_watermark()
        for handle in journal.take_unsynced():
            os.close(handle)
    assert refusals > 3
    assert journal.next_intent + refusals == 100
