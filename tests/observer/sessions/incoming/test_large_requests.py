"""Large requests are walked and read in parts; other connections have turns between them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from scene import CELLS, OK, Scene, barrier, get, kinds, put, reply

from headgate.events import BarrierMark, Outcome, UpdateBatch, Watch, WatchList
from headgate.observer.publishing.ended import EndedWrite
from headgate.observer.recording.journal import Journal
from headgate.observer.recording.recovery import recovered
from headgate.observer.sessions.session import Session
from headgate.wire import MessageReader, MessageType, StructWriter, Transport, write_message

PART = 300
DONE = reply("mutateRows")


def row(number: int) -> bytes:
    """Return a row that is like none beside it."""
    values = [
        StructWriter().binary(2, b"f:%d" % each).binary(3, b"v" * (each + number % 5)).end()
        for each in range(1 + number % 3)
    ]
    return StructWriter().binary(1, b"row%d" % number).structs(2, values).end()


def batch(rows: list[bytes], transport: Transport = Transport.BUFFERED) -> bytes:
    body = StructWriter().binary(1, b"t").structs(2, rows).end()
    return write_message(transport, "mutateRows", MessageType.CALL, 0, body)


LARGE = batch([row(number) for number in range(60)])
ROWS = [b"row%d" % number for number in range(60) for _ in range(1 + number % 3)]


@pytest.fixture
def parted(scene: Scene) -> Scene:
    """A scene of small parts."""
    scene.endpoint.max_bytes_per_turn = PART
    return scene


def finish(scene: Scene) -> int:
    """Let the loop come round until nothing is due; return how often it did."""
    turns = 0
    while scene.turn():
        turns += 1
    return turns


def published(scene: Scene) -> list[bytes]:
    return [each for sent in scene.log() if isinstance(sent, UpdateBatch) for each in sent.rows]


def at_half(scene: Scene, session: Session, request: bytes = LARGE) -> None:
    """Give a request, and stop where it is walked and half of it is read."""
    session.data_received(request)
    while session._intake.reading is None:
        assert scene.turn()
    scene.turn()
    scene.turn()
    assert session._intake.reading is not None


@pytest.mark.parametrize("transport", list(Transport))
def test_each_turn_walks_and_reads_no_more_than_a_part(parted: Scene, transport: Transport) -> None:
    session, _, upstream = parted.connect()
    request = batch([row(number) for number in range(60)], transport)
    longest = max(len(row(number)) for number in range(60))
    session.data_received(request)
    walked = finish_counting(parted, lambda: session._intake.reading is None)
    reading = session._intake.reading
    assert reading is not None
    places = []
    while session._intake.reading is not None:
        places.append(reading._cursor.pos)
        assert upstream.taken() == b""
        parted.turn()
    assert walked >= len(request) // (PART + longest)
    steps = [after - before for before, after in pairwise(places)]
    assert len(steps) >= len(request) // (PART + longest) - 2
    assert max(steps) < PART + longest
    assert upstream.taken() == request


def finish_counting(scene: Scene, condition: Callable[[], bool]) -> int:
    turns = 0
    while condition():
        assert scene.turn()
        turns += 1
    return turns


def test_a_large_request_is_recorded_and_answered_as_a_small_one(parted: Scene) -> None:
    session, client, upstream = parted.connect()
    session.data_received(LARGE)
    finish(parted)
    assert upstream.taken() == LARGE
    session.reply_received(DONE)
    assert client.taken() == DONE
    assert published(parted) == ROWS
    assert parted.journal.unsettled == 0


def test_another_connection_is_served_between_parts(parted: Scene) -> None:
    session, _, slow = parted.connect()
    other, _, upstream = parted.connect()
    at_half(parted, session)
    other.data_received(put(b"quick"))
    assert upstream.taken() == put(b"quick")
    assert slow.taken() == b""


def test_what_comes_behind_a_large_request_stays_behind_it(parted: Scene) -> None:
    session, _, upstream = parted.connect()
    session.data_received(get(b"x"))
    session.reply_received(CELLS)
    session.data_received(get(b"x"))
    session.reply_received(CELLS)
    upstream.taken()
    other = LARGE.replace(b"\x00\x00\x00\x01t", b"\x00\x00\x00\x01u", 1)
    at_half(parted, session, other)
    session.data_received(get(b"y") + put(b"z", b"u"))
    session.data_received(get(b"x"))
    assert upstream.taken() == b""
    finish(parted)
    assert upstream.taken() == other + get(b"y") + put(b"z", b"u") + get(b"x")


def test_a_table_that_is_watched_while_its_batch_is_read_has_its_events(parted: Scene) -> None:
    session, _, _ = parted.connect()
    parted.control.apply(WatchList(1, "d", 2, ()), "o")
    at_half(parted, session)
    parted.control.apply(WatchList(1, "d", 3, (Watch("t"),)), "o")
    finish(parted)
    assert parted.journal.unsettled == 1
    session.reply_received(DONE)
    assert published(parted) == ROWS


def test_a_table_that_is_left_while_its_batch_is_read_has_none(parted: Scene) -> None:
    session, _, upstream = parted.connect()
    at_half(parted, session)
    parted.control.apply(WatchList(1, "d", 2, ()), "o")
    finish(parted)
    assert upstream.taken() == LARGE
    assert parted.journal.next_intent == 0


def test_a_barrier_does_not_wait_for_a_batch_that_is_read_and_comes_before_it(
    parted: Scene,
) -> None:
    session, _, _ = parted.connect()
    at_half(parted, session)
    barrier(parted, "t")
    parted.work()
    finish(parted)
    session.reply_received(DONE)
    assert kinds(parted) == ["BarrierMark", "UpdateBatch"]


def test_a_barrier_waits_for_a_batch_that_was_read_before_it(parted: Scene) -> None:
    session, _, _ = parted.connect()
    session.data_received(LARGE)
    finish(parted)
    barrier(parted, "t")
    parted.work()
    session.reply_received(DONE)
    assert kinds(parted) == ["UpdateBatch", "BarrierMark"]


def test_a_client_that_goes_while_its_batch_is_read_has_written_nothing(parted: Scene) -> None:
    session, _, upstream = parted.connect()
    at_half(parted, session)
    session.connection_lost(None)
    finish(parted)
    assert upstream.taken() == b""
    assert upstream.closed
    assert parted.journal.next_intent == 0


def test_a_client_that_goes_while_its_batch_is_walked_has_written_nothing(parted: Scene) -> None:
    session, _, upstream = parted.connect()
    session.data_received(LARGE)
    parted.turn()
    session.connection_lost(None)
    finish(parted)
    assert upstream.taken() == b""
    assert parted.journal.next_intent == 0


@pytest.mark.parametrize("turns", [1, 20])
def test_a_client_that_ends_its_requests_has_its_batch_forwarded_before(
    parted: Scene, turns: int
) -> None:
    session, client, upstream = parted.connect()
    session.data_received(LARGE)
    for _ in range(turns):
        parted.turn()
    session.eof_received()
    assert not upstream.ended
    finish(parted)
    assert upstream.taken() == LARGE
    assert upstream.ended
    session.reply_received(DONE)
    assert client.taken() == DONE
    assert published(parted) == ROWS


def test_a_session_that_reads_a_batch_is_not_quiet(parted: Scene) -> None:
    session, client, _ = parted.connect()
    session.data_received(LARGE)
    assert not session.quiet()
    at_half(parted, session, b"")
    assert not session.quiet()
    session.drain()
    assert not client.closed
    finish(parted)
    session.reply_received(DONE)
    assert published(parted) == ROWS


def test_a_batch_that_is_closed_while_it_is_read_is_not_forwarded(parted: Scene) -> None:
    session, _, upstream = parted.connect()
    at_half(parted, session)
    session.abort()
    finish(parted)
    assert upstream.taken() == b""
    assert parted.journal.next_intent == 0


def test_a_row_that_could_be_read_in_two_ways_refuses_the_whole_batch(parted: Scene) -> None:
    session, client, upstream = parted.connect()
    twice = StructWriter().binary(1, b"a").binary(1, b"b").structs(2, []).end()
    session.data_received(batch([*[row(number) for number in range(60)], twice]) + put(b"r"))
    finish(parted)
    reader = MessageReader(transport=Transport.BUFFERED)
    reader.feed(client.taken())
    answer = reader.next_message()
    assert answer is not None
    assert answer.type is MessageType.EXCEPTION
    assert upstream.taken() == put(b"r")
    session.reply_received(OK)
    assert parted.outcomes() == [(b"r", Outcome.APPLIED)]
    assert session.quiet()


def test_a_framed_batch_with_bytes_behind_its_message_is_refused(parted: Scene) -> None:
    session, client, upstream = parted.connect()
    whole = batch([row(number) for number in range(60)], Transport.FRAMED) + b"\x00"
    session.data_received((len(whole) - 4).to_bytes(4) + whole[4:])
    finish(parted)
    assert upstream.taken() == b""
    assert client.closed


# -- its events are made in parts, too


def begun(scene: Scene, session: Session) -> None:
    """Let a large request be done, and stop where some of its events are made."""
    scene.publisher.part_cells = 10
    session.data_received(LARGE)
    finish(scene)
    session.reply_received(DONE)
    scene.work()
    assert not scene.publisher.idle
    assert not scene.bench.producer.sent


def delivered(scene: Scene) -> list[object]:
    """Let the loop come round until all is made and delivered; return what Kafka has."""
    while not scene.publisher.idle:
        scene.work()
        scene.bench.timers.run()
        scene.bench.producer.deliver_all()
    found: list[object] = scene.bench.producer.log(0)
    return found


def rows_of(log: list[object]) -> list[bytes]:
    return [row for message in log if isinstance(message, UpdateBatch) for row in message.rows]


def test_a_barrier_in_the_middle_of_its_events_comes_behind_all_of_them(parted: Scene) -> None:
    session, _, _ = parted.connect()
    begun(parted, session)
    barrier(parted, "t")
    session.data_received(put(b"row7"))
    session.reply_received(OK)
    log = delivered(parted)
    (place,) = [at for at, message in enumerate(log) if isinstance(message, BarrierMark)]
    assert rows_of(log[:place]) == ROWS
    assert rows_of(log[place:]) == [b"row7"]
    assert parted.journal.unsettled == 0


def test_another_write_of_a_row_comes_behind_the_events_that_are_made(parted: Scene) -> None:
    session, _, _ = parted.connect()
    other, _, _ = parted.connect()
    begun(parted, session)
    other.data_received(put(b"row59"))
    other.reply_received(OK)
    session.data_received(LARGE)
    finish(parted)
    session.reply_received(DONE)
    assert rows_of(delivered(parted)) == [*ROWS, b"row59", *ROWS]
    assert parted.journal.unsettled == 0


@pytest.mark.parametrize("end", ["client", "upstream", "drain"])
def test_its_events_are_made_though_its_connection_ends(parted: Scene, end: str) -> None:
    session, _, _ = parted.connect()
    begun(parted, session)
    if end == "client":
        session.connection_lost(None)
    elif end == "upstream":
        session.upstream_lost(None)
    else:
        session.drain()
    assert rows_of(delivered(parted)) == ROWS
    assert parted.journal.unsettled == 0


@pytest.mark.parametrize("turns", range(0, 13, 3))
def test_a_crash_in_the_middle_of_its_events_loses_none(parted: Scene, turns: int) -> None:
    session, _, _ = parted.connect()
    begun(parted, session)
    other, _, _ = parted.connect()
    other.data_received(put(b"other"))
    other.reply_received(OK)
    for _ in range(turns):
        parted.work()
        parted.bench.producer.deliver_all()
    there = rows_of(parted.bench.producer.log(0))
    parted.journal.close()
    again = Journal(parted.directory, limit_bytes=1 << 20, segment_bytes=1 << 16)
    left = []
    for epoch in again.open_epochs():
        for intent in (each for part in epoch.parts() for each in part.intents()):
            found = recovered(intent)
            assert isinstance(found, list)
            left += [
                row for _, ended in found if isinstance(ended, EndedWrite) for row in ended.rows
            ]
    assert left in ([*ROWS, b"other"], [b"other"], [])
    assert set(there) | set(left) >= {*ROWS, b"other"}
    again.close()
