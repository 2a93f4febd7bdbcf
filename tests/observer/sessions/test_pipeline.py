"""Replies that cannot be told apart any more."""

from __future__ import annotations

from scene import CELLS, OK, Scene, call, get, put

from headgate.events import Outcome
from headgate.observer.sessions.introduction import IDENTIFY


def test_bytes_behind_the_last_reply_are_passed_and_later_writes_end_unknown(scene: Scene) -> None:
    session, client, _ = scene.connect()
    session.data_received(put(b"r"))
    session.reply_received(OK + b"more")
    session.data_received(put(b"later"))
    session.reply_received(OK)
    assert client.taken() == OK + b"more" + OK
    assert scene.outcomes() == [(b"r", Outcome.APPLIED), (b"later", Outcome.UNKNOWN)]
    assert not client.closed


def test_a_reply_of_our_own_whose_turn_nobody_knows_breaks_the_connections(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    session.data_received(get(b"x"))
    session.reply_received(CELLS[:10])
    session.data_received(get(b"y"))
    session.data_received(call(IDENTIFY, b"\x00"))
    assert client.taken() == CELLS[:10]
    assert client.closed
    assert upstream.closed


def test_an_unreadable_reply_before_one_of_our_own_breaks_the_connection(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    session.data_received(get(b"x") + call(IDENTIFY, b"\x00"))
    session.reply_received(b"\xff" * 20)
    assert client.taken() == b""
    assert upstream.closed


def test_nothing_waits_on_a_connection_without_requests(scene: Scene) -> None:
    session, _, _ = scene.connect()
    assert session.waits_since() is None
    session.data_received(get(b"x"))
    forwarded = session.waits_since()
    assert forwarded is not None
    session.reply_received(CELLS[:10])
    heard = session.waits_since()
    assert heard is not None
    assert heard >= forwarded
