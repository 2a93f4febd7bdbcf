"""Writes that follow a delete so closely that HBase may give both the same millisecond.

HBase answers that such a write was applied, and never shows it: the delete's marker hides it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scene import OK, Scene, Wire, call, messages, name, put, reply

from headgate.events import RequestPart, UpdateBatch, UpdateKind, WatchList
from headgate.hbase import Dialect
from headgate.observer.config import JournalSettings
from headgate.observer.sessions.endpoint import (
    Endpoint,
    Enforcement,
    Monitoring,
    Recording,
    Upstreams,
)
from headgate.observer.sessions.session import Session
from headgate.wire import StructWriter

ONE, TWO = Dialect.THRIFT1, Dialect.THRIFT2
T = b"t"


def one() -> StructWriter:
    return StructWriter().binary(1, T)


def mutation(*, gone: bool) -> bytes:
    writer = StructWriter().bool(1, gone).binary(2, b"f:q")
    return (writer if gone else writer.binary(3, b"v")).end()


def row_mutations(row: bytes, *parts: bytes) -> bytes:
    return StructWriter().binary(1, row).structs(2, list(parts)).end()


def tput(row: bytes) -> bytes:
    value = StructWriter().binary(1, b"f").binary(2, b"q").binary(3, b"v").end()
    return StructWriter().binary(1, row).structs(2, [value]).end()


def tdelete(row: bytes, kind: int | None = None) -> bytes:
    writer = StructWriter().binary(1, row)
    if kind is None:
        return writer.end()
    return (
        writer.structs(2, [StructWriter().binary(1, b"f").binary(2, b"q").end()]).i32(4, kind).end()
    )


def check(row: bytes) -> StructWriter:
    return one().binary(2, row).binary(3, b"f").binary(4, b"c").binary(5, b"x")


TRUE = StructWriter().bool(0, value=True).end()
COUNTER = StructWriter().i64(0, 1).end()
NONE_LEFT = StructWriter().structs(0, []).end()
CELL = StructWriter().structs(0, [StructWriter().binary(1, b"v").i64(2, 9).end()]).end()
HELD = StructWriter().binary(1, b"f").binary(2, b"q").binary(3, bytes(7) + b"\1").i64(4, 9).end()
RESULT = StructWriter().struct(0, StructWriter().structs(2, [HELD]).end()).end()
DONE = b"\x00"

Request = tuple[Dialect, str, Callable[[bytes], bytes], bytes]
"""Its dialect and method, its arguments for a row, and the reply that says that it was done."""

DELETES: list[Request] = [
    (ONE, "deleteAll", lambda row: one().binary(2, row).binary(3, b"f:q").end(), DONE),
    (ONE, "deleteAll", lambda row: one().binary(2, row).binary(3, b"f").end(), DONE),
    (
        ONE,
        "deleteAllTs",
        lambda row: one().binary(2, row).binary(3, b"f:q").i64(4, 10**14).end(),
        DONE,
    ),
    (ONE, "deleteAllRow", lambda row: one().binary(2, row).end(), DONE),
    (ONE, "deleteAllRowTs", lambda row: one().binary(2, row).i64(3, 10**14).end(), DONE),
    (
        ONE,
        "mutateRow",
        lambda row: one().binary(2, row).structs(3, [mutation(gone=True)]).end(),
        DONE,
    ),
    (
        ONE,
        "mutateRows",
        lambda row: (
            one()
            .structs(
                2,
                [
                    row_mutations(b"other", mutation(gone=False)),
                    row_mutations(row, mutation(gone=True)),
                ],
            )
            .end()
        ),
        DONE,
    ),
    (TWO, "deleteSingle", lambda row: one().struct(2, tdelete(row)).end(), DONE),
    *[
        (
            TWO,
            "deleteSingle",
            lambda row, kind=kind: one().struct(2, tdelete(row, kind)).end(),
            DONE,
        )
        for kind in range(4)
    ],
    (
        TWO,
        "deleteMultiple",
        lambda row: one().structs(2, [tdelete(b"other"), tdelete(row)]).end(),
        NONE_LEFT,
    ),
    (TWO, "checkAndDelete", lambda row: check(row).struct(6, tdelete(row)).end(), TRUE),
    (
        TWO,
        "mutateRow",
        lambda row: (
            one().struct(2, row_mutations(row, StructWriter().struct(2, tdelete(row)).end())).end()
        ),
        DONE,
    ),
    (
        TWO,
        "checkAndMutate",
        lambda row: (
            check(row)
            .struct(7, row_mutations(row, StructWriter().struct(2, tdelete(row)).end()))
            .end()
        ),
        TRUE,
    ),
]
"""Every request that deletes something of a row, in both dialects."""

WRITES: list[Request] = [
    (
        ONE,
        "mutateRow",
        lambda row: one().binary(2, row).structs(3, [mutation(gone=False)]).end(),
        DONE,
    ),
    (
        ONE,
        "mutateRows",
        lambda row: (
            one()
            .structs(2, [row_mutations(each, mutation(gone=False)) for each in (b"x", row)])
            .end()
        ),
        DONE,
    ),
    (
        ONE,
        "atomicIncrement",
        lambda row: one().binary(2, row).binary(3, b"f:q").i64(4, 1).end(),
        COUNTER,
    ),
    (
        ONE,
        "append",
        lambda row: (
            StructWriter()
            .struct(1, one().binary(2, row).binaries(3, [b"f:q"]).binaries(4, [b"v"]).end())
            .end()
        ),
        CELL,
    ),
    (
        ONE,
        "checkAndPut",
        lambda row: (
            one()
            .binary(2, row)
            .binary(3, b"f:c")
            .binary(5, b"x")
            .struct(6, mutation(gone=False))
            .end()
        ),
        TRUE,
    ),
    (TWO, "put", lambda row: one().struct(2, tput(row)).end(), DONE),
    (TWO, "putMultiple", lambda row: one().structs(2, [tput(b"x"), tput(row)]).end(), DONE),
    (TWO, "checkAndPut", lambda row: check(row).struct(6, tput(row)).end(), TRUE),
    (
        TWO,
        "increment",
        lambda row: (
            one()
            .struct(
                2,
                row_mutations(row, StructWriter().binary(1, b"f").binary(2, b"q").i64(3, 1).end()),
            )
            .end()
        ),
        RESULT,
    ),
    (TWO, "append", lambda row: one().struct(2, tput(row)).end(), RESULT),
    (
        TWO,
        "mutateRow",
        lambda row: (
            one().struct(2, row_mutations(row, StructWriter().struct(1, tput(row)).end())).end()
        ),
        DONE,
    ),
]
"""Every request that gives a row a cell, in both dialects."""


class World:
    """Two listeners of one observer before one region server that counts milliseconds."""

    def __init__(self, directory: Path, bench: Any) -> None:
        self.scene = Scene(directory, bench, ONE, JournalSettings(str(directory)))
        shared = self.scene.endpoint
        self.endpoints = {
            ONE: shared,
            TWO: Endpoint(
                loop=shared.loop,
                dialect=TWO,
                limits=shared.limits,
                upstreams=Upstreams(shared.dialer),
                enforcement=Enforcement(shared.control, shared.gates, shared.notify),
                recording=Recording(shared.recorder, shared.admission),
                monitoring=Monitoring(shared.metrics),
            ),
        }
        self.sessions: dict[tuple[Dialect, int], tuple[Session, Wire]] = {}
        self.markers: dict[bytes, int] = {}
        """The timestamp of each row's newest delete marker."""
        self.hidden: list[bool] = []
        """True for each write that HBase hides, in the order of the writes."""

    def session(self, dialect: Dialect, number: int) -> tuple[Session, Wire]:
        known = self.sessions.get((dialect, number))
        if known is None:
            session, upstream = Session(self.endpoints[dialect]), Wire()
            client: Any = Wire()
            session.connection_made(client)
            wire: Any = upstream
            session.upstream_made(wire)
            session.upstream_settled(wire)
            known = self.sessions[dialect, number] = session, upstream
        return known

    def ask(self, asked: Request, row: bytes, number: int, seconds: float) -> None:
        """Send a request and answer it so many seconds later; HBase does it half way."""
        dialect, method, arguments, answer = asked
        session, upstream = self.session(dialect, number)
        session.data_received(call(method, arguments(row)))
        assert name(messages(upstream.taken())[-1]) == method
        self.scene.now += seconds / 2
        stamp = math.floor(self.scene.now * 1000)
        if asked in DELETES:
            self.markers[row] = stamp
        else:
            self.hidden.append(self.markers.get(row, 0) >= stamp)
        self.scene.now += seconds / 2
        session.reply_received(reply(method, answer))

    def announced(self) -> list[bool]:
        """Return of each write whether its row must be read."""
        found = []
        for batch in self.scene.log():
            assert isinstance(batch, UpdateBatch)
            at = 0
            for part in batch.requests:
                kinds = batch.kinds[at : at + part.cells]
                rows = batch.rows[at : at + part.cells]
                if not set(kinds) & GONE:
                    cells = [i for i, row in enumerate(rows) if row != b"x"]
                    found.append(set(cells) <= set(part.ambiguous))
                at += part.cells
        return found


GONE = {
    UpdateKind.DELETE_CELL,
    UpdateKind.DELETE_COLUMN,
    UpdateKind.DELETE_FAMILY,
    UpdateKind.DELETE_FAMILY_VERSION,
    UpdateKind.DELETE_ROW,
}
STEPS = st.lists(
    st.tuples(
        st.sampled_from([*DELETES, *WRITES]),
        st.sampled_from([b"a", b"b"]),
        st.integers(0, 1),
        st.sampled_from([0.0001, 0.0004, 0.0009]),
        st.sampled_from([0.0, 0.0, 0.0003, 0.0011, 0.005]),
    ),
    max_size=30,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, start=st.floats(100.0, 100.001))
def test_every_write_that_hbase_hides_is_announced_as_ambiguous(
    tmp_path_factory, make_bench, steps, start
):
    world = World(tmp_path_factory.mktemp("world"), make_bench())
    world.scene.now = start
    for asked, row, number, seconds, pause in steps:
        world.ask(asked, row, number, seconds)
        world.scene.now += pause

    announced = world.announced()

    assert len(announced) == len(world.hidden)
    lost = [at for at, hidden in enumerate(world.hidden) if hidden and not announced[at]]
    assert lost == []


@pytest.mark.parametrize("deleted", DELETES, ids=lambda each: f"{each[0].value} {each[1]}")
@pytest.mark.parametrize("written", WRITES, ids=lambda each: f"{each[0].value} {each[1]}")
def test_a_write_just_behind_a_delete_is_ambiguous_and_one_that_comes_later_is_not(
    tmp_path, make_bench, deleted, written
):
    world = World(tmp_path, make_bench())
    for pause in (0.0019, 0.0021):
        world.ask(deleted, b"a", 0, 0.0001)
        world.scene.now += pause
        world.ask(written, b"a", 1, 0.0001)
        world.scene.now += 1.0

    assert world.announced() == [True, False]


def parts(scene: Scene) -> list[RequestPart]:
    return [part for each in scene.log() if isinstance(each, UpdateBatch) for part in each.requests]


def row_delete(row: bytes) -> bytes:
    return call("deleteAllRow", one().binary(2, row).end())


GONE_OK = reply("deleteAllRow")


def test_a_put_of_a_known_kind_is_ambiguous_too(scene):
    session, _, _ = scene.connect()
    for row in (b"r1", b"r2", b"r3"):
        session.data_received(put(row))
        session.reply_received(OK)
    assert scene.endpoint.patterns.find(put(b"r4"))
    scene.log()
    scene.bench.producer.delivered.clear()
    session.data_received(row_delete(b"r4"))
    session.reply_received(GONE_OK)
    for row in (b"r4", b"r5"):
        session.data_received(put(row))
        session.reply_received(OK)
    assert [part.ambiguous for part in parts(scene)] == [(), (0,), ()]


def test_a_delete_that_was_not_forwarded_hides_nothing(scene):
    _, _, upstream = (found := scene.connect())
    session = found[0]
    upstream.close()
    session.data_received(row_delete(b"r"))
    assert not scene.recorder.deletes.present


def test_writes_beside_a_change_of_the_table_are_ambiguous(second):
    def drop() -> bytes:
        table = StructWriter().binary(2, T).end()
        return call("deleteColumnFamily", StructWriter().struct(1, table).binary(2, b"f").end())

    def put2(row: bytes) -> bytes:
        return call("put", one().struct(2, tput(row)).end())

    before, during, ddl = second.connect()[0], second.connect()[0], second.connect()[0]
    before.data_received(put2(b"a"))
    ddl.data_received(drop())
    during.data_received(put2(b"b"))
    before.reply_received(reply("put"))
    during.reply_received(reply("put"))
    ddl.reply_received(reply("deleteColumnFamily"))
    during.data_received(put2(b"c"))
    during.reply_received(reply("put"))
    assert [part.ambiguous for part in parts(second)] == [(0,), (0,), ()]


# --- order.strict


def due(scene: Scene) -> None:
    """Let the time come of all that waits."""
    scene.now += 0.0025
    scene.bench.timers.run()


def strict(scene: Scene) -> Scene:
    scene.endpoint.order.strict = True
    return scene


def test_a_strict_listener_holds_a_put_until_no_delete_can_hide_it(scene):
    session, _, upstream = strict(scene).connect()
    session.data_received(row_delete(b"r"))
    session.reply_received(GONE_OK)
    upstream.taken()
    scene.now += 0.001
    session.data_received(put(b"r"))
    assert upstream.taken() == b""
    due(scene)
    assert upstream.taken() == put(b"r")
    session.reply_received(OK)
    assert [part.ambiguous for part in parts(scene)] == [(), ()]


def test_a_strict_listener_holds_nothing_else(scene):
    session, _, upstream = strict(scene).connect()
    session.data_received(row_delete(b"r"))
    session.reply_received(GONE_OK)
    for request, answer in ((put(b"other"), OK), (row_delete(b"r"), GONE_OK)):
        upstream.taken()
        session.data_received(request)
        assert upstream.taken() == request
        session.reply_received(answer)


def test_a_put_that_is_sent_before_the_deletes_answer_waits_for_it(scene):
    session, _, upstream = strict(scene).connect()
    session.data_received(row_delete(b"r") + put(b"r"))
    assert upstream.taken() == row_delete(b"r")
    due(scene)
    assert upstream.taken() == b""
    session.reply_received(GONE_OK)
    due(scene)
    assert upstream.taken() == put(b"r")


def test_a_put_of_a_known_kind_waits_in_a_table_that_nobody_watches_too(scene):
    session, _, upstream = strict(scene).connect()
    for row in (b"r1", b"r2", b"r3"):
        session.data_received(put(row))
        session.reply_received(OK)
    assert scene.endpoint.patterns.find(put(b"r4"))
    scene.control.apply(WatchList(1, "d", 2, ()), "o")
    session.data_received(row_delete(b"r4"))
    session.reply_received(GONE_OK)
    scene.work()
    upstream.taken()
    session.data_received(put(b"r4"))
    assert upstream.taken() == b""
    due(scene)
    (forwarded,) = messages(upstream.taken())
    assert forwarded.endswith(put(b"r4")[-20:])


def test_a_listener_that_is_not_strict_notes_no_deletes_of_tables_that_nobody_watches(scene):
    scene.control.apply(WatchList(1, "d", 2, ()), "o")
    session, _, _ = scene.connect()
    session.data_received(row_delete(b"r"))
    assert not scene.recorder.deletes.present


def test_a_client_that_leaves_takes_its_waiting_write_along(scene):
    session, _, upstream = strict(scene).connect()
    session.data_received(row_delete(b"r"))
    session.reply_received(GONE_OK)
    upstream.taken()
    session.data_received(put(b"r"))
    session.connection_lost(None)
    due(scene)
    assert upstream.taken() == b""
    assert len(parts(scene)) == 1
