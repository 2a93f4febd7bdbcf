"""Keys of all bytes, drawn."""

from __future__ import annotations

import random


def random_keys(seed: int, count: int, longest: int = 1000) -> list[bytes]:
    """Return distinct keys of all byte values, lengths 1 to ``longest``, short ones often."""
    random_ = random.Random(seed)
    found: dict[bytes, None] = {}
    while len(found) < count:
        length = random_.choice((1, 2, 3, 4, 8, random_.randint(1, longest)))
        found[random_.randbytes(length)] = None
    return list(found)
