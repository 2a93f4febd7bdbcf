"""Barriers among requests that are under way."""

from __future__ import annotations

from scene import CELLS, OK, Scene, barrier, get, kinds, put

from headgate.events import BarrierMark, UpdateBatch


def test_a_barrier_without_writes_is_marked_at_once(scene: Scene) -> None:
    barrier(scene, "t")
    assert kinds(scene) == ["BarrierMark"]


def test_a_barrier_follows_the_writes_under_way_and_precedes_later_ones(scene: Scene) -> None:
    session, _, _ = scene.connect()
    later, _, _ = scene.connect()
    session.data_received(put(b"before"))
    barrier(scene, "t")
    later.data_received(put(b"after"))
    later.reply_received(OK)
    assert kinds(scene) == ["UpdateBatch"]
    session.reply_received(OK)
    messages = scene.log()
    assert [type(message) for message in messages] == [UpdateBatch, UpdateBatch, BarrierMark]
    assert messages[1].rows == (b"before",)


def test_a_barrier_waits_for_writes_that_were_forwarded_before_the_watch(scene: Scene) -> None:
    session, _, _ = scene.connect()
    session.data_received(put(b"unwatched", b"new"))
    scene.watch("t", "new")
    barrier(scene, "new")
    assert kinds(scene) == []
    session.reply_received(OK[:1])
    assert kinds(scene) == ["BarrierMark"]


def test_a_barrier_waits_for_a_write_of_a_known_kind_behind_reads_of_one(scene: Scene) -> None:
    session, _, _ = scene.connect()
    for _ in range(4):
        session.data_received(get(b"r", b"other"))
        session.reply_received(CELLS)
        session.data_received(put(b"unwatched", b"new"))
        session.reply_received(OK)
    session.data_received(put(b"unwatched", b"new"))
    scene.watch("t", "new")
    barrier(scene, "new")
    assert kinds(scene) == []
    session.reply_received(OK)
    assert kinds(scene) == ["BarrierMark"]


def test_a_barrier_does_not_wait_for_reads_or_other_tables(scene: Scene) -> None:
    for request in (get(b"r"), put(b"r", b"other")):
        scene.connect()[0].data_received(request)
    barrier(scene, "t")
    assert kinds(scene) == ["BarrierMark"]


def test_a_barrier_waits_no_longer_than_the_connection_lives(scene: Scene) -> None:
    session, _, _ = scene.connect()
    session.data_received(put(b"r"))
    barrier(scene, "t")
    session.upstream_lost(None)
    assert kinds(scene) == ["UpdateBatch", "BarrierMark"]


def test_a_barrier_follows_writes_whose_end_waits_to_be_told(scene: Scene) -> None:
    session, _, _ = scene.connect()
    session.data_received(put(b"r"))
    session.reply_received(OK)
    assert scene.pending, "the write is still in the backlog"
    barrier(scene, "t")
    assert kinds(scene) == ["UpdateBatch", "BarrierMark"]


def test_a_barrier_follows_the_write_that_it_waited_for(scene: Scene) -> None:
    session, _, _ = scene.connect()
    session.data_received(put(b"r"))
    scene.work()
    barrier(scene, "t")
    session.reply_received(OK)
    assert kinds(scene) == ["UpdateBatch", "BarrierMark"]
