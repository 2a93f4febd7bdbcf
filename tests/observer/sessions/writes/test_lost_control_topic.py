"""While the control topic is lost every table is treated as watched, and clients invent tables."""

from __future__ import annotations

from scene import CELLS, OK, Scene, call, get, put

from headgate.wire import StructWriter


def written(scene: Scene, table: bytes) -> None:
    session, _, _ = scene.connect()
    session.data_received(put(b"r", table))
    session.reply_received(OK)
    session.connection_lost(None)
    scene.work()


def test_invented_tables_leave_nothing_behind_once_the_topic_is_back(scene: Scene) -> None:
    scene.control.lost()
    for number in range(50):
        written(scene, b"invented-%d" % number)
    written(scene, b"t")
    scene.bench.producer.deliver_all()
    assert scene.bench.ensured == ["t"]
    assert scene.journal.unsettled == 50
    scene.control.found()
    scene.publisher.forget_unwanted()
    assert scene.bench.ensured == ["t"]
    assert scene.journal.unsettled == 0
    assert scene.publisher.idle


def test_a_write_that_was_under_way_when_the_topic_came_back_is_dropped(scene: Scene) -> None:
    scene.control.lost()
    session, _, _ = scene.connect()
    session.data_received(put(b"r", b"invented"))
    scene.control.found()
    scene.publisher.forget_unwanted()
    session.reply_received(OK)
    scene.work()
    assert scene.journal.unsettled == 0
    assert scene.bench.ensured == ["t"]


def test_one_request_for_a_watched_table_and_others_is_settled_by_the_watched_one(
    scene: Scene,
) -> None:
    scene.control.lost()
    session, _, _ = scene.connect()
    each = [
        StructWriter().binary(1, table).binary(2, b"r").binary(3, b"f:q").i64(4, 1).end()
        for table in (b"invented", b"t")
    ]
    session.data_received(call("incrementRows", StructWriter().structs(1, each).end()))
    scene.control.found()
    session.upstream_lost(None)
    scene.work()
    assert scene.journal.unsettled == 1
    scene.bench.producer.deliver_all()
    assert scene.journal.unsettled == 0


def test_beyond_a_number_of_tables_writes_wait_and_are_refused(scene: Scene) -> None:
    scene.control.lost()
    for number in range(10_000):
        scene.publisher._unlisted(f"invented-{number}")
    session, client, upstream = scene.connect()
    session.data_received(put(b"r", b"one-more"))
    scene.now += 60.0
    scene.admission.tend()
    assert upstream.taken() == b""
    assert b"the control topic is lost, or a pattern of watch.tables is too wide" in client.taken()
    session.data_received(put(b"r", b"t"))
    assert upstream.taken() == put(b"r", b"t")


def test_writes_that_are_known_by_their_kind_wait_beyond_it_too(scene: Scene) -> None:
    scene.control.lost()
    written(scene, b"one-more")
    written(scene, b"one-more")
    assert scene.endpoint.patterns.find(put(b"r", b"one-more")) is not None
    scene.control.found()
    scene.publisher.forget_unwanted()
    scene.control.lost()
    for number in range(10_000):
        scene.publisher._unlisted(f"invented-{number}")
    session, _, upstream = scene.connect()
    session.data_received(get(b"x"))
    session.reply_received(CELLS)
    assert upstream.taken() == get(b"x")
    session.data_received(put(b"r", b"one-more"))
    assert (upstream.taken(), scene.journal.next_intent) == (b"", 2)
