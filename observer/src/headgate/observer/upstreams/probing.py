"""Health checks: what an upstream is asked between clients, and what its answer says.

A check opens a connection as a client does and makes one call, so that it sees what a new client
would: a server that takes connections and never answers is found out by it.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable
from typing import Final

import structlog

from headgate.hbase import Dialect
from headgate.observer.config import Check
from headgate.observer.upstreams.asking import PING, ReplyKind, ask, reply_kind
from headgate.observer.upstreams.circles import Circle
from headgate.observer.upstreams.dialing import Dialer, reason_of
from headgate.observer.upstreams.formats import UpstreamFormats
from headgate.observer.upstreams.pool import CheckFailure, Upstream
from headgate.wire import ProtocolError

_log = structlog.get_logger("headgate.observer.upstreams.probing")

_JITTER: Final = 0.1  # of the interval: the observers of a cluster must not ask in step
_UNREACHABLE: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT})

_METHODS: Final = {
    Check.PING: dict.fromkeys(Dialect, PING),
    Check.HBASE: {
        Dialect.THRIFT1: "getTableNames",
        Dialect.THRIFT2: "listNamespaceDescriptors",
    },
}
"""Calls without arguments."""


class HealthChecker:
    """Checks the upstreams of one pool for as long as it runs."""

    def __init__(
        self, dialer: Dialer, formats: UpstreamFormats, clock: Callable[[], float]
    ) -> None:
        """Check the dialer's pool; ``clock`` gives the seconds that requests are timed with."""
        self._dialer = dialer
        self._pool = dialer.pool
        self._formats = formats
        self._clock = clock
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
        """Check one upstream and report to the pool."""
        checks = self._pool.checks
        try:
            async with asyncio.timeout(checks.timeout_seconds):
                problem = await self._ask(upstream)
        except Circle as error:
            self._pool.leads_back(upstream, str(error))
        except ConnectionRefusedError as error:
            self._pool.refused(upstream, reason_of(error))
        except TimeoutError:
            reason = f"no answer to a health check within {checks.timeout_seconds:g} s"
            self._pool.failed(upstream, CheckFailure.SILENT, reason)
        except OSError as error:
            kind = CheckFailure.SILENT if error.errno in _UNREACHABLE else CheckFailure.ANSWERED
            self._pool.failed(upstream, kind, reason_of(error))
        except Exception as error:  # noqa: BLE001 - others are served all the same
            _log.exception("a health check failed", upstream=upstream.address)
            reason = f"a fault of the observer: {error}"
            self._pool.failed(upstream, CheckFailure.ANSWERED, reason)
        else:
            if problem:
                self._pool.failed(upstream, CheckFailure.ANSWERED, problem)
            else:
                self._pool.passed(upstream)

    async def _ask(self, upstream: Upstream) -> str:
        """Return what is wrong with an upstream's answer; nothing when it is well."""
        check = self._pool.checks.check
        if check is Check.CONNECT:
            if not upstream.circle:
                await self._dialer.visit(upstream)
                return ""
            check = Check.PING
        method = _METHODS[check][self._formats.dialect]
        known = self._formats.known(upstream)
        if known is None:
            # It may have come back speaking another.
            detected = await self._formats.ask(upstream)
            known = detected.format
            if known is None:
                problem = f"it answers {PING} in no kind of Thrift"
                if detected.foreign:
                    return f"{problem}, but {detected.foreign}"
                return f"{problem}; does it want SASL, TLS or HTTP?"
            if check is Check.PING:
                return ""
        try:
            reply = await ask(self._dialer, upstream, known, method)
            kind = None if reply is None else reply_kind(reply)
        except ProtocolError as error:
            return f"its answer to {method} cannot be read: {error}"
        if kind is None:
            self._formats.forget(upstream)
            return f"it closes the connection on {method}"
        # To a ping, every answer says that the server lives.
        if kind is ReplyKind.RESULT or check is Check.PING:
            return ""
        return f"{method} ends with {kind.value}"
