"""The listeners of an observer: their upstreams, the addresses they open, and who may use them."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Callable, Coroutine
from typing import cast

import msgspec
import structlog

from headgate.hbase import Dialect
from headgate.observer.config import AccessSettings, LimitSettings, Listener, ObserverConfig
from headgate.observer.monitoring.metrics import Metrics
from headgate.observer.security.access import ListenerGuard
from headgate.observer.security.keyring import Keyring
from headgate.observer.security.tls import TlsServer, listening_sockets
from headgate.observer.sessions.endpoint import Endpoint
from headgate.observer.sessions.holdings import Holdings
from headgate.observer.sessions.session import Session
from headgate.observer.sessions.sweeping import Sweeper
from headgate.observer.starting import ObserverAddresses, StartError
from headgate.observer.tuning import served_connections
from headgate.observer.upstreams.dialing import Dialer, UpstreamsUnreachable
from headgate.observer.upstreams.formats import UpstreamFormats
from headgate.observer.upstreams.pool import UpstreamPool, UpstreamView
from headgate.observer.upstreams.probing import HealthChecker
from headgate.settings import parse_address, write_address
from headgate.wire import Limits

_log = structlog.get_logger("headgate.observer.sessions.listening")

_RETRY_SECONDS = 2.0
_DRAIN_SECONDS = 0.05
_BREAK_SECONDS = 2.0
"""For which broken connections may stay: the loop calls ``connection_lost`` some turns later."""
_BACKLOG = 1024  # connections that the kernel holds until they are accepted

EndpointOf = Callable[[str, Dialer, UpstreamFormats, ListenerGuard | None], Endpoint]
"""Makes the endpoint of a listener, by its name."""


class Listeners:
    """Those that the configuration has, by the names of its sections."""

    def __init__(self, config: ObserverConfig, *, keyring: Keyring, metrics: Metrics) -> None:
        """Contact no upstream yet, and open nothing."""
        self._config = config
        self._keyring = keyring
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._dialers = {
            name: Dialer(
                self._loop,
                UpstreamPool(name, listener.upstreams, listener.health),
                config.connect_seconds,
                keyring.upstreams.get(name),
            )
            for name, listener in self._configured()
        }
        mark = f"{config.name}#{secrets.token_hex(4)}"
        for dialer in self._dialers.values():
            dialer.mark = mark
        self._formats = {
            name: UpstreamFormats(self._dialers[name], Dialect(name), listener)
            for name, listener in self._configured()
        }
        self._holdings = Holdings(metrics, config.limits.waiting_bytes)
        self.endpoints: list[Endpoint] = []
        """Those of the listeners that are open."""
        self._sweepers: list[Sweeper] = []
        self._servers: list[asyncio.Server | TlsServer] = []
        self._tasks: set[asyncio.Task[object]] = set()

    def _configured(self) -> list[tuple[str, Listener]]:
        found = (("thrift1", self._config.thrift1), ("thrift2", self._config.thrift2))
        return [(name, listener) for name, listener in found if listener is not None]

    @property
    def names(self) -> tuple[str, ...]:
        """The sections of the configuration that are there."""
        return tuple(self._dialers)

    @property
    def pools(self) -> dict[str, UpstreamPool]:
        """Each listener's upstreams."""
        return {name: dialer.pool for name, dialer in self._dialers.items()}

    # -- upstreams

    async def await_upstreams(self, deadline: float) -> None:
        """Wait until an upstream of each listener answers, and learn what it speaks.

        Raises:
            StartError: one did not before ``deadline`` (the loop's time), or speaks what the
                listener is not for.
        """
        for name, dialer in self._dialers.items():
            while True:
                try:
                    await dialer.reach()
                    break
                except UpstreamsUnreachable as error:
                    _log.warning("waiting for HBase", listener=name, reason=str(error))
                    if self._loop.time() + _RETRY_SECONDS > deadline:
                        raise StartError(
                            f"{error} (waited {self._config.start_seconds:g} s); does it run, "
                            f"and is [{name}] upstream right?"
                        ) from error
                    await asyncio.sleep(_RETRY_SECONDS)
            await self._ask_formats(name)

    async def _ask_formats(self, name: str) -> None:
        """Find out what the upstreams speak; those that cannot be asked now are asked later."""
        formats = self._formats[name]
        await formats.find_all()
        for upstream in self._dialers[name].pool.configured:
            problem = formats.misplaced(upstream)
            if problem:
                raise StartError(problem)

    def _check_upstreams(self) -> None:
        for name, dialer in self._dialers.items():
            checker = HealthChecker(dialer, self._formats[name], time.perf_counter)
            self._run(checker.run())
            # Now that clients are accepted, the way to an upstream may lead back to here.
            for upstream in dialer.pool.members:
                self._run(self._formats[name].find(upstream))

    def _run(self, work: Coroutine[object, object, object]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- clients

    async def open(
        self, endpoint_of: EndpointOf, addresses: ObserverAddresses, *, reuse_port: bool
    ) -> None:
        """Accept clients of each listener, and note where in ``addresses``.

        ``reuse_port``: whether other processes listen on the same addresses.

        Raises:
            StartError: an address cannot be listened on.
        """
        for name, listener in self._configured():
            endpoint = endpoint_of(
                name,
                self._dialers[name],
                self._formats[name],
                self._guard(name, listener, self._config.access),
            )
            try:
                server = await self._open(listener, endpoint, reuse_port=reuse_port)
            except OSError as error:
                raise StartError(
                    f"[{name}] listen = {listener.listen}: {error.strerror or error}; "
                    "choose another address"
                ) from error
            endpoint.order.strict = listener.order.strict
            endpoint.keep_alive_seconds = listener.upstream_keep_alive_seconds
            limits = _served(self._config.limits)
            endpoint.most_connections = limits.connections
            endpoint.holdings = self._holdings
            self.endpoints.append(endpoint)
            self._sweepers.append(
                Sweeper(lambda at=endpoint: at.sessions, limits, self._metrics)  # type: ignore[misc]
            )
            self._servers.append(server)
            for listening in server.sockets:
                # Connections inherit it: one whose host has vanished does not stay for ever.
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            taken = server.sockets[0].getsockname()
            setattr(addresses, name, write_address(*taken[:2]))
        own = {each.getsockname()[:2] for server in self._servers for each in server.sockets}
        for dialer in self._dialers.values():
            dialer.own = own
        self._check_upstreams()

    def _guard(
        self, name: str, listener: Listener, access: AccessSettings | None
    ) -> ListenerGuard | None:
        if not ListenerGuard.needed(listener, access):
            return None
        return ListenerGuard(name, listener, access, metrics=self._metrics, clock=time.monotonic)

    async def _open(
        self, listener: Listener, endpoint: Endpoint, *, reuse_port: bool
    ) -> asyncio.Server | TlsServer:
        host, port = parse_address(listener.listen)
        if listener.tls is None:
            return await self._loop.create_server(
                lambda: cast("asyncio.Protocol", Session(endpoint)),
                host,
                port,
                backlog=_BACKLOG,
                reuse_port=reuse_port,
            )
        return TlsServer(
            await listening_sockets(self._loop, host, port, _BACKLOG, reuse_port=reuse_port),
            loop=self._loop,
            dialect=endpoint.dialect,
            credentials=self._keyring.clients[endpoint.name],
            handshake_seconds=listener.tls.handshake_seconds,
            protocol=lambda: cast("asyncio.Protocol", Session(endpoint)),
            admits=lambda host: endpoint.guard is None or endpoint.guard.admits(host),
            metrics=self._metrics,
        )

    # -- changes

    def prepare_access(self, config: ObserverConfig) -> Callable[[], None]:
        """Return what asks again who may do what, of sessions that are open too.

        Raises:
            ConfigurationError: the agents' key cannot be read.
        """
        found = (("thrift1", config.thrift1), ("thrift2", config.thrift2))
        guards = {
            name: self._guard(name, listener, config.access)
            for name, listener in found
            if listener is not None
        }

        def apply() -> None:
            self._config = config
            for endpoint in self.endpoints:
                endpoint.guard = guards.get(endpoint.name, endpoint.guard)
                for session in list(endpoint.sessions):
                    session.identify()

        return apply

    def reconfigure(self, config: ObserverConfig) -> None:
        """Have other upstreams and limits from now on."""
        self._config = config
        for name, listener in (("thrift1", config.thrift1), ("thrift2", config.thrift2)):
            if listener is not None:
                pool, formats = self._dialers[name].pool, self._formats[name]
                self._dialers[name].connect_seconds = config.connect_seconds
                before = pool.members
                pool.reconfigure(listener.upstreams, listener.health)
                formats.reconfigure(listener)
                for upstream in pool.members:
                    if upstream not in before:
                        self._run(formats.find(upstream))
        limits = _served(config.limits)
        self._holdings.limit = limits.waiting_bytes
        listeners = dict(self._configured())
        for endpoint, sweeper in zip(self.endpoints, self._sweepers, strict=True):
            listener = listeners[endpoint.name]
            endpoint.order.strict = listener.order.strict
            endpoint.keep_alive_seconds = listener.upstream_keep_alive_seconds
            endpoint.limits = wire_limits(limits)
            endpoint.most_connections = limits.connections
            sweeper.limits = limits

    # -- life

    def view(self) -> dict[str, tuple[UpstreamView, ...]]:
        """Report on each listener's upstreams."""
        return {name: dialer.pool.view() for name, dialer in self._dialers.items()}

    def tend(self, now: float) -> None:
        """Find clients that only hold a connection."""
        for sweeper in self._sweepers:
            sweeper.sweep(now)

    def close(self) -> None:
        """Accept no more clients."""
        for server in self._servers:
            server.close()

    async def drain(
        self, until: float, meanwhile: Callable[[], None], at_last: Callable[[], None]
    ) -> None:
        """Let sessions end between requests, and break those that have not at ``until``.

        ``meanwhile`` is called again and again, ``at_last`` once before any is broken: what it
        answers is still sent.
        """
        while self._loop.time() < until:
            open_sessions = [each for endpoint in self.endpoints for each in endpoint.sessions]
            if not open_sessions:
                break
            meanwhile()
            for session in open_sessions:
                session.drain()
            await asyncio.sleep(_DRAIN_SECONDS)
        at_last()
        for session in [each for endpoint in self.endpoints for each in endpoint.sessions]:
            session.drain()
        await asyncio.sleep(_DRAIN_SECONDS)
        for endpoint in self.endpoints:
            for session in list(endpoint.sessions):
                session.abort()
        while left := sum(len(endpoint.sessions) for endpoint in self.endpoints):
            if self._loop.time() > until + _BREAK_SECONDS:
                _log.error("connections do not end; what they had under way is unknown", left=left)
                break
            await asyncio.sleep(_DRAIN_SECONDS)


def _served(limits: LimitSettings) -> LimitSettings:
    """Return the limits with as many connections as this process can serve."""
    return msgspec.structs.replace(limits, connections=served_connections(limits.connections))


def wire_limits(limits: LimitSettings) -> Limits:
    """Return what a reader of requests keeps to."""
    return Limits(
        max_frame=limits.message_bytes,
        max_string=limits.string_bytes,
        max_container=limits.container_elements,
        max_depth=limits.nesting,
    )
