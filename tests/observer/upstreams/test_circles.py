"""Checks that come back to an observer that they have passed."""

import asyncio
from collections.abc import Callable

import pytest

from headgate.hbase import Dialect
from headgate.observer.config import Check, HealthChecks, Listener
from headgate.observer.upstreams.asking import FORMATS, PING, call
from headgate.observer.upstreams.circles import (
    Circle,
    arguments,
    circle_in,
    circle_reply,
    is_circle,
    passed_on,
    way_of,
)
from headgate.observer.upstreams.dialing import Dialed, Dialer, UpstreamsUnreachable
from headgate.observer.upstreams.formats import UpstreamFormats
from headgate.observer.upstreams.pool import UpstreamHealth, UpstreamPool
from headgate.observer.upstreams.probing import HealthChecker
from headgate.wire import Message, MessageReader, WireFormat


def read(data: bytes) -> Message:
    reader = MessageReader()
    reader.feed(data)
    message = reader.next_message()
    assert message is not None
    assert not reader.buffered
    return message


@pytest.mark.parametrize("format_", FORMATS, ids=str)
def test_each_observer_adds_its_mark_in_the_format_of_the_check(format_: WireFormat) -> None:
    check = read(call(format_, PING, arguments(("first#1",))))
    on = read(passed_on(check, (*way_of(check), "second#2")).raw)
    assert (on.name, on.seqid, on.format) == (PING, check.seqid, format_)
    assert way_of(on) == ("first#1", "second#2")
    assert is_circle(way_of(on), "first#1")
    assert not is_circle(way_of(on), "third#3")


@pytest.mark.parametrize("format_", FORMATS, ids=str)
def test_the_answer_to_a_circle_names_the_way(format_: WireFormat) -> None:
    check = read(call(format_, PING, arguments(("first#1",))))
    reply = read(circle_reply(check, ("first#1", "second#2", "first#1")))
    assert circle_in(reply) == "first#1 -> second#2 -> first#1"


def test_an_endless_chain_counts_as_a_circle() -> None:
    assert is_circle(tuple(str(each) for each in range(16)), "another")


@pytest.mark.parametrize("format_", FORMATS, ids=str)
def test_a_call_of_a_client_has_passed_no_observer(format_: WireFormat) -> None:
    assert way_of(read(call(format_, PING))) == ()


class Neighbour:
    """An observer at the upstream's address; it passes checks on to where ``answer`` says."""

    def __init__(self, answer: Callable[[Message], bytes]) -> None:
        self.answer = answer
        self.clients = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read(1000)
        if data:
            writer.write(self.answer(read(data)))
        else:
            self.clients += 1
        writer.close()


@pytest.mark.parametrize("check", list(Check))
def test_no_client_goes_to_an_upstream_that_leads_back_until_it_does_not(check: Check) -> None:
    leads_back = True

    def answer(message: Message) -> bytes:
        way = way_of(message)
        assert way == ("me#1",)
        return circle_reply(message, (*way, "other#2", "me#1")) if leads_back else b"\x80\x01"

    async def run() -> None:
        nonlocal leads_back
        server = await asyncio.start_server(Neighbour(answer).serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        pool = UpstreamPool("thrift1", [f"127.0.0.1:{port}"], HealthChecks(rise=1, check=check))
        upstream = pool.members[0]
        dialer = Dialer(asyncio.get_running_loop(), pool, 5.0)
        dialer.mark = "me#1"
        listener = Listener("127.0.0.1:0", "127.0.0.1:1")
        formats = UpstreamFormats(dialer, Dialect.THRIFT1, listener)
        await formats.find(upstream)
        assert upstream.health is UpstreamHealth.UNHEALTHY
        with pytest.raises(UpstreamsUnreachable, match="circle: me#1 -> other#2 -> me#1; "):
            await dialer.connect(lambda _: Dialed())
        checker = HealthChecker(dialer, formats, lambda: 0.0)
        await checker.check(upstream)
        assert upstream.circle
        pool.passed(upstream)
        assert not upstream.circle
        await dialer.connect(lambda _: Dialed())
        server.close()

    asyncio.run(run())


def test_a_circle_is_no_refused_connection() -> None:
    assert not issubclass(Circle, ConnectionRefusedError)
