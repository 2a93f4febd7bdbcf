"""Puts of one cell, which are published by a shorter way, against the way of all other writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.events import (
    BarrierMark,
    Outcome,
    TableChange,
    TableChangeKind,
    UpdateBatch,
    UpdateKind,
)
from headgate.observer.publishing.batches import MESSAGE_BYTES, PIECE_BYTES
from headgate.observer.publishing.ended import EndedSchemaChange, EndedWrite

PARTITIONS = 3
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("put"),
            st.sampled_from([b"a", b"b", b"c", b"d"]),
            st.sampled_from([0, 10, MESSAGE_BYTES // 2 - 100, PIECE_BYTES + 1]),
            st.booleans(),
        ),
        st.tuples(st.sampled_from(["batch", "definition", "mark", "flush", "ready"])),
    ),
    max_size=20,
)


def put(publisher: Any, intent: int, row: bytes, size: int, *, ambiguous: bool) -> None:
    value = b"v" * size
    publisher.add_put("t", intent, "mutateRow", 1.0, None, row, b"f:q", -1, value, ambiguous)


def put_at_length(publisher: Any, intent: int, row: bytes, size: int, *, ambiguous: bool) -> None:
    publisher.add(
        "t",
        EndedWrite(
            intent,
            "mutateRow",
            Outcome.APPLIED,
            1.0,
            None,
            bytes([UpdateKind.PUT]),
            (row,),
            (b"f:q",),
            (-1,),
            (b"v" * size,),
            frozenset({row}) if ambiguous else frozenset(),
        ),
    )


def cells_of(bench: Any, steps: list[tuple[Any, ...]], add: Callable[..., None]) -> list[list[Any]]:
    """Return what readers of each partition see, request by request."""
    publisher = bench.publisher
    for intent, step in enumerate(steps):
        match step:
            case ("put", row, size, ambiguous):
                add(publisher, intent, row, size, ambiguous=ambiguous)
            case ("batch",):
                rows = [b"a", b"b", b"z%d" % intent]
                columns = ([b"f:q"] * 3, [-1] * 3, [b"v"] * 3)
                kinds = bytes([UpdateKind.PUT]) * 3
                publisher.add(
                    "t",
                    EndedWrite(
                        intent, "mutateRows", Outcome.APPLIED, 1.0, None, kinds, rows, *columns
                    ),
                )
            case ("definition",):
                kind = TableChangeKind.DISABLED
                publisher.add("t", EndedSchemaChange(intent, kind, Outcome.APPLIED, 1.0, ""))
            case ("mark",):
                publisher.mark("t", f"barrier {intent}")
            case ("flush",):
                bench.timers.run()
            case ("ready",):
                publisher.topic_ready("t", PARTITIONS)
    publisher.topic_ready("t", PARTITIONS)
    while bench.timers.waiting:  # much is packed in several turns, each of which asks for the next
        bench.timers.run()
    bench.producer.deliver_all()
    assert publisher.idle
    seen: list[list[Any]] = []
    for partition in range(PARTITIONS):
        log = bench.producer.log(partition)
        assert [message.sequence for message in log] == list(range(len(log)))
        found: list[Any] = []
        for message in log:
            if isinstance(message, UpdateBatch):
                assert message.watermark <= min(part.intent for part in message.requests)
                at = 0
                for part in message.requests:
                    cells = slice(at, at + part.cells)
                    at += part.cells
                    found.append((part, message.rows[cells], message.values[cells]))
            elif isinstance(message, TableChange):
                found.append(message.intent)
            elif isinstance(message, BarrierMark):
                found.append(message.id)
        seen.append(found)
    return seen


@given(STEPS)
def test_they_are_published_as_all_other_writes_are(
    make_bench: Callable[[], Any], steps: list[tuple[Any, ...]]
) -> None:
    short, long = make_bench(), make_bench()
    assert cells_of(short, steps, put) == cells_of(long, steps, put_at_length)
    assert sorted(short.settled) == sorted(long.settled)


@pytest.mark.parametrize("values", [True, False])
def test_their_values_are_left_out_where_no_bound_needs_them(bench: Any, values: bool) -> None:
    bench.publisher.prepare("t", values=values)
    bench.publisher.topic_ready("t", PARTITIONS)
    put(bench.publisher, 0, b"a", 3, ambiguous=False)
    bench.timers.run()
    (sent,) = bench.producer.sent
    assert sent.message.values == ((b"vvv",) if values else (None,))


def test_messages_are_filled_up_to_their_limit(bench: Any) -> None:
    bench.publisher.prepare("t", values=True)
    bench.publisher.topic_ready("t", PARTITIONS)
    for intent in range(3):
        put(bench.publisher, intent, b"a", MESSAGE_BYTES // 2 - 100, ambiguous=False)
    bench.timers.run()
    assert [len(sent.message.requests) for sent in bench.producer.sent] == [2, 1]
