"""Events of increments by 0, with which clients read counters."""

from __future__ import annotations

import pytest
from scene import Scene, call, reply

from headgate.events import Outcome, RequestPart, UpdateBatch
from headgate.wire import StructWriter


def counter_get(row: bytes, amount: int = 0) -> bytes:
    """Return the request that happybase's ``Table.counter_get`` sends."""
    writer = StructWriter().binary(1, b"t").binary(2, row).binary(3, b"f:n")
    return call("atomicIncrement", writer.i64(4, amount).end())


def counter(value: int) -> bytes:
    return reply("atomicIncrement", StructWriter().i64(0, value).end())


def parts(scene: Scene) -> list[RequestPart]:
    return [part for each in scene.log() if isinstance(each, UpdateBatch) for part in each.requests]


@pytest.mark.parametrize(
    ("amount", "answer", "zeros", "ambiguous"),
    [(0, 7, (0,), ()), (0, -7, (0,), ()), (0, 0, (0,), (0,)), (1, 1, (), ()), (-1, 0, (), ())],
    ids=["of 7", "of -7", "of 0: it may be new", "by 1", "by -1 down to 0"],
)
def test_an_increment_by_zero_is_named_and_read_where_its_cell_may_be_new(
    scene, amount, answer, zeros, ambiguous
):
    session, _, _ = scene.connect()
    session.data_received(counter_get(b"r", amount))
    session.reply_received(counter(answer))
    (part,) = parts(scene)
    assert (part.outcome, part.zero_increments) == (Outcome.APPLIED, zeros)
    assert part.ambiguous == ambiguous


def increment(row: bytes, *amounts: int) -> bytes:
    columns = [
        StructWriter().binary(1, b"f").binary(2, b"n%d" % at).i64(3, amount).end()
        for at, amount in enumerate(amounts)
    ]
    one = StructWriter().binary(1, row).structs(2, columns).end()
    return call("increment", StructWriter().binary(1, b"t").struct(2, one).end())


def counters(row: bytes, *values: int) -> bytes:
    cells = [
        StructWriter()
        .binary(1, b"f")
        .binary(2, b"n%d" % at)
        .binary(3, value.to_bytes(8, "big", signed=True))
        .i64(4, 9)
        .end()
        for at, value in enumerate(values)
    ]
    result = StructWriter().binary(1, row).structs(2, cells).end()
    return reply("increment", StructWriter().struct(0, result).end())


def test_each_column_of_one_increment_is_judged_by_itself(second):
    session, _, _ = second.connect()
    session.data_received(increment(b"r", 0, 5, 0))
    session.reply_received(counters(b"r", 3, 5, 4))
    (part,) = parts(second)
    assert part.zero_increments == (0, 2)
    assert part.ambiguous == ()


def test_a_column_that_comes_twice_is_incremented_by_its_last_amount(second):
    columns = [
        StructWriter().binary(1, b"f").binary(2, b"n0").i64(3, amount).end() for amount in (5, 0)
    ]
    one = StructWriter().binary(1, b"r").structs(2, columns).end()
    session, _, _ = second.connect()
    session.data_received(call("increment", StructWriter().binary(1, b"t").struct(2, one).end()))
    session.reply_received(counters(b"r", 3, 3))
    (part,) = parts(second)
    assert part.zero_increments == (0, 1)


def test_a_coalesced_increment_by_zero_is_unknown_and_named(scene):
    one = StructWriter().binary(1, b"t").binary(2, b"r").binary(3, b"f:n").i64(4, 0).end()
    session, _, _ = scene.connect()
    session.data_received(call("increment", StructWriter().struct(1, one).end()))
    session.reply_received(reply("increment"))
    (part,) = parts(scene)
    assert (part.outcome, part.zero_increments) == (Outcome.UNKNOWN, (0,))


def test_a_time_to_live_is_published_with_its_cells(scene):
    mutation = StructWriter().binary(2, b"f:q").binary(3, b"v").end()
    body = StructWriter().binary(1, b"t").binary(2, b"r").structs(3, [mutation])
    session, _, _ = scene.connect()
    session.data_received(call("mutateRow", body.mapping(4, {b"_ttl": (9000).to_bytes(8)}).end()))
    session.reply_received(reply("mutateRow"))
    (part,) = parts(scene)
    assert part.ttls == (9000,)
