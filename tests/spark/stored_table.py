"""A table in memory, behind the calls of a Thrift2 connection that steps make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

from headgate.client import Region, ScanRange
from headgate.engine import Codec, CodecName, WatchedContainer
from headgate.events import Container, ContainerId, Item, KeyForm
from headgate.spark import StepRequest, Thrift2Address
from headgate.spark.containers import servers_of
from headgate.spark.run import Run

Rows = dict[bytes, dict[bytes, bytes]]


class StoredTable:
    """A table; a connection to it is the table itself."""

    def __init__(self, *families: str) -> None:
        self.rows: Rows = {}
        self._families = list(families)
        self.ttls: dict[bytes, int] = {}
        """Seconds after which cells expire, by family."""

    def __enter__(self) -> StoredTable:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def families(self, _table: str) -> list[str]:
        return self._families

    def times_to_live(self, _table: str) -> dict[bytes, int]:
        return self.ttls

    def regions(self, _table: str) -> list[Region]:
        return [Region(b"", None, "h")]

    def scan(
        self, _table: str, extent: ScanRange, _page: int
    ) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        for row in sorted(self.rows):
            cells = {
                column: value
                for column, value in self.rows[row].items()
                if not extent.columns or {column, column.partition(b":")[0]} & set(extent.columns)
            }
            if cells and extent.start <= row and (extent.stop is None or row < extent.stop):
                yield row, cells

    def pages(self, table: str, extent: ScanRange, page: int) -> Iterator[list[Any]]:
        found = []
        for row, cells in self.scan(table, extent, page):
            parts = ((*column.partition(b":"), value) for column, value in cells.items())
            values = [SimpleNamespace(family=f, qualifier=q, value=v) for f, _, q, v in parts]
            found.append(SimpleNamespace(row=row, columnValues=values))
        yield found

    def put_columns(
        self,
        _table: str,
        rows: Sequence[bytes],
        columns: Mapping[bytes, Sequence[bytes | None]],
        **_: object,
    ) -> int:
        for column, values in columns.items():
            assert column.partition(b":")[0].decode() in self._families, column
            for row, value in zip(rows, values, strict=True):
                if value is not None:
                    self.rows.setdefault(row, {})[column] = value
        return len(rows)

    def delete(
        self, _table: str, rows: Iterable[bytes], columns: Sequence[bytes] = (), **_: object
    ) -> int:
        named = list(rows)
        for row in named:
            there = self.rows.get(row, {})
            gone = [
                column
                for column in there
                if not columns or {column, column.partition(b":")[0]} & set(columns)
            ]
            for column in gone:
                del there[column]
            if not there:
                self.rows.pop(row, None)
        return len(named)


def run_over(*items: Item, keys: KeyForm = KeyForm.TEXT, **request: Any) -> Run:
    """Return a run whose container ``c`` has these items, with opaque values."""
    watched = WatchedContainer(Container(ContainerId("c"), items), Codec(CodecName.OPAQUE))
    asked = StepRequest(
        "flow", "step", "r", 1, 1, "m:f", Thrift2Address("h", 1), "k",
        containers=(watched,), keys={"c": keys}, **request,
    )  # fmt: skip
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda _, default: default))
    return Run(
        cast(Any, session), asked, servers_of(asked, cast(Any, None)), cancelled=lambda: False
    )
