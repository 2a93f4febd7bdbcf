"""Whose the writes are of the program that an observer is inside of."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headgate.events import Container, ContainerId, Gate, Item, Notify, Origin, Watch, WatchList
from headgate.hbase import Dialect, Write, decode_request
from headgate.observer.control.gates import WriteGates
from headgate.observer.control.notify import NotifyColumns
from headgate.observer.control.state import ControlState
from headgate.observer.embedded.writes import EmbeddedWrite, EmbeddedWrites, read
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.recording.recent_deletes import RecentDeletes
from headgate.wire import (
    Message,
    MessageReader,
    MessageType,
    StructWriter,
    Transport,
    write_message,
)

OWN = Origin("flow", "step", "", 0)


class Recorder:
    """Notes ends, and what is to come after them."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.now = 100.0
        self.deletes = RecentDeletes(lambda: self.now)

    def begin(self, *_request: object) -> Any:
        return SimpleNamespace(origin=None)

    def end(self, *_reply: object) -> None:
        self.steps.append("end")

    def cancel(self, *_journalled: object) -> None:
        self.steps.append("cancel")

    def after(self, call: Callable[[], None]) -> None:
        self.steps.append(f"after: {call.__name__}")


def program(
    gates: WriteGates,
    origin: Origin | None,
    *columns: Notify,
    recorder: Any = None,
    timers: list[Callable[[], None]] | None = None,
    strict: bool = False,
) -> EmbeddedWrites:
    notify = NotifyColumns(limit_bytes=10_000, clock=lambda: 1.5)
    control = ControlState(notify)
    watches = tuple(Watch("t", notify=column) for column in columns) or (Watch("t"),)
    control.apply(WatchList(1, "d", 1, watches), "o")
    return EmbeddedWrites(
        notify=notify,
        control=control,
        recorder=recorder or cast("Any", Recorder()),
        admission=cast("Any", SimpleNamespace(syncs_each=False)),
        gates=gates,
        metrics=Metrics(),
        soon=lambda call: call(),
        later=lambda _seconds, call: None if timers is None else timers.append(call),
        strict=strict,
        origin=origin,
    )


def write() -> Message:
    mutation = StructWriter().binary(2, b"f:q").binary(3, b"v").end()
    body = StructWriter().binary(1, b"t").binary(2, b"r").structs(3, [mutation]).end()
    return message("mutateRow", body, MessageType.CALL)


def message(name: str, body: bytes, kind: MessageType) -> Message:
    reader = MessageReader()
    reader.feed(write_message(Transport.BUFFERED, name, kind, 0, body))
    found = reader.next_message()
    assert found is not None
    return found


def test_a_programs_writes_have_the_origin_that_it_was_told() -> None:
    embedded = program(WriteGates(hold_seconds=5.0, clock=lambda: 0.0), OWN).begin(read(write()))
    assert embedded.journalled is not None
    assert embedded.journalled.origin == OWN


def test_a_gate_lets_programs_of_its_own_dataflow_pass() -> None:
    gates = WriteGates(hold_seconds=5.0, clock=lambda: 0.0)
    container = Container(ContainerId("c"), (Item("t", b"f", b"q"),))
    gates.apply(Gate(2, "flow", "step", "kappa", (container,), 1000.0, 1), 1000.0)
    assert program(gates, None).begin(read(write())).decided is not None
    assert program(gates, OWN).begin(read(write())).decided is None


def sent(embedded: EmbeddedWrite) -> dict[bytes, bytes | None]:
    """The cells of what is sent to HBase, by column."""
    reader = MessageReader()
    reader.feed(embedded.raw)
    found = reader.next_message()
    assert found is not None
    write = decode_request(Dialect.THRIFT1, found)
    assert isinstance(write, Write)
    return dict(zip(write.cells.columns, write.cells.values, strict=True))


@pytest.mark.parametrize(
    ("origin", "cells"),
    [
        (None, {b"hg:all": b"1500"}),
        (OWN, {b"hg:all": b"1500 ", b"hg:flow": b"1500 "}),
        (Origin("other", "step", "", 0), {b"hg:all": b"1500 "}),
    ],
)
def test_a_programs_rows_get_the_notify_cells_that_are_meant_for_it(
    origin: Origin | None, cells: dict[bytes, bytes]
) -> None:
    columns = (Notify(), Notify("flow", ("flow",)))
    embedded = program(WriteGates(hold_seconds=5.0, clock=lambda: 0.0), origin, *columns).begin(
        read(write())
    )
    assert sent(embedded) == {b"f:q": b"v", **cells}
    assert embedded.message == write(), "events and the journal have what the program wrote"


def test_a_write_that_a_gate_held_gets_its_notify_cells_when_it_goes_on() -> None:
    now = [0.0]
    gates = WriteGates(hold_seconds=5.0, clock=lambda: now[0])
    container = Container(ContainerId("c"), (Item("t", b"f", b"q"),))
    gates.apply(Gate(2, "flow", "step", "kappa", (container,), 1000.0, 1), 1000.0)
    embedded = program(gates, None, Notify()).begin(read(write()))
    assert sent(embedded) == {b"f:q": b"v"}
    gates.apply(Gate(2, "flow", "step", "kappa", (container,), 1000.0, 2, released=True), 0.0)
    gates.tend()
    assert embedded.decided is not None
    assert embedded.decided.is_set()
    assert sent(embedded) == {b"f:q": b"v", b"hg:all": b"1500"}


def test_no_more_cells_are_set_in_a_table_that_lacks_their_family() -> None:
    embedded_writes = program(WriteGates(hold_seconds=5.0, clock=lambda: 0.0), None, Notify())
    embedded = embedded_writes.begin(read(write()))
    text = b"NoSuchColumnFamilyException: Column family hg does not exist in region t"
    refusal = StructWriter().struct(1, StructWriter().binary(1, text).end()).end()
    embedded_writes.answered(embedded, message("mutateRow", refusal, MessageType.REPLY))
    assert sent(embedded_writes.begin(read(write()))) == {b"f:q": b"v"}


def waited_for(embedded_writes: EmbeddedWrites, embedded: EmbeddedWrite) -> list[str]:
    """Let a barrier wait for a write; return what the recorder hears, and what is done at once."""
    recorder = cast("Recorder", embedded_writes._recorder)

    def mark() -> None:
        recorder.steps.append("marked at once")

    assert embedded_writes.undone("t") == [embedded]
    embedded.waiters = [mark]
    return recorder.steps


def test_a_barrier_comes_after_the_end_of_a_programs_write() -> None:
    embedded_writes = program(WriteGates(hold_seconds=5.0, clock=lambda: 0.0), None)
    embedded = embedded_writes.begin(read(write()))
    steps = waited_for(embedded_writes, embedded)
    embedded_writes.answered(embedded, None)
    assert steps == ["end", "after: mark"]
    assert embedded_writes.undone("t") == []


def test_a_barrier_waits_no_longer_for_a_write_that_was_taken_back() -> None:
    embedded_writes = program(WriteGates(hold_seconds=5.0, clock=lambda: 0.0), None)
    embedded = embedded_writes.begin(read(write()))
    steps = waited_for(embedded_writes, embedded)
    embedded_writes.cancel(embedded)
    assert steps == ["cancel", "after: mark"]


# --- order.strict


def row_delete(table: bytes) -> Message:
    body = StructWriter().binary(1, table).binary(2, b"r").end()
    return message("deleteAllRow", body, MessageType.CALL)


def put_into(table: bytes) -> Message:
    mutation = StructWriter().binary(2, b"f:q").binary(3, b"v").end()
    body = StructWriter().binary(1, table).binary(2, b"r").structs(3, [mutation]).end()
    return message("mutateRow", body, MessageType.CALL)


@pytest.mark.parametrize("strict", [True, False])
def test_a_write_waits_for_a_delete_of_its_own_process_only_where_that_is_asked_for(
    strict: bool,
) -> None:
    recorder, timers = Recorder(), list[Callable[[], None]]()
    gates = WriteGates(hold_seconds=5.0, clock=lambda: recorder.now)
    embedded_writes = program(gates, None, recorder=recorder, timers=timers, strict=strict)
    deleted = embedded_writes.begin(read(row_delete(b"unwatched")))
    done = message("deleteAllRow", b"\x00", MessageType.REPLY)
    embedded_writes.answered(deleted, done)
    put = embedded_writes.begin(read(put_into(b"unwatched")))
    assert (put.decided is not None) is strict
    if strict:
        assert put.decided is not None
        assert not put.decided.is_set()
        recorder.now += 0.0025
        (go_on,) = timers
        go_on()
        assert put.decided.is_set()
        assert put.refusal is None


def test_a_delete_that_was_taken_back_holds_no_write() -> None:
    recorder = Recorder()
    gates = WriteGates(hold_seconds=5.0, clock=lambda: recorder.now)
    embedded_writes = program(gates, None, recorder=recorder, strict=True)
    embedded_writes.cancel(embedded_writes.begin(read(row_delete(b"unwatched"))))
    recorder.now += 0.0025
    assert embedded_writes.begin(read(put_into(b"unwatched"))).decided is None
