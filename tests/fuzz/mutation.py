"""Inputs made of good ones by damaging them; the same seed gives the same inputs."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence

# Types, versions, protocol ids, lengths at an edge.
_BYTES = (0, 1, 2, 8, 10, 11, 12, 13, 14, 15, 16, 0x18, 0x7F, 0x80, 0x82, 0xF0, 0xFF)
_LONGEST = 1 << 16


def inputs(seeds: Sequence[bytes], seed: int) -> Iterator[bytes]:
    """Yield damaged inputs without end."""
    rng = random.Random(seed)
    while True:
        data = rng.choice(seeds)
        if rng.random() < 0.2:
            other = rng.choice(seeds)
            data = data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]
        yield _damaged(rng, data)[:_LONGEST]


def _damaged(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(len(out)) if out else 0
        match rng.randrange(6):
            case 0 if out:
                out[at] = rng.choice(_BYTES)
            case 1 if out:
                out[at] ^= 1 << rng.randrange(8)
            case 2:
                out[at : at + 4] = struct.pack(
                    ">I", rng.getrandbits(rng.choice((4, 8, 16, 31, 32)))
                )
            case 3:
                del out[at : at + rng.randrange(1, 9)]
            case 4:
                out[at:at] = data[at : at + rng.randrange(1, 64)]
            case _:
                out[at:at] = rng.randbytes(rng.randrange(1, 4))
    return bytes(out)
