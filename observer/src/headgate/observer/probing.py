"""Health checks: what an upstream is asked between clients, and what its answer says.

A check opens a connection as a client does and makes one call, so that it sees what a new client
would: a server that takes connections and never answers is found out by it.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable
from enum import Enum
from typing import Final, cast

import structlog

from headgate.hbase import Dialect
from headgate.observer.config import Check
from headgate.observer.dialing import Dialer, reason_of
from headgate.observer.upstreams import Failure, Upstream
from headgate.wire import MessageType, Transport, write_message

_log = structlog.get_logger("headgate.observer.probing")

_JITTER: Final = 0.1  # of the interval: the observers of a cluster must not ask in step
_MOST_ANSWER: Final = 4096  # bytes of an answer that are looked at
_UNREACHABLE: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT})

_METHODS: Final = {
    Check.PING: dict.fromkeys(Dialect, "getThriftServerType"),
    Check.HBASE: {
        Dialect.THRIFT1: "getTableNames",
        Dialect.THRIFT2: "listNamespaceDescriptors",
    },
}
"""Calls without arguments."""


_REPLIES: Final = (MessageType.REPLY, MessageType.EXCEPTION)


class Speech(Enum):
    """What a Thrift server may speak, in the order in which it is tried.

    A server that speaks another closes the connection, which is why framed comes last: in a frame's
    length a buffered server would see the length of a name and wait for the rest.
    """

    BUFFERED_BINARY = "buffered/binary"
    BUFFERED_COMPACT = "buffered/compact"
    FRAMED_BINARY = "framed/binary"
    FRAMED_COMPACT = "framed/compact"


def request(speech: Speech, method: str) -> bytes:
    """Return the bytes of a call without arguments."""
    if speech is Speech.BUFFERED_BINARY:
        return write_message(Transport.BUFFERED, method, MessageType.CALL, 1, b"\x00")
    if speech is Speech.FRAMED_BINARY:
        return write_message(Transport.FRAMED, method, MessageType.CALL, 1, b"\x00")
    text = method.encode()
    message = bytes((0x82, MessageType.CALL << 5 | 1, 1, len(text))) + text + b"\x00"
    return message if speech is Speech.BUFFERED_COMPACT else _framed(message)


def _framed(message: bytes) -> bytes:
    return len(message).to_bytes(4, "big") + message


class Answer(Enum):
    """What the first bytes of an answer say."""

    INCOMPLETE = "more bytes are needed"
    RESULT = "the method's result"
    ERROR = "an error that the method declares"
    EXCEPTION = "an exception of the server's: it does not know the method, or broke in it"
    FOREIGN = "no Thrift reply to this call"


def read_answer(speech: Speech, method: str, data: bytes) -> Answer:
    """Return what an answer says, by its header and the first field of its result."""
    if speech in (Speech.FRAMED_BINARY, Speech.FRAMED_COMPACT):
        data = data[4:]
    name = method.encode()
    if speech in (Speech.BUFFERED_BINARY, Speech.FRAMED_BINARY):
        named = len(name).to_bytes(4, "big") + name + (1).to_bytes(4, "big")
        heads = {kind: bytes((0x80, 1, 0, kind)) + named for kind in _REPLIES}
        success = b"\x00\x00"  # the field's id, behind its type
        end = len(named) + 4
        field = data[end + 1 : end + 3]
    else:
        named = bytes((1, len(name))) + name
        heads = {kind: bytes((0x82, kind << 5 | 1)) + named for kind in _REPLIES}
        success = b"\x00"  # a difference of ids above 0 stands beside the type, 0 behind it
        end = len(named) + 2
        first = data[end : end + 1]
        field = data[end + 1 : end + 2] if first and first[0] >> 4 == 0 else first
    for kind, head in heads.items():
        if data[: len(head)] == head:
            if kind == MessageType.EXCEPTION:
                return Answer.EXCEPTION
            if len(field) < len(success):
                return Answer.INCOMPLETE
            return Answer.RESULT if field == success else Answer.ERROR
    if any(head.startswith(data) for head in heads.values()):
        return Answer.INCOMPLETE
    return Answer.FOREIGN


class HealthChecker:
    """Checks the upstreams of one pool for as long as it runs."""

    def __init__(self, dialer: Dialer, dialect: Dialect, clock: Callable[[], float]) -> None:
        """Check the dialer's pool; ``clock`` gives the seconds that requests are timed with."""
        self._dialer = dialer
        self._pool = dialer.pool
        self._dialect = dialect
        self._clock = clock
        self._speech: dict[Upstream, Speech] = {}
        self._under_way: dict[Upstream, asyncio.Task[None]] = {}
        self._pool.suspect = self._check_soon

    async def run(self) -> None:
        """Check all upstreams in every interval, until cancelled."""
        try:
            while True:
                spread = random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - no secret
                await asyncio.sleep(self._pool.checks.interval_seconds * spread)
                for upstream in self._pool.members:
                    self._check_soon(upstream)
                self._pool.cut_hung(self._clock())
        finally:
            for task in self._under_way.values():
                task.cancel()

    def _check_soon(self, upstream: Upstream) -> None:
        if upstream in self._under_way:
            return
        task = asyncio.get_running_loop().create_task(self.check(upstream))
        self._under_way[upstream] = task
        task.add_done_callback(lambda _: self._under_way.pop(upstream, None))

    async def check(self, upstream: Upstream) -> None:
        """Check one upstream and tell the pool."""
        checks = self._pool.checks
        try:
            async with asyncio.timeout(checks.timeout_seconds):
                problem = await self._ask(upstream)
        except ConnectionRefusedError as error:
            self._pool.refused(upstream, reason_of(error))
        except TimeoutError:
            reason = f"no answer to a health check within {checks.timeout_seconds:g} s"
            self._pool.failed(upstream, Failure.SILENT, reason)
        except OSError as error:
            kind = Failure.SILENT if error.errno in _UNREACHABLE else Failure.ANSWERED
            self._pool.failed(upstream, kind, reason_of(error))
        else:
            if problem:
                self._pool.failed(upstream, Failure.ANSWERED, problem)
            else:
                self._pool.passed(upstream)

    async def _ask(self, upstream: Upstream) -> str:
        """Return what is wrong with an upstream's answer; nothing when it is well."""
        check = self._pool.checks.check
        if check is Check.CONNECT:
            await self._dialer.visit(upstream)
            return ""
        method = _METHODS[check][self._dialect]
        known = self._speech.get(upstream)
        for speech in (known,) if known is not None else Speech:
            answer = await self._call(upstream, speech, method)
            if answer is Answer.FOREIGN:
                continue
            self._speech[upstream] = speech
            if answer is Answer.RESULT or check is Check.PING:
                return ""  # to a ping, every answer says that the server lives
            return f"{method} ends with {answer.value}"
        # It may come back speaking another.
        self._speech.pop(upstream, None)
        problem = f"it closes the connection on {method}"
        if known is None:
            problem += " in every kind of Thrift; does it want SASL, TLS or HTTP?"
        return problem

    async def _call(self, upstream: Upstream, speech: Speech, method: str) -> Answer:
        question = _Question(speech, method)
        await self._dialer.open(upstream, lambda: question)
        try:
            return await question.answer
        finally:
            question.close()


class _Question(asyncio.Protocol):
    """One call on a connection of its own."""

    def __init__(self, speech: Speech, method: str) -> None:
        self._speech = speech
        self._method = method
        self._data = b""
        self._transport: asyncio.Transport | None = None
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(request(self._speech, self._method))

    def data_received(self, data: bytes) -> None:
        if self.answer.done():
            return
        self._data += data
        answer = read_answer(self._speech, self._method, self._data)
        if answer is Answer.INCOMPLETE and len(self._data) > _MOST_ANSWER:
            answer = Answer.FOREIGN
        if answer is not Answer.INCOMPLETE:
            self.answer.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - closed is closed
        if not self.answer.done():
            self.answer.set_result(Answer.FOREIGN)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
