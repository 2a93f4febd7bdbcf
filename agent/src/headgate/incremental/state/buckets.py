"""Buckets: parts of the hash space, each with files of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

_BITS = 64
MOST_BITS = 32
"""Bits of a bucket: four thousand million buckets are more than files can be."""


class Bucket(Struct, frozen=True, array_like=True, order=True):
    """All hashes whose top ``bits`` bits are ``prefix``.

    Hashes are signed, as Spark's; their bits are counted as if they were not. In either order a
    bucket is one range without gaps, so one that is split is sliced.

    Raises:
        ValueError: more bits than ``MOST_BITS``, or a prefix that they cannot hold.
    """

    bits: int = 0
    prefix: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.bits <= MOST_BITS or not 0 <= self.prefix < 1 << self.bits:
            message = f"no bucket has {self.bits} bits and the prefix {self.prefix}"
            raise ValueError(message)

    @property
    def first(self) -> int:
        """The smallest hash in it, signed."""
        if self.bits == 0:
            return -(1 << (_BITS - 1))
        low = self.prefix << (_BITS - self.bits)
        return low - (1 << _BITS) if low >> (_BITS - 1) else low

    @property
    def last(self) -> int:
        """The largest hash in it, signed."""
        return self.first + (1 << (_BITS - self.bits)) - 1


WHOLE = Bucket()
"""The bucket of all hashes."""


def split(bucket: Bucket) -> tuple[Bucket, Bucket]:
    """Return the two halves of a bucket, that of the lower hashes first where prefixes do.

    Raises:
        ValueError: it has ``MOST_BITS`` already; one key alone must be that large.
    """
    bits, prefix = bucket.bits + 1, bucket.prefix << 1
    return Bucket(bits, prefix), Bucket(bits, prefix | 1)


def even_buckets(bits: int) -> tuple[Bucket, ...]:
    """Return the 2 ** bits equal buckets that partition the hash space."""
    return tuple(Bucket(bits, prefix) for prefix in range(1 << bits))


def check_partition(buckets: Sequence[Bucket]) -> None:
    """Check that each hash is in exactly one of the buckets.

    Raises:
        ValueError: a hash is in none or in two of them.
    """
    expected = WHOLE.first
    for bucket in sorted(buckets, key=lambda one: one.first):
        if bucket.first != expected:
            what = "in no bucket" if bucket.first > expected else "in two buckets"
            message = f"hashes near {min(bucket.first, expected)} are {what}"
            raise ValueError(message)
        expected = bucket.last + 1
    if expected != WHOLE.last + 1:
        message = f"hashes from {expected} on are in no bucket"
        raise ValueError(message)


def bucket_numbers(
    hashes: npt.NDArray[np.int64], buckets: Sequence[Bucket]
) -> npt.NDArray[np.int64]:
    """Return for each hash the index of its bucket.

    Args:
        hashes: in any order.
        buckets: a partition of the hash space, in any order.
    """
    firsts = np.array([bucket.first for bucket in buckets], np.int64)
    order = np.argsort(firsts)
    return order[np.searchsorted(firsts[order], hashes, "right") - 1]
