"""Seeds of tests that draw what happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def seeds(few: int, many: int) -> list[Any]:
    """Parameters from 0: as few with all tests, and the rest of as many with ``make soak``."""
    rest = (pytest.param(seed, marks=pytest.mark.soak) for seed in range(few, many))
    return [*range(few), *rest]


def each_seed(
    few: int, many: int, together: int = 500
) -> Callable[[Callable[[int], None]], Callable[[range], None]]:
    """Return a decorator by which a test of one seed is a test of so many, as with `seeds`.

    Collecting a test costs half a millisecond in each process, which is much where there are
    thousands of seeds and each takes no longer than that.

    Args:
        few: seeds of all tests.
        many: seeds of ``make soak``, those included.
        together: seeds of one test of ``make soak``.
    """
    rest = [range(first, min(first + together, many)) for first in range(few, many, together)]
    parts = [
        pytest.param(part, marks=marks, id=f"{part.start}-{part.stop - 1}")
        for marks, some in (((), [range(few)]), (pytest.mark.soak, rest))
        for part in some
    ]

    def decorate(test: Callable[[int], None]) -> Callable[[range], None]:
        def test_each(seeds: range) -> None:
            for seed in seeds:
                try:
                    test(seed)
                except BaseException as error:
                    error.add_note(f"seed {seed}")
                    raise

        test_each.__name__, test_each.__doc__ = test.__name__, test.__doc__
        test_each.__module__ = test.__module__
        return pytest.mark.parametrize("seeds", parts)(test_each)

    return decorate
