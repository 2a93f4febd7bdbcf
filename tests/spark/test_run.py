"""What a step reads through its run, without Spark: from a table that the test holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from headgate.client import ScanRange
from headgate.engine import Codec, CodecName, OnUndecodable, WatchedContainer
from headgate.events import (
    VERSION,
    Container,
    ContainerId,
    Cut,
    Item,
    Outcome,
    RequestPart,
    UpdateBatch,
    UpdateKind,
    updates_topic,
)
from headgate.spark import ResultError, StepRequest, Thrift2Address, containers
from headgate.spark.containers import servers_of
from headgate.spark.kafka.updates import Record
from headgate.spark.run import Run
from headgate.spark.source.undecodable import UndecodableValue
from headgate.spark.source.values import UnwritableValue
from headgate.spark.views import ViewError

Rows = dict[bytes, dict[bytes, bytes]]


class Table:
    """Stands for a connection to a server with one table."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.read = 0
        """Rows that were asked for one by one, or scanned."""

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def times_to_live(self, _table: str) -> dict[bytes, int]:
        return {}

    def pages(self, _table: str, extent: ScanRange, _page: int) -> Iterator[Sequence[Any]]:
        found = []
        for row, cells in self._rows.items():
            values = [
                SimpleNamespace(family=family, qualifier=qualifier, value=value)
                for column, value in cells.items()
                for family, _, qualifier in [column.partition(b":")]
                if not extent.columns or {family, column} & set(extent.columns)
            ]
            if values:
                found.append(SimpleNamespace(row=row, columnValues=values))
        yield found

    def families(self, _table: str) -> list[str]:
        return ["s", "other"]

    def scan(self, _table: str, extent: ScanRange, page: int) -> Iterator[tuple[bytes, Any]]:
        inside = (row for row in sorted(self._rows) if row >= extent.start)
        for number, row in enumerate(inside):
            if extent.stop is not None and row >= extent.stop:
                return
            self.read += number % page == 0 and page
            yield row, self._rows[row]


class Told:
    """Stands for a reader of a topic with one message."""

    def __init__(self, message: UpdateBatch) -> None:
        self._message = message

    def there(self, ranges: list[object]) -> list[object]:
        return ranges

    def read(self, _ranges: object) -> Iterator[Record]:
        yield Record(0, 0, self._message)


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    held: Rows = {}
    monkeypatch.setattr(containers, "Thrift2Connection", lambda *_: Table(held))
    return held


def container(*columns: bytes, codec: CodecName = CodecName.UTF8) -> WatchedContainer:
    parts = (column.partition(b":") for column in columns)
    items = tuple(Item("t", family, qualifier or None) for family, _, qualifier in parts)
    return WatchedContainer(Container(ContainerId("c"), items), Codec(codec))


def run_of(
    watched: WatchedContainer,
    *,
    told: Told | None = None,
    since: Cut = Cut(),  # noqa: B008 -- frozen
    cut: Cut = Cut(),  # noqa: B008
    **on_undecodable: OnUndecodable,
) -> Run:
    request = StepRequest(
        "flow", "step", "r", 1, 1, "m:f", Thrift2Address("h", 1), "k",
        containers=(watched,), on_undecodable=dict(on_undecodable), since=since, cut=cut,
    )  # fmt: skip
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda _, default: default))
    lent = cast(AbstractContextManager[Any], nullcontext(told))
    servers = servers_of(request, lambda _: lent)
    return Run(cast(Any, session), request, servers, cancelled=lambda: False)


def test_an_empty_family_has_the_columns_named_beside_it(rows: Rows) -> None:
    assert rows == {}

    frame = run_of(container(b"s:", b"s:o3", b"s:no2")).read_arrow("c")

    assert frame.schema.names == ["row", "o3", "no2"]
    assert frame.num_rows == 0


def test_a_family_has_the_columns_named_beside_it_and_those_that_rows_have(rows: Rows) -> None:
    rows[b"d1"] = {b"s:pm25": b"3", b"s:o3": b"1"}

    frame = run_of(container(b"s:", b"s:o3", b"s:no2")).read_arrow("c")

    assert frame.to_pylist() == [{"row": "d1", "o3": 1.0, "no2": None, "pm25": 3.0}]


def test_a_column_whose_type_is_asked_for_is_there_though_no_row_has_it(rows: Rows) -> None:
    types = {"o3": "long", "s:no2": "string", "other:x": "long"}
    rows[b"d1"] = {b"s:o3": b"1"}

    frame = run_of(container(b"s:")).read_arrow("c", types=types)

    assert frame.schema.names == ["row", "o3", "no2"]
    assert frame.column("o3").to_pylist() == [1]


def test_a_step_learns_how_many_values_did_not_decode_and_the_first(rows: Rows) -> None:
    rows[b"d1"] = {b"s:o3": b"off"}
    rows[b"d2"] = {b"s:o3": b""}
    reading = run_of(container(b"s:o3"))

    frame = reading.read_arrow("c")

    assert frame.column("o3").to_pylist() == [None, None]
    assert reading.undecoded.count == 2
    assert "row d1, column s:o3: b'off'" in reading.undecoded.first


def test_the_dataflow_file_says_what_becomes_of_values_that_do_not_decode(rows: Rows) -> None:
    rows[b"d1"] = {b"s:o3": b"off"}
    rows[b"d2"] = {b"s:o3": b"2"}

    with pytest.raises(UndecodableValue, match="row d1"):
        run_of(container(b"s:o3"), c=OnUndecodable.FAIL).read_arrow("c")
    skipping = run_of(container(b"s:o3"), c=OnUndecodable.SKIP)
    assert skipping.read_arrow("c").column("row").to_pylist() == ["d2"]
    assert skipping.read_arrow("c", on_undecodable="null").num_rows == 2
    with pytest.raises(ViewError, match="fail, null, skip"):
        skipping.read_arrow("c", on_undecodable="ignore")


def test_some_rows_far_apart_are_no_scan_of_all_between(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table({b"%05d" % row: {b"s:o3": b"1"} for row in range(20_000)})
    monkeypatch.setattr(containers, "Thrift2Connection", lambda *_: table)
    unsure = [b"%05d" % row for row in range(0, 20_000, 200)]
    part = RequestPart(1, "m", Outcome.UNKNOWN, 0.0, len(unsure))
    message = UpdateBatch(
        VERSION, "o", 1, 0, 0, "t", (part,), bytes([UpdateKind.PUT]) * len(unsure), tuple(unsure),
        (b"s:o3",) * len(unsure), (-1,) * len(unsure), (b"9",) * len(unsure),
    )  # fmt: skip
    topic = updates_topic("t")
    since, cut = Cut({topic: (0,)}), Cut({topic: (1,)})

    run = run_of(container(b"s:o3"), told=Told(message), since=since, cut=cut)
    changes = run.changes_arrow("c")

    assert changes.column("value").to_pylist() == [1.0] * len(unsure)
    assert table.read < 20 * len(unsure)


def test_a_step_finds_what_was_named_before_and_names_what_its_commit_shall() -> None:
    request = StepRequest(
        "flow", "step", "r", 1, 1, "m:f", Thrift2Address("h", 1), "k", previous="manifest-1"
    )
    session = SimpleNamespace(conf=SimpleNamespace(get=lambda _, default: default))
    told: list[str] = []
    run = Run(
        cast(Any, session), request, servers_of(request, lambda _: cast(Any, nullcontext())),
        cancelled=lambda: False, on_named=told.append,
    )  # fmt: skip

    assert (run.previous, run.result) == ("manifest-1", "")
    run.commit_as("manifest-2")
    with pytest.raises(ResultError):
        run.commit_as("x" * 8_193)
    assert run.result == "manifest-2"
    run.commit_as("manifest-3")
    assert run.result == "manifest-3"
    assert told == ["manifest-2", "manifest-3"]


def test_what_cannot_be_written_or_deleted_is_named_with_its_place(rows: Rows) -> None:
    run = run_of(container(b"s:", b"s:o3"))
    half = "a\ud800b"  # half of a surrogate pair
    for frame, words in (
        (
            {"row": ["a", "b"], "o3": ["1", half]},
            "row 2 of the frame .* 'c', column 'o3': .*Unicode",
        ),
        ({"row": [half], "o3": ["1"]}, "row 1 of the frame for container 'c', column 'row'"),
        ({"row": ["a", None], "o3": ["1", "2"]}, "that of row 2 of 2 is null"),
        ({"row": ["", "a"], "o3": ["1", "2"]}, "that of row 1 of 2 is empty"),
    ):
        with pytest.raises(UnwritableValue, match=words):
            run.write(pd.DataFrame(frame), "c")
    for key, words in (
        (half, "row 2 that is to be deleted of container 'c': .* is not Unicode text"),
        (None, "row 2 that is to be deleted of container 'c' is None; give the text of a key"),
        (b"", "row 2 that is to be deleted"),
        (7, "is 7; give the text of a key, or its bytes"),
    ):
        with pytest.raises(ViewError, match=words):
            run.delete(["a", cast(Any, key)], "c")
    assert rows == {}
