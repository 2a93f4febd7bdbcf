"""Requests that a guard lets pass or refuses, on connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from scene import answer_own_call

from headgate.events import (
    ORIGIN_ATTRIBUTE,
    Fence,
    Notify,
    Origin,
    Watch,
    WatchList,
    agent_origin,
    encode_origin,
)
from headgate.hbase import Dialect, Request
from headgate.observer.config import (
    AccessRule,
    AccessSettings,
    Allow,
    ClientCertificate,
    Identity,
    Listener,
)
from headgate.observer.control.gates import WriteGates
from headgate.observer.control.notify import NotifyColumns
from headgate.observer.control.state import ControlState
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.recording.recent_deletes import RecentDeletes
from headgate.observer.security.access import ListenerGuard
from headgate.observer.security.permits import Permit, Refusal
from headgate.observer.sessions import endpoint as listener
from headgate.observer.sessions.endpoint import Endpoint, Enforcement, Monitoring, Recording
from headgate.observer.sessions.requests import dispatching
from headgate.observer.sessions.session import Session
from headgate.settings import KeyRing, agent_write
from headgate.wire import Limits, MessageType, StructWriter, Transport, write_message


class Wire:
    """A transport whose other end is the test."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.closed = False
        self.certificate: dict[str, Any] | None = None

    def write(self, data: bytes) -> None:
        self.data += data

    def abort(self) -> None:
        self.closed = True

    close = abort

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str) -> object:
        known = {"peername": ("10.1.2.3", 4567), "peercert": self.certificate}
        return known.get(name)

    def taken(self) -> bytes:
        data = bytes(self.data)
        self.data.clear()
        return data


class Recorder:
    """Keeps the tickets of requests that were about to be forwarded."""

    def __init__(self) -> None:
        self.deletes = RecentDeletes(lambda: 100.0)
        self.tickets: list[Any] = []

    def begin(self, *_request: object) -> Any:
        self.tickets.append(SimpleNamespace(origin=None))
        return self.tickets[-1]

    begin_alike = begin
    backlog_due = False

    def end(self, *_reply: object) -> None:
        pass

    def after(self, call: Callable[[], None]) -> None:
        call()


class Scene:
    """Sessions of one endpoint, with table t watched."""

    def __init__(self, dialect: Dialect) -> None:
        self.metrics = Metrics()
        self.recorder = Recorder()
        notify = NotifyColumns(limit_bytes=10_000)
        control = ControlState(notify)
        control.apply(WatchList(1, "d", 1, (Watch("t"),)), "o")
        gates = WriteGates(hold_seconds=5.0, clock=lambda: 0.0)
        disk = cast("Any", SimpleNamespace(syncs_each=False))
        self.endpoint = Endpoint(
            loop=cast("asyncio.AbstractEventLoop", None),
            dialect=dialect,
            limits=Limits(),
            upstreams=listener.Upstreams(cast("Any", None)),
            enforcement=Enforcement(control, gates, notify),
            recording=Recording(cast("Any", self.recorder), disk),
            monitoring=Monitoring(self.metrics),
        )

    def connect(self) -> tuple[Session, Wire, Wire]:
        session, client, upstream = Session(self.endpoint), Wire(), Wire()
        session.connection_made(cast("asyncio.Transport", client))
        session.upstream_made(cast("asyncio.Transport", upstream))
        session.upstream_settled(cast("asyncio.Transport", upstream))
        return session, client, upstream


@pytest.fixture
def scene() -> Scene:
    return Scene(Dialect.THRIFT1)


@pytest.fixture
def second() -> Scene:
    return Scene(Dialect.THRIFT2)


def call(name: str, body: bytes, kind: MessageType = MessageType.CALL) -> bytes:
    return write_message(Transport.BUFFERED, name, kind, 0, body)


def reply(name: str) -> bytes:
    return call(name, b"\x00", MessageType.REPLY)


def put(row: bytes) -> bytes:
    mutation = StructWriter().binary(2, b"f:q").binary(3, b"v").end()
    body = StructWriter().binary(1, b"t").binary(2, row).structs(3, [mutation]).end()
    return call("mutateRow", body)


def get(row: bytes) -> bytes:
    body = StructWriter().binary(1, b"t").binary(2, row).binary(3, b"f:q").end()
    return call("get", body)


def put2(row: bytes, token: int) -> bytes:
    origin = encode_origin(Origin("flow", "step", "run-7", token))
    value = StructWriter().binary(1, b"f").binary(2, b"q").binary(3, b"v").end()
    writer = StructWriter().binary(1, row).structs(2, [value])
    one = writer.mapping(5, {ORIGIN_ATTRIBUTE: origin}).end()
    return call("put", StructWriter().binary(1, b"t").struct(2, one).end())


def guard(scene: Scene, access: AccessSettings | None = None, **listener: Any) -> ListenerGuard:
    plain = Listener("127.0.0.1:0", "127.0.0.1:1", **listener)
    return ListenerGuard("thrift2", plain, access, metrics=scene.metrics, clock=lambda: 0.0)


SECRET = AccessSettings(rules=(AccessRule(Allow.NOTHING, tables=("secret",)),))


def plain_put(row: bytes) -> bytes:
    value = StructWriter().binary(1, b"f").binary(2, b"q").binary(3, b"v").end()
    one = StructWriter().binary(1, row).structs(2, [value]).end()
    return call("put", StructWriter().binary(1, b"t").struct(2, one).end())


def test_a_write_has_the_origin_of_its_port_where_it_names_none(second: Scene) -> None:
    second.endpoint.guard = guard(second, origin=Identity(dataflow="flow"))
    session, _, upstream = second.connect()
    session.data_received(plain_put(b"r1"))
    assert upstream.taken() == plain_put(b"r1")
    assert [journalled.origin for journalled in second.recorder.tickets] == [
        Origin("flow", "", "", 0)
    ]


def test_a_write_gets_the_notify_cell_that_is_kept_to_the_origin_of_its_port(
    second: Scene,
) -> None:
    watch = Watch("t", notify=Notify("flow", ("flow",)))
    second.endpoint.control.apply(WatchList(1, "d", 2, (watch,)), "o")
    session, _, upstream = second.connect()
    session.data_received(plain_put(b"r1"))
    assert upstream.taken() == plain_put(b"r1")
    second.endpoint.guard = guard(second, origin=Identity(dataflow="flow"))
    session.identify()
    session.data_received(plain_put(b"r2"))
    assert b"flow" in upstream.taken()


def test_a_write_of_a_forbidden_origin_is_refused_and_never_forwarded(second: Scene) -> None:
    second.endpoint.guard = guard(second, origin=Identity(writer="etl"))
    session, client, upstream = second.connect()
    session.data_received(put2(b"r", 3))
    assert upstream.taken() == b""
    assert b"'etl' may not say that it is 'flow/step'" in client.taken()
    session.data_received(plain_put(b"r"))
    assert upstream.taken() != b""
    assert second.metrics.requests == {("thrift2", "put", "denied"): 1}
    assert second.metrics.access_denied == {("thrift2", "etl"): 1}


def test_rules_refuse_reads_too(scene: Scene) -> None:
    scene.endpoint.guard = guard(scene, AccessSettings(Allow.NOTHING))
    session, client, upstream = scene.connect()
    session.data_received(get(b"r"))
    assert upstream.taken() == b""
    assert b"origin 'unknown' may not read table t" in client.taken()


def test_a_write_whose_origin_is_unreadable_passes_no_guard(second: Scene) -> None:
    writer = StructWriter().binary(1, b"r").structs(2, [])
    one = writer.mapping(5, {ORIGIN_ATTRIBUTE: b"?"}).end()
    session, client, upstream = second.connect()
    second.endpoint.guard = guard(second, AccessSettings())
    session.identify()
    session.data_received(call("put", StructWriter().binary(1, b"t").struct(2, one).end()))
    assert upstream.taken() == b""
    assert b"nobody can tell in whose name this request would write" in client.taken()
    assert second.metrics.access_denied == {("thrift2", "unknown"): 1}


def test_new_rules_hold_for_connections_that_are_there(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    session.data_received(put(b"r1"))
    session.reply_received(reply("mutateRow"))
    assert upstream.taken() == put(b"r1")
    scene.endpoint.guard = guard(scene, AccessSettings(Allow.READ))
    session.identify()
    client.taken()
    session.data_received(put(b"r2"))
    assert upstream.taken() == b""
    assert b"may not write to table t" in client.taken()
    scene.endpoint.guard = None
    session.identify()
    session.data_received(put(b"r3"))
    assert upstream.taken() == put(b"r3")


def test_rules_hold_for_requests_that_are_recognised_by_their_bytes(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    for _ in range(20):
        session.data_received(get(b"r"))
        session.reply_received(reply("get"))
    assert scene.endpoint.patterns.find(get(b"r")) is not None
    scene.endpoint.guard = guard(scene, AccessSettings(Allow.NOTHING))
    session.identify()
    upstream.taken()
    session.data_received(get(b"r"))
    answer_own_call(session, upstream)
    assert b"may not read table t" in client.taken()


def judged(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The requests that the guard of this moment judges from now on."""
    found: list[bytes] = []
    ask = scene.endpoint.guard
    assert ask is not None
    judge = ask.judge

    def noting(permit: Permit, request: Request) -> Refusal | None:
        found.append(request.message.raw)
        return judge(permit, request)

    monkeypatch.setattr(ask, "judge", noting)
    return found


@pytest.mark.parametrize("ask", [get, put])
def test_rules_are_asked_once_for_a_kind_of_request(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, ask: Callable[[bytes], bytes]
) -> None:
    scene.endpoint.guard = guard(scene, SECRET)
    session, _, upstream = scene.connect()
    asked = judged(scene, monkeypatch)
    for row in (b"a", b"b", b"c", b"d"):
        session.data_received(ask(row))
        session.reply_received(reply("mutateRow" if ask is put else "get"))
    assert asked == [ask(b"a"), ask(b"b")], "the second request is what makes a kind known"
    assert upstream.taken() == b"".join(ask(row) for row in (b"a", b"b", b"c", b"d"))
    session, _, _ = scene.connect()
    session.data_received(get(b"first of a connection"))
    asked.clear()
    session.data_received(ask(b"e"))
    assert asked == [], "connections of the same client share what was found"


def test_no_more_kinds_are_remembered_for_a_client_than_a_listener_has(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatching, "_MOST_CLEARED", 3)
    asked = scene.endpoint.guard = guard(scene, SECRET)
    session, _, upstream = scene.connect()
    kept = []
    for length in range(1, 9):
        for _ in range(3):
            session.data_received(get(b"r" * length))
            assert upstream.taken() == get(b"r" * length)
            session.reply_received(reply("get"))
            kept.append(len(asked.cleared(asked.permit(None) or Permit(None, ()))))
    assert max(kept) == 3


def test_new_rules_hold_for_the_next_request_of_a_kind_that_passed(scene: Scene) -> None:
    scene.endpoint.guard = guard(scene, SECRET)
    session, client, upstream = scene.connect()
    for row in (b"a", b"b", b"c", b"d"):
        session.data_received(put(row))
        session.reply_received(reply("mutateRow"))
    scene.endpoint.guard = guard(scene, AccessSettings(Allow.READ))
    session.identify()
    upstream.taken()
    client.taken()
    session.data_received(put(b"e"))
    assert upstream.taken() == b""
    assert b"may not write to table t" in client.taken()


def test_a_write_of_a_known_kind_has_the_origin_of_its_port(second: Scene) -> None:
    second.endpoint.guard = guard(second, origin=Identity(dataflow="flow"))
    session, _, _ = second.connect()
    for _ in range(5):
        session.data_received(plain_put(b"r1"))
        session.reply_received(reply("put"))
    assert [journalled.origin for journalled in second.recorder.tickets] == [
        Origin("flow", "", "", 0)
    ] * 5


def test_a_client_of_no_network_is_cut_off(scene: Scene) -> None:
    scene.endpoint.guard = guard(scene, networks=("192.168.0.0/16",))
    _, client, _ = scene.connect()
    assert client.closed
    assert scene.metrics.refusals == {"network": 1}


def second_request(name: bytes) -> bytes:
    return get(b"r").replace(b"\x00\x00\x00\x01t", len(name).to_bytes(4, "big") + name)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (
            call("get", StructWriter().binary(1, b"t").binary(1, b"secret").binary(2, b"r").end()),
            b"field 1 comes twice",
        ),
        (call("get", StructWriter().i64(1, 5).binary(2, b"r").end()), b"without a table"),
        (call("get", StructWriter().binary(2, b"r").end()), b"without a table"),
        (
            write_message(
                Transport.FRAMED,
                "get",
                MessageType.CALL,
                0,
                StructWriter().binary(1, b"t").binary(2, b"r").end() + second_request(b"secret"),
            ),
            b"bytes behind the message in its frame",
        ),
    ],
    ids=["table twice", "table of another type", "no table", "a second request in the frame"],
)
def test_a_request_that_two_readers_could_read_differently_passes_no_rules(
    scene: Scene, request_: bytes, reason: bytes
) -> None:
    scene.endpoint.guard = guard(scene, SECRET)
    session, client, upstream = scene.connect()
    session.data_received(request_)
    assert upstream.taken() == b""
    assert reason in client.taken()


def test_a_request_that_is_clear_passes_rules_that_name_other_tables(scene: Scene) -> None:
    scene.endpoint.guard = guard(scene, SECRET)
    session, _, upstream = scene.connect()
    session.data_received(get(b"r"))
    assert upstream.taken() == get(b"r")


KEY = "0123456789abcdef" * 4


def state_put(row: bytes, signed: bytes | None) -> bytes:
    """Return a put into the agents' table, with the proof for a row if any."""
    value = StructWriter().binary(1, b"spec").binary(2, b"definition").binary(3, b"v").end()
    writer = StructWriter().binary(1, row).structs(2, [value])
    if signed is not None:
        proof = KeyRing([KEY.encode()]).sign(*agent_write("headgate", [signed]))
        writer = writer.mapping(5, {ORIGIN_ATTRIBUTE: encode_origin(agent_origin(proof))})
    return call("put", StructWriter().binary(1, b"headgate").struct(2, writer.end()).end())


@pytest.fixture
def agents_only(tmp_path: Path) -> AccessSettings:
    file = tmp_path / "key"
    file.write_text(KEY)
    return AccessSettings(agents_key_file=str(file), claims=())


def test_a_change_of_the_agents_table_passes_with_their_signature_only(
    second: Scene, agents_only: AccessSettings
) -> None:
    second.endpoint.guard = guard(second, agents_only)
    session, client, upstream = second.connect()
    for _ in range(3):
        session.data_received(state_put(b"flow/air", b"flow/air"))
        assert upstream.taken() == state_put(b"flow/air", b"flow/air")
        session.reply_received(reply("put"))
        client.taken()
    for signed in (None, b"flow/other"):
        session.data_received(state_put(b"flow/air", signed))
        if signed is None:
            answer_own_call(session, upstream)
        assert upstream.taken() == b""
        assert b"is not known as an agent" in client.taken()


def test_a_change_of_the_agents_table_by_thrift1_is_refused(
    scene: Scene, agents_only: AccessSettings
) -> None:
    scene.endpoint.guard = guard(scene, agents_only)
    session, client, upstream = scene.connect()
    session.data_received(put(b"r"))
    assert upstream.taken() == put(b"r")
    session.reply_received(reply("mutateRow"))
    client.taken()
    mutation = StructWriter().binary(2, b"f:q").binary(3, b"v").end()
    body = StructWriter().binary(1, b"default:headgate").binary(2, b"r").structs(3, [mutation])
    session.data_received(call("mutateRow", body.end()))
    assert upstream.taken() == b""
    assert b"is not known as an agent" in client.taken()


GIVEN_BY = {
    "listener": ({"origin": Identity(dataflow="flow", action="step")}, None),
    "certificate": (
        {},
        AccessSettings(
            certificates=(ClientCertificate(common_name="step", dataflow="flow", action="step"),)
        ),
    ),
}


@pytest.mark.parametrize("watched", [True, False], ids=["watched", "unwatched"])
@pytest.mark.parametrize("dialect", list(Dialect), ids=str)
@pytest.mark.parametrize("given_by", GIVEN_BY)
def test_a_fence_applies_to_the_origin_of_the_connection(
    given_by: str, dialect: Dialect, watched: bool
) -> None:
    scene = Scene(dialect)
    if not watched:
        scene.endpoint.control.apply(WatchList(1, "d", 2, ()), "o")
    listener, access = GIVEN_BY[given_by]
    scene.endpoint.guard = guard(scene, access, **listener)
    session, client, upstream = scene.connect()
    client.certificate = {"subject": ((("commonName", "step"),),)}
    session.identify()
    write, method = (put, "mutateRow") if dialect is Dialect.THRIFT1 else (plain_put, "put")
    for at in range(5):
        # The last ones are known by their pattern, and take the shortest way.
        session.data_received(write(b"before%d" % at))
        assert upstream.taken() == write(b"before%d" % at)
        session.reply_received(reply(method))
    client.taken()
    scene.endpoint.control.apply(Fence(1, "flow", "other", 9), "o")
    session.data_received(write(b"other"))
    assert b"other" in upstream.taken()
    session.reply_received(reply(method))
    client.taken()
    scene.endpoint.control.apply(Fence(1, "flow", "step", 2), "o")
    session.data_received(write(b"after"))
    assert b"after" not in upstream.taken()
    assert len(scene.recorder.tickets) == 6 * watched


def test_a_program_without_its_run_is_told_what_to_send(second: Scene) -> None:
    second.endpoint.guard = guard(second, origin=Identity(dataflow="flow", action="step"))
    session, client, upstream = second.connect()
    second.endpoint.control.apply(Fence(1, "flow", "step", 2), "o")
    session.data_received(plain_put(b"r"))
    assert upstream.taken() == b""
    assert b"HEADGATE_ORIGIN" in client.taken()
    session.data_received(put2(b"r", 2))
    assert put2(b"r", 2) in upstream.taken()
