"""Parts of the hash space."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.incremental.state import WHOLE, Bucket, bucket_numbers, even_buckets, split
from headgate.incremental.state.buckets import MOST_BITS, check_partition

HASHES = st.integers(-(2**63), 2**63 - 1)
EDGES = [-(2**63), -(2**62), -1, 0, 1, 2**62, 2**63 - 1]


@st.composite
def partitions(draw: st.DrawFn) -> list[Bucket]:
    """Buckets of different bits, in any order."""
    found = [WHOLE]
    for _ in range(draw(st.integers(0, 12))):
        chosen = draw(st.integers(0, len(found) - 1))
        found[chosen : chosen + 1] = split(found[chosen])
    return draw(st.permutations(found))


@given(partitions(), st.lists(HASHES, max_size=8))
def test_each_hash_is_in_the_bucket_whose_prefix_its_top_bits_are(buckets, some):
    hashes = np.array([*EDGES, *some], np.int64)

    numbers = bucket_numbers(hashes, buckets)

    for hash_, number in zip(hashes.tolist(), numbers.tolist(), strict=True):
        bucket = buckets[number]
        assert (hash_ % 2**64) >> (64 - bucket.bits) == bucket.prefix
        assert bucket.first <= hash_ <= bucket.last


@given(partitions())
def test_splitting_leaves_a_partition(buckets):
    check_partition(buckets)


@given(partitions().filter(lambda buckets: len(buckets) > 1))
def test_a_bucket_too_few_or_too_many_is_noticed(buckets):
    with pytest.raises(ValueError, match="in no bucket"):
        check_partition(buckets[1:])
    with pytest.raises(ValueError, match="in two buckets"):
        check_partition([*buckets, buckets[0]])


def test_even_buckets_are_a_partition():
    check_partition(even_buckets(4))
    assert len(even_buckets(4)) == 16
    assert even_buckets(0) == (WHOLE,)


@pytest.mark.parametrize(("bits", "prefix"), [(-1, 0), (2, 4), (2, -1), (MOST_BITS + 1, 0)])
def test_what_is_no_bucket_is_refused(bits, prefix):
    with pytest.raises(ValueError, match="no bucket"):
        Bucket(bits, prefix)


def test_a_bucket_is_not_split_for_ever():
    with pytest.raises(ValueError, match="no bucket"):
        split(Bucket(MOST_BITS, 5))
