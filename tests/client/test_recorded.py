"""The socket below happybase: which reply is told as which write's."""

import socket

import pytest
from thriftpy2.transport import TSocket

from headgate.client import recorded
from headgate.wire import Message, MessageType, StructWriter, Transport, write_message


def request(row: bytes, name: str = "mutateRow") -> bytes:
    body = StructWriter().binary(1, b"t").binary(2, row).end()
    return write_message(Transport.BUFFERED, name, MessageType.CALL, 0, body)


def reply(name: str = "mutateRow") -> bytes:
    return write_message(Transport.BUFFERED, name, MessageType.REPLY, 0, b"\x00")


class Passing:
    def __init__(self, message: Message) -> None:
        self.message = message
        self.raw = message.raw
        self.refusal: bytes | None = None


class Observer:
    """Takes every write, and notes the reply that each is told to have had."""

    def __init__(self) -> None:
        self.ended: list[tuple[bytes, bytes | None]] = []

    def begin(self, message: Message) -> Passing:
        return Passing(message)

    def answered(self, embedded: Passing, reply: Message | None) -> None:
        self.ended.append((embedded.message.raw, None if reply is None else reply.raw))


@pytest.fixture
def observer(monkeypatch: pytest.MonkeyPatch) -> Observer:
    observer = Observer()
    monkeypatch.setattr(recorded, "observer_of_process", lambda: observer)
    return observer


class Pair:
    """The socket under test, and HBase's end of it."""

    def __init__(self) -> None:
        ours, self.hbase = socket.socketpair()
        self.socket = recorded.RecordingSocket(host="hbase", port=1, socket_timeout=1000)
        self.socket.set_handle(ours)

    def answer(self, data: bytes) -> None:
        self.hbase.sendall(data)
        assert self.socket.read(4096) == data


@pytest.fixture
def pair():
    pair = Pair()
    yield pair
    pair.socket.close()
    pair.hbase.close()


def test_a_write_ends_with_its_reply(observer: Observer, pair: Pair) -> None:
    pair.socket.write(request(b"r"))
    pair.answer(reply())
    assert observer.ended == [(request(b"r"), reply())]


def test_a_write_that_is_sent_with_another_does_not_get_its_reply(
    observer: Observer, pair: Pair
) -> None:
    pair.socket.write(request(b"left over") + request(b"r"))
    pair.answer(reply())
    assert observer.ended == [(request(b"left over"), None), (request(b"r"), None)]


def test_writes_behind_a_reply_that_was_not_read_end_as_unknown(
    observer: Observer, pair: Pair
) -> None:
    pair.socket.write(request(b"left over", "getRow") + request(b"r"))
    pair.answer(reply("getRow"))
    pair.socket.write(request(b"s"))
    pair.answer(reply())
    assert observer.ended == [(request(b"r"), None), (request(b"s"), None)]


def test_a_new_connection_is_in_step_again(
    observer: Observer, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.socket.write(request(b"left over") + request(b"r"))
    pair.answer(reply())
    pair.socket.close()
    ours, pair.hbase = socket.socketpair()
    monkeypatch.setattr(TSocket, "open", lambda it: it.set_handle(ours))
    pair.socket.open()
    pair.socket.write(request(b"s"))
    pair.answer(reply())
    assert observer.ended[-1] == (request(b"s"), reply())


def test_a_write_whose_connection_closes_ends_as_unknown(observer: Observer, pair: Pair) -> None:
    pair.socket.write(request(b"r"))
    pair.socket.close()
    assert observer.ended == [(request(b"r"), None)]


def test_a_write_without_a_connection_is_not_begun(observer: Observer, pair: Pair) -> None:
    pair.socket.close()
    with pytest.raises(AssertionError):
        pair.socket.write(request(b"r"))
    assert observer.ended == []


def test_what_is_refused_is_not_sent(
    observer: Observer, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(message: Message) -> Passing:
        passing = Passing(message)
        passing.refusal = b"refusal"
        return passing

    monkeypatch.setattr(observer, "begin", refuse)
    pair.socket.write(request(b"r"))
    assert pair.socket.read(3) + pair.socket.read(100) == b"refusal"
    pair.hbase.setblocking(False)
    with pytest.raises(BlockingIOError):
        pair.hbase.recv(1)


def test_a_reply_to_another_request_is_not_believed(observer: Observer, pair: Pair) -> None:
    for row in (b"r", b"s"):
        pair.socket.write(request(row))
        pair.answer(reply("deleteAllRow" if row == b"r" else "mutateRow"))
    # Nobody knows any more which reply is whose.
    assert observer.ended == [(request(b"r"), None), (request(b"s"), None)]
