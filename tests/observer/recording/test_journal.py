"""What is appended comes back after a crash, within limits and for nobody else."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from journals import crash, left_in, opened, put, requests_of

from headgate.observer.recording.journal import Journal
from headgate.observer.recording.journal_errors import JournalError, JournalFull


def test_what_was_appended_is_there_after_a_crash(tmp_path: Path) -> None:
    first = opened(tmp_path)
    numbers = [put(first, request, "tä") for request in (b"one", b"", b"three")]
    crash(first)
    (epoch,) = left_in(opened(tmp_path))
    assert numbers == [0, 1, 2]
    assert [(i.number, i.request, i.table, i.received) for i in epoch.intents] == [
        (0, b"one", "tä", 12.5),
        (1, b"", "tä", 12.5),
        (2, b"three", "tä", 12.5),
    ]


@pytest.mark.parametrize("size", [4095, 4096, 4097, 70_000])
def test_a_request_of_any_size_is_there_after_a_crash(tmp_path: Path, size: int) -> None:
    journal = opened(tmp_path)
    request = bytes(range(256)) * (size // 256 + 1)
    put(journal, request[:size])
    crash(journal)
    assert requests_of(opened(tmp_path)) == [request[:size]]


def test_what_clients_wrote_is_for_nobody_else_to_read(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    put(journal, b"a")
    files = [path for kind in ("lock", "*.watermark", "*.segment") for path in tmp_path.glob(kind)]
    assert [path.stat().st_mode & 0o777 for path in files] == [0o600] * 3


def test_an_end_leaves_all_on_the_disk_and_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Path("/proc/self/fd")
    before = len(list(files.iterdir()))
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fdatasync", lambda handle: synced.append((files / str(handle)).readlink().name)
    )
    journal = opened(tmp_path)
    put(journal, b"a")
    journal.close()
    (segment,) = tmp_path.glob("*.segment")
    assert sorted(synced) == sorted([segment.name, tmp_path.name])
    assert len(list(files.iterdir())) == before


def test_beyond_its_limit_the_journal_takes_nothing_until_there_is_room(tmp_path: Path) -> None:
    journal = opened(tmp_path, limit=400, segment=100)
    put(journal, b"x" * 150)
    put(journal, b"x" * 100)
    with pytest.raises(JournalFull):
        put(journal, b"x" * 100)
    journal.settle(0)
    journal.save_watermark()
    assert put(journal, b"x" * 100) == 2


def test_the_journal_may_be_filled_to_its_last_byte(tmp_path: Path) -> None:
    journal = opened(tmp_path, limit=400)
    put(journal, b"x" * 50)
    left = 400 - journal.size
    assert (journal.has_room(left), journal.has_room(left + 1)) == (True, False)


def test_a_request_above_the_limit_is_taken_when_it_is_alone(tmp_path: Path) -> None:
    journal = opened(tmp_path, limit=100, segment=100)
    assert put(journal, b"x" * 500) == 0


def names_to_sync(journal: Journal) -> list[str]:
    """Return what must reach the disk, and let it."""
    names = []
    for handle in journal.take_unsynced():
        names.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        os.fdatasync(handle)
        os.close(handle)
    return names


def test_what_is_to_be_synced_is_handed_over_once(tmp_path: Path) -> None:
    journal = opened(tmp_path, segment=100)
    put(journal, b"x" * 100)
    put(journal, b"x")
    first, second = (path.name for path in sorted(tmp_path.glob("*.segment")))
    # With the names of both, which are in the directory.
    assert sorted(names_to_sync(journal)) == sorted([first, second, *[tmp_path.name] * 2])
    assert names_to_sync(journal) == []
    put(journal, b"x")
    assert names_to_sync(journal) == [second]


@given(
    requests=st.lists(st.binary(max_size=40), max_size=20),
    settled=st.lists(st.integers(0, 19), max_size=20),
    segment=st.integers(20, 200),
)
def test_a_crash_loses_no_unsettled_request(
    tmp_path_factory: pytest.TempPathFactory,
    requests: list[bytes],
    settled: list[int],
    segment: int,
) -> None:
    directory = tmp_path_factory.mktemp("journal")
    journal = opened(directory, segment=segment)
    for request in requests:
        put(journal, request)
    done = {number for number in settled if number < len(requests)}
    for number in done:
        journal.settle(number)
        journal.save_watermark()
    crash(journal)
    (epoch,) = left_in(opened(directory))
    found = {intent.number: intent.request for intent in epoch.intents}
    for number, request in enumerate(requests):
        if number not in done:
            assert found[number] == request


def test_other_limits_hold_from_when_they_are_set(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    put(journal, b"x" * 1000)
    assert journal.has_room(5000)
    journal.reconfigure(limit_bytes=2000, segment_bytes=500)
    assert not journal.has_room(5000)
    with pytest.raises(JournalFull):
        put(journal, b"x" * 5000)
    before = len(list(tmp_path.glob("*.segment")))
    for _ in range(2):
        put(journal, b"x" * 400)
    assert len(list(tmp_path.glob("*.segment"))) > before
    journal.reconfigure(limit_bytes=1 << 20, segment_bytes=1 << 16)
    assert journal.has_room(5000)


def test_an_epoch_begins_above_one_that_was_heard_of_elsewhere(tmp_path: Path) -> None:
    journal = Journal(tmp_path, limit_bytes=1000, segment_bytes=100, first_epoch=5)
    assert journal.epoch == 5
    assert journal.begin_above(40) == 41
    journal.close()
    again = Journal(tmp_path, limit_bytes=1000, segment_bytes=100, first_epoch=5)
    assert again.epoch == 42
    assert again.open_epochs() == []
    again.close()


def open_anew(directory: Path) -> None:
    journal = Journal(directory, limit_bytes=1000, segment_bytes=100)
    try:
        journal.open_epochs()
    finally:
        journal.close()


stray = st.one_of(
    st.builds(
        str.__add__,
        st.text("0123456789-abc .", max_size=12),
        st.sampled_from([".segment", ".watermark", ".aside"]),
    ),
    st.just("9" * 30 + ".segment"),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=stray, is_folder=st.booleans())
def test_a_stray_file_is_named_with_the_cure(
    tmp_path_factory: pytest.TempPathFactory, name: str, is_folder: bool
) -> None:
    directory = tmp_path_factory.mktemp("journal")
    path = directory / name
    path.mkdir() if is_folder else path.write_bytes(b"")
    with suppress(JournalError):
        open_anew(directory)


@pytest.mark.parametrize("text", ["", "x", "1" + "0" * 30, "-1", "٣", None])
def test_an_epoch_that_is_none_is_named_with_the_cure(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "epoch"
    path.mkdir() if text is None else path.write_text(text, encoding="utf-8")
    with pytest.raises(JournalError, match="restore it from a backup"):
        open_anew(tmp_path)
