"""Requests that are not whole, or wait, have memory for all connections together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scene import OK, Scene, answered, close_gate, messages, put

from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.sessions import holdings
from headgate.observer.sessions.holdings import LARGE, Holdings
from headgate.observer.sessions.requests import forwarding, intake

LIMIT = 2000


class Holder:
    def __init__(self, held: dict[Holder, int]) -> None:
        self.held = held
        self.reason = ""

    def let_go(self, reason: str) -> None:
        self.reason = reason
        del self.held[self]


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from([0, 10, LARGE, 3 * LARGE, 5 * LARGE])),
        max_size=40,
    )
)
def test_who_has_held_bytes_for_longest_makes_room(steps: list[tuple[int, int]]) -> None:
    metrics = Metrics()
    shared = Holdings(metrics, 8 * LARGE)
    held: dict[Holder, int] = {}
    holders = [Holder(held) for _ in range(6)]
    gone = 0
    for number, size in steps:
        holder = holders[number]
        before = list(held)
        if size < LARGE:
            held.pop(holder, None)
        else:
            held[holder] = size
        shared.note(holder, size)
        assert shared.total == sum(held.values()) <= 8 * LARGE
        order = [*before, *([] if holder in before else [holder])]
        evicted = [each for each in order if each not in held and each.reason]
        # They are the first of those that held something.
        assert evicted == order[: len(evicted)] or size < LARGE
        gone += len(evicted) if size >= LARGE else 0
        for each in holders:
            each.reason = ""
    assert metrics.refusals.get("memory", 0) == gone


@pytest.fixture
def small(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A scene in which 100 bytes are many, and 2,000 all that there are."""
    for module in (holdings, intake):
        monkeypatch.setattr(module, "LARGE", 100)
    for module in (holdings, forwarding):
        monkeypatch.setattr(module, "COUNTED", 50)
    scene.endpoint.holdings.limit = LIMIT
    return scene


def test_requests_that_never_end_share_the_memory_and_others_are_served(small: Scene) -> None:
    endless = put(b"r" * 5000)
    strangers = [small.connect() for _ in range(30)]
    for _ in range(3):
        for number, (session, _, _) in enumerate(strangers):
            session.data_received(endless[:600] if number else endless[:400])
            assert small.endpoint.holdings.total <= LIMIT
    refused = [client for _, client, _ in strangers if client.closed]
    assert len(refused) >= 27
    assert all(b"limits.waiting_bytes" in client.data for client in refused)
    session, client, upstream = small.connect()
    session.data_received(put(b"mine"))
    assert upstream.taken() == put(b"mine")
    session.reply_received(OK)
    assert client.taken() == OK
    for session, _, _ in strangers:
        session.connection_lost(None)
    assert small.endpoint.holdings.total == 0


def test_a_write_that_waits_at_a_gate_makes_room_and_may_be_sent_again(small: Scene) -> None:
    close_gate(small)
    waiting = [small.connect() for _ in range(3)]
    for session, _, _ in waiting:
        session.data_received(put(b"r" * 800))
    (_, first, upstream), *others = waiting
    answer = first.taken()
    assert b"limits.waiting_bytes" in answer
    assert b"try again" in answer
    assert not first.closed
    assert upstream.taken() == b""
    assert all(client.taken() == b"" for _, client, _ in others)
    assert small.gates.held == 2
    close_gate(small, 2, released=True)
    assert [each.taken() for _, _, each in others] == [put(b"r" * 800)] * 2
    waiting[0][0].data_received(put(b"again"))
    assert upstream.taken() == put(b"again")
    assert small.endpoint.holdings.total == 0


def test_a_request_that_is_read_in_parts_counts_until_it_is_read(small: Scene) -> None:
    small.endpoint.max_bytes_per_turn = 300
    session, _, upstream = small.connect()
    request = put(b"r" * 1000)
    session.data_received(request)
    assert small.endpoint.holdings.total >= len(request) - 10
    while small.turn():
        pass
    assert upstream.taken() == request
    assert small.endpoint.holdings.total == 0


@pytest.mark.parametrize("table", [b"t", b"u"])
@pytest.mark.parametrize("leaves", [False, True])
def test_what_hbase_has_not_answered_is_bounded_over_all_connections(
    small: Scene, table: bytes, leaves: bool
) -> None:
    large = [put(b"%d" % number * 600, table) for number in range(10)]
    clients = [small.connect() for _ in large]
    for (session, _, _), request in zip(clients, large, strict=True):
        session.data_received(request)
        assert small.endpoint.holdings.unanswered <= LIMIT
    refused = [b"limits.waiting_bytes" in client.data for _, client, _ in clients]
    assert refused == [False] * 3 + [True] * 7
    assert not any(client.closed for _, client, _ in clients)
    # A small request needs no room.
    session, _, upstream = clients[-1]
    session.data_received(put(b"small", table))
    assert b"small" in upstream.data
    session.reply_received(answered(upstream, OK))
    for session, _, upstream in clients[:3]:
        if leaves:
            session.connection_lost(None)
            assert small.endpoint.holdings.unanswered
            session.upstream_lost(None)
        else:
            session.reply_received(answered(upstream, OK))
    small.work()
    assert small.endpoint.holdings.unanswered == 0
    session, _, upstream = clients[5]
    session.data_received(large[5])
    assert upstream.taken()


def test_one_connection_may_pipeline_little_whatever_others_have_under_way(small: Scene) -> None:
    for number in range(3):
        small.connect()[0].data_received(put(b"%d" % number * 600))
    session, client, upstream = small.connect()
    for number in range(10):
        session.data_received(put(b"%d" % number * 30))
    taken = len(messages(upstream.taken()))
    assert 0 < taken < 10
    assert client.data == b""
