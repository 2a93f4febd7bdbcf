"""Puts of a known kind go a shorter way from the reply to Kafka, and lose nothing on it."""

from __future__ import annotations

from typing import Any

import pytest
from scene import OK, Scene, call, close_gate, put, reply

from headgate.events import Notify, Origin, Outcome, UpdateBatch, Watch, WatchList
from headgate.hbase import Dialect
from headgate.observer.sessions.session import Session
from headgate.observer.sessions.sweeping import Stage
from headgate.wire import MessageReader, StructWriter

ROWS = [b"r%d" % number for number in range(8)]
"""Of one length, as requests of one kind are."""


def long_put(row: bytes) -> bytes:
    """A put of another kind: its value is longer."""
    mutation = StructWriter().binary(2, b"f:q").binary(3, b"v" * 9).end()
    body = StructWriter().binary(1, b"t").binary(2, row).structs(3, [mutation]).end()
    return call("mutateRow", body)


def batch_put(row: bytes) -> bytes:
    """A put of another method."""
    mutation = StructWriter().binary(2, b"f:q").binary(3, b"v").end()
    batch = StructWriter().binary(1, row).structs(2, [mutation]).end()
    return call("mutateRows", StructWriter().binary(1, b"t").structs(2, [batch]).end())


@pytest.fixture
def known(scene: Scene) -> Scene:
    """A scene that knows ``put`` and ``long_put`` of these rows."""
    session, _, _ = scene.connect()
    for row in ROWS[:3]:
        for write in (put(row), long_put(row)):
            session.data_received(write)
            session.reply_received(OK)
    assert len(scene.outcomes()) == 6
    assert all(scene.endpoint.patterns.find(write(b"r9")) for write in (put, long_put))
    return scene


def talking(known: Scene) -> Session:
    """A session that has had its first request, which is read to learn what its client speaks."""
    session, _, _ = known.connect()
    session.data_received(put(b"r0"))
    session.reply_received(OK)
    known.log()
    known.bench.producer.delivered.clear()
    return session


def batches(scene: Scene) -> list[UpdateBatch]:
    return [each for each in scene.log() if isinstance(each, UpdateBatch)]


def parts(scene: Scene) -> list[Any]:
    return [part for batch in batches(scene) for part in batch.requests]


def test_those_of_one_row_at_once_are_ambiguous_and_the_next_is_not(known: Scene) -> None:
    first, second, other = (talking(known) for _ in range(3))
    for session, row in ((first, b"aa"), (second, b"aa"), (other, b"bb")):
        session.data_received(put(row))
    for session in (first, second, other):
        session.reply_received(OK)
    assert [part.ambiguous for part in parts(known)] == [(0,), (0,), ()]
    first.data_received(put(b"aa"))
    first.reply_received(OK)
    assert parts(known)[-1].ambiguous == ()


def test_they_have_the_origin_of_who_wrote_them(known: Scene) -> None:
    pattern = known.endpoint.patterns.find(put(b"aa"))
    assert pattern is not None
    journalled = known.recorder.begin_alike(pattern, put(b"aa"), Dialect.THRIFT1)
    journalled.origin = Origin("flow", "step", "run", 3)
    reader = MessageReader()
    reader.feed(OK)
    known.log()
    known.bench.producer.delivered.clear()
    known.recorder.end(journalled, reader.next_message())
    assert [part.origin for part in parts(known)] == [Origin("flow", "step", "run", 3)]


def test_their_cells_are_those_of_the_request(known: Scene) -> None:
    session = talking(known)
    for write in (put(b"aa"), long_put(b"bb")):
        session.data_received(write)
        session.reply_received(OK)
    known.now = 200.0
    found = [
        cell
        for batch in batches(known)
        for cell in zip(batch.rows, batch.columns, batch.timestamps, batch.values, strict=True)
    ]
    assert found == [(b"aa", b"f:q", -1, b"v"), (b"bb", b"f:q", -1, b"v" * 9)]
    assert {part.received for part in parts(known)} == {100.0}


def test_each_is_counted_though_kinds_alternate(known: Scene) -> None:
    sessions = [talking(known) for _ in ROWS]
    known.metrics.requests.clear()
    writes = [put, put, long_put, put, long_put, long_put, long_put, put]
    for session, row, write in zip(sessions, ROWS, writes, strict=True):
        session.data_received(write(row))
    for session in sessions:
        session.reply_received(OK)
    known.work()
    assert known.metrics.requests == {("thrift1", "mutateRow", "applied"): len(ROWS)}


def test_each_is_counted_by_its_own_method(known: Scene) -> None:
    session = talking(known)
    for row in ROWS[:3]:
        session.data_received(batch_put(row))
        session.reply_received(reply("mutateRows"))
    known.work()
    assert known.endpoint.patterns.find(batch_put(b"r9"))
    sessions = [talking(known) for _ in range(5)]
    known.work()
    known.metrics.requests.clear()
    writes = [put, batch_put, put, batch_put, put]
    for each, row, write in zip(sessions, ROWS, writes, strict=False):
        each.data_received(write(row))
    for each, write in zip(sessions, writes, strict=True):
        each.reply_received(OK if write is put else reply("mutateRows"))
    known.work()
    assert known.metrics.requests == {
        ("thrift1", "mutateRow", "applied"): 3,
        ("thrift1", "mutateRows", "applied"): 2,
    }


def test_none_is_settled_before_kafka_has_it(known: Scene) -> None:
    session = talking(known)
    session.data_received(put(b"aa"))
    session.reply_received(OK)
    known.work()
    assert known.journal.unsettled == 1
    known.bench.producer.deliver_all()
    assert known.journal.unsettled == 0


def test_one_whose_connection_broke_is_unknown(known: Scene) -> None:
    session = talking(known)
    session.data_received(put(b"aa"))
    session.upstream_lost(None)
    assert known.outcomes() == [(b"aa", Outcome.UNKNOWN)]
    (batch,) = batches(known)
    assert (batch.columns, batch.values) == ((b"f:q",), (b"v",))


def test_one_waits_at_a_closed_gate(known: Scene) -> None:
    session, _, upstream = known.connect()
    session.data_received(put(b"r0"))
    session.reply_received(OK)
    upstream.taken()
    close_gate(known)
    session.data_received(put(b"aa"))
    assert upstream.taken() == b""
    assert session.stage() is Stage.SERVER
    close_gate(known, 2, released=True)
    assert upstream.taken() == put(b"aa")


def test_one_that_could_not_be_sent_has_done_nothing(known: Scene) -> None:
    session, _, upstream = known.connect()
    session.data_received(put(b"r0"))
    session.reply_received(OK)
    known.log()
    upstream.close()
    session.data_received(put(b"aa"))
    session.upstream_lost(None)
    assert known.outcomes()[7:] == []
    assert known.journal.unsettled == 0


def test_one_that_hbase_refused_is_no_event_or_unknown(known: Scene) -> None:
    session = talking(known)
    session.data_received(put(b"aa"))
    failure = StructWriter().struct(1, StructWriter().binary(1, b"no").end()).end()
    session.reply_received(reply("mutateRow", failure))
    assert known.outcomes() == [(b"aa", Outcome.UNKNOWN)]


def test_one_waits_for_the_disk_where_each_must(known: Scene) -> None:
    session, _, upstream = known.connect()
    session.data_received(put(b"r0"))
    session.reply_received(OK)
    upstream.taken()
    waiting: list[Any] = []
    known.admission.syncs_each = True
    known.admission.when_synced = waiting.append
    session.data_received(put(b"aa"))
    assert upstream.taken() == b""
    waiting.pop()()
    assert upstream.taken() == put(b"aa")


def test_one_gets_its_notify_cell_where_its_table_asks(known: Scene) -> None:
    session, _, upstream = known.connect()
    session.data_received(put(b"r0"))
    session.reply_received(OK)
    upstream.taken()
    known.control.apply(WatchList(1, "d", 2, (Watch("t", notify=Notify()),)), "o")
    session.data_received(put(b"aa"))
    assert b"hg:all" in upstream.taken()
