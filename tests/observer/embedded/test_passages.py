"""Whose the writes are of the program that an observer is inside of."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headgate.events import Container, ContainerId, Gate, Item, Notify, Origin, Watch, WatchList
from headgate.hbase import Dialect, Write, decode_request
from headgate.observer.control.gates import Gates
from headgate.observer.control.notify import NotifyColumns
from headgate.observer.control.state import ControlState
from headgate.observer.embedded.passages import Passage, Passages, read
from headgate.observer.monitoring.metrics import Metrics
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

    def begin(self, *_request: object) -> Any:
        return SimpleNamespace(origin=None)

    def end(self, *_reply: object) -> None:
        self.steps.append("end")

    def cancel(self, *_ticket: object) -> None:
        self.steps.append("cancel")

    def after(self, call: Callable[[], None]) -> None:
        self.steps.append(f"after: {call.__name__}")


def program(gates: Gates, origin: Origin | None, *columns: Notify) -> Passages:
    notify = NotifyColumns(limit_bytes=10_000, clock=lambda: 1.5)
    control = ControlState(notify)
    watches = tuple(Watch("t", notify=column) for column in columns) or (Watch("t"),)
    control.apply(WatchList(1, "d", 1, watches), "o")
    return Passages(
        notify=notify,
        control=control,
        recorder=cast("Any", Recorder()),
        admission=cast("Any", SimpleNamespace(syncs_each=False)),
        gates=gates,
        metrics=Metrics(),
        soon=lambda call: call(),
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
    passage = program(Gates(hold_seconds=5.0, clock=lambda: 0.0), OWN).begin(read(write()))
    assert passage.ticket is not None
    assert passage.ticket.origin == OWN


def test_a_gate_lets_programs_of_its_own_dataflow_pass() -> None:
    gates = Gates(hold_seconds=5.0, clock=lambda: 0.0)
    container = Container(ContainerId("c"), (Item("t", b"f", b"q"),))
    gates.apply(Gate(2, "flow", "step", "kappa", (container,), 1000.0, 1), 1000.0)
    assert program(gates, None).begin(read(write())).decided is not None
    assert program(gates, OWN).begin(read(write())).decided is None


def sent(passage: Passage) -> dict[bytes, bytes | None]:
    """The cells of what is sent to HBase, by column."""
    reader = MessageReader()
    reader.feed(passage.raw)
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
    passage = program(Gates(hold_seconds=5.0, clock=lambda: 0.0), origin, *columns).begin(
        read(write())
    )
    assert sent(passage) == {b"f:q": b"v", **cells}
    assert passage.message == write(), "events and the journal have what the program wrote"


def test_a_write_that_a_gate_held_gets_its_notify_cells_when_it_goes_on() -> None:
    now = [0.0]
    gates = Gates(hold_seconds=5.0, clock=lambda: now[0])
    container = Container(ContainerId("c"), (Item("t", b"f", b"q"),))
    gates.apply(Gate(2, "flow", "step", "kappa", (container,), 1000.0, 1), 1000.0)
    passage = program(gates, None, Notify()).begin(read(write()))
    assert sent(passage) == {b"f:q": b"v"}
    gates.apply(Gate(2, "flow", "step", "kappa", (container,), 1000.0, 2, released=True), 0.0)
    gates.tend()
    assert passage.decided is not None
    assert passage.decided.is_set()
    assert sent(passage) == {b"f:q": b"v", b"hg:all": b"1500"}


def test_no_more_cells_are_set_in_a_table_that_lacks_their_family() -> None:
    passages = program(Gates(hold_seconds=5.0, clock=lambda: 0.0), None, Notify())
    passage = passages.begin(read(write()))
    text = b"NoSuchColumnFamilyException: Column family hg does not exist in region t"
    refusal = StructWriter().struct(1, StructWriter().binary(1, text).end()).end()
    passages.answered(passage, message("mutateRow", refusal, MessageType.REPLY))
    assert sent(passages.begin(read(write()))) == {b"f:q": b"v"}


def waited_for(passages: Passages, passage: Passage) -> list[str]:
    """Let a barrier wait for a write; return what the recorder hears, and what is done at once."""
    recorder = cast("Recorder", passages._recorder)

    def mark() -> None:
        recorder.steps.append("marked at once")

    assert passages.undone("t") == [passage]
    passage.waiters = [mark]
    return recorder.steps


def test_a_barrier_comes_after_the_end_of_a_programs_write() -> None:
    passages = program(Gates(hold_seconds=5.0, clock=lambda: 0.0), None)
    passage = passages.begin(read(write()))
    steps = waited_for(passages, passage)
    passages.answered(passage, None)
    assert steps == ["end", "after: mark"]
    assert passages.undone("t") == []


def test_a_barrier_waits_no_longer_for_a_write_that_was_taken_back() -> None:
    passages = program(Gates(hold_seconds=5.0, clock=lambda: 0.0), None)
    passage = passages.begin(read(write()))
    steps = waited_for(passages, passage)
    passages.cancel(passage)
    assert steps == ["cancel", "after: mark"]
