"""Replies that cannot be told apart any more."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scene import (
    CELLS,
    FAILED,
    OK,
    SERVER,
    Scene,
    answered,
    call,
    framed,
    get,
    messages,
    name,
    numbered,
    put,
    reply,
)
from structlog.testing import capture_logs

from headgate.events import Outcome
from headgate.hbase import Dialect
from headgate.observer.config import JournalSettings
from headgate.observer.sessions.identification import IDENTIFY
from headgate.wire import MessageReader, MessageType, StructWriter


def test_bytes_behind_the_last_reply_are_passed_and_later_writes_known_by_number(
    scene: Scene,
) -> None:
    session, client, upstream = scene.connect()
    session.data_received(put(b"r"))
    session.reply_received(OK + b"more")
    session.data_received(put(b"later"))
    session.reply_received(answered(upstream, FAILED))
    assert client.taken() == OK + b"more" + FAILED
    assert scene.outcomes() == [(b"r", Outcome.APPLIED), (b"later", Outcome.UNKNOWN)]
    session.data_received(put(b"last"))
    session.reply_received(OK)
    assert scene.outcomes()[2:] == [(b"last", Outcome.APPLIED)]
    assert not client.closed


def test_more_bytes_behind_the_last_reply_are_not_taken_for_a_later_writes(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    session.data_received(put(b"r"))
    session.reply_received(OK + b"more")
    session.data_received(put(b"later"))
    session.reply_received(b"and more" + answered(upstream, OK))
    assert client.taken() == OK + b"more" + b"and more" + OK
    assert scene.outcomes() == [(b"r", Outcome.APPLIED), (b"later", Outcome.APPLIED)]


def test_a_request_is_answered_though_bytes_follow_its_frame(scene: Scene) -> None:
    session, client, _ = scene.connect()
    session.data_received(framed(get(b"x")))
    session.reply_received(framed(CELLS))
    session.reply_received(b"more")
    assert client.taken() == framed(CELLS) + b"more"
    assert scene.metrics.requests == {("thrift1", "get", "answered"): 1}


def test_bytes_behind_a_frame_that_came_in_pieces_are_passed_and_named(scene: Scene) -> None:
    session, client, _ = scene.connect()
    whole = framed(CELLS)
    session.data_received(framed(get(b"x")))
    session.reply_received(whole[:10])
    with capture_logs() as lines:
        session.reply_received(whole[10:] + b"more")
    assert client.taken() == whole + b"more"
    assert [line["reason"] for line in lines] == ["there are bytes behind the last reply"]
    assert scene.metrics.requests == {("thrift1", "get", "answered"): 1}


def test_a_client_is_read_from_again_when_no_reply_can_be_told_apart(scene: Scene) -> None:
    session, client, _ = scene.connect()
    session.data_received(get(b"x") * 200)
    assert client.paused
    session.reply_received(b"\xff" * 40)
    assert not client.paused


@pytest.mark.parametrize("before", [0, 5], ids=["new", "known"])
def test_an_exception_among_pipelined_replies_is_counted_as_one(scene: Scene, before: int) -> None:
    session, _, upstream = scene.connect()
    for _ in range(before):
        session.data_received(get(b"r"))
        session.reply_received(CELLS)
    for row in (b"x", b"y", b"z"):
        session.data_received(get(row))
    failure = call("get", StructWriter().binary(1, b"no").end(), MessageType.EXCEPTION)
    session.reply_received(CELLS + failure + CELLS)
    session.data_received(put(b"r"))
    session.reply_received(answered(upstream, OK))
    scene.metrics.settle()
    assert scene.metrics.requests["thrift1", "get", "answered"] == before + 2
    assert scene.metrics.requests["thrift1", "get", "exception"] == 1


def test_bytes_behind_the_last_frame_are_passed_and_later_writes_end_unknown(scene: Scene) -> None:
    session, client, _ = scene.connect()
    session.data_received(framed(put(b"r")))
    session.reply_received(framed(OK) + b"more")
    session.data_received(framed(put(b"later")))
    session.reply_received(framed(OK))
    assert client.taken() == framed(OK) + b"more" + framed(OK)
    assert scene.outcomes() == [(b"r", Outcome.APPLIED), (b"later", Outcome.UNKNOWN)]
    assert not client.closed


@pytest.mark.parametrize("cut", [7, 10], ids=["zero", "other"])
def test_a_reply_of_our_own_never_lands_in_a_reply_that_goes_on(scene: Scene, cut: int) -> None:
    session, client, upstream = scene.connect()
    assert (CELLS[cut - 1] == 0) is (cut == 7)
    session.data_received(get(b"x"))
    session.reply_received(CELLS[:cut])
    session.data_received(call(IDENTIFY, b"\x00"))
    assert client.taken() == CELLS[:cut]
    session.reply_received(CELLS[cut:] + answered(upstream, SERVER)[:-1])
    assert client.taken() == CELLS[cut:]
    session.reply_received(SERVER[-1:])
    assert [name(each) for each in messages(client.taken())] == [IDENTIFY]
    session.data_received(call(IDENTIFY, b"\x00"))
    assert [name(each) for each in messages(client.taken())] == [IDENTIFY]
    assert upstream.taken() == b""
    assert scene.metrics.requests == {("thrift1", "get", "answered"): 1}


def test_requests_behind_a_reply_of_our_own_that_waits_are_answered_behind_it(
    scene: Scene,
) -> None:
    session, client, upstream = scene.connect()
    session.data_received(get(b"x"))
    session.reply_received(CELLS[:8])
    session.data_received(call(IDENTIFY, b"\x00") + put(b"r") + get(b"y"))
    forwarded = answered(upstream, SERVER, OK, CELLS)
    session.reply_received(CELLS[8:] + forwarded)
    answers = messages(client.taken())
    assert [name(each) for each in answers] == ["get", IDENTIFY, "mutateRow", "get"]
    assert answers[2:] == [OK, CELLS]
    assert scene.outcomes() == [(b"r", Outcome.APPLIED)]


@pytest.mark.parametrize("cut", [0, 8])
def test_each_reply_of_our_own_waits_for_the_reply_that_has_begun(scene: Scene, cut: int) -> None:
    session, client, _ = scene.connect()
    session.data_received(get(b"x") + call(IDENTIFY, b"\x00"))
    session.reply_received(CELLS[:cut])
    session.data_received(call(IDENTIFY, b"\x00"))
    session.reply_received(CELLS[cut:])
    assert [name(each) for each in messages(client.taken())] == ["get", IDENTIFY, IDENTIFY]


def test_the_end_waits_for_replies_behind_one_that_may_go_on(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    session.data_received(get(b"x"))
    session.reply_received(CELLS[:8])
    session.data_received(get(b"y"))
    session.drain()
    assert not client.closed
    session.reply_received(CELLS[8:] + CELLS)
    assert not client.closed
    session.reply_received(answered(upstream, SERVER))
    assert client.taken() == CELLS * 2
    assert client.closed


def test_a_call_of_our_own_that_hbase_does_not_answer_is_nobodys_request(scene: Scene) -> None:
    session, client, _ = scene.connect()
    session.data_received(get(b"x"))
    session.reply_received(CELLS)
    session.data_received(call(IDENTIFY, b"\x00"))
    with capture_logs() as lines:
        session.upstream_lost(None)
    assert [(line["requests"], line["methods"]) for line in lines] == [(1, [IDENTIFY])]
    assert client.taken() == CELLS
    assert scene.metrics.requests == {("thrift1", "get", "answered"): 1}


def test_a_call_of_our_own_that_could_not_be_sent_is_not_made_again(scene: Scene) -> None:
    session, _, upstream = scene.connect()
    session.data_received(call("scannerOpenWithScan", StructWriter().binary(1, b"t").end()))
    session.reply_received(reply("scannerOpenWithScan")[:-1])
    session.data_received(get(b"x"))
    session.eof_received()
    session.reply_received(CELLS)
    scene.endpoint.keep_alive_seconds = 1e-9
    upstream.taken()
    for _ in range(3):
        session.stay_awake()
    assert len(session.pipeline.in_flight) == 1
    assert upstream.taken() == b""


def test_a_connection_without_matched_replies_gets_no_call_of_our_own(scene: Scene) -> None:
    """Nobody could keep its reply from the client."""
    session, client, upstream = scene.connect()
    opened = call("scannerOpenWithScan", StructWriter().binary(1, b"t").end())
    session.data_received(framed(opened))
    session.reply_received(framed(reply("scannerOpenWithScan")) + b"more")
    scene.endpoint.keep_alive_seconds = 1e-9
    upstream.taken()
    client.taken()
    session.stay_awake()
    assert upstream.taken() == b""


def test_a_reply_of_our_own_whose_turn_nobody_can_tell_ends_the_connection(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    session.data_received(get(b"x"))
    session.reply_received(CELLS)
    upstream.close()
    session.data_received(call(IDENTIFY, b"\x00"))
    assert client.taken() == CELLS
    assert client.closed


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


# --- replies to other requests


def other_number(message: bytes) -> bytes:
    return numbered(message, 77)


@pytest.mark.parametrize(
    "wrong",
    [reply("mutateRows"), other_number(OK), reply("put"), other_number(CELLS)],
    ids=["another method", "another number", "an unknown method", "a read's reply"],
)
@pytest.mark.parametrize("known", [False, True], ids=["first", "after some alike"])
@pytest.mark.parametrize("frame", [lambda each: each, framed], ids=["buffered", "framed"])
def test_a_reply_to_another_request_makes_a_write_unknown(scene, wrong, known, frame) -> None:
    session, client, _ = scene.connect()
    before = 4 * known
    for _ in range(before):
        session.data_received(frame(put(b"r")))
        session.reply_received(frame(OK))
    if known:
        # The wrong reply is one that was seen before, too.
        scene.endpoint.replies.remember(read_reply(frame(wrong)))
    client.taken()
    with capture_logs() as lines:
        session.data_received(frame(put(b"r")))
        session.reply_received(frame(wrong))
    assert client.taken() == frame(wrong)
    assert [outcome for _, outcome in scene.outcomes()][before:] == [Outcome.UNKNOWN]
    assert "a reply is not to the request that was sent" in [line.get("reason") for line in lines]


def read_reply(data: bytes):
    reader = MessageReader()
    reader.feed(data)
    found = reader.next_message()
    assert found is not None
    return found


@given(numbers=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=6), data=st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_server_that_repeats_a_reply_is_never_believed_twice(
    tmp_path_factory, make_bench, numbers, data
):
    """Each write's own reply comes, or that to an earlier one once more."""
    config = JournalSettings(str(tmp_path_factory.mktemp("journal")))
    scene = Scene(Path(config.directory), make_bench(), Dialect.THRIFT1, config)
    session, _, _ = scene.connect()
    believed = 0
    for at, number in enumerate(numbers):
        answered_by = data.draw(st.integers(0, at))
        session.data_received(framed(with_number(put(b"r"), number)))
        session.reply_received(framed(with_number(OK, numbers[answered_by])))
        if numbers[answered_by] != number:
            break
        believed += 1
    outcomes = [outcome for _, outcome in scene.outcomes()]
    assert outcomes.count(Outcome.APPLIED) == believed


def with_number(message: bytes, number: int) -> bytes:
    return numbered(message, number & 0xFFFFFFFF)
