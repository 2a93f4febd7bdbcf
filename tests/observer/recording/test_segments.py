"""What the bytes of a segment say, torn or damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from journals import opened, put, read_segment

from headgate.observer.recording.segments import SEGMENT


def test_a_tail_torn_at_any_byte_costs_only_the_torn_record(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    put(journal, b"first request")
    (path,) = tmp_path.glob("*.segment")
    whole_first = path.stat().st_size
    put(journal, b"second request")
    data = path.read_bytes()
    for length in range(len(data) + 1):
        segment = read_segment(data[:length], 0)
        found = [intent.request for intent in segment.intents]
        assert segment.whole
        expected = [b"first request"] if length >= whole_first else []
        if length == len(data):
            expected.append(b"second request")
        assert found == expected, length


def test_a_damaged_byte_anywhere_is_noticed(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    put(journal, b"first request")
    (path,) = tmp_path.glob("*.segment")
    data = bytearray(path.read_bytes())
    for position in range(SEGMENT.size, len(data)):
        data[position] ^= 0x40
        segment = read_segment(bytes(data), 0)
        read = [intent.request for intent in segment.intents]
        assert read == [b"first request"] or not (read or segment.whole), position
        data[position] ^= 0x40
    assert len(read_segment(bytes(data), 0).intents) == 1


def test_a_torn_tail_of_another_number_than_the_next_is_damage(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    put(journal, b"first request")
    (path,) = tmp_path.glob("*.segment")
    begin = path.stat().st_size
    put(journal, b"second request")
    data = bytearray(path.read_bytes()[:-1])
    assert read_segment(bytes(data), 0).whole
    data[begin + 10 + 7] ^= 4  # behind checksum and lengths
    segment = read_segment(bytes(data), 0)
    assert ([each.number for each in segment.intents], segment.whole) == ([0], False)


def test_the_length_of_a_long_name_is_mended(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    put(journal, b"request", "n" * 40_000)
    (path,) = tmp_path.glob("*.segment")
    data = bytearray(path.read_bytes())
    name_length = SEGMENT.size + 4
    data[name_length + 1] ^= 1
    (intent,) = read_segment(bytes(data), 0).intents
    assert (len(intent.table), intent.request) == (40_000, b"request")


@pytest.mark.parametrize(
    ("request_bytes", "table", "at"),
    [(b"request", "", 8), (b"", "table", 5), (b"", "", 4)],
    ids=["no table", "no request", "neither"],
)
def test_the_length_of_what_is_beside_nothing_is_mended(
    tmp_path: Path, request_bytes: bytes, table: str, at: int
) -> None:
    """Behind the checksum are the name's length, of two bytes, and the request's, of four."""
    journal = opened(tmp_path)
    put(journal, request_bytes, table)
    (path,) = tmp_path.glob("*.segment")
    data = bytearray(path.read_bytes())
    data[SEGMENT.size + at] ^= 1
    (intent,) = read_segment(bytes(data), 0).intents
    assert (intent.table, intent.request) == (table, request_bytes)


@pytest.mark.parametrize("apart", [(1 << 16) - 1, 1 << 16, 70_000])
def test_lengths_that_no_record_can_have_are_damage(tmp_path: Path, apart: int) -> None:
    journal = opened(tmp_path, segment=1 << 20)
    put(journal, b"x" * 70_000, "t")
    (path,) = tmp_path.glob("*.segment")
    data = bytearray(path.read_bytes())
    length = SEGMENT.size + 6
    data[length : length + 4] = (70_001 - apart).to_bytes(4, "big")
    data[-1] ^= 1
    segment = read_segment(bytes(data), 0)
    assert (segment.intents, segment.whole) == ((), False)


def test_large_records_that_are_all_damaged_are_told_as_damage(tmp_path: Path) -> None:
    journal = opened(tmp_path, segment=1 << 20)
    for _ in range(2):
        put(journal, b"x" * 70_000)
    data = bytearray(b"".join(path.read_bytes() for path in tmp_path.glob("*.segment")))
    for at in (1000, 100_000):
        assert data[at] == ord("x")
        data[at] ^= 1
    segment = read_segment(bytes(data), 0)
    assert (segment.intents, segment.whole) == ((), False)
