"""Listeners open their addresses, wait for their upstreams, and let their sessions end."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, cast
from unittest.mock import Mock

import pytest
import uvloop
from msgspec.structs import replace
from scene import bare_endpoint

from headgate.hbase import Dialect
from headgate.observer import JournalSettings, KafkaSettings, Listener, ObserverConfig
from headgate.observer.config import LimitSettings, Tls
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.security.access import ListenerGuard
from headgate.observer.security.keyring import Keyring
from headgate.observer.sessions.endpoint import Endpoint
from headgate.observer.sessions.listening import Listeners
from headgate.observer.sessions.session import Session
from headgate.observer.sessions.sweeping import Stage
from headgate.observer.starting import ObserverAddresses, StartError
from headgate.observer.upstreams.dialing import UpstreamsUnreachable

NOBODY = "127.0.0.1:1"


def configuration(
    listen: str = "127.0.0.1:0", limits: LimitSettings | None = None, **values: Any
) -> ObserverConfig:
    """Return that of a listener whose upstream is not there."""
    return ObserverConfig(
        name="o",
        thrift1=Listener(listen, NOBODY, **values),
        kafka=KafkaSettings(NOBODY),
        journal=JournalSettings("unused"),
        limits=limits or LimitSettings(),
    )


def listeners(listen: str = "127.0.0.1:0", **values: Any) -> Listeners:
    config = configuration(listen, **values)
    return Listeners(config, keyring=Keyring(config), metrics=Metrics())


def endpoint_of(
    name: str, dialer: Any = None, formats: Any = None, guard: ListenerGuard | None = None
) -> Endpoint:
    """Return an endpoint behind which nobody is."""
    loop = asyncio.get_running_loop()
    return bare_endpoint(Dialect(name), loop=loop, dialer=dialer, formats=formats, guard=guard)


def run(script: Callable[[], Awaitable[Any]]) -> Any:
    """Run a script on the observer's event loop."""

    async def inside() -> Any:
        return await script()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(inside())


def test_an_address_that_others_have_is_named() -> None:
    async def script() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = "127.0.0.1:{1}".format(*taken.getsockname())
            with pytest.raises(StartError) as refused:
                await listeners(address).open(endpoint_of, ObserverAddresses(), reuse_port=False)
        assert f"[thrift1] listen = {address}: " in str(refused.value)
        assert "choose another address" in str(refused.value)

    run(script)


def test_an_address_of_ipv6_has_brackets_in_the_ready_line() -> None:
    async def script() -> None:
        opened, addresses = listeners("[::1]:0"), ObserverAddresses()
        await opened.open(endpoint_of, addresses, reuse_port=False)
        host, _, port = addresses.thrift1.rpartition(":")
        opened.close()
        assert (host, int(port) > 0) == ("[::1]", True)
        assert addresses.line() == f"ready thrift1=[::1]:{port}"

    run(script)


def test_an_upstream_that_is_the_listener_itself_is_not_dialled() -> None:
    async def script() -> None:
        dialers, addresses = [], ObserverAddresses()

        def kept(name: str, dialer: Any, *others: Any) -> Endpoint:
            dialers.append(dialer)
            return endpoint_of(name, dialer, *others)

        opened = listeners("0.0.0.0:0")
        await opened.open(kept, addresses, reuse_port=False)
        _, _, port = addresses.thrift1.partition(":")
        opened.reconfigure(
            replace(
                configuration(),
                thrift1=Listener("0.0.0.0:0", f"localhost:{port}"),
            )
        )
        with pytest.raises(UpstreamsUnreachable, match="this observer listens there itself"):
            await dialers[0].reach()
        opened.close()

    run(script)


def test_a_client_whose_host_vanishes_is_found_by_the_kernel() -> None:
    async def script() -> None:
        opened, addresses = listeners(), ObserverAddresses()
        await opened.open(endpoint_of, addresses, reuse_port=False)
        (endpoint,) = opened.endpoints
        host, _, port = addresses.thrift1.partition(":")
        with socket.create_connection((host, int(port))):
            async with asyncio.timeout(10):
                while not endpoint.sessions:
                    await asyncio.sleep(0.001)
            (session,) = endpoint.sessions
            client = cast("Session", session)._connections.client
            assert client is not None
            connection = client.get_extra_info("socket")
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            opened.close()
            session.abort()

    run(script)


@pytest.mark.parametrize(
    ("values", "admitted"), [({}, None), ({"networks": ("10.0.0.0/8",)}, (True, False))]
)
def test_a_listener_with_rules_is_guarded_by_them(
    values: dict[str, Any], admitted: tuple[bool, bool] | None
) -> None:
    async def script() -> None:
        opened = listeners(**values)
        await opened.open(endpoint_of, ObserverAddresses(), reuse_port=False)
        (endpoint,) = opened.endpoints
        guard = endpoint.guard
        found = guard and tuple(guard.admits(host) for host in ("10.1.2.3", "192.168.1.2"))
        assert found == admitted
        opened.close()

    run(script)


@pytest.mark.parametrize(
    ("networks", "admitted"), [((), True), (("127.0.0.0/8",), True), (("10.0.0.0/8",), False)]
)
def test_a_listener_with_tls_shakes_hands_with_hosts_of_its_networks(
    authority: Any, networks: tuple[str, ...], admitted: bool
) -> None:
    async def script() -> bool:
        certificate, key = authority.issue("observer", "IP:127.0.0.1")
        opened = listeners(tls=Tls(str(certificate), str(key)), networks=networks)
        addresses = ObserverAddresses()
        await opened.open(endpoint_of, addresses, reuse_port=False)
        host, _, port = addresses.thrift1.partition(":")
        context = ssl.create_default_context(cafile=authority.certificate)
        try:
            _, writer = await asyncio.open_connection(host, int(port), ssl=context)
        except OSError:
            return False
        finally:
            opened.close()
        writer.close()
        return True

    assert run(script) is admitted


def test_an_upstream_that_does_not_come_in_time_is_named() -> None:
    async def script() -> None:
        with pytest.raises(StartError, match=r"is \[thrift1\] upstream right") as refused:
            await listeners().await_upstreams(asyncio.get_running_loop().time())
        assert NOBODY in str(refused.value)

    run(script)


class Idle:
    """A session whose client does nothing."""

    def __init__(self) -> None:
        self.expired = 0
        self.identified = 0

    def identify(self) -> None:
        self.identified += 1

    def stage(self) -> Stage:
        return Stage.IDLE

    def progress(self) -> object:
        return None

    def unsent(self) -> int:
        return 0

    def stay_awake(self) -> None:
        """Have nothing that HBase could close."""

    def expire(self, reason: str, *, at_once: bool) -> None:
        self.expired += 1


def test_other_limits_hold_for_clients_that_are_there() -> None:
    async def script() -> None:
        opened = listeners()
        await opened.open(endpoint_of, ObserverAddresses(), reuse_port=False)
        (endpoint,) = opened.endpoints
        idle = Idle()
        endpoint.sessions.add(cast("Any", idle))
        opened.reconfigure(
            configuration(limits=LimitSettings(idle_seconds=3.0, connections=7, message_bytes=999))
        )
        assert [each.address for each in opened.pools["thrift1"].configured] == [NOBODY]
        assert (endpoint.most_connections, endpoint.limits.max_frame) == (7, 999)
        for now in (0.0, 0.0, 2.0, 2.0):
            opened.tend(now)
        assert idle.expired == 0
        for now in (4.0, 4.0):
            opened.tend(now)
        assert idle.expired == 1
        endpoint.sessions.clear()
        opened.close()

    run(script)


def test_other_rules_hold_for_clients_that_are_there() -> None:
    async def script() -> None:
        opened = listeners()
        await opened.open(endpoint_of, ObserverAddresses(), reuse_port=False)
        (endpoint,) = opened.endpoints
        assert endpoint.guard is None
        idle = Idle()
        endpoint.sessions.add(cast("Any", idle))
        opened.prepare_access(configuration(networks=("10.0.0.0/8",)))()
        assert endpoint.guard is not None
        assert not endpoint.guard.admits("192.168.1.2")
        assert idle.identified == 1
        opened.prepare_access(configuration())()
        assert endpoint.guard is None
        endpoint.sessions.clear()
        opened.close()

    run(script)


class Leaving:
    """A session that ends when it was asked so often, or broken off."""

    def __init__(self, at: set[Leaving], asked: int) -> None:
        self.at = at
        self.asked = asked
        self.broken = False
        at.add(self)

    def drain(self) -> None:
        self.asked -= 1
        if not self.asked:
            self.at.remove(self)

    def abort(self) -> None:
        self.broken = True
        self.at.remove(self)


@pytest.mark.parametrize(("seconds", "broken"), [(30.0, [False, False]), (0.06, [False, True])])
def test_sessions_have_time_to_end_and_are_broken_off_then(
    seconds: float, broken: list[bool]
) -> None:
    async def script() -> None:
        opened = listeners()
        there: set[Leaving] = set()
        sessions = [Leaving(there, asked) for asked in (1, 4)]
        opened.endpoints.append(cast("Endpoint", Mock(sessions=there)))
        meanwhile, at_last = Mock(), Mock()
        await opened.drain(asyncio.get_running_loop().time() + seconds, meanwhile, at_last)
        at_last.assert_called_once()
        assert there == set()
        assert [each.broken for each in sessions] == broken
        assert meanwhile.call_count >= 1

    run(script)
