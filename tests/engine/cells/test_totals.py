"""Sums of many terms by limbs against exact fractions, and against sums term by term."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.engine.cells import sums
from headgate.engine.cells.sums import exact_total, signed_total
from headgate.engine.cells.totals import (
    LARGEST_TERM,
    Terms,
    limb_totals,
    limbs,
    rounded_totals,
)

TINY = math.ulp(0.0)
UNITS = 2**1074  # of them make 1
LARGEST = sys.float_info.max
exponents = st.floats(1.0, 2.0, exclude_max=True).flatmap(
    lambda digits: st.builds(
        lambda exponent, sign: math.ldexp(sign * digits, exponent),
        st.integers(-1080, 959),
        st.sampled_from((-1.0, 1.0)),
    )
)
alike = st.floats(-1e3, 1e3)
near_nothing = st.floats(-1e-300, 1e-300)
term = st.one_of(exponents, alike, near_nothing, st.sampled_from((0.0, -0.0, TINY, -TINY)))


@st.composite
def rows(draw: st.DrawFn, terms: st.SearchStrategy[float] = term) -> Terms:
    """Some rows of one length; what a part of them adds, others take away again."""
    width = draw(st.integers(0, 40))
    row = st.lists(terms, min_size=width, max_size=width)
    drawn = draw(st.lists(row, min_size=1, max_size=4))
    found = np.array(drawn, np.float64).reshape(len(drawn), width)
    if draw(st.booleans()):
        found = np.concatenate((found, -found[:, : width // 2]), axis=1)
    return found


def total(terms: Terms) -> Fraction:
    """Return Σ, by whole numbers of the least double: fractions are reduced after each addition."""
    ratios = map(float.as_integer_ratio, terms.tolist())
    return Fraction(sum(above * (UNITS // below) for above, below in ratios), UNITS)


@settings(deadline=None)
@given(rows())
@example(np.array([[LARGEST_TERM] * 3, [TINY] * 3]))
@example(np.array([[LARGEST_TERM, 1.0, TINY, -LARGEST_TERM, -1.0]]))
@example(np.array([[1.0, 2.0**-53, 2.0**-53]]))
@example(np.array([[1.0, 2.0**-53, TINY]]))
def test_sums_by_limbs_are_those_of_the_terms_rounded_once(terms: Terms) -> None:
    parts = limb_totals(terms)
    for at, row in enumerate(terms):
        assert total(parts[:, at]) == total(row)
    expected = [math.fsum(row) for row in terms.tolist()]
    assert rounded_totals(parts).tolist() == expected
    assert rounded_totals(parts, -parts[::-1]).tolist() == [0.0] * len(terms)


@settings(deadline=None)
@given(rows(), st.randoms(use_true_random=False))
def test_any_part_of_a_limb_with_any_signs_is_summed_exactly(terms: Terms, random: object) -> None:
    """One split of distances serves their sum with signs and the sum of their magnitudes."""
    width = terms.shape[1]
    signs = np.array([random.choice((-1.0, 0.0, 1.0)) for _ in range(width)])  # type: ignore[attr-defined]
    for limb in limbs(terms.copy(), np.empty_like(terms)):
        for row in limb * signs:
            assert Fraction(float(np.add.accumulate(row)[-1])) == total(row)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 1_000, 1_024, 1_025, 65_536])
def test_so_many_terms_that_fill_their_limbs_are_not_rounded(count: int) -> None:
    """Terms just below a power of two, of all their digits, leave the least room for carries."""
    terms = np.random.default_rng(count).uniform(1.99, 2.0, (4, count))
    terms[1] = math.nextafter(2.0, 0.0)
    terms[2] = np.ldexp(terms[0], -np.arange(count) % 100)
    terms[3] *= -1.0
    parts = limb_totals(terms)
    assert [total(part) for part in parts.T] == [total(row) for row in terms]


def test_the_terms_are_left_as_they_are() -> None:
    terms = np.array([[0.1, 1e9]])
    limb_totals(terms)
    assert terms.tolist() == [[0.1, 1e9]]


@pytest.mark.parametrize("term", [math.nextafter(LARGEST_TERM, math.inf), -math.inf, math.nan])
def test_terms_that_have_no_limbs_are_refused(term: float) -> None:
    with pytest.raises(ValueError, match=r"has no limbs; sum it with math\.fsum"):
        limb_totals(np.array([[1.0, 2.0], [1.0, term]]))


def test_terms_alike_have_few_limbs() -> None:
    terms = np.random.default_rng(0).uniform(0.1, 1.0, (3, 2_500))
    assert len(limb_totals(terms)) == 2


def test_there_are_no_limbs_of_nothing() -> None:
    assert limb_totals(np.zeros((2, 3))).shape == (0, 2)
    assert limb_totals(np.zeros((2, 0))).shape == (0, 2)
    assert limb_totals(np.zeros((0, 3))).shape == (0, 0)
    assert rounded_totals(np.zeros((0, 2))).tolist() == [0.0, 0.0]


def listed(terms: Terms) -> float:
    """Return Σ as it is term by term."""
    try:
        return math.fsum(terms.tolist())
    except OverflowError:
        return math.inf


any_term = st.one_of(term, st.floats(allow_nan=False, min_value=-LARGEST))


@settings(deadline=None)
@given(st.lists(any_term, max_size=30), st.integers(0, sums.MANY))
@example([LARGEST, LARGEST], 0)
@example([LARGEST, 1.0], sums.MANY)
@example([math.inf, 1.0], sums.MANY)
def test_many_terms_have_the_sum_that_they_have_one_by_one(few: list[float], more: int) -> None:
    terms = np.abs(np.concatenate((few, np.full(more, 0.1), np.ones(sums.MANY))))
    assert exact_total(terms) == listed(terms)
    signed = np.concatenate((few, np.full(more, -0.1), np.ones(sums.MANY)))
    try:
        expected = math.fsum(signed.tolist())
    except OverflowError:
        with pytest.raises(OverflowError):
            signed_total(signed)
    else:
        assert signed_total(signed) == expected


def test_a_sum_with_what_is_no_number_is_none() -> None:
    for count in (1, sums.MANY):
        assert math.isnan(exact_total(np.array([math.nan] * count)))
        assert math.isnan(signed_total(np.array([1.0] * count + [math.nan])))
