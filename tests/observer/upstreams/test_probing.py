"""What a health check says of servers that answer, fail, hang and speak no Thrift."""

import asyncio
from collections.abc import Callable

import pytest

from headgate.hbase import Dialect
from headgate.observer.config import Check, HealthChecks, Listener
from headgate.observer.upstreams.asking import FORMATS, PING, call
from headgate.observer.upstreams.dialing import Dialer
from headgate.observer.upstreams.formats import UpstreamFormats
from headgate.observer.upstreams.pool import UpstreamPool
from headgate.observer.upstreams.probing import HealthChecker
from headgate.wire import (
    Message,
    MessageType,
    StructWriter,
    Transport,
    WireFormat,
    transcode,
    write_message,
)

ERROR = StructWriter().struct(1, StructWriter().binary(1, b"no").end()).end()
SUCCESS = StructWriter().i32(0, 1).end()


def reply(format_: WireFormat, method: str, body: bytes) -> bytes:
    raw = write_message(Transport.BUFFERED, method, MessageType.REPLY, 1, body)
    start = len(raw) - len(body)
    message = Message(raw, start, method, MessageType.REPLY, 1, Transport.BUFFERED)
    return transcode(message, format_.protocol, format_.transport).raw


def answering(format_: WireFormat, method: str, body: bytes) -> Callable[[bytes], bytes | None]:
    """A server that knows one format and closes the connection on others."""
    known = {call(format_, PING): reply(format_, PING, SUCCESS)}
    known[call(format_, method)] = reply(format_, method, body)
    return known.get


def checker_of(pool: UpstreamPool) -> HealthChecker:
    dialer = Dialer(asyncio.get_running_loop(), pool, 5.0)
    formats = UpstreamFormats(dialer, Dialect.THRIFT1, Listener("127.0.0.1:0", "127.0.0.1:1"))
    return HealthChecker(dialer, formats, lambda: 0.0)


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
        checker = checker_of(pool)
        for _ in range(times):
            await checker.check(pool.members[0])
        server.close()
        return pool

    return asyncio.run(run()), asked


@pytest.mark.parametrize("format_", FORMATS, ids=str)
def test_what_the_server_speaks_is_found_once(format_: WireFormat) -> None:
    pool, asked = checked(answering(format_, PING, SUCCESS), HealthChecks(fall=1), times=3)
    assert not pool.reasons
    assert pool.members[0].passed == 3
    assert len(asked) == FORMATS.index(format_) + 3


def test_an_error_is_life_to_a_ping_but_no_health_of_hbase() -> None:
    format_ = FORMATS[0]
    pool, _ = checked(answering(format_, PING, ERROR), HealthChecks(fall=1))
    assert not pool.reasons
    failing = answering(format_, "getTableNames", ERROR)
    pool, _ = checked(failing, HealthChecks(fall=1, check=Check.HBASE))
    assert "getTableNames ends with an error" in pool.reasons[0]


def test_a_server_that_came_back_speaking_another_is_well_by_the_second_check() -> None:
    calls = iter([*FORMATS[:1], *[FORMATS[3]] * 10])

    def server(asked: bytes) -> bytes | None:
        return answering(next(calls), PING, SUCCESS)(asked)

    pool, asked = checked(server, HealthChecks(fall=3), times=3)
    assert not pool.reasons
    assert pool.members[0].passed == 1
    assert len(asked) == 1 + 1 + 4


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
    assert "answers getThriftServerType in no kind of Thrift; does it want" in pool.reasons[0]
    assert len(asked) == 4
    pool, _ = checked(lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", HealthChecks(fall=1))
    assert pool.reasons[0].endswith("in no kind of Thrift, but HTTP")


def test_a_refused_connection_counts_at_once() -> None:
    async def run() -> UpstreamPool:
        pool = UpstreamPool("thrift1", ["127.0.0.1:1"], HealthChecks(fall=3))
        await checker_of(pool).check(pool.members[0])
        return pool

    assert "refused" in asyncio.run(run()).reasons[0].lower()
