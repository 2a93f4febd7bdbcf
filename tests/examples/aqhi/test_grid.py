"""Keys of detectors, and their places on the grid."""

import numpy as np
import pytest
from aqhi.grid import Grid, cell_key, cell_place, filled
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(0, 999), st.integers(0, 999))
def test_a_key_gives_its_place_back(row, column):
    assert cell_place(cell_key(row, column)) == (row, column)


def test_keys_sort_as_the_grid_does():
    keys = Grid(120).rows()
    assert keys == sorted(keys)
    assert len(keys) == 14_400


@pytest.mark.parametrize("key", [b"", b"r001", b"r1c2", b"r001c002x", b"now"])
def test_another_key_is_refused_by_name(key):
    with pytest.raises(ValueError, match="no row of the grid"):
        cell_place(key)


def test_detectors_stand_in_the_middle_of_equal_squares():
    x, y = Grid(4).positions()
    assert x[0].tolist() == [12.5, 37.5, 62.5, 87.5]
    assert y[:, 0].tolist() == [12.5, 37.5, 62.5, 87.5]


def test_cells_that_are_missing_are_nan():
    square = filled(2, {b"r000c001": 5.0})
    assert square[0, 1] == 5
    assert np.isnan(square).sum() == 3
