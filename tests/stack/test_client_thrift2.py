"""The Thrift2 client against the real server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headgate.client import (
    Compare,
    DeleteKind,
    FamilyOptions,
    RequestRefused,
    ScanRange,
    Thrift2Connection,
)
from headgate.events import Origin

if TYPE_CHECKING:
    from conftest import RunningStack

pytestmark = pytest.mark.stack
ORIGIN = Origin("flow", "step", "run-1", 3)


@pytest.fixture
def connection(stack: RunningStack) -> Iterator[Thrift2Connection]:
    with Thrift2Connection(*stack.thrift2) as opened:
        yield opened


@pytest.fixture
def table(stack: RunningStack) -> str:
    return stack.table("client", ["f", "g"])


def test_rows_come_back_as_they_were_put(connection: Thrift2Connection, table: str) -> None:
    rows = [(b"a", {b"f:x": b"1", b"g:y": b""}), (b"\x00\xff", {b"f:": b"\x80"})]

    assert connection.put(table, rows, origin=ORIGIN) == 2
    assert connection.get(table, b"a") == rows[0][1]
    assert connection.get(table, b"nothing") == {}
    assert list(connection.scan(table)) == sorted(rows)


def test_whole_columns_are_the_same_as_rows(connection: Thrift2Connection, table: str) -> None:
    columns = {b"f:x": [b"1", None, b"3"], b"g:y": [None, None, b"4"]}

    assert connection.put_columns(table, [b"a", b"b", b"c"], columns, origin=ORIGIN, batch=2) == 2
    assert list(connection.scan(table)) == [
        (b"a", {b"f:x": b"1"}),
        (b"c", {b"f:x": b"3", b"g:y": b"4"}),
    ]


@pytest.mark.parametrize("page", [1, 3, 10, 11])
def test_a_scan_in_pages_has_every_row_once(
    connection: Thrift2Connection, table: str, page: int
) -> None:
    keys = [b"r%02d" % number for number in range(10)]
    connection.put(table, [(key, {b"f:x": key}) for key in keys])

    assert [row for row, _ in connection.scan(table, ScanRange(), page)] == keys


def test_a_scan_keeps_to_rows_columns_and_times(connection: Thrift2Connection, table: str) -> None:
    for time, value in ((100, b"old"), (200, b"new")):
        connection.put(
            table, [(row, {b"f:x": value, b"g:y": value}) for row in (b"a", b"b", b"c")],
            timestamp=time,
        )  # fmt: skip

    extent = ScanRange(b"b", b"c", (b"g",), since=100, until=200)
    assert list(connection.scan(table, extent)) == [(b"b", {b"g:y": b"old"})]


def test_cells_have_their_timestamps_and_versions(
    connection: Thrift2Connection, table: str
) -> None:
    for time in (100, 200):
        connection.put(table, [(b"a", {b"f:x": b"%d" % time})], timestamp=time)

    found = list(connection.cells(table, ScanRange(versions=2)))
    assert [(cell.timestamp, cell.value) for cell in found] == [(200, b"200"), (100, b"100")]


def test_the_ends_of_a_range_are_its_first_and_last_row(
    connection: Thrift2Connection, table: str
) -> None:
    connection.put(table, [(row, {b"f:x": b"1"}) for row in (b"a", b"b", b"c", b"d")])

    assert connection.ends(table, ScanRange()) == (b"a", b"d")
    assert connection.ends(table, ScanRange(b"b", b"d")) == (b"b", b"c")
    assert connection.ends(table, ScanRange(b"bb", b"c")) is None


def test_a_put_that_expects_absence_takes_place_once(
    connection: Thrift2Connection, table: str
) -> None:
    first = connection.check_and_put(table, b"a", b"f:x", None, {b"f:x": b"1"}, origin=ORIGIN)
    second = connection.check_and_put(table, b"a", b"f:x", None, {b"f:x": b"2"}, origin=ORIGIN)

    assert (first, second) == (True, False)
    assert connection.get(table, b"a") == {b"f:x": b"1"}


def test_a_checked_mutation_puts_and_deletes_in_one_step(
    connection: Thrift2Connection, table: str
) -> None:
    connection.put(table, [(b"a", {b"f:x": b"5", b"f:y": b"1"})])

    def mutate(compare: Compare, expected: bytes) -> bool:
        return connection.check_and_mutate(
            table, b"a", b"f:x", compare, expected, {b"f:z": b"2"}, [b"f:y"], origin=ORIGIN
        )

    assert not mutate(Compare.GREATER, b"4")
    assert mutate(Compare.GREATER, b"6")
    assert connection.get(table, b"a") == {b"f:x": b"5", b"f:z": b"2"}


def test_a_checked_delete_needs_the_expected_value(
    connection: Thrift2Connection, table: str
) -> None:
    connection.put(table, [(b"a", {b"f:x": b"1", b"g:y": b"2"})])

    assert not connection.check_and_delete(table, b"a", b"f:x", b"0", [b"g:y"])
    assert connection.check_and_delete(table, b"a", b"f:x", b"1", [b"g:y"])
    assert connection.get(table, b"a") == {b"f:x": b"1"}


def test_counters_and_appends_answer_with_the_new_value(
    connection: Thrift2Connection, table: str
) -> None:
    assert connection.increment(table, b"a", b"f:n", 5, origin=ORIGIN) == 5
    assert connection.increment(table, b"a", b"f:n", -7) == -2
    connection.append(table, b"a", {b"f:s": b"x"}, origin=ORIGIN)
    assert connection.append(table, b"a", {b"f:s": b"y"}) == {b"f:s": b"xy"}


def test_deletes_reach_columns_families_and_rows(connection: Thrift2Connection, table: str) -> None:
    cells = {b"f:x": b"1", b"f:y": b"2", b"g:z": b"3"}
    connection.put(table, [(row, cells) for row in (b"a", b"b", b"c")])

    connection.delete(table, [b"a"], [b"f:x"], origin=ORIGIN)
    connection.delete(table, [b"b"], [b"f"], kind=DeleteKind.FAMILY)
    connection.delete(table, [b"c"])

    assert list(connection.scan(table)) == [
        (b"a", {b"f:y": b"2", b"g:z": b"3"}),
        (b"b", {b"g:z": b"3"}),
    ]


WHOLE = {b"f:": b"0", b"f:x": b"1", b"f:y": b"2", b"g:": b"3", b"g:z": b"4"}


@pytest.mark.parametrize(
    ("named", "left"),
    [
        ([b"f"], {b"g:": b"3", b"g:z": b"4"}),
        ([b"f:"], {b"f:x": b"1", b"f:y": b"2", b"g:": b"3", b"g:z": b"4"}),
        ([b"f", b"g:z"], {b"g:": b"3"}),
        ([b"f:x", b"g"], {b"f:": b"0", b"f:y": b"2"}),
        ([b"f", b"g"], {}),
    ],
)
@pytest.mark.parametrize("call", ["delete", "mutate", "check_and_mutate"])
def test_a_family_alone_is_all_of_it_and_an_empty_qualifier_is_a_column(
    connection: Thrift2Connection,
    table: str,
    call: str,
    named: list[bytes],
    left: dict[bytes, bytes],
) -> None:
    """HBase takes a family alone for its empty qualifier in a delete of columns."""
    connection.put(table, [(b"a", WHOLE)])
    if call == "delete":
        connection.delete(table, [b"a"], named)
    elif call == "mutate":
        connection.mutate(table, b"a", {}, named)
    else:
        check = (b"f:x", Compare.EQUAL, b"1")
        assert connection.check_and_mutate(table, b"a", *check, {}, named)
    assert connection.get(table, b"a") == left


def test_reads_tell_an_empty_qualifier_from_a_family(
    connection: Thrift2Connection, table: str
) -> None:
    connection.put(table, [(b"a", WHOLE)])
    assert connection.get(table, b"a", [b"g:"]) == {b"g:": b"3"}
    assert connection.get(table, b"a", [b"g"]) == {b"g:": b"3", b"g:z": b"4"}
    for columns, expected in (((b"g:",), {b"g:": b"3"}), ((b"g",), {b"g:": b"3", b"g:z": b"4"})):
        assert list(connection.scan(table, ScanRange(columns=columns))) == [(b"a", expected)]


def test_deletes_that_hbase_cannot_make_are_refused(
    connection: Thrift2Connection, table: str
) -> None:
    connection.put(table, [(b"a", WHOLE)])
    with pytest.raises(ValueError, match="columns or whole families to delete, not both"):
        connection.check_and_delete(table, b"a", b"f:x", b"1", [b"f", b"g:z"])
    with pytest.raises(ValueError, match="names the family b'f' alone; name its columns"):
        connection.delete(table, [b"a"], [b"f"], kind=DeleteKind.NEWEST_VERSION)
    assert connection.get(table, b"a") == WHOLE
    assert connection.check_and_delete(table, b"a", b"f:x", b"1", [b"f"])
    assert connection.get(table, b"a") == {b"g:": b"3", b"g:z": b"4"}


def test_tables_are_made_described_emptied_and_deleted(
    connection: Thrift2Connection, stack: RunningStack
) -> None:
    name = stack.table("client_made") + "_split"
    connection.create_table(name, {"f": FamilyOptions(versions=5), "g": FamilyOptions()}, [b"m"])

    assert connection.table_exists(name)
    assert name in connection.tables()
    assert connection.families(name) == ["f", "g"]
    assert [(region.start, region.stop) for region in connection.regions(name)] == [
        (b"", b"m"),
        (b"m", None),
    ]
    connection.put(name, [(b"a", {b"f:x": b"1"})])
    connection.disable_table(name)
    connection.truncate_table(name)
    assert list(connection.scan(name)) == []
    connection.delete_table(name)
    assert not connection.table_exists(name)


def test_an_unknown_table_is_told_by_name(connection: Thrift2Connection) -> None:
    with pytest.raises(RequestRefused, match="no_such_table"):
        connection.get("no_such_table", b"a")
