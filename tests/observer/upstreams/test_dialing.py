"""Opening connections: the next upstream and the next address when one takes none."""

import asyncio
import errno
import socket
from typing import Any, cast

import pytest

from headgate.observer.config import HealthChecks
from headgate.observer.upstreams.dialing import Dialed, Dialer, UpstreamsUnreachable
from headgate.observer.upstreams.pool import UpstreamPool
from headgate.settings import write_address


class Network:
    """A loop whose names and connections are scripted."""

    def __init__(self, names: dict[str, list[str]], failures: dict[str, OSError]) -> None:
        self.names = names
        self.failures = failures
        self.tried: list[str] = []

    async def getaddrinfo(self, host: str, port: int, *, type: int) -> list[Any]:  # noqa: A002 - the loop's
        if host not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(0, type, 0, "", (address, port)) for address in self.names[host]]

    async def create_connection(self, protocol: Any, host: str, port: int) -> Any:
        self.tried.append(f"{host}:{port}")
        if host in self.failures:
            raise self.failures[host]
        return None, protocol()


REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


def dial(network: Network, *addresses: str, times: int = 1) -> UpstreamPool:
    pool = UpstreamPool("thrift1", addresses, HealthChecks())
    dialer = Dialer(cast("asyncio.AbstractEventLoop", network), pool, 5.0)

    async def run() -> None:
        for _ in range(times):
            await dialer.connect(lambda _upstream: Dialed())

    asyncio.run(run())
    return pool


def test_the_next_upstream_is_tried_when_one_refuses() -> None:
    network = Network({}, {"10.0.0.1": REFUSED})
    pool = dial(network, "10.0.0.1:1", "10.0.0.2:1")
    assert network.tried == ["10.0.0.1:1", "10.0.0.2:1"]
    assert pool.reasons == ("thrift1: upstream 10.0.0.1:1 is unhealthy: Connection refused",)


def test_every_address_of_a_name_is_a_candidate() -> None:
    network = Network({"hbase": ["10.0.0.1", "10.0.0.2"]}, {"10.0.0.2": REFUSED})
    pool = dial(network, "hbase:1")
    assert network.tried == ["10.0.0.2:1", "10.0.0.1:1"]
    assert not pool.reasons


def test_the_addresses_of_a_name_take_turns() -> None:
    network = Network({"hbase": ["10.0.0.1", "10.0.0.2"]}, {})
    dial(network, "hbase:1", times=4)
    assert sorted(network.tried) == ["10.0.0.1:1"] * 2 + ["10.0.0.2:1"] * 2


def test_an_address_of_version_6_needs_no_name() -> None:
    network = Network({}, {})
    dial(network, "[::1]:9090")
    assert network.tried == ["::1:9090"]


def test_an_error_names_every_upstream_with_its_reason() -> None:
    network = Network({}, {"10.0.0.1": REFUSED})
    with pytest.raises(UpstreamsUnreachable) as caught:
        dial(network, "10.0.0.1:1", "nowhere:1")
    text = str(caught.value)
    assert "10.0.0.1:1 (Connection refused)" in text
    assert "nowhere:1 (Name or service not known)" in text


def test_no_upstream_is_blamed_for_what_this_host_lacks() -> None:
    lack = OSError(errno.EMFILE, "Too many open files")
    network = Network({}, {"10.0.0.1": lack, "10.0.0.2": lack})
    pool = UpstreamPool("thrift1", ["10.0.0.1:1", "10.0.0.2:1"], HealthChecks())
    dialer = Dialer(cast("asyncio.AbstractEventLoop", network), pool, 5.0)
    with pytest.raises(UpstreamsUnreachable, match="Too many open files"):
        asyncio.run(dialer.connect(lambda _upstream: Dialed()))
    assert not pool.reasons
    assert len(network.tried) == 1


@pytest.mark.parametrize(
    ("own", "upstream"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.9"),
        ("0.0.0.0", "hbase"),
        ("::", "::1"),
        ("::", "127.0.0.1"),
    ],
)
def test_the_observer_is_not_its_own_upstream(own: str, upstream: str) -> None:
    network = Network({"hbase": ["127.0.0.1"]}, {})
    pool = UpstreamPool("thrift1", [write_address(upstream, 9090), "10.0.0.2:9090"], HealthChecks())
    dialer = Dialer(cast("asyncio.AbstractEventLoop", network), pool, 5.0)
    dialer.own = {(own, 9090)}
    asyncio.run(dialer.connect(lambda _upstream: Dialed()))
    assert network.tried == ["10.0.0.2:9090"]
    (reason,) = pool.reasons
    assert "this observer listens there itself" in reason


@pytest.mark.parametrize(
    ("own", "upstream"),
    [
        (("10.0.0.1", 9091), "10.0.0.1:9090"),
        (("127.0.0.1", 9090), "10.0.0.1:9090"),
        (("0.0.0.0", 9090), "192.0.2.7:9090"),
        (("0.0.0.0", 9091), "127.0.0.1:9090"),
        (("0.0.0.0", 9090), "[::1]:9090"),
        (("::", 9090), "[2001:db8::7]:9090"),
    ],
)
def test_a_server_beside_the_observer_or_elsewhere_is_an_upstream(
    own: tuple[str, int], upstream: str
) -> None:
    network = Network({}, {})
    pool = UpstreamPool("thrift1", [upstream], HealthChecks())
    dialer = Dialer(cast("asyncio.AbstractEventLoop", network), pool, 5.0)
    dialer.own = {own}
    asyncio.run(dialer.connect(lambda _upstream: Dialed()))
    assert len(network.tried) == 1
