"""What is damaged or gone of an earlier epoch is told, and costs nothing else."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journals import crash, damaged, left_in, opened, put, read_segment, read_whole

from headgate.observer.recording.epochs import PROGRESS_BYTES, open_epochs
from headgate.observer.recording.journal_errors import JournalError
from headgate.observer.recording.segments import ASIDE_MAGIC, SEGMENT, header_of


def damage_of(directory: Path) -> tuple[list[int], str]:
    """The numbers that a start after a crash finds, and what it says is missing."""
    (epoch,) = left_in(opened(directory))
    return [intent.number for intent in epoch.intents], epoch.damage


def test_a_damaged_record_costs_only_itself_and_is_told(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    sizes = [SEGMENT.size]
    for request in (b"first", b"second " + bytes(100), b"third", b"fourth"):
        put(journal, request)
        (segment,) = tmp_path.glob("*.segment")
        sizes.append(segment.stat().st_size)
    crash(journal)
    data = bytearray(segment.read_bytes())
    expected = [0, 2, 3]
    for position in range(sizes[1], sizes[2]):
        data[position] ^= 0x40
        found = read_segment(bytes(data), 0)
        assert [intent.number for intent in found.intents] == expected, position
        data[position] ^= 0x40
    data[sizes[1] + 50] ^= 1
    segment.write_bytes(data)
    assert damage_of(tmp_path) == (expected, "requests 1 to 1 cannot be read")


def test_a_damaged_record_at_the_end_is_told(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for request in (b"first", b"second"):
        put(journal, request)
    crash(journal)
    (segment,) = tmp_path.glob("*.segment")
    segment.write_bytes(segment.read_bytes()[:-1] + b"?")
    assert damage_of(tmp_path) == ([0], "requests 1 and later cannot be read")


def test_a_segment_that_is_gone_or_unreadable_is_told(tmp_path: Path) -> None:
    journal = opened(tmp_path, segment=100)
    for _ in range(5):
        put(journal, b"x" * 60)
    crash(journal)
    segments = sorted(tmp_path.glob("*.segment"))
    segments[1].unlink()
    segments[3].write_bytes(b"nothing of ours" * 10)
    numbers, damage = damage_of(tmp_path)
    assert numbers == [0, 2, 4]
    assert damage == "requests 1 to 1 cannot be read; requests 3 to 3 cannot be read"


def test_what_is_damaged_below_the_watermark_is_of_no_interest(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for request in (b"first", b"second"):
        put(journal, request)
    journal.settle(0)
    journal.save_watermark()
    crash(journal)
    (segment,) = tmp_path.glob("*.segment")
    data = bytearray(segment.read_bytes())
    data[SEGMENT.size + 30] ^= 1
    segment.write_bytes(data)
    assert damage_of(tmp_path) == ([1], "")


def test_a_bit_that_flipped_anywhere_loses_no_request_silently(tmp_path: Path) -> None:
    """Nothing was written down since the first request: nothing else knows of the last one."""
    journal = opened(tmp_path)
    requests = [b"first request", b"", b"x" * 300, b"the last request"]
    for request, table in zip(requests, ("t", "tables", "t" * 200, "t"), strict=True):
        put(journal, request, table)
    crash(journal)
    (path,) = tmp_path.glob("*.segment")
    whole = path.read_bytes()
    silent = []
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        found, damage = damaged(tmp_path, path, bytes(data))
        if found != requests and not damage:
            silent.append(bit)
    assert silent == []


@given(
    at=st.integers(0, 600),
    put_there=st.one_of(st.binary(min_size=1, max_size=64), st.integers(1, 600).map(bytes)),
)
def test_bytes_that_became_others_lose_no_request_silently(
    tmp_path_factory: pytest.TempPathFactory, at: int, put_there: bytes
) -> None:
    directory = tmp_path_factory.mktemp("journal")
    journal = opened(directory)
    requests = [b"first request", b"x" * 300, b"the last request"]
    for request in requests:
        put(journal, request)
    journal.save_watermark()
    crash(journal)
    (path,) = directory.glob("*.segment")
    data = bytearray(path.read_bytes())
    data[at : at + len(put_there)] = put_there[: max(0, len(data) - at)]
    found, damage = damaged(directory, path, bytes(data))
    assert found == requests or damage


def test_a_segment_whose_version_is_damaged_is_told_and_not_read(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    put(journal, b"a")
    crash(journal)
    (path,) = tmp_path.glob("*.segment")
    data = path.read_bytes()
    assert damaged(tmp_path, path, data[:3] + b"\x02" + data[4:]) == (
        [],
        "requests 0 to 0 cannot be read",
    )


def of_next_version(record: bytes) -> bytes:
    """A header or a slot whose checksum is right and whose version is another."""
    newer = record[:3] + b"\x02" + record[4:-4]
    return newer + zlib.crc32(newer).to_bytes(4, "big")


@pytest.mark.parametrize("suffix", [".segment", ".aside"])
def test_requests_that_a_newer_headgate_kept_are_neither_read_nor_removed(
    tmp_path: Path, suffix: str
) -> None:
    journal = opened(tmp_path)
    put(journal, b"a")
    crash(journal)
    (path,) = tmp_path.glob("*.segment")
    data = path.read_bytes()
    if suffix == ".aside":
        path = path.rename(path.with_suffix(suffix))
        data = header_of(ASIDE_MAGIC, journal.epoch, 1) + data[SEGMENT.size :]
    newer = of_next_version(data[: SEGMENT.size]) + data[SEGMENT.size :]
    with pytest.raises(JournalError, match=f"{path.name}: .*a newer headgate wrote it"):
        damaged(tmp_path, path, newer)
    assert path.read_bytes() == newer


def test_a_watermark_that_a_newer_headgate_wrote_is_refused(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    put(journal, b"a")
    crash(journal)
    (path,) = tmp_path.glob("*.watermark")
    slot = path.read_bytes()[: PROGRESS_BYTES // 2]
    with pytest.raises(JournalError, match=f"{path.name}: .*a newer headgate wrote it"):
        damaged(tmp_path, path, of_next_version(slot))


def test_a_segment_that_was_cut_is_told_as_far_as_it_was_written_down(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for request in (b"a", b"b", b"c"):
        put(journal, request)
    journal.settle(0)
    journal.save_watermark()
    crash(journal)
    (path,) = tmp_path.glob("*.segment")
    data = path.read_bytes()
    for length in range(len(data)):
        found, damage = damaged(tmp_path, path, data[:length])
        assert damage.endswith(" to 2 cannot be read"), length
        assert found in ([], [b"b"])


@pytest.mark.parametrize("kept", [0, 1])
def test_a_last_segment_that_is_gone_is_told(tmp_path: Path, kept: int) -> None:
    journal = opened(tmp_path, segment=1)
    for request in (b"a", b"b"):
        put(journal, request)
    crash(journal)
    for path in sorted(tmp_path.glob("*.segment"))[kept:]:
        path.unlink()
    (epoch,) = read_whole(open_epochs(tmp_path, but=-1))
    assert epoch.damage == f"requests {kept} to 1 cannot be read"


def test_segments_that_went_because_all_is_settled_are_not_missed(tmp_path: Path) -> None:
    journal = opened(tmp_path, segment=1)
    for request in (b"a", b"b"):
        journal.settle(put(journal, request))
    journal.save_watermark()
    crash(journal)
    assert not list(tmp_path.glob("*.segment"))
    (epoch,) = read_whole(open_epochs(tmp_path, but=-1))
    assert (epoch.intents, epoch.damage) == ((), "")
