"""Facts of HBase that one would guess otherwise: lines of docs/reference/hbase-semantics.md.

Each test asserts one fact of the real server directly, without an observer. Where a new version
changes a fact, its line and what headgate does about it must change too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import Hbase_thrift  # made by happybase when it is imported
import pytest
import thriftpy2
from thriftpy2.protocol.cybin import TCyBinaryProtocolFactory
from thriftpy2.rpc import make_client
from thriftpy2.transport import TCyBufferedTransportFactory

pytestmark = pytest.mark.stack

TWO = thriftpy2.load(
    str(Path(__file__).parents[2] / "hbase" / "thrift2.thrift"), module_name="tests_two_thrift"
)
COLUMN = b"f:q"
HOUR = 3_600_000


def number(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


class Server:
    """Clients of both dialects, and a table with a new row for each test."""

    def __init__(self, stack: Any) -> None:
        self.connection = stack.happybase()
        self.one = self.connection.client
        self.two = make_client(
            TWO.THBaseService,
            *stack.thrift2,
            proto_factory=TCyBinaryProtocolFactory(),
            trans_factory=TCyBufferedTransportFactory(),
            timeout=60_000,
        )
        self.name = stack.table("facts", ("f", "g")).encode()
        self.single = stack.table("facts_single", ("f",), versions=1).encode()
        self._rows = count()

    @property
    def now(self) -> int:
        """Milliseconds of this host's clock, which is the server's."""
        return int(time.time() * 1000)

    def row(self) -> bytes:
        return b"row%d" % next(self._rows)

    def put(
        self, row: bytes, value: bytes, stamp: int | None = None, ttl: int | None = None
    ) -> None:
        put = [Hbase_thrift.Mutation(column=COLUMN, value=value)]
        attributes = {} if ttl is None else {b"_ttl": number(ttl)}
        if stamp is None:
            self.one.mutateRow(self.name, row, put, attributes)
        else:
            self.one.mutateRowTs(self.name, row, put, stamp, attributes)

    def value(self, row: bytes, table: bytes | None = None) -> bytes | None:
        cells = self.one.get(table or self.name, row, COLUMN, {})
        return cells[0].value if cells else None

    def scan(self, table: bytes, **scan: Any) -> list[Any]:
        opened = self.one.scannerOpenWithScan(table, Hbase_thrift.TScan(**scan), {})
        found: list[Any] = self.one.scannerGetList(opened, 10)
        self.one.scannerClose(opened)
        return found

    def increment(self, row: bytes, *amounts: int) -> list[bytes]:
        columns = [
            TWO.TColumnIncrement(family=b"f", qualifier=b"q", amount=each) for each in amounts
        ]
        found = self.two.increment(self.name, TWO.TIncrement(row=row, columns=columns))
        return [each.value for each in found.columnValues]

    def close(self) -> None:
        for table in (self.name, self.single):
            self.connection.delete_table(table, disable=True)
        self.connection.close()
        self.two.close()


@pytest.fixture(scope="module")
def server(stack) -> Iterator[Server]:
    found = Server(stack)
    yield found
    found.close()


def gone(*columns: bytes) -> list[Any]:
    return [Hbase_thrift.Mutation(isDelete=True, column=column) for column in columns]


def new(value: bytes) -> list[Any]:
    return [Hbase_thrift.Mutation(column=COLUMN, value=value)]


# --- deletes and puts


def test_a_marker_hides_puts_at_or_below_its_timestamp_that_come_later(server):
    row, stamp = server.row(), server.now - HOUR
    server.one.deleteAllTs(server.name, row, COLUMN, stamp, {})
    server.put(row, b"hidden", stamp)
    assert server.value(row) is None
    server.put(row, b"shown", stamp + 1)
    assert server.value(row) == b"shown"


def test_in_one_mutate_row_deletes_come_first(server):
    row, stamp = server.row(), server.now - HOUR
    server.put(row, b"old", stamp)
    server.one.mutateRowTs(server.name, row, new(b"new") + gone(COLUMN), stamp, {})
    assert server.value(row) is None, "with one timestamp for both the delete hides the put"


def test_of_two_puts_of_a_cell_in_one_batch_the_last_shows_and_they_are_one_version(server):
    row = server.row()
    batch = [Hbase_thrift.BatchMutation(row, new(each)) for each in (b"first", b"last")]
    server.one.mutateRows(server.name, batch, {})
    versions = server.one.getVer(server.name, row, COLUMN, 5, {})
    assert [each.value for each in versions] == [b"last"]


def test_a_version_dated_ahead_stays_what_readers_see(server):
    row = server.row()
    server.put(row, b"ahead", server.now + HOUR)
    server.put(row, b"later")
    assert server.value(row) == b"ahead"
    server.one.deleteAllRow(server.name, row, {})
    assert server.value(row) == b"ahead", "a row delete does not reach it"


def test_increments_and_appends_climb_above_a_version_dated_ahead(server):
    row, stamp = server.row(), server.now + HOUR
    server.put(row, number(5), stamp)
    assert server.increment(row, 1) == [number(6)]
    (cell,) = server.one.get(server.name, row, COLUMN, {})
    assert (cell.value, cell.timestamp) == (number(6), stamp + 1)


def test_delete_column_of_thrift2_shows_the_version_before_unless_it_is_flushed(server):
    row = server.row()
    for stamp, value in enumerate((b"a", b"b"), start=server.now - HOUR):
        put = [Hbase_thrift.Mutation(column=COLUMN, value=value)]
        server.one.mutateRowTs(server.single, row, put, stamp, {})
    column = TWO.TColumn(family=b"f", qualifier=b"q")
    delete = TWO.TDelete(row=row, columns=[column], deleteType=0)
    server.two.deleteSingle(server.single, delete)
    assert server.value(row, server.single) == b"a", "though the family keeps one version"


@pytest.mark.parametrize(("together", "shown"), [(True, b"a"), (False, b"b")])
def test_a_column_twice_in_one_delete_loses_two_versions_and_in_two_deletes_of_a_call_one(
    server, together, shown
):
    row = server.row()
    for stamp, value in enumerate((b"a", b"b", b"c"), start=server.now - HOUR):
        server.put(row, value, stamp)
    column = TWO.TColumn(family=b"f", qualifier=b"q")
    columns = [[column, column]] if together else [[column], [column]]
    deletes = [TWO.TDelete(row=row, columns=each, deleteType=0) for each in columns]
    server.two.deleteMultiple(server.name, deletes)
    assert server.value(row) == shown


# --- times to live


def test_a_cell_with_a_time_to_live_goes_and_the_version_before_comes_back(server):
    row, now = server.row(), server.now
    server.put(row, b"old", now - 20_000)
    server.put(row, b"brief", now - 10_000, ttl=HOUR)
    assert server.value(row) == b"brief"
    server.put(row, b"expired", now - 9_000, ttl=5_000)
    assert server.value(row) == b"brief"


@pytest.mark.parametrize("ttl", [0, -1, -(2**63), 2**63 - 2])
def test_a_time_to_live_of_nothing_or_beyond_all_time_shows_never(server, ttl):
    row = server.row()
    server.put(row, b"v", server.now - 10, ttl=ttl)
    assert server.value(row) is None


def test_the_longest_time_to_live_is_none(server):
    row = server.row()
    server.put(row, b"v", ttl=2**63 - 1)
    assert server.value(row) == b"v"


def test_a_delete_with_a_time_to_live_is_undone_after_it(server):
    row, now = server.row(), server.now
    server.put(row, b"old", now - 20_000)
    attributes = {b"_ttl": number(5_000)}
    server.one.deleteAllTs(server.name, row, COLUMN, now - 10_000, attributes)
    assert server.value(row) == b"old"


def test_an_increment_keeps_the_time_to_live_of_the_cell_that_it_read(server):
    row = server.row()
    server.put(row, number(5), ttl=1500)
    assert server.increment(row, 1) == [number(6)]
    deadline = time.monotonic() + 30
    while server.value(row) is not None:
        assert time.monotonic() < deadline, "the increment's cell does not expire"
        time.sleep(0.05)
    assert server.increment(row, 1) == [number(1)], "an increment starts anew then"


# --- increments and appends


def test_an_increment_by_zero_makes_a_cell_and_renews_the_timestamp_of_one(server):
    row = server.row()
    assert server.one.atomicIncrement(server.name, row, COLUMN, 0) == 0
    assert server.value(row) == number(0)
    old = server.now - HOUR
    row = server.row()
    server.put(row, number(7), old)
    assert server.one.atomicIncrement(server.name, row, COLUMN, 0) == 7
    (cell,) = server.one.get(server.name, row, COLUMN, {})
    assert cell.timestamp > old


def test_of_a_column_twice_in_one_increment_the_last_amount_is_added(server):
    row = server.row()
    assert server.increment(row, 5, 2) == [number(5), number(2)], "the reply lists both"
    assert server.value(row) == number(2)


# --- timestamps of reads, checks, filters


def test_reads_up_to_a_timestamp_are_half_open_and_deletes_closed(server):
    row, stamp = server.row(), server.now - HOUR
    server.put(row, b"v", stamp)
    assert server.one.getRowTs(server.name, row, stamp, {}) == []
    assert server.one.getVerTs(server.name, row, COLUMN, stamp, 1, {}) == []
    assert len(server.one.getRowTs(server.name, row, stamp + 1, {})) == 1
    server.one.deleteAllTs(server.name, row, COLUMN, stamp, {})
    assert server.value(row) is None


def test_a_check_for_an_empty_value_holds_for_a_cell_that_is_absent(server):
    row = server.row()
    put = Hbase_thrift.Mutation(column=b"f:x", value=b"v")
    assert server.one.checkAndPut(server.name, row, COLUMN, b"", put, {}) is True


def check(server, row, operator, given) -> bool:
    value = TWO.TColumnValue(family=b"f", qualifier=b"x", value=b"v")
    put = TWO.TMutation(put=TWO.TPut(row=row, columnValues=[value]))
    mutations = TWO.TRowMutations(row=row, mutations=[put])
    asked = (server.name, row, b"f", b"q", operator, given, mutations)
    return bool(server.two.checkAndMutate(*asked))


def test_check_and_mutate_compares_the_given_value_with_the_cell(server):
    row = server.row()
    server.put(row, b"m")
    less = 0
    assert check(server, row, less, b"a") is True, "given < cell"
    assert check(server, row, less, b"z") is False
    assert [check(server, server.row(), each, b"a") for each in range(6)] == [False] * 6


def test_a_value_filter_finds_values_that_were_overwritten(server):
    row, now = server.row(), server.now
    server.put(row, b"find-me", now - 2000)
    server.put(row, b"newest", now - 1000)
    wanted = b"ValueFilter(=, 'binary:find-me')"
    found = server.scan(server.name, startRow=row, stopRow=row + b"\0", filterString=wanted)
    assert [each.columns[COLUMN].value for each in found] == [b"find-me"]


def test_a_page_filter_counts_in_each_region_by_itself(server):
    name = server.name + b"_split"
    described = TWO.TTableDescriptor(
        tableName=TWO.TTableName(qualifier=name), columns=[TWO.TColumnFamilyDescriptor(name=b"f")]
    )
    server.two.createTable(described, [b"m"])
    for row in (b"a", b"b", b"c", b"m", b"n", b"o"):
        server.one.mutateRow(name, row, new(b"v"), {})
    found = server.scan(name, filterString=b"PageFilter(2)")
    server.connection.delete_table(name, disable=True)
    assert [each.row for each in found] == [b"a", b"b", b"m", b"n"]


def test_an_append_of_a_column_twice_adds_the_last_value_alone(server):
    row = server.row()
    values = [TWO.TColumnValue(family=b"f", qualifier=b"q", value=each) for each in (b"a", b"b")]
    server.two.append(server.name, TWO.TAppend(row=row, columns=values))
    assert server.value(row) == b"b"


def test_modify_column_family_resets_what_it_does_not_name(server, stack):
    table = stack.table("facts_modified", ("f",), versions=5)
    name = TWO.TTableName(qualifier=table.encode())
    family = TWO.TColumnFamilyDescriptor(name=b"f", attributes={b"TTL": b"3600"})
    server.two.modifyColumnFamily(name, family)
    (found,) = server.one.getColumnDescriptors(table.encode()).values()
    assert found.maxVersions == 1
