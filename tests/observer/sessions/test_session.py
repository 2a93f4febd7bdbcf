"""Requests and replies on their way through one session, and what is journalled and published."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import cast

import pytest
from scene import (
    CELLS,
    FAILED,
    FALSE,
    OK,
    TRUE,
    Scene,
    Wire,
    answered,
    call,
    check,
    get,
    messages,
    numbered,
    put,
    reply,
)
from structlog.testing import capture_logs

from headgate.events import Outcome, UpdateBatch
from headgate.observer.sessions.session import Session
from headgate.wire import MessageType, StructWriter, Transport, write_message


def test_bytes_go_on_and_come_back_as_they_are_however_they_are_cut(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    requests = get(b"a") + put(b"b", b"other") + call("noSuchMethod", b"\x00")
    for request, answer in ((put(b"b"), OK), (get(b"a"), CELLS)):
        for at in range(len(request)):
            session.data_received(request[at : at + 1])
        assert upstream.taken() == request
        for at in range(len(answer)):
            session.reply_received(answer[at : at + 1])
        assert client.taken() == answer
    session.data_received(requests)
    assert upstream.taken() == requests


def test_a_watched_write_is_journalled_before_it_is_forwarded(scene: Scene) -> None:
    session, _, upstream = scene.connect()
    seen: list[int] = []
    upstream.on_write = lambda _data: seen.append(scene.journal.next_intent)
    session.data_received(put(b"r"))
    assert seen == [1]


def test_reads_and_other_tables_are_not_journalled(scene: Scene) -> None:
    session, _, _ = scene.connect()
    session.data_received(get(b"r") + put(b"r", b"other"))
    assert scene.journal.next_intent == 0


def test_a_write_that_hbase_has_done_is_published_as_applied(scene: Scene) -> None:
    session, _, _ = scene.connect()
    session.data_received(put(b"r"))
    scene.work()
    session.reply_received(OK)
    assert scene.outcomes() == [(b"r", Outcome.APPLIED)]
    assert scene.journal.unsettled == 0


def test_a_write_whose_connection_breaks_is_published_as_unknown(scene: Scene) -> None:
    session, client, _ = scene.connect()
    session.data_received(put(b"r"))
    session.reply_received(OK[:5])
    session.upstream_lost(None)
    assert scene.outcomes() == [(b"r", Outcome.UNKNOWN)]
    assert client.closed


def test_a_request_that_was_not_whole_has_no_effect(scene: Scene) -> None:
    session, _, upstream = scene.connect()
    session.data_received(put(b"r")[:-1])
    session.connection_lost(None)
    assert upstream.taken() == b""
    assert upstream.closed
    assert scene.outcomes() == []


def test_hbase_is_heard_out_about_a_write_whose_client_is_gone(scene: Scene) -> None:
    session, _, upstream = scene.connect()
    session.data_received(put(b"r"))
    session.connection_lost(None)
    assert not upstream.closed
    session.reply_received(OK)
    assert scene.outcomes() == [(b"r", Outcome.APPLIED)]


def test_a_read_whose_client_is_gone_is_given_up(scene: Scene) -> None:
    session, _, upstream = scene.connect()
    session.data_received(get(b"r"))
    session.connection_lost(None)
    assert upstream.closed


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_pipelined_replies_are_given_to_their_own_requests(scene: Scene, size: int) -> None:
    session, client, _ = scene.connect()
    session.data_received(check(b"no") + get(b"x") + put(b"yes") + check(b"neither"))
    answers = FALSE + CELLS + OK + FALSE
    for at in range(0, len(answers), size):
        session.reply_received(answers[at : at + size])
    assert client.taken() == answers
    assert scene.outcomes() == [(b"yes", Outcome.APPLIED)]


def test_a_reply_is_not_walked_before_the_next_request_needs_it(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    session.data_received(get(b"x"))
    session.reply_received(CELLS)
    session.data_received(put(b"r"))
    session.reply_received(answered(upstream, OK))
    assert client.taken() == CELLS + OK
    assert scene.outcomes() == [(b"r", Outcome.APPLIED)]


def test_a_write_in_the_middle_of_a_reply_is_judged_by_its_own(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    session.data_received(get(b"x"))
    session.reply_received(CELLS[:10])
    session.data_received(put(b"r"))
    session.reply_received(CELLS[10:] + answered(upstream, OK))
    session.data_received(put(b"later"))
    session.reply_received(OK)
    assert client.taken() == CELLS + OK + OK
    assert scene.outcomes() == [(b"r", Outcome.APPLIED), (b"later", Outcome.APPLIED)]


def test_an_unreadable_reply_is_passed_and_leaves_the_write_unknown(scene: Scene) -> None:
    session, client, _ = scene.connect()
    session.data_received(put(b"r"))
    session.reply_received(b"\xff" * 40)
    assert client.taken() == b"\xff" * 40
    assert scene.outcomes() == [(b"r", Outcome.UNKNOWN)]


def test_a_reply_known_from_before_counts_for_its_own_request(scene: Scene) -> None:
    session, _, _ = scene.connect()
    for row, answer in ((b"a", OK), (b"b", OK)):
        session.data_received(put(row))
        session.reply_received(answer)
    session.data_received(check(b"c"))
    session.reply_received(FALSE)
    session.data_received(check(b"d"))
    session.reply_received(FALSE)
    session.data_received(put(b"e"))
    session.reply_received(OK)
    assert scene.outcomes() == [
        (b"a", Outcome.APPLIED),
        (b"b", Outcome.APPLIED),
        (b"e", Outcome.APPLIED),
    ]
    assert len(scene.endpoint.replies) == 2


def test_a_reply_that_differs_in_its_sequence_number_alone_is_known(scene: Scene) -> None:
    done = [
        write_message(Transport.BUFFERED, "mutateRow", MessageType.REPLY, n, b"\x00")
        for n in (1, 2)
    ]
    session, _, _ = scene.connect()
    for number, answer in enumerate(done, start=1):
        session.data_received(numbered(put(b"a"), number))
        session.reply_received(answer)
    assert scene.outcomes() == [(b"a", Outcome.APPLIED)] * 2
    assert len(scene.endpoint.replies) == 1


def test_replies_that_say_a_value_take_no_place_from_those_that_come_again(scene: Scene) -> None:
    body = StructWriter().binary(1, b"t").binary(2, b"r").binary(3, b"f:q").i64(4, 1).end()
    increment = call("atomicIncrement", body)
    session, _, _ = scene.connect()
    for number in range(300):
        session.data_received(increment)
        session.reply_received(reply("atomicIncrement", StructWriter().i64(0, number).end()))
    session.data_received(put(b"a"))
    session.reply_received(OK)
    assert scene.endpoint.replies.find(OK) is not None
    assert len(scene.endpoint.replies) == 1


def test_a_reply_like_another_but_for_its_flag_is_not_taken_for_it(scene: Scene) -> None:
    session, _, _ = scene.connect()
    for answer in (TRUE, FALSE, TRUE):
        session.data_received(check(b"c"))
        session.reply_received(answer)
    assert scene.outcomes() == [(b"c", Outcome.APPLIED)] * 2


def test_events_never_claim_that_a_write_still_under_way_stands_before_them(scene: Scene) -> None:
    session, _, _ = scene.connect()
    other, _, _ = scene.connect()
    for row in (b"a", b"b", b"c"):
        session.data_received(put(row))
        session.reply_received(OK)
    scene.work()
    other.data_received(put(b"d"))  # of a known kind: intent 3, not read before its batch
    scene.publisher.mark("t", "a")
    scene.publisher.flush()
    assert scene.recorder.lowest_unfinished("t") == 3
    assert scene.recorder.lowest_unfinished("u") == 4  # what waits is of another table
    other.reply_received(OK)
    scene.work()
    assert scene.recorder.lowest_unfinished("t") == 4


def test_an_unknown_method_is_passed_and_counted(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    request = call("newMethod", StructWriter().binary(9, b"x").end())
    session.data_received(request)
    assert upstream.taken() == request
    session.reply_received(reply("newMethod"))
    session.data_received(get(b"r"))
    assert client.taken() == reply("newMethod")
    assert scene.metrics.requests == {("thrift1", "(unknown)", "answered"): 1}


def read(session: Session, count: int) -> None:
    for _ in range(count):
        session.data_received(get(b"r"))
        session.reply_received(CELLS)


def test_requests_of_a_known_kind_are_counted_as_others_are(scene: Scene) -> None:
    session, _, _ = scene.connect()
    read(session, 5)
    session.data_received(put(b"r"))  # it shows that the client has read the reply before
    scene.metrics.settle()
    assert scene.metrics.reads == {"t": 5}
    assert scene.metrics.column_reads == {("t", "f:q"): 5}
    assert scene.metrics.requests == {("thrift1", "get", "answered"): 5}
    assert scene.metrics.received_bytes == 5 * len(get(b"r")) + len(put(b"r"))
    assert scene.metrics.sent_bytes == 5 * len(CELLS)


def test_requests_of_known_kinds_are_read_while_it_is_not_known_what_hbase_speaks(
    scene: Scene,
) -> None:
    read(scene.connect()[0], 3)
    session, upstream = Session(scene.endpoint), Wire()
    session.connection_made(cast("asyncio.Transport", Wire()))
    session.upstream_made(cast("asyncio.Transport", upstream))
    for _ in range(3):
        session.data_received(get(b"r"))
    assert upstream.taken() == get(b"r") * 3


def test_requests_of_known_kinds_are_counted_by_their_own_methods(scene: Scene) -> None:
    session, _, _ = scene.connect()
    row = call("getRow", StructWriter().binary(1, b"t").binary(2, b"r").end())
    for request in (get(b"r"), row) * 5:
        session.data_received(request)
        session.reply_received(CELLS)
    session.data_received(put(b"r"))
    scene.metrics.settle()
    assert scene.metrics.requests == {
        ("thrift1", "get", "answered"): 5,
        ("thrift1", "getRow", "answered"): 5,
    }


def test_reads_are_counted_by_the_columns_that_they_name_and_whole_rows_by_none(
    scene: Scene,
) -> None:
    session, _, _ = scene.connect()
    rows = call("getRow", StructWriter().binary(1, b"t").binary(2, b"r").end())
    both = StructWriter().binary(1, b"u").binary(2, b"r").binaries(3, [b"f:a", b"g", b"f:a"]).end()
    about = call("getColumnDescriptors", StructWriter().binary(1, b"t").end())
    for _ in range(3):
        for request in (rows, call("getRowWithColumns", both), about, put(b"r")):
            session.data_received(request)
            session.reply_received(reply("any"))
    scene.metrics.settle()
    assert scene.metrics.reads == {"t": 6, "u": 3}
    assert scene.metrics.column_reads == {("t", ""): 3, ("u", "f:a"): 3, ("u", "g:"): 3}


def times(scene: Scene) -> dict[str, int]:
    """How many times of each kind are counted."""
    scene.metrics.settle()
    timings = scene.metrics.timings["thrift1"]
    return {"added": sum(timings.added.counts), "upstream": sum(timings.upstream.counts)}


def test_a_few_requests_are_timed_one_by_one(scene: Scene) -> None:
    session, _, _ = scene.connect()
    for rounds in range(1, 4):
        read(session, 100)
        assert times(scene) == {"added": 200 * rounds, "upstream": 100 * rounds}


def test_what_is_timed_are_seconds_that_have_passed(scene: Scene) -> None:
    session, _, upstream = scene.connect()
    begun = perf_counter()
    read(session, 5)
    for _ in range(5):
        session.data_received(put(b"r"))
        session.reply_received(answered(upstream, OK))
    session.data_received(get(b"r") + get(b"s"))
    session.reply_received(CELLS * 2)
    passed = perf_counter() - begun
    timings = scene.metrics.timings["thrift1"]
    assert all(0 <= each <= passed for each in (*timings.added.new, *timings.upstream.new))
    assert 0 < timings.added.total <= passed


def test_of_many_requests_one_in_eight_is_timed_and_counts_for_eight(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    read(session, 200)
    assert times(scene) == {"added": 400, "upstream": 200}
    read(session, 400)
    timings = scene.metrics.timings["thrift1"]
    assert len(timings.upstream.thinned) == 50
    assert times(scene) == {"added": 1200, "upstream": 600}
    for _ in range(800):
        session.data_received(put(b"r"))
        session.reply_received(answered(upstream, OK))
    assert 1400 - 16 <= times(scene)["upstream"] <= 1400 + 16
    read(session, 5)  # fewer than eight, so that none of them need be
    times(scene)
    before = times(scene)["upstream"]
    read(session, 10)
    assert times(scene)["upstream"] == before + 10
    assert scene.metrics.requests["thrift1", "get", "answered"] >= 614
    assert len(scene.outcomes()) == 800
    assert len(client.taken()) == 615 * len(CELLS) + 800 * len(OK)


def test_what_waits_for_hbase_tells_since_when_however_many_there_are(scene: Scene) -> None:
    session, _, _ = scene.connect()
    read(session, 200)
    scene.metrics.settle()
    begun = perf_counter()
    read(session, 8)
    session.data_received(get(b"r"))
    since = session.waits_since()
    assert since is not None
    assert begun <= since <= perf_counter()


def test_reads_of_a_known_kind_may_be_sent_ahead(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    read(session, 3)
    session.data_received(get(b"1"))
    session.data_received(get(b"2"))
    session.data_received(put(b"3"))
    sent = upstream.data[:]
    session.reply_received(answered(upstream, CELLS, CELLS, OK))
    assert client.taken() == CELLS * 5 + OK
    assert sent.startswith(get(b"r") * 3 + get(b"1") + get(b"2"))
    assert len(sent) == len(get(b"r") * 3 + get(b"1") + get(b"2") + put(b"3"))
    assert scene.outcomes() == [(b"3", Outcome.APPLIED)]
    scene.metrics.settle()
    assert scene.metrics.reads == {"t": 5}
    assert scene.metrics.requests["thrift1", "get", "answered"] == 5


def test_a_read_of_a_known_kind_in_the_middle_of_a_reply_leaves_later_writes_sure(
    scene: Scene,
) -> None:
    session, client, upstream = scene.connect()
    read(session, 3)
    session.data_received(get(b"r"))
    session.reply_received(CELLS[:10])
    session.data_received(get(b"r"))
    session.reply_received(CELLS[10:] + CELLS)
    session.data_received(put(b"later"))
    session.reply_received(answered(upstream, OK))
    assert client.taken() == CELLS * 5 + OK
    assert scene.outcomes() == [(b"later", Outcome.APPLIED)]


def test_writes_of_one_row_by_two_clients_at_once_are_ambiguous(scene: Scene) -> None:
    first, second = scene.connect()[0], scene.connect()[0]
    first.data_received(put(b"same"))
    second.data_received(put(b"same"))
    first.reply_received(OK)
    second.reply_received(OK)
    batches = [m for m in scene.log() if isinstance(m, UpdateBatch)]
    assert [part.ambiguous for batch in batches for part in batch.requests] == [(0,), (0,)]


def test_a_broken_connection_is_logged_with_the_requests_under_way(scene: Scene) -> None:
    scene.watch("t")
    session, _, _ = scene.connect()
    session.data_received(put(b"r") + get(b"x", b"other"))
    with capture_logs() as lines:
        session.upstream_lost(None)
    (line,) = lines
    assert (line["connection"], line["client"]) == (1, "10.1.2.3:4567")
    assert (line["requests"], line["methods"]) == (2, ["get", "mutateRow"])
    assert line["tables"] == ["other", "t"]
    assert line["intents"] == [0]


def test_a_connection_that_ends_behind_its_client_is_not_worth_a_line(scene: Scene) -> None:
    session, _, _ = scene.connect()
    session.data_received(put(b"r"))
    session.connection_lost(None)
    with capture_logs() as lines:
        session.upstream_lost(None)
    assert lines == []


def test_a_write_that_cannot_be_read_is_logged_with_its_connection(scene: Scene) -> None:
    session, _, _ = scene.connect()
    no_mutations = StructWriter().binary(1, b"t").binary(2, b"r").binary(3, b"no list").end()
    with capture_logs() as lines:
        session.data_received(call("mutateRow", no_mutations))
    (line,) = lines
    assert scene.metrics.decode_errors == 1
    assert (line["event"], line["method"]) == ("a request cannot be read", "mutateRow")
    assert (line["connection"], line["client"]) == (1, "10.1.2.3:4567")


def test_after_a_broken_write_its_row_stays_ambiguous_for_a_while(scene: Scene) -> None:
    first, second = scene.connect()[0], scene.connect()[0]
    first.data_received(put(b"same"))
    first.upstream_lost(None)
    scene.work()
    second.data_received(put(b"same"))
    second.reply_received(OK)
    (applied,) = [
        part
        for batch in scene.log()
        if isinstance(batch, UpdateBatch)
        for part in batch.requests
        if part.outcome is Outcome.APPLIED
    ]
    assert applied.ambiguous == (0,)


def test_a_broken_write_may_take_effect_as_long_as_hbase_tries(scene: Scene) -> None:
    first, second = scene.connect()[0], scene.connect()[0]
    first.data_received(put(b"same"))
    first.upstream_lost(None)
    scene.work()
    timers = scene.bench.timers
    assert max(seconds for seconds, _ in timers.waiting) == 60.0  # hbase.rpc.timeout
    timers.run()
    second.data_received(put(b"same"))
    second.reply_received(OK)
    parts = [part for each in scene.log() for part in each.requests]
    assert [(part.outcome, part.ambiguous) for part in parts] == [
        (Outcome.UNKNOWN, ()),
        (Outcome.APPLIED, ()),
    ]


def test_each_write_is_counted_once_by_what_became_of_it(scene: Scene) -> None:
    session, _, _ = scene.connect()
    for request, answer in ((put(b"r"), OK), (check(b"r"), FALSE), (put(b"s"), FAILED)):
        session.data_received(request)
        session.reply_received(answer)
    scene.work()
    assert scene.metrics.requests == {
        ("thrift1", "mutateRow", "applied"): 1,
        ("thrift1", "checkAndPut", "nothing"): 1,
        ("thrift1", "mutateRow", "unknown"): 1,
    }
    assert scene.metrics.events == {"applied": 1, "nothing": 1, "unknown": 1}


def test_after_its_end_a_session_takes_nothing_more(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    session.close()
    assert client.closed
    session.data_received(put(b"r"))
    assert upstream.taken() == b""
    assert scene.journal.unsettled == 0


def test_the_observers_introduction_is_what_its_call_returns(scene: Scene) -> None:
    scene.endpoint.identification = b"an observer"
    session, client, upstream = scene.connect()
    session.data_received(call("headgate.identify", b"\0"))
    (answer,) = messages(client.taken())
    body = StructWriter().binary(0, b"an observer").end()
    assert answer == call("headgate.identify", body, MessageType.REPLY)
    assert upstream.taken() == b""
