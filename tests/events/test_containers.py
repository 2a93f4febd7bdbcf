"""What a bound watches: which rows and columns lie in it."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headgate.events import Container, ContainerId, Item, UpdateKind, row_prefix_end

ROWS = st.binary(max_size=6) | st.lists(st.sampled_from([0, 1, 254, 255]), max_size=5).map(bytes)


@given(ROWS, ROWS)
def test_a_prefix_is_the_range_of_the_rows_that_begin_so(prefix, row):
    item = Item("t", start=prefix, stop=row_prefix_end(prefix))

    assert item.has_row(row) == row.startswith(prefix)


def test_no_row_comes_after_all_rows_of_a_prefix_of_highest_bytes():
    assert row_prefix_end(b"\xff\xff") is None
    assert row_prefix_end(b"") is None
    assert row_prefix_end(b"a\xff") == b"b"


@given(ROWS, ROWS)
def test_a_single_row_is_a_range_of_one(row, other):
    assume(row != other)
    item = Item("t", start=row, stop=row + b"\0")

    assert item.has_row(row)
    assert not item.has_row(other)


def test_a_range_ends_before_its_stop():
    item = Item("t", start=b"b", stop=b"d")

    assert [item.has_row(row) for row in (b"a", b"b", b"c", b"d")] == [False, True, True, False]


def test_a_table_has_all_columns():
    assert Item("t").has_column(b"f:q")
    assert Item("t").column is None


def test_a_family_has_its_own_columns_only():
    item = Item("t", b"f")

    assert item.has_column(b"f:q")
    assert item.has_column(b"f:")
    assert not item.has_column(b"ff:q")
    assert item.column == b"f:"


def test_a_column_is_itself_only():
    item = Item("t", b"f", b"q")

    assert item.has_column(b"f:q")
    assert not item.has_column(b"f:qq")
    assert not item.has_column(b"f:")
    assert item.column == b"f:q"


def test_a_group_names_each_of_its_tables_once():
    items = (Item("b", b"f"), Item("a"), Item("b", b"g"))

    assert Container(ContainerId("c"), items).tables == ("b", "a")


@pytest.mark.parametrize(
    ("kind", "column", "touched"),
    [
        (UpdateKind.PUT, b"f:q", True),
        (UpdateKind.PUT, b"f:p", False),
        (UpdateKind.PUT, b"f:", False),
        (UpdateKind.INCREMENT_DELTA, b"f:q", True),
        (UpdateKind.DELETE_COLUMN, b"g:q", False),
        (UpdateKind.DELETE_FAMILY, b"f:", True),
        (UpdateKind.DELETE_FAMILY_VERSION, b"g:", False),
        (UpdateKind.DELETE_ROW, b"", True),
    ],
)
def test_a_column_is_touched_by_what_may_change_its_cells(kind, column, touched):
    item = Item("t", b"f", b"q", b"a", b"c")

    assert item.is_touched_by(kind, b"b", column) is touched
    assert not item.is_touched_by(kind, b"c", column)


@pytest.mark.parametrize("kind", UpdateKind)
def test_a_table_is_touched_by_everything(kind):
    assert Item("t").is_touched_by(kind, b"r", b"f:")
