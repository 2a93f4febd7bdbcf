"""A container as a step sees it."""

from __future__ import annotations

import pytest

from headgate.engine import WatchedContainer
from headgate.events import Container, ContainerId, Item
from headgate.spark.views import ContainerView, ViewError, view_of


def view(*items: Item, table: str | None = None) -> ContainerView:
    return view_of(WatchedContainer(Container(ContainerId("c"), items)), table)


def test_a_group_of_columns_is_read_as_these_columns() -> None:
    seen = view(Item("t", b"f", b"a"), Item("t", b"f", b"b"))

    assert seen.declared == (b"f:a", b"f:b")
    assert seen.complete
    assert seen.uniform
    assert seen.extent.columns == (b"f:a", b"f:b")


def test_a_family_is_read_whole() -> None:
    seen = view(Item("t", b"f"), Item("t", b"f", b"a"), Item("t", b"g", b"b"))

    assert not seen.complete
    assert seen.extent.columns == (b"f", b"g:b")


def test_a_whole_table_has_all_columns() -> None:
    assert view(Item("t"), Item("t", b"f", b"a")).extent.columns == ()


def test_the_extent_has_the_rows_of_all_items() -> None:
    seen = view(Item("t", b"f", b"a", b"b", b"d"), Item("t", b"f", b"b", b"c", None))

    assert (seen.extent.start, seen.extent.stop) == (b"b", None)
    assert not seen.uniform
    assert seen.has(b"b", b"f:a")
    assert not seen.has(b"b", b"f:b")
    assert seen.ranges(b"f:b") == ((b"c", None),)


def test_a_container_in_two_tables_asks_which() -> None:
    items = Item("t", b"f"), Item("u", b"f")

    with pytest.raises(ViewError, match='table="t"'):
        view(*items)
    assert view(*items, table="u").table == "u"
    with pytest.raises(ViewError, match="nothing in table 'v'"):
        view(*items, table="v")


def test_notify_columns_are_in_no_container() -> None:
    whole = view(Item("t"))
    assert whole.has(b"r", b"x:hg")
    assert not whole.has(b"r", b"hg:all")


def test_of_a_row_a_container_is_the_items_that_have_it() -> None:
    """Give two columns, a family and a table their own rows: each is touched only in those."""
    seen = view(
        Item("t", b"f", b"a", b"b", b"d"),
        Item("t", b"f", b"b", b"c", b"d"),
        Item("t", b"g", None, b"c", b"e"),
        Item("t", None, None, b"x", None),
    )

    assert seen.touched(b"a") is None
    assert seen.touched(b"b") == (b"f:a",)
    assert seen.touched(b"c") == (b"f:a", b"f:b", b"g")
    assert seen.touched(b"d") == (b"g",)
    assert seen.touched(b"x") == ()
