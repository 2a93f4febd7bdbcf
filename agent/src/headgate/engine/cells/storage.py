"""Where an engine keeps what it remembers of cells: given from outside, so that it may be a disk.

The engine asks for two things only: numbers for keys, and arrays. ``MemoryStorage`` has both in
memory; the agent has one that goes to disk beyond a limit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count, islice
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]
T = TypeVar("T")


class Index(Protocol):
    """Numbers for keys: 0, 1, 2, ... in the order in which they came. None is ever forgotten."""

    def number(self, keys: Sequence[bytes]) -> list[int]:
        """Return each key's number; a key that is new takes the next one."""

    def find(self, key: bytes) -> int | None:
        """Return a key's number; None if it has none."""

    def keys(self, first: int = 0) -> Iterable[bytes]:
        """Return the keys from a number on, in the order of their numbers."""

    def close(self) -> None:
        """Forget everything."""

    def __len__(self) -> int:
        """Return how many keys there are."""


class Storage(Protocol):
    """Gives indices and arrays."""

    def index(self) -> Index:
        """Return an empty index."""

    def array(self, size: int, dtype: DTypeLike) -> Array:
        """Return an array of zeros (of None, where it holds objects)."""


class MemoryIndex:
    """An index in memory."""

    def __init__(self) -> None:
        self._numbers: defaultdict[bytes, int] = defaultdict(count().__next__)

    def number(self, keys: Sequence[bytes]) -> list[int]:
        """See ``Index``."""
        return list(map(self._numbers.__getitem__, keys))

    def find(self, key: bytes) -> int | None:
        """See ``Index``."""
        return self._numbers.get(key)

    def keys(self, first: int = 0) -> Iterable[bytes]:
        """See ``Index``."""
        return newest(self._numbers, len(self._numbers) - first) if first else self._numbers.keys()

    def close(self) -> None:
        """See ``Index``."""
        self._numbers.clear()

    def __len__(self) -> int:
        """See ``Index``."""
        return len(self._numbers)


class MemoryStorage:
    """Everything in memory."""

    def index(self) -> Index:
        """See ``Storage``."""
        return MemoryIndex()

    def array(self, size: int, dtype: DTypeLike) -> Array:
        """See ``Storage``."""
        return blank(size, dtype)


def newest(keys: dict[T, Any], count: int) -> list[T]:
    """Return the ``count`` keys that came last, in their order, without a look at the others."""
    found = list(islice(reversed(keys), count))
    found.reverse()
    return found


def blank(size: int, dtype: DTypeLike) -> Array:
    """Return an array of zeros in memory; of None, where it holds objects."""
    if np.dtype(dtype) == np.dtype(object):
        return np.full(size, None, object)
    return np.zeros(size, dtype)
