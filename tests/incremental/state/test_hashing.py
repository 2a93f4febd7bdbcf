"""The hash that places keys."""

import pyarrow as pa
import pytest

from headgate.incremental.state import hashes, key_column

# ``SELECT xxhash64(v)`` of binary values by Spark 4.3.
OF_SPARK = [
    (b"", -7444071767201028348),
    (b"\x00", -8959994473701255385),
    (b"a", -8582455328737087284),
    (b"abcd", -6810745876291105281),
    (b"\x05user-1", -3612297794426689577),
    (b"abcdefgh", 2470326616177429180),
    (b"abcdefghijkl", 3897903351825168219),
    (bytes(range(31)), -8988936099728967847),
    (bytes(range(32)), -8644129751861931918),
    (bytes(range(33)), 2046936095001747419),
    (bytes(range(256)), -2156533592262354883),
    ("süß".encode(), 3671425429720947477),
    (b"x" * 1_000_003, -7557173964727365431),
]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_hashes_are_those_of_spark(kind):
    values = pa.array([value for value, _ in OF_SPARK], kind)

    assert hashes(values).tolist() == [hash_ for _, hash_ in OF_SPARK]


def test_no_keys_have_no_hashes():
    assert hashes(key_column([pa.array([], pa.string())])).tolist() == []
