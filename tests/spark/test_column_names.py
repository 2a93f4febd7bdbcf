"""Names of columns in frames: one for each column, whatever other cells there are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine import WatchedContainer
from headgate.events import Container, ContainerId, Item
from headgate.spark.column_names import ColumnNames, target_columns
from headgate.spark.views import ViewError, view_of

TABLE = (b"f", b"g", b"hg")


def names(*items: Item, table: tuple[bytes, ...] = TABLE) -> ColumnNames:
    return ColumnNames(view_of(WatchedContainer(Container(ContainerId("c"), items))), lambda: table)


def targets(written: list[str], *items: Item) -> dict[str, bytes]:
    view = view_of(WatchedContainer(Container(ContainerId("c"), items)))
    return dict(target_columns(view, ColumnNames(view, lambda: TABLE), written))


FAMILY = Item("t", b"f")
DECLARED = (Item("t", b"f", b"a"), Item("t", b"g", b"b"))


def test_columns_of_one_family_are_called_by_their_qualifiers() -> None:
    one = names(FAMILY)

    assert [one.name(column) for column in (b"f:a", b"f:pm2:5", b"f:g:x", b"f:\xff\\")] == [
        "a",
        "pm2:5",
        "f:g:x",
        "\\xFF\\x5C",
    ]


def test_declared_columns_are_called_by_qualifiers_that_only_one_of_them_has() -> None:
    declared = names(Item("t", b"f", b"a"), Item("t", b"g", b"a"), Item("t", b"f", b"b"))

    assert declared.names([b"f:a", b"g:a", b"f:b"]) == {"f:a": b"f:a", "g:a": b"g:a", "b": b"f:b"}


def test_columns_of_several_families_have_one_name_whatever_others_there_are() -> None:
    for several in (names(FAMILY, Item("t", b"g")), names(Item("t"))):
        assert several.name(b"f:n") == "f:n"


def test_a_whole_table_of_one_family_is_as_that_family() -> None:
    assert names(Item("t"), table=(b"x", b"hg")).name(b"x:n") == "n"


def test_what_could_be_taken_for_something_else_is_called_in_full() -> None:
    one = names(FAMILY)

    assert [one.name(column) for column in (b"f:", b"f:row", b"f:Row", b"f:f:x")] == [
        "f:",
        "f:row",
        "f:Row",
        "f:f:x",
    ]


QUALIFIERS = st.binary(max_size=4) | st.sampled_from([b"", b"row", b"f:", b"f:x", b"g:x", b"x"])
COLUMNS = st.builds(lambda f, q: f + b":" + q, st.sampled_from([b"f", b"g"]), QUALIFIERS)
ITEMS = st.sampled_from(
    [Item("t"), FAMILY, Item("t", b"g"), *DECLARED, Item("t", b"g", b"a"), Item("t", b"f", b"g:a")]
)


@given(st.lists(ITEMS, min_size=1, max_size=4), st.lists(COLUMNS, min_size=1))
def test_a_name_means_its_column_and_no_other(items: list[Item], columns: list[bytes]) -> None:
    named = names(*items)
    inside = {c for c in columns if any(item.has_column(c) for item in items)}

    assert {c: named.column(named.name(c)) for c in inside} == {c: c for c in inside}


def test_a_frame_is_written_to_the_declared_columns() -> None:
    assert targets(["a", "b"], *DECLARED) == {"a": b"f:a", "b": b"g:b"}
    assert targets(["f:a", "g:b"], *DECLARED) == {"f:a": b"f:a", "g:b": b"g:b"}


def test_a_new_qualifier_goes_to_the_only_family() -> None:
    assert targets(["new", "pm2:5"], FAMILY) == {"new": b"f:new", "pm2:5": b"f:pm2:5"}


def test_both_spellings_of_a_name_are_one_column() -> None:
    assert targets(["\\xc3\\xA9"], FAMILY) == {"\\xc3\\xA9": "f:é".encode()}
    with pytest.raises(ViewError, match="both column 'f:é'"):
        targets(["\\xc3\\xA9", "é"], FAMILY)


def test_a_column_that_could_go_to_two_families_is_refused() -> None:
    with pytest.raises(ViewError, match="f or g"):
        targets(["new"], FAMILY, Item("t", b"g"))


def test_a_column_outside_the_container_is_refused_with_those_that_are_in_it() -> None:
    with pytest.raises(ViewError, match="its columns: a"):
        targets(["b"], Item("t", b"f", b"a"))
    with pytest.raises(ViewError, match="not in container"):
        targets(["g:x"], FAMILY)


def test_one_column_under_two_names_is_refused() -> None:
    with pytest.raises(ViewError, match="'a' and 'f:a' of the frame are both column 'f:a'"):
        targets(["a", "f:a"], FAMILY)
