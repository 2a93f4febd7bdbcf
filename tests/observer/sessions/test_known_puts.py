"""Puts of a known kind go a shorter way from the reply to Kafka, and lose nothing on it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from scene import OK, Scene, call, put, reply

from headgate.events import Origin, UpdateBatch
from headgate.wire import StructWriter

KNOWN_AFTER = 4
"""Puts alike after which their kind is known."""


def put_at(row: bytes, timestamp: int) -> bytes:
    mutation = StructWriter().binary(2, b"f:q").binary(3, b"v").end()
    writer = StructWriter().binary(1, b"t").binary(2, row).structs(3, [mutation])
    return call("mutateRowTs", writer.i64(4, timestamp).end())


@pytest.fixture
def known(scene: Scene) -> Scene:
    session, _, _ = scene.connect()
    for number in range(KNOWN_AFTER):
        session.data_received(put(b"k%d" % number))
        session.reply_received(OK)
    assert len(scene.outcomes()) == KNOWN_AFTER
    scene.bench.producer.delivered.clear()
    return scene


def batches(scene: Scene) -> list[UpdateBatch]:
    return [each for each in scene.log() if isinstance(each, UpdateBatch)]


def parts(scene: Scene) -> list[Any]:
    return [part for batch in batches(scene) for part in batch.requests]


def test_those_of_one_row_at_once_are_ambiguous_and_the_next_is_not(known: Scene) -> None:
    first, second, other = (known.connect()[0] for _ in range(3))
    for session, row in ((first, b"same"), (second, b"same"), (other, b"alone")):
        session.data_received(put(row))
    for session in (first, second, other):
        session.reply_received(OK)
    assert [part.ambiguous for part in parts(known)] == [(0,), (0,), ()]
    first.data_received(put(b"same"))
    first.reply_received(OK)
    assert parts(known)[-1].ambiguous == ()


def test_they_have_the_origin_of_their_port(known: Scene) -> None:
    session, _, _ = known.connect()
    session._facts = replace(session._facts, origin=Origin("flow", "step", "run", 3))
    session.data_received(put(b"r"))
    session.reply_received(OK)
    assert [part.origin for part in parts(known)] == [Origin("flow", "step", "run", 3)]


def test_they_have_the_timestamp_that_they_name(known: Scene) -> None:
    session, _, _ = known.connect()
    for number in range(2 * KNOWN_AFTER):
        session.data_received(put_at(b"r%d" % number, 1700))
        session.reply_received(reply("mutateRowTs"))
    found = [stamp for batch in batches(known) for stamp in batch.timestamps]
    assert found == [1700] * 2 * KNOWN_AFTER


def test_each_is_counted_under_its_own_method(known: Scene) -> None:
    known.metrics.requests.clear()
    session, _, _ = known.connect()
    for number in range(2 * KNOWN_AFTER):
        session.data_received(put_at(b"r%d" % number, 1700))
        session.reply_received(reply("mutateRowTs"))
    for number in range(3):
        session.data_received(put(b"r%d" % number))
        session.reply_received(OK)
    known.work()
    assert known.metrics.requests == {
        ("thrift1", "mutateRowTs", "applied"): 2 * KNOWN_AFTER,
        ("thrift1", "mutateRow", "applied"): 3,
    }


def test_none_is_settled_before_kafka_has_it(known: Scene) -> None:
    session, _, _ = known.connect()
    session.data_received(put(b"r"))
    session.reply_received(OK)
    known.work()
    assert known.journal.unsettled == 1
    known.bench.producer.deliver_all()
    assert known.journal.unsettled == 0
