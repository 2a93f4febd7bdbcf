from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from headgate.events import (
    ORIGIN_ATTRIBUTE,
    BarrierMark,
    BarrierRequest,
    Container,
    ContainerId,
    Fence,
    Gap,
    Gate,
    Item,
    Notify,
    Origin,
    Outcome,
    UpdateBatch,
    Watch,
    WatchList,
    encode_origin,
)
from headgate.hbase import Dialect
from headgate.observer.admission import Admission
from headgate.observer.barriers import answer_barrier
from headgate.observer.config import Fsync, HealthChecks, WhenFull
from headgate.observer.config import Journal as JournalConfig
from headgate.observer.control import ControlState
from headgate.observer.dialing import Dialer
from headgate.observer.endpoint import Endpoint
from headgate.observer.gates import Gates
from headgate.observer.journal import Journal
from headgate.observer.metrics import Metrics
from headgate.observer.notify import NotifyColumns
from headgate.observer.recorder import Recorder
from headgate.observer.session import Session
from headgate.observer.upstreams import UpstreamPool
from headgate.wire import (
    Limits,
    MessageReader,
    MessageType,
    StructWriter,
    Transport,
    write_message,
)


class Wire:
    """A transport whose other end is the test."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.paused = False
        self.closed = False
        self.ended = False
        self.left = False
        self.on_write: Callable[[bytes], None] | None = None

    def write(self, data: bytes) -> None:
        if self.on_write is not None:
            self.on_write(bytes(data))
        self.data += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def get_extra_info(self, name: str) -> object:
        return ("10.1.2.3", 4567) if name == "peername" else None

    def taken(self) -> bytes:
        data = bytes(self.data)
        self.data.clear()
        return data


class Scene:
    """Sessions of one endpoint over a real journal and a scripted producer."""

    def __init__(
        self, directory: Path, bench: Any, dialect: Dialect, config: JournalConfig
    ) -> None:
        self.bench = bench
        self.now = 100.0
        self.journal = Journal(
            directory, limit_bytes=config.limit_bytes, segment_bytes=config.segment_bytes
        )
        self.publisher = bench.publisher
        self.metrics = Metrics()
        self.notify = NotifyColumns(limit_bytes=5000, clock=lambda: self.now)
        self.control = ControlState(self.notify)
        self.pending: list[Callable[[], None]] = []
        self.recorder = Recorder(
            journal=self.journal,
            publisher=self.publisher,
            metrics=self.metrics,
            clock=lambda: self.now,
            soon=self.pending.append,
            later=bench.timers.later,
        )
        self.publisher._deliveries._settle = self.journal.settle
        self.publisher._unfinished = self.recorder.lowest_unfinished
        self.admission = Admission(self.journal, self.publisher, config, clock=lambda: self.now)
        loop = cast("asyncio.AbstractEventLoop", self)
        self.gates = Gates(hold_seconds=5.0, clock=lambda: self.now)
        self.endpoint = Endpoint(
            loop=loop,
            dialect=dialect,
            dialer=Dialer(loop, UpstreamPool("thrift1", ("127.0.0.1:1",), HealthChecks()), 1.0),
            limits=Limits(max_frame=10_000, max_string=10_000),
            control=self.control,
            recorder=self.recorder,
            admission=self.admission,
            gates=self.gates,
            notify=self.notify,
            metrics=self.metrics,
            left=lambda wire: cast("Wire", wire).left,
        )
        self.watch("t")

    def call_later(self, seconds: float, call: Callable[[], None]) -> Any:
        self.bench.timers.later(seconds, call)
        return self

    def cancel(self) -> None:
        """The scene is its own timer handle."""

    def watch(self, *tables: str) -> None:
        self.control.apply(WatchList(1, "d", 1, tuple(Watch(table) for table in tables)), "o")
        for table in tables:
            self.publisher.prepare(table, values=True)
            self.publisher.topic_ready(table, 1)

    def connect(self) -> tuple[Session, Wire, Wire]:
        session, client, upstream = Session(self.endpoint), Wire(), Wire()
        session.connection_made(cast("asyncio.Transport", client))
        session.upstream_made(cast("asyncio.Transport", upstream))
        session.upstream_settled(cast("asyncio.Transport", upstream))
        return session, client, upstream

    def work(self) -> None:
        """Let the loop come round: backlog, then the publisher's linger."""
        while self.pending:
            self.pending.pop(0)()
        self.publisher.flush()

    def log(self) -> list[Any]:
        """Everything that Kafka has."""
        self.work()
        self.bench.producer.deliver_all()
        return self.bench.producer.log(0)

    def outcomes(self) -> list[tuple[bytes, Outcome]]:
        """The first row and the outcome of every request that was published."""
        found = []
        for batch in self.log():
            if isinstance(batch, UpdateBatch):
                rows = iter(batch.rows)
                for part in batch.requests:
                    found.append((next(rows), part.outcome))
                    assert part.cells == 1
        return found


@pytest.fixture
def scene(tmp_path: Path, make_bench) -> Scene:
    return Scene(tmp_path, make_bench(), Dialect.THRIFT1, JournalConfig(str(tmp_path)))


def call(name: str, body: bytes, kind: MessageType = MessageType.CALL) -> bytes:
    return write_message(Transport.BUFFERED, name, kind, 0, body)


def put(row: bytes, table: bytes = b"t", kind: MessageType = MessageType.CALL) -> bytes:
    mutation = StructWriter().binary(2, b"f:q").binary(3, b"v").end()
    body = StructWriter().binary(1, table).binary(2, row).structs(3, [mutation]).end()
    return call("mutateRow", body, kind)


def check(row: bytes) -> bytes:
    mutation = StructWriter().binary(2, b"f:q").binary(3, b"v").end()
    writer = StructWriter().binary(1, b"t").binary(2, row).binary(3, b"f:q").binary(5, b"e")
    return call("checkAndPut", writer.struct(6, mutation).end())


def get(row: bytes, table: bytes = b"t") -> bytes:
    body = StructWriter().binary(1, table).binary(2, row).binary(3, b"f:q").end()
    return call("get", body)


def reply(name: str, body: bytes = b"\x00") -> bytes:
    return call(name, body, MessageType.REPLY)


OK = reply("mutateRow")
TRUE = reply("checkAndPut", StructWriter().bool(0, True).end())
FALSE = reply("checkAndPut", StructWriter().bool(0, False).end())
CELLS = reply("get", StructWriter().structs(0, []).end())


def test_bytes_go_on_and_come_back_as_they_are_however_they_are_cut(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    requests = get(b"a") + put(b"b") + call("noSuchMethod", b"\x00")
    for request, answer in ((get(b"a"), CELLS), (put(b"b"), OK)):
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
    session, client, _ = scene.connect()
    session.data_received(get(b"x"))
    session.reply_received(CELLS)
    session.data_received(put(b"r"))
    session.reply_received(OK)
    assert client.taken() == CELLS + OK
    assert scene.outcomes() == [(b"r", Outcome.APPLIED)]


def test_a_request_in_the_middle_of_a_reply_is_passed_and_ends_unknown(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    session.data_received(get(b"x"))
    session.reply_received(CELLS[:10])
    session.data_received(put(b"r"))
    assert upstream.taken() == get(b"x") + put(b"r")
    session.reply_received(CELLS[10:] + OK)
    session.data_received(put(b"later"))
    session.reply_received(OK)
    assert client.taken() == CELLS + OK + OK
    assert scene.outcomes() == [(b"r", Outcome.UNKNOWN), (b"later", Outcome.UNKNOWN)]
    assert not client.closed


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
    for reply in done:
        session.data_received(put(b"a"))
        session.reply_received(reply)
    assert scene.outcomes() == [(b"a", Outcome.APPLIED)] * 2
    assert len(scene.endpoint.replies) == 1


def test_a_reply_like_another_but_for_its_flag_is_not_taken_for_it(scene: Scene) -> None:
    session, _, _ = scene.connect()
    for reply in (TRUE, FALSE, TRUE):
        session.data_received(check(b"c"))
        session.reply_received(reply)
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
    other.reply_received(OK)
    scene.work()
    assert scene.recorder.lowest_unfinished("t") == 4


def test_a_oneway_write_is_unknown_and_waits_for_no_reply(scene: Scene) -> None:
    session, client, _ = scene.connect()
    session.data_received(put(b"one", kind=MessageType.ONEWAY) + get(b"x"))
    session.reply_received(CELLS)
    assert client.taken() == CELLS
    assert scene.outcomes() == [(b"one", Outcome.UNKNOWN)]


def test_frames_whose_contents_end_too_early_are_passed_however_often_they_come(
    scene: Scene,
) -> None:
    whole = StructWriter().binary(1, b"t").binary(2, b"r").structs(3, [b"\x0b\x00\x01"] * 2).end()
    broken = write_message(Transport.FRAMED, "mutateRow", MessageType.CALL, 1, whole[:-4])
    session, client, upstream = scene.connect()
    for _ in range(4):
        session.data_received(broken)
    assert upstream.taken() == broken * 4
    assert not client.closed


def test_an_unknown_method_is_passed_and_counted(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    request = call("newMethod", StructWriter().binary(9, b"x").end())
    session.data_received(request)
    assert upstream.taken() == request
    session.reply_received(reply("newMethod"))
    session.data_received(get(b"r"))
    assert client.taken() == reply("newMethod")
    assert scene.metrics.requests == {("thrift1", "(unknown)", "answered"): 1}


def test_a_write_that_cannot_be_decoded_leaves_a_gap(scene: Scene) -> None:
    session, _, upstream = scene.connect()
    request = call("mutateRow", StructWriter().binary(1, b"t").end())
    session.data_received(request)
    assert upstream.taken() == request
    session.reply_received(OK)
    (gap,) = scene.log()
    assert isinstance(gap, Gap)
    assert gap.table == "t"
    assert scene.metrics.decode_errors == 1
    assert scene.journal.unsettled == 0


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


def test_a_write_that_cannot_be_decoded_is_logged_with_its_intent_and_connection(
    scene: Scene,
) -> None:
    scene.watch("t")
    session, _, _ = scene.connect()
    no_mutations = StructWriter().binary(1, b"t").binary(2, b"r").binary(3, b"no list").end()
    with capture_logs() as lines:
        session.data_received(call("mutateRow", no_mutations))
        scene.work()
    (line,) = lines
    assert line["event"] == "a write could not be decoded"
    assert (line["method"], line["table"], line["intent"]) == ("mutateRow", "t", 0)
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


# -- refusals


@pytest.fixture
def second(tmp_path: Path, make_bench) -> Scene:
    return Scene(tmp_path, make_bench(), Dialect.THRIFT2, JournalConfig(str(tmp_path)))


def put2(row: bytes, token: int) -> bytes:
    origin = encode_origin(Origin("flow", "step", "run-7", token))
    value = StructWriter().binary(1, b"f").binary(2, b"q").binary(3, b"v").end()
    writer = StructWriter().binary(1, row).structs(2, [value])
    one = writer.mapping(5, {ORIGIN_ATTRIBUTE: origin}).end()
    return call("put", StructWriter().binary(1, b"t").struct(2, one).end())


def test_a_write_below_the_fence_is_refused_and_never_forwarded(second: Scene) -> None:
    second.control.apply(Fence(1, "flow", "step", 2), "o")
    session, client, upstream = second.connect()
    session.data_received(put2(b"old", 1))
    assert upstream.taken() == b""
    assert b"run-7 of flow/step may not write" in client.taken()
    session.data_received(put2(b"new", 2))
    session.reply_received(reply("put"))
    assert second.outcomes() == [(b"new", Outcome.APPLIED)]
    assert second.metrics.fenced == 1


def one_put(row: bytes, token: int) -> bytes:
    origin = encode_origin(Origin("flow", "step", f"run-{token}", token))
    value = StructWriter().binary(1, b"f").binary(2, b"q").binary(3, b"v").end()
    writer = StructWriter().binary(1, row).structs(2, [value])
    return writer.mapping(5, {ORIGIN_ATTRIBUTE: origin}).end()


def put_multiple(*tokens: int) -> bytes:
    puts = [one_put(b"r%d" % at, token) for at, token in enumerate(tokens)]
    return call("putMultiple", StructWriter().binary(1, b"t").structs(2, puts).end())


def mutate_row(*tokens: int) -> bytes:
    mutations = [StructWriter().struct(1, one_put(b"r", token)).end() for token in tokens]
    row = StructWriter().binary(1, b"r").structs(2, mutations).end()
    return call("mutateRow", StructWriter().binary(1, b"t").struct(2, row).end())


@pytest.mark.parametrize("write", [put_multiple, mutate_row])
def test_one_stale_origin_among_others_refuses_the_request(second: Scene, write) -> None:
    second.control.apply(Fence(1, "flow", "step", 2), "o")
    session, client, upstream = second.connect()
    session.data_received(write(2, 3, 1))
    assert upstream.taken() == b""
    assert b"run-1 of flow/step may not write" in client.taken()
    session.data_received(write(2, 3))
    assert upstream.taken() == write(2, 3)


def test_a_fence_that_rises_while_a_write_waits_for_room_refuses_it(
    tmp_path: Path, make_bench
) -> None:
    config = JournalConfig(str(tmp_path), limit_bytes=150, segment_bytes=100)
    scene = Scene(tmp_path, make_bench(), Dialect.THRIFT2, config)
    filling, _, _ = scene.connect()
    filling.data_received(put2(b"filling", 1))
    filling.reply_received(reply("put"))
    scene.work()
    session, client, upstream = scene.connect()
    session.data_received(put2(b"waiting", 1))
    scene.control.apply(Fence(1, "flow", "step", 2), "o")
    scene.bench.producer.deliver_all()
    scene.journal.save_watermark()
    scene.admission.tend()
    assert upstream.taken() == b""
    assert b"may not write" in client.taken()
    assert not client.paused


def test_a_fence_that_rises_while_a_write_waits_for_the_disk_refuses_it(
    tmp_path: Path, make_bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = JournalConfig(str(tmp_path), fsync=Fsync.ALWAYS)
    scene = Scene(tmp_path, make_bench(), Dialect.THRIFT2, config)
    synced: list[Callable[[], None]] = []
    monkeypatch.setattr(scene.admission, "when_synced", synced.append)
    session, client, upstream = scene.connect()
    session.data_received(put2(b"held", 1))
    scene.control.apply(Fence(1, "flow", "step", 2), "o")
    synced.pop()()
    assert upstream.taken() == b""
    assert b"may not write" in client.taken()
    assert scene.outcomes() == []
    assert scene.journal.unsettled == 0


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_refusal_waits_for_its_turn(second: Scene, size: int) -> None:
    second.control.apply(Fence(1, "flow", "step", 2), "o")
    session, client, _ = second.connect()
    session.data_received(put2(b"a", 2) + put2(b"b", 1) + put2(b"c", 2))
    answers = reply("put") + reply("put")
    for at in range(0, len(answers), size):
        session.reply_received(answers[at : at + size])
    reader = MessageReader(transport=Transport.BUFFERED)
    reader.feed(client.taken())
    found = []
    while (message := reader.next_message()) is not None:
        found.append(b"may not write" in message.raw)
    assert found == [False, True, False]


def test_an_oversized_frame_is_refused_in_words(scene: Scene) -> None:
    session, client, upstream = scene.connect()
    session.data_received((1 << 30).to_bytes(4, "big") + b"\x80\x01\x00\x01")
    assert b"the limit is 10000" in client.taken()
    assert client.closed
    assert upstream.taken() == b""
    assert scene.metrics.protocol_errors == 1


def test_what_is_no_thrift_is_closed(scene: Scene) -> None:
    session, client, _ = scene.connect()
    session.data_received(b"\xde\xad\xbe\xef\xde\xad")
    assert client.closed
    assert client.taken() == b""


def test_what_speaks_http_is_told_so_in_http(scene: Scene) -> None:
    session, client, _ = scene.connect()
    session.data_received(b"GET / HTTP/1.1\r\n\r\n")
    assert client.closed
    assert client.taken().startswith(b"HTTP/1.1 400 Bad Request\r\n")


# -- a full journal


def full(tmp_path: Path, make_bench, policy: WhenFull) -> Iterator[Scene]:
    config = JournalConfig(
        str(tmp_path), limit_bytes=150, segment_bytes=100, when_full=policy, block_seconds=5.0
    )
    scene = Scene(tmp_path, make_bench(), Dialect.THRIFT1, config)
    session, _, _ = scene.connect()
    session.data_received(put(b"filling"))
    session.reply_received(OK)
    scene.work()
    yield scene


@pytest.fixture
def blocking(tmp_path: Path, make_bench) -> Iterator[Scene]:
    yield from full(tmp_path, make_bench, WhenFull.BLOCK)


@pytest.fixture
def passing(tmp_path: Path, make_bench) -> Iterator[Scene]:
    yield from full(tmp_path, make_bench, WhenFull.PASS)


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


# -- barriers


def barrier(scene: Scene, *tables: str) -> None:
    answer_barrier(
        BarrierRequest(1, "b", tables, "a"), [scene.endpoint], scene.recorder, scene.publisher
    )


def kinds(scene: Scene) -> list[str]:
    return [type(message).__name__ for message in scene.log()]


def test_a_barrier_without_writes_is_marked_at_once(scene: Scene) -> None:
    barrier(scene, "t")
    assert kinds(scene) == ["BarrierMark"]


def test_a_barrier_follows_the_writes_under_way_and_precedes_later_ones(scene: Scene) -> None:
    session, _, _ = scene.connect()
    later, _, _ = scene.connect()
    session.data_received(put(b"before"))
    barrier(scene, "t")
    later.data_received(put(b"after"))
    later.reply_received(OK)
    assert kinds(scene) == ["UpdateBatch"]
    session.reply_received(OK)
    messages = scene.log()
    assert [type(message) for message in messages] == [UpdateBatch, UpdateBatch, BarrierMark]
    assert messages[1].rows == (b"before",)


def test_a_barrier_waits_for_writes_that_were_forwarded_before_the_watch(scene: Scene) -> None:
    session, _, _ = scene.connect()
    session.data_received(put(b"unwatched", b"new"))
    scene.watch("t", "new")
    barrier(scene, "new")
    assert kinds(scene) == []
    session.reply_received(OK[:1])
    assert kinds(scene) == ["BarrierMark"]


def test_a_barrier_does_not_wait_for_reads_or_other_tables(scene: Scene) -> None:
    for request in (get(b"r"), put(b"r", b"other")):
        scene.connect()[0].data_received(request)
    barrier(scene, "t")
    assert kinds(scene) == ["BarrierMark"]


def test_a_barrier_waits_no_longer_than_the_connection_lives(scene: Scene) -> None:
    session, _, _ = scene.connect()
    session.data_received(put(b"r"))
    barrier(scene, "t")
    session.upstream_lost(None)
    assert kinds(scene) == ["UpdateBatch", "BarrierMark"]


# -- flow control and the end


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


# -- gates


def close_gate(scene: Scene, revision: int = 1, *, released: bool = False) -> None:
    container = Container(ContainerId("c"), (Item("t", b"f", b"q"),))
    scene.gates.apply(
        Gate(2, "flow", "step", "kappa", (container,), 1000.0, revision, released=released)
    )
    scene.gates.tend()


def test_a_write_that_meets_a_closed_gate_waits_before_it_is_journalled(scene: Scene) -> None:
    close_gate(scene)
    session, client, upstream = scene.connect()
    session.data_received(put(b"r") + get(b"x"))
    assert (upstream.taken(), scene.journal.next_intent, client.paused) == (b"", 0, True)
    close_gate(scene, 2, released=True)
    assert upstream.taken() == put(b"r") + get(b"x")
    assert not client.paused
    session.reply_received(OK + CELLS)
    assert scene.outcomes() == [(b"r", Outcome.APPLIED)]


def test_a_gate_holds_writes_of_a_table_that_nobody_watches_too(scene: Scene) -> None:
    close_gate(scene)
    scene.control.apply(WatchList(1, "d", 2, ()), "o")
    session, _, upstream = scene.connect()
    session.data_received(put(b"r"))
    assert upstream.taken() == b""


def test_a_closed_gate_lets_reads_and_other_connections_go_on(scene: Scene) -> None:
    close_gate(scene)
    scene.connect()[0].data_received(put(b"r"))
    for request in (get(b"r"), put(b"r", b"other")):
        session, _, upstream = scene.connect()
        session.data_received(request)
        assert upstream.taken() == request


def test_a_write_that_a_gate_refuses_is_answered_in_its_turn(scene: Scene) -> None:
    close_gate(scene)
    session, client, upstream = scene.connect()
    session.data_received(get(b"x") + put(b"r") + get(b"y"))
    scene.now += 5
    scene.gates.tend()
    assert upstream.taken() == get(b"x") + get(b"y")
    session.reply_received(CELLS + CELLS)
    first, refusal, last = messages(client.taken())
    assert first == last == CELLS
    assert b"bound kappa of flow/step" in refusal
    assert scene.metrics.requests["thrift1", "mutateRow", "gated"] == 1
    assert not client.paused


def messages(data: bytes) -> list[bytes]:
    reader = MessageReader(transport=Transport.BUFFERED)
    reader.feed(data)
    found = []
    while (message := reader.next_message()) is not None:
        found.append(message.raw)
    return found


def test_a_held_write_whose_client_has_left_is_never_forwarded(scene: Scene) -> None:
    close_gate(scene)
    session, client, upstream = scene.connect()
    session.data_received(put(b"r") + put(b"behind"))
    client.left = True
    close_gate(scene, 2, released=True)
    assert upstream.taken() == b""
    assert client.closed
    assert scene.gates.dropped == 1


def test_a_held_write_whose_connection_is_lost_is_forgotten(scene: Scene) -> None:
    close_gate(scene)
    session, _, upstream = scene.connect()
    session.data_received(put(b"r"))
    session.connection_lost(None)
    close_gate(scene, 2, released=True)
    assert upstream.taken() == b""
    assert (scene.gates.held, scene.gates.dropped) == (0, 1)


def test_a_session_whose_write_a_gate_holds_is_not_quiet(scene: Scene) -> None:
    close_gate(scene)
    session, _, _ = scene.connect()
    session.data_received(put(b"r"))
    assert not session.quiet()


def test_a_barrier_does_not_wait_for_what_a_gate_holds(scene: Scene) -> None:
    close_gate(scene)
    scene.connect()[0].data_received(put(b"r"))
    barrier(scene, "t")
    assert kinds(scene) == ["BarrierMark"]


def test_a_fence_that_rises_while_a_gate_holds_a_write_refuses_it(second: Scene) -> None:
    close_gate(second)
    container = Container(ContainerId("c"), (Item("t"),))
    second.gates.apply(Gate(2, "other", "step", "kappa", (container,), 1000.0, 1))
    session, client, upstream = second.connect()
    session.data_received(put2(b"r", 1))
    assert client.paused
    second.control.apply(Fence(1, "flow", "step", 2), "o")
    second.gates.apply(Gate(2, "other", "step", "kappa", (), 0.0, 2, released=True))
    second.gates.tend()
    assert upstream.taken() == b""
    assert b"may not write" in client.taken()
    assert not client.paused


def test_a_watch_that_begins_while_a_gate_holds_a_write_sees_it(scene: Scene) -> None:
    close_gate(scene)
    scene.control.apply(WatchList(1, "d", 2, ()), "o")
    session, _, _ = scene.connect()
    session.data_received(put(b"r"))
    scene.control.apply(WatchList(1, "d", 3, (Watch("t"),)), "o")
    close_gate(scene, 2, released=True)
    session.reply_received(OK)
    assert scene.outcomes() == [(b"r", Outcome.APPLIED)]


def test_the_gates_own_dataflow_writes_through_it(second: Scene) -> None:
    close_gate(second)
    session, _, upstream = second.connect()
    session.data_received(put2(b"r", 1))
    assert upstream.taken() == put2(b"r", 1)


def test_a_gate_that_closes_while_a_write_waits_for_room_holds_it(blocking: Scene) -> None:
    session, client, upstream = blocking.connect()
    session.data_received(put(b"r"))
    close_gate(blocking)
    blocking.bench.producer.deliver_all()
    blocking.journal.save_watermark()
    blocking.admission.tend()
    assert upstream.taken() == b""
    close_gate(blocking, 2, released=True)
    assert upstream.taken() == put(b"r")
    assert not client.paused


def test_a_write_that_finds_the_journal_full_behind_its_gate_waits_for_room(
    blocking: Scene,
) -> None:
    close_gate(blocking)
    session, client, upstream = blocking.connect()
    session.data_received(put(b"r"))
    close_gate(blocking, 2, released=True)
    assert (upstream.taken(), client.paused) == (b"", True)
    blocking.bench.producer.deliver_all()
    blocking.journal.save_watermark()
    blocking.admission.tend()
    assert upstream.taken() == put(b"r")
    assert not client.paused


def test_a_gate_that_closes_while_a_write_waits_for_the_disk_holds_it(
    tmp_path: Path, make_bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = JournalConfig(str(tmp_path), fsync=Fsync.ALWAYS)
    scene = Scene(tmp_path, make_bench(), Dialect.THRIFT1, config)
    synced: list[Callable[[], None]] = []
    monkeypatch.setattr(scene.admission, "when_synced", synced.append)
    session, client, upstream = scene.connect()
    session.data_received(put(b"r"))
    close_gate(scene)
    synced.pop()()
    scene.work()
    assert (upstream.taken(), scene.journal.unsettled) == (b"", 0)
    close_gate(scene, 2, released=True)
    assert (upstream.taken(), client.paused) == (b"", True)
    synced.pop()()
    assert upstream.taken() == put(b"r")
    assert not client.paused


# -- notify columns


def marking(scene: Scene, revision: int = 2) -> None:
    scene.control.apply(WatchList(1, "d", revision, (Watch("t", notify=Notify()),)), "o")


def test_a_write_is_forwarded_with_its_notify_cell_and_published_without(scene: Scene) -> None:
    marking(scene)
    session, client, upstream = scene.connect()
    session.data_received(put(b"r") + get(b"x") + put(b"r", b"other"))
    first, *others = messages(upstream.taken())
    assert b"hg:all" in first
    assert others == [get(b"x"), put(b"r", b"other")]
    session.reply_received(OK + CELLS + OK)
    assert client.taken() == OK + CELLS + OK
    (batch,) = scene.log()
    assert batch.columns == (b"f:q",)


def test_the_journal_keeps_a_request_as_the_client_sent_it(scene: Scene) -> None:
    marking(scene)
    kept: list[bytes] = []
    append = scene.journal.append
    scene.journal.append = lambda data, *more, **named: (  # type: ignore[method-assign]
        kept.append(data),
        append(data, *more, **named),
    )[1]
    scene.connect()[0].data_received(put(b"r"))
    assert kept == [put(b"r")]


def test_a_refusal_for_want_of_the_notify_family_ends_the_cells_and_is_not_repeated(
    scene: Scene,
) -> None:
    marking(scene)
    session, client, upstream = scene.connect()
    session.data_received(put(b"r"))
    upstream.taken()
    text = b"NoSuchColumnFamilyException: Column family hg does not exist in region t"
    error = StructWriter().binary(1, text).bool(2, False).end()
    refusal = reply("mutateRow", StructWriter().struct(1, error).end())
    session.reply_received(refusal)
    assert (client.taken(), upstream.taken()) == (refusal, b"")
    assert scene.notify.stopped == ("t",)
    session.data_received(put(b"s"))
    assert upstream.taken() == put(b"s")


def test_a_write_that_a_gate_held_gets_its_notify_cells_once(scene: Scene) -> None:
    marking(scene)
    close_gate(scene)
    session, _, upstream = scene.connect()
    session.data_received(put(b"r"))
    close_gate(scene, 2, released=True)
    assert upstream.taken().count(b"hg:all") == 1
