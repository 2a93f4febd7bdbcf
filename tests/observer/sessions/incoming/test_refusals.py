"""What is refused, and how: below a fence, unreadable, or no Thrift at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from scene import Scene, call, put2, reply

from headgate.events import ORIGIN_ATTRIBUTE, Fence, Origin, Outcome, encode_origin
from headgate.hbase import Dialect
from headgate.observer.config import Fsync, JournalSettings
from headgate.wire import MessageReader, StructWriter, Transport


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
    config = JournalSettings(str(tmp_path), limit_bytes=150, segment_bytes=100)
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
    config = JournalSettings(str(tmp_path), fsync=Fsync.ALWAYS)
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
