"""Structs of one size are counted as far as they have the bytes of the first."""

from __future__ import annotations

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
