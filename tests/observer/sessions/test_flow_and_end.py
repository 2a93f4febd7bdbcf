"""Sides that are slow, and connections that end."""

from __future__ import annotations

from scene import CELLS, OK, Scene, get, put

from headgate.events import Outcome


def test_a_slow_client_stops_the_replies(scene: Scene) -> None:
    session, _, upstream = scene.connect()
    session.pause_writing()
    assert upstream.paused
    session.resume_writing()
    assert not upstream.paused


def test_a_slow_upstream_stops_the_requests(scene: Scene) -> None:
    session, client, _ = scene.connect()
    session.upstream_full()
    assert client.paused
    session.upstream_drained()
    assert not client.paused


def test_a_client_cannot_have_unlimited_requests_under_way(scene: Scene) -> None:
    session, client, _ = scene.connect()
    session.data_received(get(b"r") * 200)
    assert client.paused
    session.reply_received(CELLS * 150)
    assert not client.paused


def test_the_end_of_requests_is_passed_on_and_replies_still_come(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    session.data_received(get(b"r"))
    assert session.eof_received()
    assert upstream.ended
    session.reply_received(CELLS)
    session.upstream_lost(None)
    assert client.taken() == CELLS
    assert client.closed


def test_a_session_is_quiet_only_between_requests(scene: Scene) -> None:
    session, _, _ = scene.connect()
    assert session.quiet()
    session.data_received(put(b"r"))
    assert not session.quiet()
    session.reply_received(OK)
    assert session.quiet()
    session.data_received(get(b"r")[:5])
    assert not session.quiet()


def test_an_aborted_session_leaves_its_writes_unknown(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    session.data_received(put(b"r"))
    session.abort()
    assert client.closed
    assert upstream.closed
    session.connection_lost(None)
    session.upstream_lost(None)
    assert scene.outcomes() == [(b"r", Outcome.UNKNOWN)]
    assert scene.endpoint.sessions == set()


def test_a_draining_session_answers_what_is_under_way_and_takes_no_more(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    session.data_received(put(b"under way") + get(b"x"))
    upstream.taken()
    session.drain()
    session.data_received(put(b"too late"))
    assert upstream.taken() == b""
    assert not client.closed
    session.reply_received(OK + CELLS)
    assert client.taken() == OK + CELLS
    assert client.closed
    assert scene.outcomes() == [(b"under way", Outcome.APPLIED)]


def test_a_draining_session_lets_a_request_arrive_whole(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    session.data_received(put(b"r")[:20])
    session.drain()
    session.data_received(put(b"r")[20:])
    assert upstream.taken() == put(b"r")
    session.drain()
    session.reply_received(OK)
    assert client.closed


def test_an_idle_session_is_closed_when_it_drains(scene: Scene) -> None:
    session, client, _ = scene.connect()
    session.drain()
    assert client.closed


def test_an_idle_client_that_takes_no_leave_over_tls_does_not_hold_up_the_end(
    scene: Scene,
) -> None:
    session, client, upstream = scene.connect()
    client.can_write_eof = lambda: False  # type: ignore[method-assign]
    session.drain()
    session.drain()
    assert not upstream.closed
    session.drain()
    assert upstream.closed
