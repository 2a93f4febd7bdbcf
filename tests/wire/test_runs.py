"""Structs of one size are counted as far as they have the bytes of the first."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from headgate.wire import run_of

SIZE = 7
SHARED = [(0, b"ab"), (4, b"cde")]


def struct(free: bytes, start: bytes = b"ab", end: bytes = b"cde") -> bytes:
    return start + free + end


def test_a_run_ends_with_the_data_or_with_what_was_asked_for():
    data = b"".join(struct(b"%02d" % number) for number in range(10))
    assert run_of(b"xx" + data, 2, 99, SIZE, SHARED) == 10
    assert run_of(data[:-1], 0, 99, SIZE, SHARED) == 9
    assert run_of(data, 0, 4, SIZE, SHARED) == 4
    assert run_of(bytearray(data), SIZE, 99, SIZE, SHARED) == 9
    assert run_of(b"", 0, 99, SIZE, SHARED) == 0


@given(
    st.lists(st.sampled_from([struct(b"12"), struct(b"  "), b"aX12cde", b"ab12cdX", b"Xb12cde"]))
)
def test_a_run_ends_before_the_first_other_struct(structs):
    alike = [(one[:2], one[4:]) == (b"ab", b"cde") for one in structs]
    run = (*alike, False).index(False)
    assert run_of(b"".join(structs), 0, len(structs), SIZE, SHARED) == run


@given(st.lists(st.integers(1, 700), min_size=1, max_size=4))
def test_a_run_is_counted_whole_however_long(lengths):
    ends = [b"cd%d" % (index % 2) for index in range(len(lengths))]
    data = b"".join(
        struct(b"..", end=end) * length for end, length in zip(ends, lengths, strict=True)
    )
    pos = 0
    for end, length in zip(ends, lengths, strict=True):
        assert run_of(data, pos, 10_000, SIZE, [(0, b"ab"), (4, end)]) == length
        pos += length * SIZE


def test_many_short_runs_cost_no_more_than_their_structs():
    """Four times the structs take about four times the time, not sixteen."""
    seconds = {}
    for structs in (20_000, 80_000):
        rows = [struct(b"%02d" % (i % 99), end=b"cd%d" % (i // 10 % 2)) for i in range(structs)]
        data = b"".join(rows)
        begin = time.process_time()
        pos = 0
        while pos < len(data):
            shared = [(0, b"ab"), (4, data[pos + 4 : pos + 7])]
            passed = run_of(data, pos, structs, SIZE, shared)
            assert passed == 10
            pos += passed * SIZE
        seconds[structs] = time.process_time() - begin
    assert seconds[80_000] < 8 * seconds[20_000], seconds
