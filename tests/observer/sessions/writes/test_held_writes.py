"""Writes that meet a closed gate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from scene import (
    CELLS,
    OK,
    Scene,
    barrier,
    call,
    close_gate,
    get,
    kinds,
    messages,
    put,
    put2,
    reply,
)

from headgate.events import (
    ORIGIN_ATTRIBUTE,
    Container,
    ContainerId,
    Fence,
    Gate,
    Item,
    Origin,
    Outcome,
    Watch,
    WatchList,
    encode_origin,
)
from headgate.hbase import Dialect
from headgate.observer.config import Fsync, JournalSettings
from headgate.wire import StructWriter


def test_a_write_that_meets_a_closed_gate_waits_before_it_is_journalled(scene: Scene) -> None:
    close_gate(scene)
    session, client, upstream = scene.connect()
    session.data_received(put(b"r") + get(b"x"))
    assert (upstream.taken(), scene.journal.next_intent, client.paused) == (b"", 0, True)
    close_gate(scene, 2, released=True)
    assert upstream.taken() == put(b"r") + get(b"x")
    assert not client.paused
    session.reply_received(OK + CELLS)
    assert scene.outcomes() == [(b"r", Outcome.APPLIED)]


def test_a_gate_holds_writes_of_a_table_that_nobody_watches_too(scene: Scene) -> None:
    close_gate(scene)
    scene.control.apply(WatchList(1, "d", 2, ()), "o")
    session, _, upstream = scene.connect()
    session.data_received(put(b"r"))
    assert upstream.taken() == b""


def test_a_closed_gate_lets_reads_and_other_connections_go_on(scene: Scene) -> None:
    close_gate(scene)
    scene.connect()[0].data_received(put(b"r"))
    for request in (get(b"r"), put(b"r", b"other")):
        session, _, upstream = scene.connect()
        session.data_received(request)
        assert upstream.taken() == request


def test_a_write_that_a_gate_refuses_is_answered_in_its_turn(scene: Scene) -> None:
    close_gate(scene)
    session, client, upstream = scene.connect()
    session.data_received(get(b"x") + put(b"r") + get(b"y"))
    scene.now += 5
    scene.gates.tend()
    assert upstream.taken() == get(b"x") + get(b"y")
    session.reply_received(CELLS + CELLS)
    first, refusal, last = messages(client.taken())
    assert first == last == CELLS
    assert b"bound kappa of flow/step" in refusal
    assert scene.metrics.requests["thrift1", "mutateRow", "gated"] == 1
    assert not client.paused


def test_a_held_write_whose_client_has_left_is_never_forwarded(scene: Scene) -> None:
    close_gate(scene)
    session, client, upstream = scene.connect()
    session.data_received(put(b"r") + put(b"behind"))
    client.left = True
    close_gate(scene, 2, released=True)
    assert upstream.taken() == b""
    assert client.closed
    assert scene.gates.dropped == 1


def test_a_held_write_whose_connection_is_lost_is_forgotten(scene: Scene) -> None:
    close_gate(scene)
    session, _, upstream = scene.connect()
    session.data_received(put(b"r"))
    session.connection_lost(None)
    close_gate(scene, 2, released=True)
    assert upstream.taken() == b""
    assert (scene.gates.held, scene.gates.dropped) == (0, 1)


def test_a_session_whose_write_a_gate_holds_is_not_quiet(scene: Scene) -> None:
    close_gate(scene)
    session, _, _ = scene.connect()
    session.data_received(put(b"r"))
    assert not session.quiet()


def test_a_barrier_does_not_wait_for_what_a_gate_holds(scene: Scene) -> None:
    close_gate(scene)
    scene.connect()[0].data_received(put(b"r"))
    barrier(scene, "t")
    assert kinds(scene) == ["BarrierMark"]


def test_a_fence_that_rises_while_a_gate_holds_a_write_refuses_it(second: Scene) -> None:
    close_gate(second)
    container = Container(ContainerId("c"), (Item("t"),))
    second.gates.apply(Gate(2, "other", "step", "kappa", (container,), 1000.0, 1), 1000.0)
    session, client, upstream = second.connect()
    session.data_received(put2(b"r", 1))
    assert client.paused
    second.control.apply(Fence(1, "flow", "step", 2), "o")
    second.gates.apply(Gate(2, "other", "step", "kappa", (), 0.0, 2, released=True), 0.0)
    second.gates.tend()
    assert upstream.taken() == b""
    assert b"may not write" in client.taken()
    assert not client.paused


def test_a_watch_that_begins_while_a_gate_holds_a_write_sees_it(scene: Scene) -> None:
    close_gate(scene)
    scene.control.apply(WatchList(1, "d", 2, ()), "o")
    session, _, _ = scene.connect()
    session.data_received(put(b"r"))
    scene.control.apply(WatchList(1, "d", 3, (Watch("t"),)), "o")
    close_gate(scene, 2, released=True)
    session.reply_received(OK)
    assert scene.outcomes() == [(b"r", Outcome.APPLIED)]


def test_the_gates_own_dataflow_writes_through_it(second: Scene) -> None:
    close_gate(second)
    session, _, upstream = second.connect()
    session.data_received(put2(b"r", 1))
    assert upstream.taken() == put2(b"r", 1)


def test_a_gate_that_closes_while_a_write_waits_for_room_holds_it(blocking: Scene) -> None:
    session, client, upstream = blocking.connect()
    session.data_received(put(b"r"))
    close_gate(blocking)
    blocking.bench.producer.deliver_all()
    blocking.journal.save_watermark()
    blocking.admission.tend()
    assert upstream.taken() == b""
    close_gate(blocking, 2, released=True)
    assert upstream.taken() == put(b"r")
    assert not client.paused


def test_a_write_that_finds_the_journal_full_behind_its_gate_waits_for_room(
    blocking: Scene,
) -> None:
    close_gate(blocking)
    session, client, upstream = blocking.connect()
    session.data_received(put(b"r"))
    close_gate(blocking, 2, released=True)
    assert (upstream.taken(), client.paused) == (b"", True)
    blocking.bench.producer.deliver_all()
    blocking.journal.save_watermark()
    blocking.admission.tend()
    assert upstream.taken() == put(b"r")
    assert not client.paused


def test_a_gate_that_closes_while_a_write_waits_for_the_disk_holds_it(
    tmp_path: Path, make_bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = JournalSettings(str(tmp_path), fsync=Fsync.ALWAYS)
    scene = Scene(tmp_path, make_bench(), Dialect.THRIFT1, config)
    synced: list[Callable[[], None]] = []
    monkeypatch.setattr(scene.admission, "when_synced", synced.append)
    session, client, upstream = scene.connect()
    session.data_received(put(b"r"))
    close_gate(scene)
    synced.pop()()
    scene.work()
    assert (upstream.taken(), scene.journal.unsettled) == (b"", 0)
    close_gate(scene, 2, released=True)
    assert (upstream.taken(), client.paused) == (b"", True)
    synced.pop()()
    assert upstream.taken() == put(b"r")
    assert not client.paused


def batch_of(*origins: Origin | None) -> bytes:
    """A putMultiple of one row for each origin."""
    value = StructWriter().binary(1, b"f").binary(2, b"q").binary(3, b"v").end()
    puts = []
    for number, origin in enumerate(origins):
        writer = StructWriter().binary(1, b"r%d" % number).structs(2, [value])
        if origin is not None:
            writer.mapping(5, {ORIGIN_ATTRIBUTE: encode_origin(origin)})
        puts.append(writer.end())
    return call("putMultiple", StructWriter().binary(1, b"t").structs(2, puts).end())


OWN = Origin("flow", "step", "run-7", 1)


@pytest.mark.parametrize(
    ("origins", "passes"),
    [((OWN, OWN), True), ((OWN, None), False), ((None, OWN), False)],
)
def test_a_gate_lets_a_batch_pass_only_if_all_of_it_is_its_own_dataflows(
    second: Scene, origins: tuple[Origin | None, ...], passes: bool
) -> None:
    close_gate(second)
    session, _, upstream = second.connect()
    session.data_received(batch_of(*origins))
    assert bool(upstream.taken()) is passes


@pytest.mark.parametrize(
    ("origins", "told"), [((OWN, OWN), OWN), ((OWN, None), None), ((None, OWN), None)]
)
def test_a_batch_is_attributed_to_a_run_only_if_all_of_it_is_the_runs(
    second: Scene, origins: tuple[Origin | None, ...], told: Origin | None
) -> None:
    session, _, _ = second.connect()
    session.data_received(batch_of(*origins))
    session.reply_received(reply("putMultiple"))
    (batch,) = second.log()
    assert [part.origin for part in batch.requests] == [told]


def test_at_the_end_what_a_gate_holds_gets_an_error_that_may_be_retried(scene: Scene) -> None:
    close_gate(scene)
    session, client, upstream = scene.connect()
    session.data_received(put(b"r"))
    session.drain()
    assert client.taken() == b""
    scene.gates.turn_all_away()
    assert b"was reached and blocks writes" in client.taken()
    assert upstream.taken() == b""
    assert scene.gates.held == 0
