"""Writes while the journal is full."""

from __future__ import annotations

from scene import Scene, get, put
from structlog.testing import capture_logs

from headgate.events import Gap


def test_a_write_waits_for_room_and_goes_on(blocking: Scene) -> None:
    session, client, upstream = blocking.connect()
    session.data_received(put(b"r") + get(b"x"))
    assert upstream.taken() == b""
    assert client.paused
    blocking.bench.producer.deliver_all()
    blocking.journal.save_watermark()
    blocking.admission.tend()
    assert upstream.taken() == put(b"r") + get(b"x")
    assert not client.paused


def test_a_write_that_waits_for_room_is_logged_with_its_table(blocking: Scene) -> None:
    session, _, _ = blocking.connect()
    with capture_logs() as lines:
        session.data_received(put(b"r"))
    assert ("a write waits for room in the journal", "t") in [
        (line["event"], line.get("table")) for line in lines
    ]


def test_a_write_that_waits_too_long_gets_an_error_that_may_be_retried(blocking: Scene) -> None:
    session, client, upstream = blocking.connect()
    session.data_received(put(b"r"))
    blocking.now += 4.9
    blocking.admission.tend()
    assert client.taken() == b""
    blocking.now += 0.2
    blocking.admission.tend()
    assert b"journal is full" in client.taken()
    assert upstream.taken() == b""
    session.data_received(get(b"x"))
    assert upstream.taken() == get(b"x")


def test_reads_go_on_while_writes_wait(blocking: Scene) -> None:
    blocking.connect()[0].data_received(put(b"r"))
    session, _, upstream = blocking.connect()
    session.data_received(get(b"x"))
    assert upstream.taken() == get(b"x")


def test_a_client_that_leaves_while_it_waits_is_forgotten(blocking: Scene) -> None:
    session, _, upstream = blocking.connect()
    session.data_received(put(b"r"))
    session.connection_lost(None)
    blocking.bench.producer.deliver_all()
    blocking.journal.save_watermark()
    blocking.admission.tend()
    assert upstream.taken() == b""


def test_with_pass_writes_go_on_and_the_gap_is_announced(passing: Scene) -> None:
    session, _, upstream = passing.connect()
    passing.now = 200.0
    session.data_received(put(b"r"))
    assert upstream.taken() == put(b"r")
    assert passing.admission.passed == 1
    passing.bench.producer.deliver_all()
    passing.journal.save_watermark()
    passing.now = 300.0
    passing.admission.tend()
    gaps = [message for message in passing.log() if isinstance(message, Gap)]
    assert [(gap.table, gap.since, gap.until) for gap in gaps] == [("t", 200.0, 300.0)]


def test_a_write_that_passes_after_the_gap_was_announced_is_announced_too(
    passing: Scene,
) -> None:
    passing.now = 200.0
    passing.connect()[0].data_received(put(b"r"))
    passing.bench.producer.deliver_all()
    passing.journal.save_watermark()
    passing.now = 300.0
    passing.admission.tend()
    passing.admission.let_pass(("t",))
    passing.log()
    passing.now = 400.0
    passing.admission.tend()
    gaps = [message for message in passing.log() if isinstance(message, Gap)]
    assert [(gap.since, gap.until) for gap in gaps] == [(200.0, 300.0), (200.0, 400.0)]
    passing.admission.tend()
    assert not passing.admission.gaps_open


def test_a_gap_stays_open_until_kafka_has_it(passing: Scene) -> None:
    passing.connect()[0].data_received(put(b"r"))
    assert passing.admission.reasons == ("the journal has no room: writes pass without events",)
    passing.bench.producer.deliver_all()
    passing.journal.save_watermark()
    passing.admission.tend()
    assert passing.admission.reasons == ()
    passing.work()
    passing.admission.tend()
    assert passing.admission.gaps_open, "it waits for Kafka"
    (gap,) = [message for message in passing.log() if isinstance(message, Gap)]
    assert "the journal was full" in gap.reason
    passing.admission.tend()
    assert not passing.admission.gaps_open


def test_the_next_gap_is_announced_like_the_first(passing: Scene) -> None:
    passing.bench.producer.deliver_all()
    passing.journal.save_watermark()
    for begin in (200.0, 400.0):
        passing.now = begin
        passing.admission.let_pass(("t",))
        passing.admission.tend()
        passing.log()
        passing.now = begin + 100
        passing.admission.tend()
        assert not passing.admission.gaps_open
    gaps = [message for message in passing.log() if isinstance(message, Gap)]
    assert [gap.since for gap in gaps] == [200.0, 400.0]


def test_once_a_gap_is_over_it_is_written_down_no_more(passing: Scene, monkeypatch) -> None:
    passing.admission.let_pass(("t",))
    passing.bench.producer.deliver_all()
    passing.journal.save_watermark()
    passing.admission.tend()
    passing.log()
    saved: list[dict[str, float]] = []
    monkeypatch.setattr(passing.journal, "save_gaps", lambda gaps: saved.append(dict(gaps)))
    for _ in range(3):
        passing.admission.tend()
    assert saved == [{}]


def test_how_many_writes_wait_is_told(blocking: Scene) -> None:
    sessions = [blocking.connect()[0] for _ in range(3)]
    for session in sessions:
        session.data_received(put(b"r"))
    assert blocking.admission.reasons == ("the journal has no room: 3 writes wait",)
    sessions[0].connection_lost(None)
    assert blocking.admission.reasons == ("the journal has no room: 2 writes wait",)


def test_at_the_end_what_waits_gets_an_error_that_may_be_retried(blocking: Scene) -> None:
    """Whoever is cut off instead cannot know whether the write was done."""
    session, client, upstream = blocking.connect()
    other, other_client, _ = blocking.connect()
    session.data_received(put(b"r") + put(b"s") + get(b"x"))
    other.data_received(put(b"t"))
    session.drain()
    blocking.admission.turn_all_away()
    assert client.taken().count(b"the observer ends") == 2
    assert other_client.taken().count(b"the observer ends") == 1
    assert upstream.taken() == get(b"x")
    assert blocking.admission.blocked == 3


def test_at_the_end_what_has_room_by_now_goes_on(blocking: Scene) -> None:
    session, client, upstream = blocking.connect()
    session.data_received(put(b"r"))
    blocking.bench.producer.deliver_all()
    blocking.journal.save_watermark()
    blocking.admission.turn_all_away()
    assert upstream.taken() == put(b"r")
    assert client.taken() == b""
