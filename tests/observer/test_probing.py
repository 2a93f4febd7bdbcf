"""What a health check sends, and what it reads from an answer."""

import asyncio
from collections.abc import Callable

import pytest

from headgate.hbase import Dialect
from headgate.observer.config import Check, HealthChecks
from headgate.observer.dialing import Dialer
from headgate.observer.probing import Answer, HealthChecker, Speech, read_answer, request
from headgate.observer.upstreams import UpstreamPool
from headgate.wire import MessageType, StructWriter, Transport, write_message

ERROR = StructWriter().struct(1, StructWriter().binary(1, b"no").end()).end()
COMPACT_REPLY = bytes.fromhex("82 41 01 04") + b"ping"
COMPACT_EXCEPTION = bytes.fromhex("82 61 01 04") + b"ping"


def binary(body: bytes, kind: MessageType = MessageType.REPLY) -> bytes:
    return write_message(Transport.BUFFERED, "ping", kind, 1, body)


SUCCESS = binary(StructWriter().i32(0, 1).end())

CASES = [
    (Speech.BUFFERED_BINARY, SUCCESS, Answer.RESULT),
    (Speech.BUFFERED_BINARY, binary(ERROR), Answer.ERROR),
    (Speech.BUFFERED_BINARY, binary(b"\x00", MessageType.EXCEPTION), Answer.EXCEPTION),
    (Speech.FRAMED_BINARY, len(SUCCESS).to_bytes(4, "big") + SUCCESS, Answer.RESULT),
    (Speech.BUFFERED_COMPACT, COMPACT_REPLY + b"\x05\x00\x02\x00", Answer.RESULT),
    (Speech.BUFFERED_COMPACT, COMPACT_REPLY + b"\x1c\x18\x02no\x00\x00", Answer.ERROR),
    (Speech.BUFFERED_COMPACT, COMPACT_EXCEPTION + b"\x00", Answer.EXCEPTION),
    (
        Speech.FRAMED_COMPACT,
        b"\x00\x00\x00\x0c" + COMPACT_REPLY + b"\x05\x00\x02\x00",
        Answer.RESULT,
    ),
]


@pytest.mark.parametrize(("speech", "data", "expected"), CASES)
def test_an_answer_is_read_however_it_is_cut(speech: Speech, data: bytes, expected: Answer) -> None:
    answers = [read_answer(speech, "ping", data[:end]) for end in range(len(data) + 1)]
    assert answers[-1] is expected
    assert set(answers) == {Answer.INCOMPLETE, expected}
    first = answers.index(expected)
    assert all(each is expected for each in answers[first:])


@pytest.mark.parametrize("speech", Speech)
def test_what_is_no_reply_to_the_call_is_foreign(speech: Speech) -> None:
    assert read_answer(speech, "ping", b"SSH-2.0-OpenSSH\r\n") is Answer.FOREIGN
    assert read_answer(speech, "other", CASES[0][1]) is Answer.FOREIGN


def answering(speech: Speech, reply: bytes) -> Callable[[bytes], bytes | None]:
    """A server that knows one kind of Thrift and closes the connection on others."""
    return lambda asked: reply if asked == request(speech, "getThriftServerType") else None


def checked(
    answer: Callable[[bytes], bytes | None], checks: HealthChecks, times: int = 1
) -> tuple[UpstreamPool, list[bytes]]:
    """The pool after so many checks of a server, and what the server was asked."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        question = await reader.read(1000)
        if question:
            asked.append(question)
            reply = answer(question)
            if reply:
                writer.write(reply)
            if reply != b"":
                writer.close()

    async def run() -> UpstreamPool:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        pool = UpstreamPool("thrift1", [f"127.0.0.1:{port}"], checks)
        dialer = Dialer(asyncio.get_running_loop(), pool, 5.0)
        checker = HealthChecker(dialer, Dialect.THRIFT1, lambda: 0.0)
        for _ in range(times):
            await checker.check(pool.members[0])
        server.close()
        return pool

    return asyncio.run(run()), asked


@pytest.mark.parametrize("speech", Speech)
def test_the_servers_kind_of_thrift_is_found_once(speech: Speech) -> None:
    reply = request(speech, "getThriftServerType")
    if speech in (Speech.BUFFERED_BINARY, Speech.FRAMED_BINARY):
        reply = reply.replace(b"\x80\x01\x00\x01", b"\x80\x01\x00\x02") + b"\x00\x00\x00"
    else:
        reply = reply.replace(b"\x82\x21", b"\x82\x41")[:-1] + b"\x05\x00\x02\x00"
    pool, asked = checked(answering(speech, reply), HealthChecks(fall=1), times=3)
    assert not pool.reasons
    assert pool.members[0].passed == 3
    assert len(asked) == list(Speech).index(speech) + 3


def test_an_error_is_life_to_a_ping_but_no_health_of_hbase() -> None:
    def failing(method: str) -> Callable[[bytes], bytes]:
        return lambda _: write_message(Transport.BUFFERED, method, MessageType.REPLY, 1, ERROR)

    pool, _ = checked(failing("getThriftServerType"), HealthChecks(fall=1))
    assert not pool.reasons
    pool, _ = checked(failing("getTableNames"), HealthChecks(fall=1, check=Check.HBASE))
    assert "getTableNames ends with an error" in pool.reasons[0]


def test_a_server_that_takes_connections_and_hangs_is_found_out() -> None:
    checks = HealthChecks(fall=1, timeout_seconds=0.05)
    pool, _ = checked(lambda _: b"", checks)
    assert "no answer to a health check within 0.05 s" in pool.reasons[0]
    assert pool.members[0].silent == 1


def test_to_connect_can_be_enough() -> None:
    pool, asked = checked(lambda _: b"", HealthChecks(fall=1, check=Check.CONNECT))
    assert not pool.reasons
    assert asked == []


def test_a_server_that_speaks_no_thrift_is_told() -> None:
    pool, asked = checked(lambda _: None, HealthChecks(fall=1))
    assert "closes the connection on getThriftServerType in every kind" in pool.reasons[0]
    assert len(asked) == 4


def test_a_refused_connection_counts_at_once() -> None:
    async def run() -> UpstreamPool:
        pool = UpstreamPool("thrift1", ["127.0.0.1:1"], HealthChecks(fall=3))
        dialer = Dialer(asyncio.get_running_loop(), pool, 5.0)
        await HealthChecker(dialer, Dialect.THRIFT1, lambda: 0.0).check(pool.members[0])
        return pool

    assert "refused" in asyncio.run(run()).reasons[0].lower()
