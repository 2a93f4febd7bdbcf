"""The end of a struct is found once, byte by byte, within limits."""

from __future__ import annotations

import struct
import time

import pytest

from headgate.wire import (
    FrameTooLarge,
    LimitExceeded,
    Limits,
    MalformedMessage,
    MessageReader,
    MessageType,
    StructWalker,
    StructWriter,
    Transport,
    write_message,
)

STRUCT = StructWriter().binary(1, b"abc").i32(2, 5).end()
VALUES = {
    "empty": b"\0",
    "of every fixed type": (
        b"\x02\0\1\1"
        b"\x03\0\1\1"
        b"\x06\0\1\1\1"
        b"\x08\0\1" + b"\1" * 4 + b"\x0a\0\1" + b"\1" * 8 + b"\x04\0\1" + b"\1" * 8 + b"\0"
    ),
    "strings": StructWriter().binary(1, b"").binary(2, b"x" * 300).end(),
    "nested": StructWriter().struct(1, StructWriter().struct(1, STRUCT).end()).end(),
    "list of structs": StructWriter().structs(1, [STRUCT, b"\0", STRUCT]).i32(2, 1).end(),
    "list of strings": StructWriter().binaries(1, [b"a", b"", b"b" * 99]).end(),
    "list of numbers": b"\x0f\0\1\x0a" + struct.pack(">i", 3) + b"\1" * 24 + b"\0",
    "set of booleans": b"\x0e\0\1\x02" + struct.pack(">i", 3) + b"\1\0\1" + b"\0",
    "map of strings": StructWriter().mapping(1, {b"a": b"1", b"b": b""}).end(),
    "map of numbers": b"\x0d\0\1\x08\x08" + struct.pack(">i", 2) + b"\1" * 16 + b"\0",
    "map of strings to numbers": (
        b"\x0d\0\1\x0b\x0a" + struct.pack(">i", 1) + b"\0\0\0\1k" + b"\1" * 8 + b"\0"
    ),
    "map of numbers to structs": (
        b"\x0d\0\1\x06\x0c" + struct.pack(">i", 2) + 2 * (b"\0\1" + STRUCT) + b"\0"
    ),
    "empty containers of no type": b"\x0f\0\1\0\0\0\0\0" + b"\x0d\0\2\0\0\0\0\0\0" + b"\0",
    "list of lists": b"\x0f\0\1\x0f\0\0\0\2" + 2 * (b"\x0b\0\0\0\1" + b"\0\0\0\1x") + b"\0",
}


def row(key: bytes, *values: bytes) -> bytes:
    """Return a struct like the rows of a batch: strings of any length between equal bytes."""
    cells = [StructWriter().bool(1, False).binary(3, value).end() for value in values]
    return StructWriter().binary(1, key).structs(2, cells).end()


ALIKE = [row(b"r" * i, b"v" * (i % 3)) for i in range(30)]
SAME = [row(b"row%02d" % i, b"%04d" % i) for i in range(30)]
BATCHES = {
    # lists of structs of one size, which are passed together
    "rows of one size": SAME,
    "another size in the middle": [*SAME, row(b"row", b"value"), *SAME],
    "runs of two sizes": [*SAME, *[row(b"row%d" % i, b"v") for i in range(9)], *SAME],
    "another field in the middle": [*SAME[:20], SAME[0].replace(b"\x0b\0\1", b"\x0b\0\2"), *SAME],
    "the same sizes at other places": [*SAME[:20], row(b"row1", b"12345"), *SAME],
    # lists long enough for the walker to learn what their structs have in common
    "rows alike": ALIKE,
    "one row with two cells among others": [*ALIKE[:20], row(b"k", b"v", b"w"), *ALIKE],
    "a shorter row at the end": [*ALIKE, b"\0"],
    "rows without strings": [StructWriter().i32(1, 7).end()] * 20,
    "rows that differ in a number": [
        StructWriter().i32(1, i).binary(2, b"x").end() for i in range(20)
    ],
    "rows of maps": [StructWriter().mapping(1, {b"k": b"v"}).end()] * 20,
    "rows of many strings": [StructWriter().binaries(1, [b"x"] * 100).end()] * 20,
    "rows of deep structs": [b"\x0c\0\1" * 20 + b"\0" * 21] * 20,
    "rows of lists of numbers": [b"\x0f\0\1\x06\0\0\0\2\0\1\0\2\0"] * 20,
}
VALUES |= {name: StructWriter().structs(1, rows).end() for name, rows in BATCHES.items()}
VALUES["two batches"] = StructWriter().structs(1, ALIKE).structs(2, ALIKE[::-1]).end()
VALUES["two batches of two shapes"] = (
    StructWriter().structs(1, ALIKE).structs(2, [STRUCT] * 20).end()
)


def walked(limits: Limits, data: bytes, chunk: int) -> int:
    walker = StructWalker(limits)
    walker.begin(0)
    for end in range(chunk, len(data) + chunk, chunk):
        found = walker.walk(data[:end], 0)
        if found >= 0:
            return found
        assert walker.needed > min(end, len(data))
    return -1


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("trailing", [b"", b"\x0b\x00\x01trailing"])
def test_the_end_of_a_struct_is_found(name, trailing):
    data = VALUES[name]
    assert walked(Limits(), data + trailing, len(data + trailing)) == len(data)


@pytest.mark.parametrize("chunk", [1, 2, 7])
@pytest.mark.parametrize("name", VALUES)
def test_the_end_is_found_in_pieces_too(name, chunk):
    data = VALUES[name]
    assert walked(Limits(), data, chunk) == len(data)


@pytest.mark.parametrize("name", VALUES)
def test_a_struct_without_its_end_has_none(name):
    data = VALUES[name]
    assert all(walked(Limits(), data[:end], end) == -1 for end in range(1, len(data)))


VOID_LIST = b"\x0f\0\1\x01" + struct.pack(">i", 2**31 - 1)
MALFORMED = {
    "a list of 2**31 elements without a size": VOID_LIST,
    "a list of an unknown type": b"\x0f\0\1\x10\0\0\0\1",
    "a map of an unknown type": b"\x0d\0\1\x0b\x07\0\0\0\1",
    "a field of an unknown type": b"\x07\0\1\0",
    "a field of a type far beyond": b"\xff\0\1\0",
    "a string of negative length": b"\x0b\0\1\xff\xff\xff\xff",
    "a list of negative length": b"\x0f\0\1\x0c\x80\0\0\0",
    "a map of negative length": b"\x0d\0\1\x0b\x0b\xff\xff\xff\xfe",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_no_writer_produces_is_malformed(name):
    limits = Limits(max_container=2**31 - 1)
    with pytest.raises(MalformedMessage):
        walked(limits, MALFORMED[name] + bytes(20), 1000)


@pytest.mark.parametrize(
    ("limits", "data"),
    [
        (Limits(max_string=10), StructWriter().binary(1, b"x" * 11).end()),
        (Limits(max_string=10), StructWriter().binaries(1, [b"x" * 11]).end()),
        (Limits(max_container=2), StructWriter().structs(1, [b"\0"] * 3).end()),
        (Limits(max_container=2), b"\x0f\0\1\x02\0\0\0\3\1\1\1\0"),
        (Limits(max_depth=3), b"\x0c\0\1" * 4 + b"\0" * 5),
    ],
)
def test_what_is_beyond_a_limit_is_refused_with_the_limit(limits, data):
    with pytest.raises(LimitExceeded, match=r"limit|deeper than 3"):
        walked(limits, data, len(data))


def test_a_long_string_in_a_row_like_the_others_is_refused_too():
    data = StructWriter().structs(1, [*ALIKE[:10], row(b"r" * 50, b"v")]).end()
    with pytest.raises(LimitExceeded, match=r"is 40, limits\.string_bytes"):
        walked(Limits(max_string=40), data, len(data))


def test_deep_nesting_costs_no_stack_of_the_interpreter():
    deep = 100_000
    data = b"\x0c\0\1" * deep + b"\0" * (deep + 1)
    assert walked(Limits(max_depth=deep), data, len(data)) == len(data)


def test_a_list_of_numbers_beyond_the_frame_is_refused_by_its_head():
    data = b"\x0f\0\1\x0a" + struct.pack(">i", 1_000_000)
    with pytest.raises(FrameTooLarge):
        walked(Limits(max_frame=1_000_000), data, len(data))


def batch(rows: int) -> bytes:
    body = StructWriter().binary(1, b"t").structs(2, [row(b"row", b"value")] * rows).end()
    return write_message(Transport.BUFFERED, "mutateRows", MessageType.CALL, 1, body)


def test_a_batch_in_many_pieces_is_walked_once():
    """Every byte is looked at once: twice the rows in the same pieces take about twice the time."""
    seconds = {}
    for rows in (4000, 16000):
        data = batch(rows)
        reader = MessageReader()
        begin = time.process_time()
        messages = []
        for start in range(0, len(data), 512):
            reader.feed(data[start : start + 512])
            messages.append(reader.next_message())
        seconds[rows] = time.process_time() - begin
        assert [message is not None for message in messages].index(True) == len(messages) - 1
        last = messages[-1]
        assert last is not None
        assert last.raw == data
    assert seconds[16000] < 4 * 4 * seconds[4000] / 2, seconds


def test_a_large_value_is_not_looked_at_until_it_is_there():
    body = StructWriter().binary(1, b"v" * 1_000_000).end()
    data = write_message(Transport.BUFFERED, "put", MessageType.CALL, 1, body)
    reader = MessageReader()
    reader.feed(data[:100])
    assert reader.next_message() is None
    reader.feed(data[100:-1])
    assert reader.next_message() is None
    reader.feed(data[-1:])
    message = reader.next_message()
    assert message is not None
    assert message.raw == data
