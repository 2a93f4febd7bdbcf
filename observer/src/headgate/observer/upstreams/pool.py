"""The HBase Thrift servers behind a listener: which are well, and which one a new client gets.

A client's connection stays with one upstream for its life, because scanners live in one server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, StrEnum
from typing import Protocol

import structlog
from msgspec import Struct, structs
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headgate.observer.config import HealthChecks
from headgate.observer.upstreams.circles import circle_text
from headgate.settings import parse_address

_log = structlog.get_logger("headgate.observer.upstreams.pool")


class UpstreamHealth(StrEnum):
    """Whether new clients go to an upstream."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    """Only when no other is left."""
    DRAINING = "draining"
    """Not configured any more: it keeps the clients that it has."""


class CheckFailure(Enum):
    """How a check failed."""

    ANSWERED = "the server answered wrongly, or ended the connection"
    SILENT = "nothing came back: the server or the way to it hangs"


class Pinned(Protocol):
    """A client's connection to an upstream."""

    def waits_since(self) -> float | None:
        """Return when the request was forwarded that waits longest, or its reply last went on."""

    def cut(self) -> None:
        """Break the connection: what is under way may or may not have been done."""


class Upstream:
    """One server of a pool, as the pool sees it."""

    __slots__ = (
        "address",
        "chosen",
        "circle",
        "failed",
        "failures",
        "health",
        "host",
        "opening",
        "passed",
        "pinned",
        "port",
        "reason",
        "silent",
        "suspected",
    )

    def __init__(self, address: str) -> None:
        """Begin as healthy; ``address`` is ``host:port``."""
        self.address = address
        self.host, self.port = parse_address(address)
        self.health = UpstreamHealth.HEALTHY
        self.reason = ""
        """Why it is unhealthy."""
        self.pinned: set[Pinned] = set()
        """Clients' connections."""
        self.opening = 0
        """Connections that are being opened, for clients and for checks."""
        self.failures = 0
        """Failed checks and connections, since the start."""
        self.passed = 0
        """Checks in a row that it passed."""
        self.failed = 0
        """Checks in a row that it failed."""
        self.silent = 0
        """Checks in a row that it did not answer."""
        self.suspected = False
        """Whether it has just broken requests: others are better until a check has passed."""
        self.circle = ""
        """The way from it back to an observer that stands before it; no client goes there then."""
        self.chosen = 0
        """The turn in which it was last chosen."""

    @property
    def load(self) -> int:
        """Connections that it has or is about to have."""
        return len(self.pinned) + self.opening


class UpstreamView(Struct, frozen=True):
    """An upstream's state, as ``/upstreams`` shows it to operators."""

    upstream: str
    health: str
    connections: int
    failures: int
    reason: str


def merged(
    workers: Iterable[Mapping[str, Iterable[UpstreamView]]],
) -> dict[str, tuple[UpstreamView, ...]]:
    """Return the views of several workers as one: sums, and what any of them finds wrong."""
    found: dict[tuple[str, str], UpstreamView] = {}
    for worker in workers:
        for listener, views in worker.items():
            for view in views:
                before = found.get((listener, view.upstream))
                if before is not None:
                    worse = max(
                        before, view, key=lambda each: each.health != UpstreamHealth.HEALTHY
                    )
                    view = structs.replace(
                        worse,
                        connections=before.connections + view.connections,
                        failures=before.failures + view.failures,
                    )
                found[listener, view.upstream] = view
    listeners = dict.fromkeys(listener for listener, _ in found)
    return {
        each: tuple(view for (listener, _), view in found.items() if listener == each)
        for each in listeners
    }


class UpstreamPool:
    """Chooses among the upstreams of one listener. It opens nothing itself."""

    def __init__(self, listener: str, addresses: Iterable[str], checks: HealthChecks) -> None:
        """Begin with all healthy; ``listener`` is its name in messages."""
        self.listener = listener
        self.checks = checks
        self.suspect: Callable[[Upstream], None] = lambda _upstream: None
        """Has an upstream checked soon; set by whoever checks."""
        self._turn = 0
        self._members = {address: Upstream(address) for address in addresses}

    @property
    def members(self) -> tuple[Upstream, ...]:
        """Those that are configured, and those that still have clients."""
        return tuple(self._members.values())

    @property
    def configured(self) -> list[Upstream]:
        """Those that new clients may get."""
        return [
            each for each in self._members.values() if each.health is not UpstreamHealth.DRAINING
        ]

    @property
    def reasons(self) -> tuple[str, ...]:
        """What is wrong with upstreams, in words."""
        return tuple(
            f"{self.listener}: upstream {each.address} is unhealthy: {each.reason}"
            for each in self.members
            if each.health is UpstreamHealth.UNHEALTHY
        )

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
                each.health is not UpstreamHealth.HEALTHY,
                each.suspected,
                0 if each.health is UpstreamHealth.HEALTHY else -each.passed,
                each.load,
                each.chosen,
            ),
        )
        best.chosen = self._turn
        return best

    # -- what happens to connections

    def opened(self, upstream: Upstream, connection: Pinned) -> None:
        """Note a client's connection."""
        upstream.pinned.add(connection)

    def closed(self, upstream: Upstream, connection: Pinned) -> None:
        """Note that it is over; the last one of a draining upstream ends that."""
        upstream.pinned.discard(connection)
        self._forget_if_drained(upstream)

    def broken(self, upstream: Upstream) -> None:
        """Note that it ended a connection with requests under way: it is looked at."""
        upstream.failures += 1
        # A process that is being killed may still take connections for a moment.
        upstream.suspected = True
        self.suspect(upstream)

    def refused(self, upstream: Upstream, reason: str) -> None:
        """Note that it took no connection: it is unhealthy at once."""
        upstream.failures += 1
        upstream.passed = upstream.silent = 0
        self._fall(upstream, reason)

    def leads_back(self, upstream: Upstream, way: str) -> None:
        """Note that a call to it came back to an observer that it had passed.

        No client goes there before ``rise`` checks have passed.
        """
        upstream.failures += 1
        upstream.passed = upstream.silent = 0
        upstream.circle = way
        self._fall(upstream, circle_text(way))

    # -- what checks say

    def passed(self, upstream: Upstream) -> None:
        """Note a check that went well."""
        upstream.failed = upstream.silent = 0
        upstream.suspected = False
        upstream.passed += 1
        if upstream.health is UpstreamHealth.UNHEALTHY and upstream.passed >= self.checks.rise:
            upstream.health, upstream.reason, upstream.circle = UpstreamHealth.HEALTHY, "", ""
            _log.info("upstream is healthy", listener=self.listener, upstream=upstream.address)

    def failed(self, upstream: Upstream, failure: CheckFailure, reason: str) -> None:
        """Note a check that failed."""
        upstream.failures += 1
        upstream.passed = 0
        upstream.failed += 1
        upstream.silent = upstream.silent + 1 if failure is CheckFailure.SILENT else 0
        if upstream.failed >= self.checks.fall:
            self._fall(upstream, reason)

    def _fall(self, upstream: Upstream, reason: str) -> None:
        if upstream.health is not UpstreamHealth.DRAINING:
            if upstream.health is UpstreamHealth.HEALTHY:
                _log.warning(
                    "upstream is unhealthy",
                    listener=self.listener,
                    upstream=upstream.address,
                    reason=reason,
                )
            upstream.health = UpstreamHealth.UNHEALTHY
        upstream.reason = reason

    def cut_hung(self, now: float) -> None:
        """Cut what has waited too long at upstreams that hang; the rest may still be answered."""
        limit = self.checks.hung_seconds
        for upstream in self.members:
            if upstream.silent < self.checks.fall:
                continue
            waiting = [(each, each.waits_since()) for each in upstream.pinned]
            hung = [each for each, since in waiting if since is not None and now - since > limit]
            if hung:
                _log.warning(
                    "upstream hangs: its requests are cut off",
                    listener=self.listener,
                    upstream=upstream.address,
                    connections=len(hung),
                )
            for connection in hung:
                connection.cut()

    # -- configuration

    def reconfigure(self, addresses: Iterable[str], checks: HealthChecks | None = None) -> None:
        """Have these upstreams from now on; those left out keep their clients until they end.

        The checks stay as they are unless others are given.
        """
        if checks is not None:
            self.checks = checks
        wanted = tuple(addresses)
        for upstream in self.members:
            if upstream.address not in wanted and upstream.health is not UpstreamHealth.DRAINING:
                upstream.health = UpstreamHealth.DRAINING
                _log.info(
                    "upstream is draining",
                    listener=self.listener,
                    upstream=upstream.address,
                    connections=len(upstream.pinned),
                )
                self._forget_if_drained(upstream)
        for address in wanted:
            upstream = self._members.setdefault(address, Upstream(address))
            if upstream.health is UpstreamHealth.DRAINING:
                upstream.health, upstream.reason, upstream.circle = UpstreamHealth.HEALTHY, "", ""
                upstream.failed = upstream.passed = 0

    def _forget_if_drained(self, upstream: Upstream) -> None:
        if upstream.health is UpstreamHealth.DRAINING and not upstream.pinned:
            self._members.pop(upstream.address, None)
            _log.info("upstream is drained", listener=self.listener, upstream=upstream.address)

    def view(self) -> tuple[UpstreamView, ...]:
        """Return the state of each member."""
        return tuple(
            UpstreamView(
                each.address, each.health.value, len(each.pinned), each.failures, each.reason
            )
            for each in self.members
        )


class UpstreamMetrics(Collector):
    """The metrics of all pools."""

    def __init__(self, pools: Iterable[UpstreamPool]) -> None:
        """Report on these."""
        self._pools = tuple(pools)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families; called by the Prometheus client."""
        labels = ("listener", "upstream")
        prefix = "headgate_observer_upstream"
        up = GaugeMetricFamily(f"{prefix}_up", "1 while new clients go there.", labels=labels)
        connections = GaugeMetricFamily(
            f"{prefix}_connections", "Clients' connections now.", labels=labels
        )
        failures = CounterMetricFamily(
            f"{prefix}_failures",
            "Failed checks, connections refused and connections broken with requests under way.",
            labels=labels,
        )
        for pool in self._pools:
            for each in pool.members:
                names = (pool.listener, each.address)
                up.add_metric(names, float(each.health is UpstreamHealth.HEALTHY))
                connections.add_metric(names, len(each.pinned))
                failures.add_metric(names, each.failures)
        yield from (up, connections, failures)
