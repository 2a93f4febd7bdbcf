"""One request that writes rows of several tables is told of in each of them."""

from __future__ import annotations

import pytest
from scene import Scene, call, reply

from headgate.events import UpdateBatch, updates_topic
from headgate.wire import StructWriter

OK = reply("incrementRows")


def increments(*places: tuple[bytes, bytes]) -> bytes:
    """One of a cell each, by table and row."""
    rows = [
        StructWriter().binary(1, table).binary(2, row).binary(3, b"f:q").i64(4, 1).end()
        for table, row in places
    ]
    return call("incrementRows", StructWriter().structs(1, rows).end())


@pytest.fixture
def two(scene: Scene) -> Scene:
    scene.watch("t", "u")
    return scene


def told(scene: Scene, table: str) -> list[tuple[int, tuple[bytes, ...], tuple[int, ...]]]:
    """Of each request: its intent, its rows in the table, and which of them are ambiguous."""
    scene.work()
    scene.bench.producer.deliver_all()
    return [
        (part.intent, sent.message.rows, part.ambiguous)
        for sent in scene.bench.producer.delivered
        if sent.topic == updates_topic(table) and isinstance(sent.message, UpdateBatch)
        for part in sent.message.requests
    ]


def test_each_table_has_its_own_rows(two: Scene) -> None:
    session, _, _ = two.connect()
    session.data_received(increments((b"t", b"a"), (b"u", b"b"), (b"other", b"c")))
    session.reply_received(OK)
    assert told(two, "t") == [(0, (b"a",), ())]
    assert told(two, "u") == [(0, (b"b",), ())]
    assert told(two, "other") == []


def test_one_table_that_is_watched_has_no_rows_of_the_others(scene: Scene) -> None:
    session, _, _ = scene.connect()
    session.data_received(increments((b"other", b"a"), (b"t", b"b"), (b"u", b"c")))
    session.reply_received(OK)
    assert told(scene, "t") == [(0, (b"b",), ())]
    assert told(scene, "other") == told(scene, "u") == []


def test_rows_that_two_of_them_share_are_ambiguous_in_their_table_alone(two: Scene) -> None:
    first, second = two.connect()[0], two.connect()[0]
    first.data_received(increments((b"t", b"same"), (b"u", b"a")))
    second.data_received(increments((b"t", b"same"), (b"u", b"b")))
    first.reply_received(OK)
    two.work()
    second.reply_received(OK)
    assert [each[2] for each in told(two, "t")] == [(0,), (0,)]
    assert [each[2] for each in told(two, "u")] == [(), ()]


def test_one_is_not_settled_before_kafka_has_all_of_its_tables(two: Scene) -> None:
    session, _, _ = two.connect()
    session.data_received(increments((b"t", b"a"), (b"u", b"b")))
    session.reply_received(OK)
    two.work()
    assert two.journal.unsettled == 1
    two.bench.producer.deliver()
    assert two.journal.unsettled == 1
    two.bench.producer.deliver()
    assert two.journal.unsettled == 0
