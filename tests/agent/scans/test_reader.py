"""Reading tables for the engine: what is not there has no cells, what is away is waited for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.agent.errors import Unreachable
from headgate.agent.ports import ScannedCells
from headgate.agent.scans import reader as scans
from headgate.agent.scans.container_rows import RowsLimit, Stretch, stretches
from headgate.agent.scans.reader import TableScanner
from headgate.agent.state.rows import HBaseConnections
from headgate.agent.supervision import Supervision
from headgate.client import Cell, RequestRefused, ScanRange
from headgate.events import Container, ContainerId, Item, Notify

STAMP = 1000  # milliseconds
WAIT = 30.0  # seconds until something that must happen counts as missing
LIMIT = RowsLimit(1000, 10**6)
Data = dict[str, dict[tuple[bytes, bytes], bytes]]


class Tables:
    """A Thrift2 server's tables, and the connections to it: families are those of the cells."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.ahead: list[tuple[bytes, bytes, int, int]] = []
        """Row, column, timestamp and HBase's code of what is dated ahead."""
        self.ttls: dict[bytes, int] = {}
        """Seconds, by family."""
        self.disabled: set[str] = set()
        self.asked: list[int] = []
        """How many rows each page was to have."""
        self.put_off = threading.Semaphore(0)
        """Released each time that an attempt ends without an answer."""

    def call(self, what: Callable[[Any], ScannedCells], patience: float) -> ScannedCells:
        assert patience > 0
        try:
            return what(self)
        except RequestRefused as error:
            self.put_off.release()
            raise Unreachable(str(error)) from error

    def table_exists(self, table: str) -> bool:
        return table in self.data

    def families(self, table: str) -> list[str]:
        self._check(table, ())
        return sorted({column.partition(b":")[0].decode() for _, column in self.data[table]})

    def times_to_live(self, table: str) -> dict[bytes, int]:
        self._check(table, ())
        return self.ttls

    def _check(self, table: str, columns: Iterable[bytes]) -> None:
        if table not in self.data:
            raise RequestRefused("refused", table)
        if table in self.disabled:
            raise RequestRefused("refused", f"{table} is disabled.")
        for column in columns:
            if column.partition(b":")[0].decode() not in self.families(table):
                raise RequestRefused("refused", "…NoSuchColumnFamilyException: …")

    def cells(self, table: str, extent: ScanRange) -> Iterator[Cell]:
        self._check(table, extent.columns)
        # As HBase does it: a column after its family narrows the family to the column.
        narrowed = {one.partition(b":")[0] for one in extent.columns if b":" in one}
        for (row, column), value in sorted(self.data[table].items()):
            wanted = not extent.columns or any(
                column == one or (one not in narrowed and column.startswith(one + b":"))
                for one in extent.columns
            )
            if wanted and row >= extent.start and (extent.stop is None or row < extent.stop):
                yield Cell(row, column, STAMP, value)

    def pages(self, table: str, extent: ScanRange, page: int) -> Iterator[list[Any]]:
        if extent.raw:
            yield from self._raw_pages(table, extent, page)
            return
        self.asked.append(page)
        found: dict[bytes, list[Any]] = {}
        for cell in self.cells(table, extent):
            family, _, qualifier = cell.column.partition(b":")
            value = b"" if extent.filter == "KeyOnlyFilter()" else cell.value
            found.setdefault(cell.row, []).append(
                SimpleNamespace(
                    family=family, qualifier=qualifier, value=value, timestamp=cell.timestamp
                )
            )
        results = [SimpleNamespace(row=row, columnValues=cells) for row, cells in found.items()]
        if results:
            yield results[:page]

    def _raw_pages(self, table: str, extent: ScanRange, page: int) -> Iterator[list[Any]]:
        self._check(table, extent.columns)
        assert not any(b":" in column for column in extent.columns)  # HBase refuses columns
        found: dict[bytes, list[Any]] = {}
        for row, column, timestamp, kind in self.ahead:
            family, _, qualifier = column.partition(b":")
            if extent.start <= row and (extent.stop is None or row < extent.stop):
                found.setdefault(row, []).append(
                    SimpleNamespace(
                        family=family, qualifier=qualifier, timestamp=timestamp, type=kind
                    )
                )
        results = [SimpleNamespace(row=row, columnValues=cells) for row, cells in found.items()]
        if results:
            yield results[:page]

    def scan(
        self, table: str, extent: ScanRange, page: int = 0
    ) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        rows: dict[bytes, dict[bytes, bytes]] = {}
        for cell in self.cells(table, extent):
            rows.setdefault(cell.row, {})[cell.column] = cell.value
        yield from rows.items()


class ScannerHarness:
    """A scanner and its answers."""

    def __init__(self, data: Data, limit: RowsLimit = LIMIT) -> None:
        self.tables = Tables(data)
        self.scanner = TableScanner(
            cast("HBaseConnections", self.tables), Supervision(lambda _: None), limit, threads=1
        )
        self.answers: queue.Queue[ScannedCells] = queue.Queue()

    def scan(
        self,
        table: str,
        *items: Item,
        values: bool = True,
        mark: Notify | None = None,
        recent: int | None = None,
        start: bytes = b"",
    ) -> None:
        container = Container(ContainerId("c"), items or (Item(table),))
        done = self.answers.put
        self.scanner.scan(
            container, table, values=values, mark=mark, recent=recent, start=start, done=done
        )

    def stretches(self, table: str, *items: Item, **how: Any) -> Iterator[ScannedCells]:
        """Yield what is read, until nothing follows."""
        following: bytes | None = b""
        while following is not None:
            self.scan(table, *items, start=following, **how)
            answer = self.answer()
            yield answer
            following = answer.following

    def read(self, table: str, cells: Iterable[tuple[bytes, bytes]]) -> list[bytes | None]:
        rows, columns = zip(*cells, strict=True)
        self.scanner.read(table, rows, columns, self.answers.put)
        return list(self.answer().values)

    def answer(self) -> ScannedCells:
        return self.answers.get(timeout=WAIT)


@pytest.fixture
def make_harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ScannerHarness]]:
    monkeypatch.setattr(scans, "_AGAIN", 0.01)
    made: list[ScannerHarness] = []

    def make(data: Data, *limit: RowsLimit) -> ScannerHarness:
        made.append(ScannerHarness(data, *limit))
        return made[-1]

    yield make
    for one in made:
        one.scanner.close()


FULL: Data = {"t": {(b"1", b"f:a"): b"x", (b"1", b"g:a"): b"y", (b"2", b"f:a"): b"z"}}


def test_a_scan_returns_each_cell_of_the_container_once(
    make_harness: Callable[..., ScannerHarness],
) -> None:
    one = make_harness(FULL)
    one.scan("t", Item("t", b"f"), Item("t", start=b"1", stop=b"1\0"), Item("u"))
    found = one.answer()
    assert sorted(zip(found.rows, found.columns, found.values, strict=True)) == [
        (b"1", b"f:a", b"x"),
        (b"1", b"g:a", b"y"),
        (b"2", b"f:a", b"z"),
    ]


def test_a_scan_finds_what_is_dated_ahead(make_harness: Callable[..., ScannerHarness]) -> None:
    one = make_harness(FULL)
    later = 2**50
    one.tables.ahead = [
        (b"1", b"f:a", later, 4),
        (b"1", b"f:b", later + 1, 12),
        (b"2", b"f:", later + 2, 14),
    ]
    one.scan("t", Item("t", b"f", b"a"))
    assert one.answer().dated.rows == {
        b"1": {b"f:a": later, b"": later + 1},
        b"2": {b"": later + 2},
    }
    one.scan("t", Item("t", start=b"2"))
    assert one.answer().dated.rows == {b"2": {b"": later + 2}}


def test_a_scan_says_which_families_expire(make_harness: Callable[..., ScannerHarness]) -> None:
    one = make_harness(FULL)
    one.tables.ttls = {b"f": 9, b"x": 5}
    one.scan("t", Item("t", b"f"))
    answer = one.answer()
    assert (answer.ttls, answer.timestamps) == ({b"f": 9000}, [STAMP, STAMP])
    one.scan("t", Item("t", b"g"))
    answer = one.answer()
    assert (answer.ttls, answer.timestamps) == ({}, [])


def test_a_read_returns_timestamps_too(make_harness: Callable[..., ScannerHarness]) -> None:
    one = make_harness(FULL)
    one.scanner.read("t", (b"1", b"1"), (b"f:a", b"f:z"), one.answers.put)
    answer = one.answer()
    assert (answer.values, answer.timestamps) == ([b"x", None], [STAMP, 0])


def test_a_family_beside_one_of_its_columns_is_read_whole(
    make_harness: Callable[..., ScannerHarness],
) -> None:
    one = make_harness({"t": {(b"1", b"f:a"): b"x", (b"1", b"f:b"): b"y", (b"1", b"g:a"): b"z"}})
    one.scan("t", Item("t", b"f", b"a"), Item("t", b"f"))
    assert one.answer().columns == [b"f:a", b"f:b"]


def test_items_are_read_in_stretches_of_rows_that_have_the_same_columns() -> None:
    items = [
        Item("t", b"f", b"a", b"b", b"e"),
        Item("t", b"f", None, b"c", b"d"),
        Item("t", start=b"x"),
        Item("t", b"g", b"a", b"d", b"e"),
    ]
    assert stretches(items, b"") == [
        Stretch(b"b", b"c", (b"f:a",)),
        Stretch(b"c", b"d", (b"f",)),
        Stretch(b"d", b"e", (b"f:a", b"g:a")),
        Stretch(b"x", None, ()),
    ]
    assert stretches(items, b"cc") == [
        Stretch(b"cc", b"d", (b"f",)),
        Stretch(b"d", b"e", (b"f:a", b"g:a")),
        Stretch(b"x", None, ()),
    ]
    assert stretches(items[:2], b"e") == []


COLUMNS = [b"f:a", b"f:b", b"g:a", b"hg:x"]


@given(
    cells=st.sets(
        st.tuples(st.integers(0, 30), st.sampled_from([b"f:a", b"f:b", b"g:a", b"hg:x"]))
    ),
    items=st.lists(
        st.tuples(
            st.sampled_from([None, b"f", b"g"]),
            st.sampled_from([None, b"a"]),
            st.integers(0, 30).map(b"%02d".__mod__),
            st.none() | st.integers(0, 30).map(b"%02d".__mod__),
        ),
        min_size=1,
        max_size=4,
    ),
    limit=st.integers(1, 12),
    values=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_stretches_hold_each_cell_of_the_container_once_and_no_more_rows_than_needed(
    cells: set[tuple[int, bytes]],
    items: list[tuple[bytes | None, bytes | None, bytes, bytes | None]],
    limit: int,
    values: bool,
) -> None:
    data = {(b"%02d" % row, column): b"%d" % row for row, column in cells}
    made = [
        Item(
            "t",
            family,
            qualifier if family else None,
            start,
            stop,
        )
        for family, qualifier, start, stop in items
    ]
    made = [item for item in made if item.stop is None or item.start < item.stop] or [Item("t")]
    for family in (b"f:z", b"g:z"):  # both families are there
        data[b"99", family] = b"99"
    one = ScannerHarness({"t": data}, RowsLimit(limit, 10**6))
    try:
        read = list(one.stretches("t", *made, values=values, mark=Notify("x")))
    finally:
        one.scanner.close()
    found = [key for part in read for key in zip(part.rows, part.columns, strict=True)]
    expected = [
        (row, column)
        for row, column in sorted(data)
        if not column.startswith(b"hg:")
        and any(item.has_row(row) and item.has_column(column) for item in made)
    ]
    assert found == expected
    for part, after in pairwise(read):
        assert part.following is not None
        assert all(row < part.following for row in part.rows)
        assert all(row >= part.following for row in after.rows)
        last = part.rows[-1]
        assert len([row for row in part.rows if row != last]) < limit  # its last row reached it
    for part in read:
        wanted = {row for row, column in data if column == b"hg:x"} & set(part.rows)
        assert part.marked == wanted
        keys = zip(part.rows, part.columns, strict=True)
        assert part.values == ([data[key] for key in keys] if values else [])


def test_bytes_end_a_stretch_too(make_harness: Callable[..., ScannerHarness]) -> None:
    one = make_harness(
        {"t": {(b"%d" % i, b"f:a"): b"x" * 400 for i in range(9)}}, RowsLimit(1000, 1000)
    )
    assert [len(part.rows) for part in one.stretches("t")] == [2, 2, 2, 2, 1]


def test_pages_are_as_long_as_rows_are_narrow(make_harness: Callable[..., ScannerHarness]) -> None:
    wide = {(b"%03d" % row, b"f:%d" % i): b"" for row in range(100) for i in range(40)}
    one = make_harness({"t": wide}, RowsLimit(2400, 10**9))
    assert [len(part.rows) for part in one.stretches("t")] == [2400, 1600]
    # 50 rows of 40 cells leave room for 10 more.
    assert one.tables.asked == [50, 10, 50]


def test_the_timestamps_of_recent_cells_are_told_where_they_are_wanted(
    make_harness: Callable[..., ScannerHarness],
) -> None:
    one = make_harness(FULL)
    one.scan("t")
    assert one.answer().recent == {}
    one.scan("t", recent=STAMP)
    assert one.answer().recent == dict.fromkeys(range(3), STAMP)
    one.scan("t", recent=STAMP + 1)
    assert one.answer().recent == {}


def test_notify_cells_are_nobodys_data_and_tell_the_rows_that_a_dataflow_wrote(
    make_harness: Callable[..., ScannerHarness],
) -> None:
    marks = {(b"1", b"hg:flow"): b"5", (b"2", b"hg:other"): b"5"}
    one = make_harness({"t": {**FULL["t"], **marks}})
    one.scan("t", mark=Notify("flow"))
    found = one.answer()
    assert found.columns == [b"f:a", b"g:a", b"f:a"]
    assert found.marked == {b"1"}
    one.scan("t")
    assert one.answer().marked == frozenset()


def test_a_table_that_is_not_there_has_no_cells(
    make_harness: Callable[..., ScannerHarness],
) -> None:
    one = make_harness({})
    one.scan("t")
    assert one.answer().rows == []
    assert one.read("t", [(b"1", b"f:a")]) == [None]


def test_a_family_that_is_not_there_has_no_cells(
    make_harness: Callable[..., ScannerHarness],
) -> None:
    one = make_harness(FULL)
    one.scan("t", Item("t", b"gone"), Item("t", b"g"))
    assert one.answer().columns == [b"g:a"]


@pytest.mark.parametrize("rows", [1, 60])
def test_cells_of_other_families_are_read_beside_one_that_is_gone(
    make_harness: Callable[..., ScannerHarness], rows: int
) -> None:
    one = make_harness({"t": {(b"%d" % row, b"f:a"): b"x" for row in range(rows)}})
    wanted = [(b"%d" % row, column) for row in range(rows) for column in (b"f:a", b"gone:a")]
    assert one.read("t", wanted) == [b"x", None] * rows


def test_a_disabled_table_is_waited_for_and_keeps_no_other_waiting(
    make_harness: Callable[..., ScannerHarness],
) -> None:
    one = make_harness({**FULL, "u": {(b"9", b"f:a"): b"u"}})
    one.tables.disabled.add("t")
    one.scan("t")
    assert one.tables.put_off.acquire(timeout=WAIT)
    one.scan("u")
    assert one.answer().rows == [b"9"]
    assert one.tables.put_off.acquire(timeout=WAIT)
    one.tables.disabled.clear()
    assert one.answer().rows == [b"1", b"1", b"2"]


def test_a_closed_scanner_asks_for_nothing_again(
    make_harness: Callable[..., ScannerHarness],
) -> None:
    one = make_harness(FULL)
    one.tables.disabled.add("t")
    one.scan("t")
    assert one.tables.put_off.acquire(timeout=WAIT)
    one.scanner.close()
    one.scan("t")
    one.tables.disabled.clear()
    with pytest.raises(queue.Empty):
        one.answers.get(timeout=0.1)
