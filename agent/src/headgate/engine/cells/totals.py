"""Exact sums of many terms at once: rows of an array as few numbers that add up to them.

Terms are split into limbs, each of which is on a grid so coarse that float64 sums of it are not
rounded in whatever order (Rump, Ogita, Oishi, "Accurate Floating-Point Summation", 2008: section 3,
extraction of high-order parts).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

Terms = NDArray[np.float64]

LARGEST_TERM: Final = 2.0**960
"""Up to which terms have limbs: 2⁶⁰ of them are still below the largest float64."""


def limbs(terms: Terms, limb: Terms) -> Iterator[Terms]:
    """Yield arrays in the shape of the terms that add up to them, the highest digits first.

    Sums along the last axis of a limb, of a part of it and with other signs are exact. Two limbs
    hold most rows; terms of very different sizes have more.

    Args:
        terms: of magnitudes up to ``LARGEST_TERM``, shape (..., n). They are used up: what is left
            of them is 0.
        limb: where each limb is put, of the same shape.

    Raises:
        ValueError: a term is larger, or no number.
    """
    bits = max(2, (terms.shape[-1] - 1).bit_length()) - 1
    while terms.size:
        largest = np.maximum(terms.max(-1, keepdims=True), -terms.min(-1, keepdims=True))
        most = float(largest.max())
        if most == 0.0:
            return
        if not most <= LARGEST_TERM:
            message = f"a term of {most:g} has no limbs; sum it with math.fsum"
            raise ValueError(message)
        grid = np.ldexp(1.5, np.frexp(largest)[1] + bits)
        np.add(terms, grid, out=limb)
        np.subtract(limb, grid, out=limb)
        np.subtract(terms, limb, out=terms)
        yield limb


def limb_totals(terms: Terms) -> Terms:
    """Return sums along the last axis as few terms whose sum is exact, (..., n) as (k, ...).

    Args:
        terms: of magnitudes up to ``LARGEST_TERM``, shape (..., n).

    Raises:
        ValueError: a term is larger, or no number.
    """
    found = [limb.sum(-1) for limb in limbs(terms.copy(), np.empty_like(terms))]
    return np.stack(found) if found else np.zeros((0, *terms.shape[:-1]))


def rounded_totals(*terms: Terms) -> Terms:
    """Return sums along the first axis, rounded once, shape (r,).

    Args:
        terms: arrays of shape (k, r), each with its own k.

    Raises:
        OverflowError: a sum may be beyond the largest float64.
    """
    columns = np.concatenate(terms).T.tolist()
    return np.array([math.fsum(column) for column in columns], np.float64)
