"""The hash that places a key: Spark's ``xxhash64`` of its canonical bytes."""

from __future__ import annotations

from itertools import repeat

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from xxhash import xxh64_intdigest

SPARK_SEED = 42
"""The seed of Spark's ``xxhash64``: a shuffle by Spark and a look-up here agree."""


def hashes(keys: pa.Array) -> npt.NDArray[np.int64]:
    """Return the 64-bit hash of each key, signed as Spark's are.

    Args:
        keys: a binary or large binary array of canonical bytes, without nulls.
    """
    digests = map(xxh64_intdigest, keys.to_pylist(), repeat(SPARK_SEED))
    return np.fromiter(digests, np.uint64, len(keys)).view(np.int64)
