"""Which writes get notify cells, and when they get none any more."""

from __future__ import annotations

import pytest

from headgate.events import (
    ORIGIN_ATTRIBUTE,
    Notify,
    Origin,
    Watch,
    WatchList,
    encode_notify,
    encode_origin,
)
from headgate.hbase import Dialect, SchemaChange, Write, decode_request, read_request
from headgate.observer.control.notify import NotifyColumns
from headgate.observer.control.state import ControlState
from headgate.observer.monitoring.client_log import ClientLog, ListenerLog
from headgate.wire import (
    Message,
    MessageReader,
    MessageType,
    StructWriter,
    Transport,
    write_message,
)

ALL = Notify()
LOG = ClientLog(ListenerLog("thrift2", 1, lambda: 0.0))
OWN = Notify("flow", ("flow", "feeder"))


class Stand:
    def __init__(self) -> None:
        self.notify = NotifyColumns(limit_bytes=1000, clock=lambda: 12.5)
        self.control = ControlState(self.notify)

    def ask(self, *columns: Notify, dataflow: str = "flow", revision: int = 1) -> None:
        watches = tuple(Watch("t", notify=column) for column in columns)
        self.control.apply(WatchList(2, dataflow, revision, watches), "o")

    def cells(self, message: Message, table: str = "t") -> dict[bytes, bytes | None]:
        """Return the notify cells that a write gets."""
        request = read_request(Dialect.THRIFT2, message)
        marked = self.notify.marked_write(Dialect.THRIFT2, request, table, LOG)
        if marked is None:
            return {}
        write = decode_request(Dialect.THRIFT2, marked)
        assert isinstance(write, Write)
        found = dict(zip(write.cells.columns, write.cells.values, strict=True))
        assert found.pop(b"f:q")
        return found


@pytest.fixture
def stand() -> Stand:
    return Stand()


def message(name: str, body: bytes) -> Message:
    reader = MessageReader()
    reader.feed(write_message(Transport.BUFFERED, name, MessageType.CALL, 0, body))
    found = reader.next_message()
    assert found is not None
    return found


def put(dataflow: str = "", value: bytes = b"v", *, writer_name: str = "") -> Message:
    cell = StructWriter().binary(1, b"f").binary(2, b"q").binary(3, value).end()
    writer = StructWriter().binary(1, b"r").structs(2, [cell])
    if dataflow or writer_name:
        run = (dataflow, "step", "run-1", 1) if dataflow else ("", "", "", 0, writer_name)
        origin = Origin(*run)
        writer.mapping(5, {ORIGIN_ATTRIBUTE: encode_origin(origin)})
    return message("put", StructWriter().binary(1, b"t").struct(2, writer.end()).end())


def test_a_write_gets_the_column_that_its_table_asks_for(stand: Stand) -> None:
    stand.ask(ALL)
    assert stand.cells(put()) == {b"hg:all": encode_notify(12.5, None)}
    assert stand.cells(put("any")) == {
        b"hg:all": encode_notify(12.5, Origin("any", "step", "run-1", 1))
    }


def test_a_table_that_asks_for_none_is_left_alone(stand: Stand) -> None:
    stand.ask(ALL)
    assert stand.cells(put(), "u") == {}
    assert (stand.notify.marked, stand.notify.unmarked) == (0, 0)


@pytest.mark.parametrize(("dataflow", "marked"), [("flow", True), ("feeder", True), ("", False)])
def test_a_column_of_some_writers_is_set_by_theirs_only(
    stand: Stand, dataflow: str, marked: bool
) -> None:
    stand.ask(OWN)
    assert (set(stand.cells(put(dataflow))) == {b"hg:flow"}) is marked


@pytest.mark.parametrize(("name", "marked"), [("feeder", True), ("stranger", False)])
def test_a_feeder_that_is_no_dataflow_sets_the_column_too(
    stand: Stand, name: str, marked: bool
) -> None:
    # Else a row that only it has written is not found again once its update is lost.
    stand.ask(OWN)
    assert (set(stand.cells(put(writer_name=name))) == {b"hg:flow"}) is marked


def test_columns_of_several_dataflows_are_all_set(stand: Stand) -> None:
    stand.ask(ALL)
    stand.ask(ALL, Notify("other"), dataflow="other")
    assert set(stand.cells(put())) == {b"hg:all", b"hg:other"}


def test_a_column_is_set_no_more_once_nobody_asks_for_it(stand: Stand) -> None:
    stand.ask(ALL)
    stand.ask(revision=2)
    assert not stand.notify.asked


def test_without_the_family_no_cell_is_set_until_a_list_asks_anew(stand: Stand) -> None:
    stand.ask(ALL)
    stand.ask(ALL, dataflow="other")
    stand.notify.stop("t", "HBase says so")
    assert stand.cells(put()) == {}
    assert (stand.notify.stopped, stand.notify.unmarked) == (("t",), 1)
    stand.control.apply(WatchList(2, "third", 1, (Watch("t"),)), "o")
    still = stand.notify.stopped
    assert still == ("t",)
    stand.ask(ALL, revision=2)
    assert set(stand.cells(put())) == {b"hg:all"}
    assert stand.notify.stopped == ()


def test_an_older_list_does_not_ask_anew(stand: Stand) -> None:
    stand.ask(ALL, revision=2)
    stand.notify.stop("t", "HBase says so")
    stand.ask(ALL, revision=1)
    assert stand.notify.stopped == ("t",)


def test_a_table_that_nobody_asks_about_any_more_is_not_spoken_of(stand: Stand) -> None:
    stand.ask(ALL)
    stand.notify.stop("t", "HBase says so")
    stand.ask(revision=2)
    assert stand.notify.stopped == ()


def test_a_request_that_would_become_too_long_goes_on_as_it_is(stand: Stand) -> None:
    stand.ask(ALL)
    assert stand.cells(put(value=b"v" * 990)) == {}
    assert stand.notify.unmarked == 1


def test_a_method_without_room_is_counted(stand: Stand) -> None:
    stand.ask(ALL)
    delete = StructWriter().binary(1, b"r").end()
    request = message("deleteSingle", StructWriter().binary(1, b"t").struct(2, delete).end())
    assert stand.cells(request) == {}
    assert stand.notify.unmarked == 1


def table_name() -> bytes:
    return StructWriter().binary(2, b"t").end()


@pytest.mark.parametrize(
    ("name", "body", "stops"),
    [
        ("deleteTable", StructWriter().struct(1, table_name()).end(), True),
        ("disableTable", StructWriter().struct(1, table_name()).end(), False),
        ("deleteColumnFamily", StructWriter().struct(1, table_name()).binary(2, b"hg").end(), True),
        ("deleteColumnFamily", StructWriter().struct(1, table_name()).binary(2, b"f").end(), False),
    ],
)
def test_a_definition_that_may_take_the_family_away_stops_the_cells(
    stand: Stand, name: str, body: bytes, stops: bool
) -> None:
    stand.ask(ALL)
    change = decode_request(Dialect.THRIFT2, message(name, body))
    assert isinstance(change, SchemaChange)
    stand.notify.table_changes(change)
    assert bool(stand.notify.stopped) is stops
