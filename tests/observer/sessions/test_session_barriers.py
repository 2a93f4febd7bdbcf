"""Barriers among requests that are under way."""

from __future__ import annotations

import pytest
from scene import CELLS, OK, SERVER, Scene, answered, barrier, get, kinds, messages, put, reply

from headgate.events import BarrierMark, UpdateBatch
from headgate.wire import StructWriter


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
    session, _, upstream = scene.connect()
    for _ in range(4):
        session.data_received(get(b"r", b"other"))
        session.reply_received(CELLS)
        session.data_received(put(b"unwatched", b"new"))
        session.reply_received(OK)
    session.data_received(put(b"unwatched", b"new"))
    scene.watch("t", "new")
    barrier(scene, "new")
    assert kinds(scene) == []
    session.reply_received(answered(upstream, OK, SERVER))
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


# -- where it is only believed that a reply is over


@pytest.mark.parametrize("cut", [9, 10], ids=["zero", "other"])
def test_a_barrier_waits_for_a_write_that_was_sent_in_the_middle_of_a_reply(
    scene: Scene, cut: int
) -> None:
    session, client, upstream = scene.connect()
    rows = reply("get", StructWriter().binaries(0, [b"a\x00b"] * 9).end())
    session.data_received(get(b"x"))
    session.reply_received(rows[: rows.index(b"a\x00b") + (2 if cut == 9 else 1)])
    session.data_received(put(b"unwatched", b"new"))
    session.reply_received(rows[len(client.data) :][:20])
    scene.watch("t", "new")
    barrier(scene, "new")
    assert kinds(scene) == []
    session.reply_received(rows[len(client.data) :] + answered(upstream, OK, SERVER)[:-1])
    assert kinds(scene) == []
    assert client.taken() == rows + OK
    session.reply_received(SERVER[-1:])
    assert kinds(scene) == ["BarrierMark"]
    assert client.taken() == b""


def test_a_barrier_waits_for_a_write_whose_end_was_only_believed(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    for row in (b"1", b"2", b"3"):
        session.data_received(put(row, b"new"))
        session.reply_received(OK)
    session.data_received(get(b"x"))
    scene.watch("t", "new")
    barrier(scene, "new")
    assert kinds(scene) == []
    session.reply_received(answered(upstream, CELLS, SERVER))
    assert kinds(scene) == ["BarrierMark"]
    assert client.taken() == OK * 3 + CELLS
    barrier(scene, "new")
    assert kinds(scene) == ["BarrierMark"] * 2
    assert upstream.taken() == b""


def test_a_barrier_waits_for_pipelined_writes_behind_a_reply_that_may_go_on(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    stored = reply("get", StructWriter().binary(0, CELLS + OK + b"rest").end())
    at = stored.index(CELLS)
    session.data_received(get(b"x"))
    session.reply_received(stored[:at])
    session.data_received(get(b"y") + put(b"unwatched", b"new") + get(b"z"))
    session.reply_received(stored[at : at + len(CELLS + OK)])
    scene.watch("t", "new")
    barrier(scene, "new")
    assert kinds(scene) == []
    session.reply_received(stored[at + len(CELLS + OK) :] + CELLS + OK + CELLS)
    assert kinds(scene) == []
    session.reply_received(answered(upstream, SERVER))
    assert kinds(scene) == ["BarrierMark"]
    assert client.taken() == stored + CELLS + OK + CELLS


def test_a_barrier_waits_for_a_write_whose_reply_could_not_be_told_apart(scene: Scene) -> None:
    session, _, upstream = scene.connect()
    session.data_received(put(b"unwatched", b"new") + get(b"x"))
    session.reply_received(b"\xff" * 40)
    scene.watch("t", "new")
    barrier(scene, "new")
    assert kinds(scene) == []
    session.reply_received(answered(upstream, SERVER))
    assert kinds(scene) == ["BarrierMark"]


def test_barriers_of_other_tables_ask_hbase_nothing(scene: Scene) -> None:
    session, _, upstream = scene.connect()
    for _ in range(3):
        session.data_received(put(b"r", b"other"))
        session.reply_received(OK)
    upstream.taken()
    barrier(scene, "t")
    assert kinds(scene) == ["BarrierMark"]
    assert upstream.taken() == b""


def test_a_barrier_waits_for_the_writes_of_a_client_that_is_gone(scene: Scene) -> None:
    session, _, upstream = scene.connect()
    session.data_received(get(b"x"))
    session.reply_received(CELLS[:-1])
    session.data_received(put(b"unwatched", b"new"))
    session.reply_received(CELLS[-1:])
    session.connection_lost(None)
    assert not upstream.closed
    scene.watch("t", "new")
    barrier(scene, "new")
    assert kinds(scene) == []
    session.reply_received(answered(upstream, OK, SERVER))
    assert kinds(scene) == ["BarrierMark"]
    assert upstream.closed


def test_a_barrier_behind_the_end_of_requests_waits_for_the_end_of_the_connection(
    scene: Scene,
) -> None:
    session, client, upstream = scene.connect()
    session.data_received(get(b"x"))
    session.reply_received(CELLS[:-1])
    session.data_received(put(b"unwatched", b"new"))
    session.eof_received()
    assert upstream.ended
    forwarded = upstream.taken()
    session.reply_received(CELLS[-1:])
    scene.watch("t", "new")
    barrier(scene, "new")
    session.reply_received(OK)
    assert kinds(scene) == []
    assert upstream.taken() == b""
    session.upstream_lost(None)
    assert kinds(scene) == ["BarrierMark"]
    assert client.taken() == CELLS + OK
    assert messages(forwarded) == [get(b"x"), put(b"unwatched", b"new")]


def test_more_tables_than_a_connection_remembers_are_all_of_them(scene: Scene) -> None:
    session, _, upstream = scene.connect()
    for number in range(100):
        session.data_received(put(b"r", b"t%d" % number))
        session.reply_received(OK)
    assert len(session.pipeline._unconfirmed.names) <= 64
    scene.watch("t", "t3")
    barrier(scene, "t3")
    assert kinds(scene) == []
    session.reply_received(answered(upstream, SERVER))
    assert kinds(scene) == ["BarrierMark"]
