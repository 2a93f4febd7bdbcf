"""A container as a step sees it."""

from __future__ import annotations

import pytest

from headgate.engine import WatchedContainer
from headgate.events import Container, ContainerId, Item
from headgate.spark.views import ContainerView, ViewError, names_of, target_columns, view_of


def view(*items: Item, table: str | None = None) -> ContainerView:
    return view_of(WatchedContainer(Container(ContainerId("c"), items)), table)


def test_columns_have_their_qualifiers_as_names() -> None:
    assert names_of([b"f:a", b"g:b", b"f:pm2:5"]) == {
        b"f:a": "a",
        b"g:b": "b",
        b"f:pm2:5": "pm2:5",
    }


def test_two_columns_with_one_qualifier_keep_their_families() -> None:
    assert names_of([b"f:a", b"g:a", b"f:b"]) == {b"f:a": "f:a", b"g:a": "g:a", b"f:b": "b"}


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


def test_a_frame_is_written_to_the_declared_columns() -> None:
    seen = view(Item("t", b"f", b"a"), Item("t", b"g", b"b"))

    assert target_columns(seen, ["a", "b", "g:b"], []) == {
        "a": b"f:a",
        "b": b"g:b",
        "g:b": b"g:b",
    }


def test_a_new_qualifier_goes_to_the_only_family() -> None:
    assert target_columns(view(Item("t", b"f")), ["new"], []) == {"new": b"f:new"}
    assert target_columns(view(Item("t")), ["new"], ["x"]) == {"new": b"x:new"}


def test_notify_columns_are_in_no_container() -> None:
    whole = view(Item("t"))
    assert whole.has(b"r", b"x:hg")
    assert not whole.has(b"r", b"hg:all")
    assert target_columns(whole, ["new"], ["hg", "x"]) == {"new": b"x:new"}


def test_a_column_that_could_go_to_two_families_is_refused() -> None:
    with pytest.raises(ViewError, match="f or g"):
        target_columns(view(Item("t", b"f"), Item("t", b"g")), ["new"], [])


def test_a_column_outside_the_container_is_refused_with_those_that_are_in_it() -> None:
    with pytest.raises(ViewError, match="its columns: a"):
        target_columns(view(Item("t", b"f", b"a")), ["b"], [])
