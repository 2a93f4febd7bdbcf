"""A write is judged by its own reply, whatever was stored and however replies are cut."""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scene import (
    CELLS,
    FAILED,
    FALSE,
    OK,
    SERVER,
    Scene,
    answered,
    call,
    framed,
    get,
    name,
    numbered,
    put,
    reply,
)

from headgate.events import Outcome
from headgate.hbase import Dialect
from headgate.observer.config import JournalSettings
from headgate.observer.sessions.identification import IDENTIFY
from headgate.wire import (
    MessageReader,
    MessageType,
    Protocol,
    StructWriter,
    Transport,
    transcode,
    write_message,
)

BAD_ARGUMENT = reply("mutateRow", StructWriter().struct(2, b"\x00").end())
FORMATS = [
    (Transport.BUFFERED, Protocol.BINARY),
    (Transport.BUFFERED, Protocol.OLD_BINARY),
    (Transport.BUFFERED, Protocol.COMPACT),
    (Transport.FRAMED, Protocol.BINARY),
    (Transport.FRAMED, Protocol.COMPACT),
]
INTRODUCTION = StructWriter().binary(0, b"").end()
PUTS = {OK: Outcome.APPLIED, BAD_ARGUMENT: None, FAILED: Outcome.UNKNOWN}
"""What a put is answered with, and the outcome that is published; None: it did nothing."""


def cells(*values: bytes) -> bytes:
    stored = [StructWriter().binary(1, value).i64(2, 7).end() for value in values]
    return reply("get", StructWriter().structs(0, stored).end())


def in_format(plain: bytes, transport: Transport, protocol: Protocol, number: int) -> bytes:
    """Return a message in strict, buffered binary in another format, with another number."""
    reader = MessageReader(transport=Transport.BUFFERED)
    reader.feed(numbered(plain, number))
    message = reader.next_message()
    assert message is not None
    if protocol is Protocol.COMPACT:
        return transcode(message, protocol, transport).raw
    body = message.raw[message.body :]
    if protocol is Protocol.OLD_BINARY and message.type is MessageType.CALL:
        name = message.name.encode()
        return len(name).to_bytes(4) + name + b"\x01" + number.to_bytes(4) + body
    return write_message(transport, message.name, message.type, number, body)


class Server:
    """Answers what it gets, in order; its bytes go out when the test says so."""

    def __init__(self, transport: Transport, protocol: Protocol) -> None:
        self.transport, self.protocol = transport, protocol
        self.requests = MessageReader(transport=transport)
        self.out = b""

    def take(self, data: bytes, answers: list[bytes]) -> None:
        if data:
            self.requests.feed(data)
        while (request := self.requests.next_message()) is not None:
            answer = SERVER if request.name == name(SERVER) else answers.pop(0)
            self.out += in_format(answer, self.transport, self.protocol, request.seqid)

    def send(self, most: int) -> bytes:
        part, self.out = self.out[:most], self.out[most:]
        return part


def test_stored_bytes_are_not_taken_for_a_writes_reply(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    whole = cells(b"\x00", OK)
    at = whole.index(OK)
    session.data_received(get(b"x"))
    cut = at - 7  # behind the cell before: the next one's field and length come first
    assert whole[cut - 1] == 0
    session.reply_received(whole[:cut])
    session.data_received(put(b"r"))
    session.reply_received(whole[cut:at])
    session.reply_received(OK)
    session.reply_received(whole[at + len(OK) :])
    session.reply_received(answered(upstream, FAILED))
    assert client.taken() == whole + FAILED
    assert scene.outcomes() == [(b"r", Outcome.UNKNOWN)]


def test_a_write_that_was_not_done_is_not_applied_by_stored_bytes(scene: Scene) -> None:
    session, _, upstream = scene.connect()
    whole = cells(b"\x00" * 9 + OK, b"")
    at = whole.index(OK)
    session.data_received(get(b"x"))
    session.reply_received(whole[:at])
    session.data_received(put(b"r"))
    session.reply_received(OK)
    assert scene.outcomes() == []
    session.reply_received(whole[at + len(OK) :] + answered(upstream, BAD_ARGUMENT))
    assert scene.outcomes() == []
    assert scene.journal.unsettled == 0


def test_stored_bytes_in_a_writes_own_reply_do_not_end_it(scene: Scene) -> None:
    session, client, _ = scene.connect()
    session.data_received(put(b"known"))
    session.reply_received(OK)
    more = StructWriter().binary(1, b"t").binary(2, b"r").binaries(3, [b"f:q"]).binaries(4, [OK])
    whole = reply("append", StructWriter().structs(0, [StructWriter().binary(1, OK).end()]).end())
    at = whole.index(OK)
    session.data_received(call("append", StructWriter().struct(1, more.end()).end()))
    session.reply_received(whole[:at])
    session.reply_received(OK)
    assert scene.outcomes() == [(b"known", Outcome.APPLIED)]
    session.reply_received(whole[at + len(OK) :])
    assert scene.outcomes() == [(b"known", Outcome.APPLIED), (b"r", Outcome.APPLIED)]
    assert client.taken() == OK + whole


@pytest.mark.parametrize("frame", [lambda each: each, framed], ids=["buffered", "framed"])
def test_a_failure_that_quotes_a_success_is_not_taken_for_one(scene: Scene, frame) -> None:
    session, client, _ = scene.connect()
    session.data_received(frame(put(b"known")))
    session.reply_received(frame(OK))
    quoting = StructWriter().binary(1, frame(OK) + b"rest").end()
    whole = frame(reply("mutateRow", StructWriter().struct(1, quoting).end()))
    at = whole.index(frame(OK))
    session.data_received(frame(put(b"r")))
    session.reply_received(whole[:at])
    session.reply_received(frame(OK))
    assert scene.outcomes() == [(b"known", Outcome.APPLIED)]
    session.reply_received(whole[at + len(frame(OK)) :])
    assert scene.outcomes() == [(b"known", Outcome.APPLIED), (b"r", Outcome.UNKNOWN)]
    assert client.taken() == frame(OK) + whole


def test_a_known_read_in_the_middle_of_a_reply_makes_no_stored_bytes_a_reply(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    for _ in range(3):
        session.data_received(get(b"x"))
        session.reply_received(CELLS)
    whole = cells(b"\x00" + CELLS + OK)
    at = whole.index(CELLS)
    assert whole[at - 1] == 0
    session.data_received(get(b"x"))
    session.reply_received(whole[:at])
    session.data_received(get(b"x"))
    session.data_received(put(b"r"))
    session.reply_received(CELLS + OK)
    session.reply_received(whole[at + len(CELLS + OK) :])
    session.reply_received(answered(upstream, CELLS, FAILED))
    assert client.taken() == CELLS * 3 + whole + CELLS + FAILED
    assert scene.outcomes() == [(b"r", Outcome.UNKNOWN)]


def test_bytes_that_may_begin_the_reply_reach_the_client_when_hbase_is_gone(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    session.data_received(get(b"x"))
    session.reply_received(CELLS)
    session.data_received(put(b"r"))
    begun = answered(upstream, OK)[:9]
    session.reply_received(begun)
    assert client.taken() == CELLS
    session.upstream_lost(None)
    assert client.taken() == begun
    assert scene.outcomes() == [(b"r", Outcome.UNKNOWN)]


def test_writes_alone_go_on_as_they_came(scene: Scene) -> None:
    session, _, upstream = scene.connect()
    for row in (b"a", b"b", b"c"):
        session.data_received(put(row))
        session.reply_received(OK)
    assert upstream.taken() == put(b"a") + put(b"b") + put(b"c")


def test_unwatched_writes_and_reads_go_on_as_they_came(scene: Scene) -> None:
    session, _, upstream = scene.connect()
    for request in (get(b"a"), put(b"b", b"other"), get(b"c")) * 3:
        session.data_received(request)
        session.reply_received(CELLS)
        assert upstream.taken() == request


hostile = st.lists(
    st.sampled_from([OK, BAD_ARGUMENT, FAILED, FALSE, b"\x00", b"\x00" * 9, b"\x80\x01", b"\x80"])
    | st.binary(max_size=6),
    max_size=4,
).map(b"".join)
requests = st.one_of(
    st.builds(
        lambda row, values: (get(row), cells(*values)),
        st.sampled_from([b"x", b"y", b"zz"]),
        st.lists(hostile, max_size=3),
    ),
    st.tuples(st.just(put(b"u", b"other")), st.sampled_from([OK, FAILED])),
    st.tuples(st.none(), st.sampled_from(list(PUTS))),  # a watched put, of a row of its own
)
SIZES = st.integers(1, 40) | st.integers(1, 200) | st.just(10_000)
moves = st.lists(st.tuples(st.sampled_from(["ask", "answer"]), SIZES), max_size=60)


def play(
    asked: list[tuple[bytes | None, bytes]],
    order: list[tuple[str, int]],
    transport: Transport,
    protocol: Protocol,
    make_bench,
    directory: str,
    local_at: int = -1,
) -> tuple[dict[bytes, Outcome], dict[bytes, Outcome | None], bytes, bytes]:
    """Return outcomes as published and as they were, and what the client got and was to get."""
    scene = Scene(Path(directory), make_bench(), Dialect.THRIFT1, JournalSettings(directory))
    session, client, upstream = scene.connect()
    server = Server(transport, protocol)
    rows = count()
    answers: list[bytes] = []
    due, truth = b"", {}
    todo = []
    for number, (request, answer) in enumerate(asked):
        if request is None:
            row = b"row%04d" % next(rows)
            request, truth[row] = put(row), PUTS[answer]
        todo.append((request, answer, number))
    order = [*order, *[("ask", 1)] * len(todo), ("answer", 1 << 20)]
    for at, (what, size) in enumerate(order):
        if at == local_at:
            session.data_received(in_format(call(IDENTIFY, b"\x00"), transport, protocol, 99))
            due += in_format(reply(IDENTIFY, INTRODUCTION), transport, protocol, 99)
        if what == "ask" and todo:
            request, answer, number = todo.pop(0)
            answers.append(answer)
            due += in_format(answer, transport, protocol, number)
            session.data_received(in_format(request, transport, protocol, number))
        server.take(upstream.taken(), answers)
        if what == "answer" and (part := server.send(size)):
            session.reply_received(part)
    session.upstream_lost(None)
    return dict(scene.outcomes()), truth, client.taken(), due


@pytest.mark.parametrize(("transport", "protocol"), FORMATS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.lists(requests, min_size=1, max_size=10), order=moves)
def test_each_write_is_judged_by_its_own_reply(
    asked, order, transport, protocol, make_bench
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        told, truth, got, due = play(asked, order, transport, protocol, make_bench, directory)
    assert got == due
    assert told == {row: outcome for row, outcome in truth.items() if outcome is not None}


@pytest.mark.parametrize(("transport", "protocol"), FORMATS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.lists(requests, min_size=1, max_size=10), order=moves, at=st.integers(0, 60))
def test_it_is_when_some_are_answered_here_and_each_reply_has_its_place(
    asked, order, at, transport, protocol, make_bench
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        told, truth, got, due = play(asked, order, transport, protocol, make_bench, directory, at)
    assert got == due
    assert told == {row: outcome for row, outcome in truth.items() if outcome is not None}
