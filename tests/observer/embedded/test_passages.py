"""Whose the writes are of the program that an observer is inside of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from headgate.events import Container, ContainerId, Gate, Item, Origin, Watch, WatchList
from headgate.observer.control.gates import Gates
from headgate.observer.control.notify import NotifyColumns
from headgate.observer.control.state import ControlState
from headgate.observer.embedded.passages import Passages
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
    def begin(self, *_request: object) -> Any:
        return SimpleNamespace(origin=None)


def program(gates: Gates, origin: Origin | None) -> Passages:
    control = ControlState(NotifyColumns(limit_bytes=10_000))
    control.apply(WatchList(1, "d", 1, (Watch("t"),)), "o")
    return Passages(
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
    reader = MessageReader()
    reader.feed(write_message(Transport.BUFFERED, "mutateRow", MessageType.CALL, 0, body))
    found = reader.next_message()
    assert found is not None
    return found


def test_a_programs_writes_have_the_origin_that_it_was_told() -> None:
    passage = program(Gates(hold_seconds=5.0, clock=lambda: 0.0), OWN).begin(write())
    assert passage.ticket is not None
    assert passage.ticket.origin == OWN


def test_a_gate_lets_programs_of_its_own_dataflow_pass() -> None:
    gates = Gates(hold_seconds=5.0, clock=lambda: 0.0)
    container = Container(ContainerId("c"), (Item("t", b"f", b"q"),))
    gates.apply(Gate(2, "flow", "step", "kappa", (container,), 1000.0, 1))
    assert program(gates, None).begin(write()).decided is not None
    assert program(gates, OWN).begin(write()).decided is None
