"""Sums kept update by update know what rounding may have done to them."""

import math

from headgate.engine.cells.sums import RunningSum


def test_a_sum_that_was_counted_as_infinite_stays_so_while_nothing_goes():
    total = RunningSum()
    total.set(math.inf)
    total.move(5.0, 0.0, 1)
    assert total.least == total.most == math.inf
    total.move(0.0, 5.0, 1)
    assert (total.least, total.most) == (0.0, math.inf)


def test_a_sum_that_ran_over_may_be_anything():
    total = RunningSum()
    total.move(1e308, 0.0, 1)
    total.move(1e308, 0.0, 1)
    assert (total.least, total.most) == (0.0, math.inf)


def test_what_a_large_term_took_with_it_is_within_the_error():
    total = RunningSum()
    for term in (0.1, 1e17):
        total.move(term, 0.0, 1)
    total.move(0.0, 1e17, 1)
    assert total.value == 0
    assert total.least <= 0.1 <= total.most
