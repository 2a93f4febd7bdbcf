"""The HBase Thrift servers behind a listener: which are well, and which one a new client gets.

A client's connection stays with one upstream for its life, because scanners live in one server.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import structlog
from msgspec import Struct

from headgate.observer.config import HealthChecks
from headgate.settings import parse_address

_log = structlog.get_logger("headgate.observer.upstreams")


class Health(StrEnum):
    """Whether new clients go to an upstream."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    """Only when no other is left."""
    DRAINING = "draining"
    """Not configured any more: it keeps the clients that it has."""


class Upstream:
    """One server of a pool, as the pool sees it."""

    __slots__ = (
        "address",
        "chosen",
        "connections",
        "failed",
        "failures",
        "health",
        "host",
        "opening",
        "passed",
        "port",
        "reason",
    )

    def __init__(self, address: str) -> None:
        """Begin as healthy; ``address`` is ``host:port``."""
        self.address = address
        self.host, self.port = parse_address(address)
        self.health = Health.HEALTHY
        self.reason = ""
        """Why it is unhealthy."""
        self.connections = 0
        self.opening = 0
        """Connections that are being opened."""
        self.failures = 0
        """Failed checks and connections, since the start."""
        self.passed = 0
        """Checks in a row that it passed."""
        self.failed = 0
        """Checks in a row that it failed."""
        self.chosen = 0
        """The turn in which it was last chosen."""

    @property
    def load(self) -> int:
        """Connections that it has or is about to have."""
        return self.connections + self.opening


class UpstreamView(Struct, frozen=True):
    """What an operator is told of an upstream."""

    upstream: str
    health: str
    connections: int
    failures: int
    reason: str


class UpstreamPool:
    """Chooses among the upstreams of one listener. It opens nothing itself."""

    def __init__(self, listener: str, addresses: Iterable[str], checks: HealthChecks) -> None:
        """Begin with all healthy; ``listener`` is its name in messages."""
        self.listener = listener
        self.checks = checks
        self._turn = 0
        self._members = {address: Upstream(address) for address in addresses}

    @property
    def members(self) -> tuple[Upstream, ...]:
        """Those that are configured, and those that still have clients."""
        return tuple(self._members.values())

    @property
    def configured(self) -> list[Upstream]:
        """Those that new clients may get."""
        return [each for each in self._members.values() if each.health is not Health.DRAINING]

    def choose(self, tried: Iterable[Upstream] = ()) -> Upstream | None:
        """Return the upstream for a new connection; None when all have been tried.

        That is the healthy one with the fewest connections, of equals the one whose turn is longest
        ago; an unhealthy one when no healthy one is left, the likeliest to be back first.
        """
        excluded = set(tried)
        left = [each for each in self.configured if each not in excluded]
        if not left:
            return None
        self._turn += 1
        best = min(
            left,
            key=lambda each: (
                each.health is not Health.HEALTHY,
                0 if each.health is Health.HEALTHY else -each.passed,
                each.load,
                each.chosen,
            ),
        )
        best.chosen = self._turn
        return best

    # -- what happens to connections

    def opened(self, upstream: Upstream) -> None:
        """Count a connection."""
        upstream.connections += 1

    def closed(self, upstream: Upstream) -> None:
        """Count a connection off; the last one of a draining upstream ends it."""
        upstream.connections -= 1
        if upstream.health is Health.DRAINING and not upstream.load:
            self._forget(upstream)

    def refused(self, upstream: Upstream, reason: str) -> None:
        """Note that it took no connection: it is unhealthy at once."""
        upstream.failures += 1
        upstream.passed = 0
        self._fall(upstream, reason)

    # -- what checks say

    def passed(self, upstream: Upstream) -> None:
        """Note a check that went well."""
        upstream.failed = 0
        upstream.passed += 1
        if upstream.health is Health.UNHEALTHY and upstream.passed >= self.checks.rise:
            upstream.health, upstream.reason = Health.HEALTHY, ""
            _log.info("upstream is healthy", listener=self.listener, upstream=upstream.address)

    def failed(self, upstream: Upstream, reason: str) -> None:
        """Note a check that failed."""
        upstream.failures += 1
        upstream.passed = 0
        upstream.failed += 1
        if upstream.failed >= self.checks.fall:
            self._fall(upstream, reason)

    def _fall(self, upstream: Upstream, reason: str) -> None:
        if upstream.health is not Health.DRAINING:
            if upstream.health is Health.HEALTHY:
                _log.warning(
                    "upstream is unhealthy",
                    listener=self.listener,
                    upstream=upstream.address,
                    reason=reason,
                )
            upstream.health = Health.UNHEALTHY
        upstream.reason = reason

    # -- configuration

    def reconfigure(self, addresses: Iterable[str]) -> None:
        """Have these upstreams from now on; those left out keep their clients until they end."""
        wanted = tuple(addresses)
        for upstream in self.members:
            if upstream.address not in wanted and upstream.health is not Health.DRAINING:
                upstream.health = Health.DRAINING
                _log.info(
                    "upstream is draining",
                    listener=self.listener,
                    upstream=upstream.address,
                    connections=upstream.connections,
                )
                if not upstream.load:
                    self._forget(upstream)
        for address in wanted:
            upstream = self._members.setdefault(address, Upstream(address))
            if upstream.health is Health.DRAINING:
                upstream.health, upstream.reason = Health.HEALTHY, ""
                upstream.failed = upstream.passed = 0

    def _forget(self, upstream: Upstream) -> None:
        del self._members[upstream.address]
        _log.info("upstream is drained", listener=self.listener, upstream=upstream.address)

    def view(self) -> tuple[UpstreamView, ...]:
        """Return what an operator is told."""
        return tuple(
            UpstreamView(
                each.address, each.health.value, each.connections, each.failures, each.reason
            )
            for each in self.members
        )
