"""Errors of an output against the synchronous one."""

import math

import numpy as np
import pytest
from aqhi.results import output_error
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

outputs = arrays(float, (3, 3), elements=st.floats(0, 100))


@given(outputs, outputs)
def test_errors_follow_their_definitions(exact, shown):
    error = output_error(exact, shown)
    apart = [abs(a - b) for a, b in zip(exact.flat, shown.flat, strict=True)]
    most = sum(max(a, b) for a, b in zip(exact.flat, shown.flat, strict=True))
    assert error.epsilon == pytest.approx(sum(apart) / most if sum(apart) else 0)
    assert error.largest == pytest.approx(max(apart))
    assert 0 <= error.epsilon <= 1


def test_equal_outputs_have_no_error():
    error = output_error(np.zeros((2, 2)), np.zeros((2, 2)))
    assert (error.epsilon, error.relative, error.largest) == (0, 0, 0)


def test_relative_is_taken_against_the_synchronous_output_alone():
    assert output_error(np.array([4.0, 0.0]), np.array([2.0, 0.0])).relative == 0.5
    assert output_error(np.array([0.0]), np.array([2.0])).relative == math.inf


def test_a_missing_element_counts_as_zero():
    assert output_error(np.array([math.nan, 3.0]), np.array([3.0, 3.0])).epsilon == 0.5
