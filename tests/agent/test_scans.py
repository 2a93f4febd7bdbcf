"""Reading tables for the engine: what is not there has no cells, what is away is waited for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from headgate.agent import scans
from headgate.agent.errors import Unreachable
from headgate.agent.scans import TableScanner
from headgate.agent.seams import Cells
from headgate.agent.supervision import Supervision
from headgate.client import Cell, RequestRefused, ScanRange
from headgate.events import Container, ContainerId, Item, Notify

STAMP = 1000  # milliseconds
WAIT = 30.0  # seconds until something that must happen counts as missing
Data = dict[str, dict[tuple[bytes, bytes], bytes]]


class Tables:
    """A Thrift2 server's tables, and the connections to it: families are those of the cells."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.disabled: set[str] = set()
        self.put_off = threading.Semaphore(0)
        """Released each time that an attempt ends without an answer."""

    def call(self, what: Callable[[Any], Cells], patience: float) -> Cells:
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
        for (row, column), value in sorted(self.data[table].items()):
            wanted = not extent.columns or any(
                column == one or column.startswith(one + b":") for one in extent.columns
            )
            if wanted and row >= extent.start and (extent.stop is None or row < extent.stop):
                yield Cell(row, column, STAMP, value)

    def scan(
        self, table: str, extent: ScanRange, page: int = 0
    ) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        rows: dict[bytes, dict[bytes, bytes]] = {}
        for cell in self.cells(table, extent):
            rows.setdefault(cell.row, {})[cell.column] = cell.value
        yield from rows.items()


class Desk:
    """A scanner and its answers."""

    def __init__(self, data: Data) -> None:
        self.tables = Tables(data)
        self.scanner = TableScanner(self.tables, Supervision(lambda _: None), threads=1)
        self.answers: queue.Queue[Cells] = queue.Queue()

    def scan(
        self, table: str, *items: Item, mark: Notify | None = None, recent: int | None = None
    ) -> None:
        container = Container(ContainerId("c"), items or (Item(table),))
        self.scanner.scan(
            container, table, values=True, mark=mark, recent=recent, done=self.answers.put
        )

    def read(self, table: str, cells: Iterable[tuple[bytes, bytes]]) -> list[bytes | None]:
        rows, columns = zip(*cells, strict=True)
        self.scanner.read(table, rows, columns, self.answers.put)
        return list(self.answer().values)

    def answer(self) -> Cells:
        return self.answers.get(timeout=WAIT)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Data], Desk]]:
    monkeypatch.setattr(scans, "_AGAIN", 0.01)
    made: list[Desk] = []

    def make(data: Data) -> Desk:
        made.append(Desk(data))
        return made[-1]

    yield make
    for one in made:
        one.scanner.close()


FULL: Data = {"t": {(b"1", b"f:a"): b"x", (b"1", b"g:a"): b"y", (b"2", b"f:a"): b"z"}}


def test_a_scan_returns_each_cell_of_the_container_once(desk: Callable[[Data], Desk]) -> None:
    one = desk(FULL)
    one.scan("t", Item("t", b"f"), Item("t", start=b"1", stop=b"1\0"), Item("u"))
    found = one.answer()
    assert sorted(zip(found.rows, found.columns, found.values, strict=True)) == [
        (b"1", b"f:a", b"x"),
        (b"1", b"g:a", b"y"),
        (b"2", b"f:a", b"z"),
    ]


def test_the_timestamps_of_recent_cells_are_told_where_they_are_wanted(
    desk: Callable[[Data], Desk],
) -> None:
    one = desk(FULL)
    one.scan("t")
    assert one.answer().recent == {}
    one.scan("t", recent=STAMP)
    assert one.answer().recent == dict.fromkeys(range(3), STAMP)
    one.scan("t", recent=STAMP + 1)
    assert one.answer().recent == {}


def test_notify_cells_are_nobodys_data_and_tell_the_rows_that_a_dataflow_wrote(
    desk: Callable[[Data], Desk],
) -> None:
    marks = {(b"1", b"hg:flow"): b"5", (b"2", b"hg:other"): b"5"}
    one = desk({"t": {**FULL["t"], **marks}})
    one.scan("t", mark=Notify("flow"))
    found = one.answer()
    assert found.columns == [b"f:a", b"g:a", b"f:a"]
    assert found.marked == {b"1"}
    one.scan("t")
    assert one.answer().marked == frozenset()


def test_a_table_that_is_not_there_has_no_cells(desk: Callable[[Data], Desk]) -> None:
    one = desk({})
    one.scan("t")
    assert one.answer().rows == []
    assert one.read("t", [(b"1", b"f:a")]) == [None]


def test_a_family_that_is_not_there_has_no_cells(desk: Callable[[Data], Desk]) -> None:
    one = desk(FULL)
    one.scan("t", Item("t", b"gone"), Item("t", b"g"))
    assert one.answer().columns == [b"g:a"]


@pytest.mark.parametrize("rows", [1, 60])
def test_cells_of_other_families_are_read_beside_one_that_is_gone(
    desk: Callable[[Data], Desk], rows: int
) -> None:
    one = desk({"t": {(b"%d" % row, b"f:a"): b"x" for row in range(rows)}})
    wanted = [(b"%d" % row, column) for row in range(rows) for column in (b"f:a", b"gone:a")]
    assert one.read("t", wanted) == [b"x", None] * rows


def test_a_disabled_table_is_waited_for_and_keeps_no_other_waiting(
    desk: Callable[[Data], Desk],
) -> None:
    one = desk({**FULL, "u": {(b"9", b"f:a"): b"u"}})
    one.tables.disabled.add("t")
    one.scan("t")
    assert one.tables.put_off.acquire(timeout=WAIT)
    one.scan("u")
    assert one.answer().rows == [b"9"]
    assert one.tables.put_off.acquire(timeout=WAIT)
    one.tables.disabled.clear()
    assert one.answer().rows == [b"1", b"1", b"2"]


def test_a_closed_scanner_asks_for_nothing_again(desk: Callable[[Data], Desk]) -> None:
    one = desk(FULL)
    one.tables.disabled.add("t")
    one.scan("t")
    assert one.tables.put_off.acquire(timeout=WAIT)
    one.scanner.close()
    one.scan("t")
    one.tables.disabled.clear()
    with pytest.raises(queue.Empty):
        one.answers.get(timeout=0.1)
