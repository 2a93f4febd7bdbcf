"""Requests that waited are judged again in full when they go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from scene import OK, Scene, barrier, call, close_gate, kinds, put, reply

from headgate.events import UpdateBatch, Watch, WatchList
from headgate.hbase import Dialect
from headgate.observer.config import (
    AccessRule,
    AccessSettings,
    Allow,
    Fsync,
    JournalSettings,
    Listener,
)
from headgate.observer.security.access import ListenerGuard
from headgate.observer.sessions.session import Session
from headgate.wire import StructWriter


def increments(*tables: bytes) -> bytes:
    each = [
        StructWriter().binary(1, table).binary(2, b"r").binary(3, b"f:q").i64(4, 1).end()
        for table in tables
    ]
    return call("incrementRows", StructWriter().structs(1, each).end())


def watch(scene: Scene, revision: int, *tables: str) -> None:
    scene.control.apply(WatchList(1, "d", revision, tuple(Watch(t) for t in tables)), "o")
    for table in tables:
        scene.publisher.prepare(table, values=True)
        scene.publisher.topic_ready(table, 1)


def forbid(scene: Scene, session: Session, *tables: str) -> None:
    """Take the right to write the tables away, as a new configuration does."""
    rules = (AccessRule(Allow.READ, tables=tables),) if tables else ()
    listener = Listener("127.0.0.1:0", "127.0.0.1:1")
    scene.endpoint.guard = ListenerGuard(
        "thrift1", listener, AccessSettings(rules=rules), metrics=scene.metrics, clock=lambda: 0.0
    )
    session.identify()


def make_room(scene: Scene) -> None:
    scene.bench.producer.deliver_all()
    scene.journal.save_watermark()
    scene.admission.tend()


def test_a_barrier_of_an_unwatched_table_waits_for_a_write_of_several(scene: Scene) -> None:
    session, _, _ = scene.connect()
    session.data_received(increments(b"t", b"other"))
    watch(scene, 2, "t", "other")
    barrier(scene, "other")
    assert kinds(scene) == []
    session.reply_received(reply("incrementRows"))
    assert "BarrierMark" in kinds(scene)


def test_a_watch_that_begins_while_a_write_waits_for_room_sees_it(blocking: Scene) -> None:
    session, _, upstream = blocking.connect()
    session.data_received(increments(b"t", b"other"))
    assert upstream.taken() == b""
    watch(blocking, 2, "t", "other")
    make_room(blocking)
    assert upstream.taken() == increments(b"t", b"other")
    session.reply_received(reply("incrementRows"))
    tables = [batch.table for batch in blocking.log() if isinstance(batch, UpdateBatch)]
    assert sorted(tables[-2:]) == ["other", "t"]


def test_a_write_that_waits_for_room_is_refused_once_the_right_is_taken_away(
    blocking: Scene,
) -> None:
    session, client, upstream = blocking.connect()
    session.data_received(put(b"r"))
    forbid(blocking, session, "t")
    make_room(blocking)
    assert upstream.taken() == b""
    assert b"may not write to table t" in client.taken()
    assert not client.paused


def test_a_write_that_nobody_watches_any_more_needs_no_room(blocking: Scene) -> None:
    session, client, upstream = blocking.connect()
    session.data_received(put(b"r"))
    watch(blocking, 2)
    blocking.admission.tend()
    assert upstream.taken() == put(b"r")
    assert not client.paused


def test_a_write_that_a_gate_held_is_refused_once_the_right_is_taken_away(scene: Scene) -> None:
    close_gate(scene)
    session, client, upstream = scene.connect()
    session.data_received(put(b"r"))
    forbid(scene, session, "t")
    close_gate(scene, 2, released=True)
    assert upstream.taken() == b""
    assert b"may not write to table t" in client.taken()


@pytest.fixture
def syncing(tmp_path: Path, make_bench, monkeypatch: pytest.MonkeyPatch) -> Scene:
    scene = Scene(
        tmp_path, make_bench(), Dialect.THRIFT1, JournalSettings(str(tmp_path), fsync=Fsync.ALWAYS)
    )
    synced: list[Callable[[], None]] = []
    monkeypatch.setattr(scene.admission, "when_synced", synced.append)
    scene.synced = synced
    return scene


def test_a_write_that_waits_for_the_disk_is_refused_once_the_right_is_taken_away(
    syncing: Scene,
) -> None:
    session, client, upstream = syncing.connect()
    session.data_received(put(b"r"))
    forbid(syncing, session, "t")
    syncing.synced.pop()()
    syncing.work()
    assert upstream.taken() == b""
    assert b"may not write to table t" in client.taken()
    assert syncing.journal.unsettled == 0
    assert not client.paused


def test_a_watch_that_begins_while_a_write_waits_for_the_disk_sees_it(syncing: Scene) -> None:
    session, _, upstream = syncing.connect()
    session.data_received(increments(b"t", b"other"))
    watch(syncing, 2, "t", "other")
    syncing.synced.pop()()
    assert upstream.taken() == b"", "it is on the disk for one of its tables only"
    syncing.synced.pop()()
    assert upstream.taken() == increments(b"t", b"other")
    session.reply_received(reply("incrementRows"))
    tables = [batch.table for batch in syncing.log() if isinstance(batch, UpdateBatch)]
    assert sorted(tables) == ["other", "t"]


def test_what_came_behind_a_refused_write_goes_on(blocking: Scene) -> None:
    session, client, upstream = blocking.connect()
    session.data_received(put(b"r") + put(b"free", b"elsewhere"))
    forbid(blocking, session, "t")
    make_room(blocking)
    assert upstream.taken() == put(b"free", b"elsewhere")
    session.reply_received(OK)
    assert client.taken().endswith(OK)
