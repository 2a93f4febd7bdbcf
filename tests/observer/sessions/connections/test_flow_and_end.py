"""Sides that are slow, and connections that end."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from scene import CELLS, OK, Scene, Wire, answered, call, get, messages, name, put, put2, reply

from headgate.events import Fence, Outcome
from headgate.observer.sessions.acknowledgement import Acknowledgements
from headgate.observer.sessions.connection_pair import HELD
from headgate.observer.sessions.identification import IDENTIFY
from headgate.observer.sessions.session import Session
from headgate.observer.sessions.sweeping import Stage
from headgate.observer.upstreams.asking import PING
from headgate.wire import StructWriter, Transport


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


def test_requests_are_read_again_when_nobody_is_slow_any_more(scene: Scene) -> None:
    session, client, _ = scene.connect()
    session.upstream_full()
    session.pause_writing()
    session.upstream_drained()
    assert client.paused
    session.resume_writing()
    assert not client.paused


def test_a_slow_upstream_is_heard_out_about_a_write_whose_client_is_gone(scene: Scene) -> None:
    session, _, _ = scene.connect()
    session.data_received(put(b"r"))
    session.connection_lost(None)
    session.upstream_full()
    session.upstream_drained()
    session.reply_received(OK)
    assert scene.outcomes() == [(b"r", Outcome.APPLIED)]


@pytest.mark.parametrize(("requests", "waits"), [(127, False), (128, True)])
def test_a_client_waits_while_so_many_requests_are_under_way(
    scene: Scene, requests: int, waits: bool
) -> None:
    session, client, _ = scene.connect()
    session.data_received(get(b"r") * requests)
    assert client.paused is waits


def test_a_client_cannot_have_unlimited_requests_under_way(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    session.data_received(get(b"r") * 200)
    assert client.paused
    assert upstream.taken() == get(b"r") * 200, "what has been read goes on"
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


def test_no_reply_waits_for_events_when_its_client_is_gone(scene: Scene) -> None:
    waiting = scene.endpoint.acknowledgements = Acknowledgements(seconds=60.0, clock=lambda: 0.0)
    session, _, _ = scene.connect()
    session.data_received(put(b"r"))
    assert len(waiting) == 1
    session.connection_lost(None)
    assert len(waiting) == 0


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


def test_a_session_drains_though_its_client_is_gone(scene: Scene) -> None:
    session, _, upstream = scene.connect()
    session.connection_lost(None)
    session.drain()
    assert upstream.closed
    session.upstream_lost(None)
    assert scene.endpoint.sessions == set()


def test_an_idle_session_is_closed_when_it_drains(scene: Scene) -> None:
    session, client, _ = scene.connect()
    session.drain()
    assert client.closed


def test_an_idle_client_that_takes_no_leave_over_tls_does_not_hold_up_the_end(
    scene: Scene,
) -> None:
    session, client, upstream = scene.connect()
    client.can_write_eof = lambda: False
    session.drain()
    session.drain()
    assert not upstream.closed
    session.drain()
    assert upstream.closed


# -- a client that does not read


def slow_client(session: Session, client: Wire, most: int) -> None:
    """Let the transport say so once it holds more bytes than these."""

    def written(_data: bytes) -> None:
        if len(client.data) > most:
            session.pause_writing()

    client.on_write = written


def test_requests_of_a_client_that_does_not_read_are_not_taken(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    slow_client(session, client, 2000)
    asked = call(IDENTIFY, b"\x00")
    session.data_received(asked * 200)
    session.data_received(asked * 200 + put(b"last"))
    assert client.paused
    assert len(client.data) < 2200
    assert upstream.taken() == b""
    replies = len(messages(client.taken()))
    client.on_write = None
    session.resume_writing()
    assert replies + len(messages(client.taken())) == 400
    assert upstream.taken() == put(b"last")
    assert not client.paused


def test_refusals_to_a_client_that_does_not_read_are_not_heaped_up(second: Scene) -> None:
    second.control.apply(Fence(1, "flow", "step", 2), "o")
    session, client, upstream = second.connect()
    slow_client(session, client, 2000)
    session.data_received(put2(b"old", 1) * 100)
    assert len(client.data) < 2500
    assert upstream.taken() == b""


def test_the_end_of_a_client_that_does_not_read_waits_for_its_requests(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    slow_client(session, client, 0)
    session.data_received(call(IDENTIFY, b"\x00") + put(b"r"))
    session.eof_received()
    assert not client.closed
    client.on_write = None
    session.resume_writing()
    assert upstream.taken() == put(b"r")
    assert upstream.ended


def test_a_client_that_does_not_read_waits_for_nobody_but_itself(scene: Scene) -> None:
    session, client, _ = scene.connect()
    slow_client(session, client, 0)
    session.data_received(call(IDENTIFY, b"\x00") * 3)
    assert session.stage() is Stage.REPLIES


def test_a_client_whose_requests_are_not_read_waits_for_hbase(scene: Scene) -> None:
    session, _, _ = scene.connect()
    session.upstream_full()
    assert session.stage() is Stage.SERVER
    session.upstream_drained()
    assert session.stage() is Stage.IDLE


def test_a_client_that_has_sent_nothing_is_silent_until_its_first_request(scene: Scene) -> None:
    session, client = Session(scene.endpoint), Wire()
    session.connection_made(cast("asyncio.Transport", client))
    assert session.stage() is Stage.SILENT
    other, _, _ = scene.connect()
    assert other.stage() is Stage.IDLE


@pytest.mark.parametrize("first", ["client", "upstream"])
def test_a_session_whose_connection_was_none_ends_with_its_client(scene: Scene, first: str) -> None:
    session, _, _ = scene.connect()
    assert session in scene.endpoint.sessions
    ends = [lambda: session.connection_lost(None), session.upstream_dropped]
    for end in ends if first == "client" else reversed(ends):
        end()
    assert session not in scene.endpoint.sessions


def idle(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *requests: bytes, awake: bool = True
) -> tuple[Any, Any, list]:
    """Return a session that has asked for these and was quiet since, and what it dials then.

    ``awake``: whether the sweep has come by.
    """
    session, client, upstream = scene.connect()
    for request in requests:
        session.data_received(request)
        session.reply_received(answered(upstream, reply(name(request))))
    client.taken()
    upstream.taken()
    session.pipeline.touched -= 60
    if awake:
        session.stay_awake()
        if upstream.data:
            session.reply_received(answered(upstream, reply(PING)))
    assert client.taken() == b""
    dialled: list[Session] = []
    monkeypatch.setattr(session._intake, "_connect", lambda: dialled.append(session))
    return session, client, dialled


@pytest.mark.parametrize("ends", [None, ConnectionResetError()], ids=["closed", "reset"])
@pytest.mark.parametrize("requests", [[], [get(b"r")], [get(b"r"), put(b"s")]], ids=len)
def test_a_client_goes_on_whose_idle_connection_hbase_has_closed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, requests: list[bytes], ends: Any
) -> None:
    session, client, dialled = idle(scene, monkeypatch, *requests)
    session.upstream_lost(ends)
    assert not client.closed
    assert dialled == []
    # It is as idle as before, and not a client that has never asked for anything.
    assert session.stage() is Stage.IDLE
    session.data_received(put(b"t"))
    assert dialled == [session]
    upstream = Wire()
    session.upstream_made(upstream)
    session.upstream_settled(upstream)
    session._intake.go_on_after(HELD)
    assert upstream.taken() == put(b"t")
    session.reply_received(reply("mutateRow"))
    assert client.taken() == reply("mutateRow")
    written = [row for row, outcome in scene.outcomes() if outcome is Outcome.APPLIED]
    assert written[-1] == b"t"


@pytest.mark.parametrize(
    ("requests", "kept"),
    [
        (["scannerOpenWithScan"], False),
        (["scannerOpen", "scannerClose"], True),
        (["scannerOpen", "scannerOpen", "scannerClose"], False),
        (["scannerClose"], True),
    ],
)
def test_scanners_end_with_the_server_that_has_them(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, requests: list[str], kept: bool
) -> None:
    opened = StructWriter().binary(1, b"t").end()
    closed = StructWriter().i32(1, 7).end()
    bodies = [call(each, closed if each == "scannerClose" else opened) for each in requests]
    session, client, _ = idle(scene, monkeypatch, *bodies)
    session.upstream_lost(None)
    assert client.closed is not kept


def test_a_connection_that_ends_in_the_middle_of_a_reply_ends_for_the_client_too(
    scene: Scene,
) -> None:
    session, client, _ = scene.connect()
    session.data_received(get(b"r"))
    session.reply_received(reply("get")[:9])
    session.upstream_lost(None)
    assert client.closed


def test_a_reply_that_is_only_believed_to_be_over_ends_with_the_connection(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, client, _ = idle(scene, monkeypatch, get(b"r"), awake=False)
    session.upstream_lost(None)
    assert client.closed


@pytest.mark.parametrize("transport", list(Transport), ids=lambda each: each.value)
def test_hbase_is_called_for_as_long_as_a_scanner_may_be_open(
    scene: Scene, transport: Transport
) -> None:
    def framed(message: bytes) -> bytes:
        return message if transport is Transport.BUFFERED else len(message).to_bytes(4) + message

    def exchange(request: bytes, answer: bytes) -> None:
        session.data_received(framed(request))
        assert upstream.taken() == framed(request)
        session.reply_received(framed(answer))
        assert client.taken() == framed(answer)

    def is_called() -> bool:
        """Let a minute go by, and answer what HBase is asked."""
        session.pipeline.touched -= 60
        session.stay_awake()
        if not upstream.data:
            return False
        buffered = transport is Transport.BUFFERED
        session.reply_received(answered(upstream, reply(PING)) if buffered else framed(reply(PING)))
        upstream.taken()
        assert client.taken() == b""
        return True

    session, client, upstream = scene.connect()
    table = StructWriter().binary(1, b"t").end()
    exchange(call("scannerOpenWithScan", table), reply("scannerOpenWithScan"))
    before = session.progress()
    session.stay_awake()
    assert not upstream.data
    assert [is_called() for _ in range(3)] == [True, True, True]
    exchange(call("scannerClose", StructWriter().i32(1, 7).end()), reply("scannerClose"))
    # Without lengths one more call makes certain that this reply is over.
    assert [is_called() for _ in range(3)] == [transport is Transport.BUFFERED, False, False]
    exchange(get(b"r"), reply("get"))
    assert session.progress() != before


def test_a_call_that_keeps_the_connection_awake_does_not_make_the_client_less_idle(
    scene: Scene,
) -> None:
    session, _, upstream = scene.connect()
    session.data_received(call("scannerOpenWithScan", StructWriter().binary(1, b"t").end()))
    session.reply_received(answered(upstream, reply("scannerOpenWithScan")))
    scene.endpoint.keep_alive_seconds = 1e-9
    seen = set()
    for _ in range(3):
        session.stay_awake()
        session.reply_received(answered(upstream, reply(PING)))
        seen.add(session.progress())
    assert len(seen) == 1
