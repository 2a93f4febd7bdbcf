"""Long fuzzing of the whole way from bytes to a judgement."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc

import pytest

from headgate.hbase import Dialect, Effect, decode_request, judge, method_of, peek_tables
from headgate.wire import Limits, Message, MessageReader, ProtocolError

LIMITS = Limits(max_frame=1 << 16, max_string=1 << 14, max_container=1 << 12, max_depth=16)
INTERESTING = [0, 1, 2, 8, 10, 11, 12, 13, 14, 15, 16, 0x7F, 0x80, 0x82, 0xFF]
TOO_LONG = 1.0  # seconds of CPU for one message of at most 64 KiB
TOO_LARGE = 16 << 20  # bytes allocated for it


def damaged(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        at = rng.randrange(len(out)) if out else 0
        manner = rng.randrange(4)
        if manner == 0 and out:
            out[at] = rng.choice(INTERESTING)
        elif manner == 1 and out:
            out[at : at + 4] = struct.pack(">I", rng.getrandbits(rng.choice([4, 8, 16, 31, 32])))
        elif manner == 2:
            del out[at : at + rng.randrange(1, 9)]
        else:
            out[at:at] = data[at : at + rng.randrange(1, 64)]
    return bytes(out)


def follow(dialect: Dialect, data: bytes, rng: random.Random) -> None:
    reader = MessageReader(LIMITS)
    size = rng.choice([1, 7, 64, 1 << 16])
    last: Message | None = None
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
        while (message := reader.next_message()) is not None:
            peek_tables(dialect, message)
            if method_of(dialect, message.name).effect in (Effect.WRITE, Effect.DEFINE):
                request = decode_request(dialect, message)
                judge(dialect, request, last)
            last = message


@pytest.mark.parametrize(
    "rounds", [2_000, pytest.param(200_000, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])]
)
def test_damaged_streams_neither_hang_nor_crash_nor_fill_the_memory(cases, rounds):
    rng = random.Random(rounds)
    streams = [(case.dialect, case.encoded) for case in cases]
    refused = 0
    tracemalloc.start()
    try:
        for _ in range(rounds):
            dialect, data = rng.choice(streams)
            if rng.random() < 0.3:
                data = data + rng.choice(streams)[1]
            if rng.random() < 0.3:
                data = struct.pack(">i", len(data)) + data
            bad = damaged(rng, data)
            begin = time.process_time()
            try:
                follow(dialect, bad, rng)
            except ProtocolError:
                refused += 1
            assert time.process_time() - begin < TOO_LONG, bad.hex()
        assert tracemalloc.get_traced_memory()[1] < TOO_LARGE
    finally:
        tracemalloc.stop()
    assert refused > rounds / 4, "the damage is too small to prove anything"
