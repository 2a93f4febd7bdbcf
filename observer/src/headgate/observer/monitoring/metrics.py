"""Counters of the observer, plain numbers while it works, Prometheus families when asked."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from headgate.events import key_text
from headgate.observer.monitoring.excerpts import excerpt

_MAX_TABLES: Final = 1000  # names come from clients: labels must not grow with what they invent
_MAX_COLUMNS: Final = 2000  # of all tables together, likewise
_LONGEST_COLUMN: Final = 256  # bytes of a name worth a label
_MAX_ORIGINS: Final = 500  # likewise
_MAX_REQUESTS: Final = 2000  # two dialects of some 60 methods each, with a few outcomes
_OTHER: Final = "(other)"
SECONDS: Final = (
    *(round(digit * 10.0**exponent, 5) for exponent in range(-5, 1) for digit in (1, 2, 5)),
    10.0,
)
"""Upper bounds of the buckets: from what a bare relay adds to where clients give up."""
THINNED: Final = 8
"""Where requests of known kinds come in great numbers, one in so many is observed for all."""


class Histogram:
    """Counts of seconds in fixed buckets."""

    __slots__ = ("_total", "bounds", "counts", "new", "thinned")

    def __init__(self, bounds: tuple[float, ...] = SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self._total = 0.0
        self.new: list[float] = []
        """What was observed, until ``settle`` puts it into buckets: who observes is in a hurry."""
        self.thinned: list[float] = []
        """Likewise; each stands for ``THINNED`` of which it was the only one to be observed."""

    def settle(self) -> None:
        """Count what was observed. Call it now and then: until then each value takes memory."""
        self._count(self.new, 1)
        self._count(self.thinned, THINNED)

    def _count(self, values: list[float], times: int) -> None:
        if not values:
            return
        counts, bounds = self.counts, self.bounds
        self._total += sum(values) * times
        values.sort()
        before = 0
        for bucket, bound in enumerate(bounds):
            through = bisect_right(values, bound, before)
            counts[bucket] += (through - before) * times
            before = through
        counts[-1] += (len(values) - before) * times
        values.clear()

    @property
    def total(self) -> float:
        """Sum of all values, in seconds."""
        return self._total + sum(self.new) + sum(self.thinned) * THINNED

    def buckets(self) -> list[tuple[str, int]]:
        """Return how many values are at or below each bound, as Prometheus wants them."""
        self.settle()
        cumulated, buckets = 0, []
        for bound, count in zip((*self.bounds, None), self.counts, strict=True):
            cumulated += count
            buckets.append(("+Inf" if bound is None else str(bound), cumulated))
        return buckets


class Sample:
    """Where the times of one request go."""

    __slots__ = ("added", "upstream")

    def __init__(self, added: list[float], upstream: list[float]) -> None:
        self.added = added
        self.upstream = upstream


class Timings:
    """How long the requests of one listener take."""

    __slots__ = ("added", "each", "thinned", "upstream")

    def __init__(self) -> None:
        self.added = Histogram()
        """What the observer itself takes."""
        self.upstream = Histogram()
        """From forwarding to the first bytes of the reply."""
        self.each = Sample(self.added.new, self.upstream.new)
        """For a request that stands for itself."""
        self.thinned = Sample(self.added.thinned, self.upstream.thinned)
        """For one that stands for ``THINNED``."""


class Metrics(Collector):
    """What the observer counts. ``gauges`` are asked when Prometheus asks."""

    def __init__(self) -> None:
        """Begin with zeros."""
        self.requests: dict[tuple[str, str, str], int] = {}
        """By listener, method and outcome."""
        self.reads: dict[str, int] = {}
        """By table."""
        self.column_reads: dict[tuple[str, str], int] = {}
        """By table and column; the empty column stands for reads of whole rows."""
        self.timings: dict[str, Timings] = {}
        """By listener."""
        self.connections = 0
        self.connections_accepted = 0
        self.refusals: dict[str, int] = {}
        """Connections that were refused, by reason; those that could not be read come on top."""
        self.tls_failures: dict[tuple[str, str], int] = {}
        """Handshakes with clients that failed, by listener and reason."""
        self.access_denied: dict[tuple[str, str], int] = {}
        """Requests that the rules refuse, by listener and origin."""
        self.certificate_expiries: Callable[[], Iterable[tuple[tuple[str, str], float]]] = tuple
        """Asked for listener, certificate and when it expires (Unix seconds)."""
        self.protocol_errors = 0
        self.decode_errors = 0
        self.fenced = 0
        self.barriers = 0
        self.events: dict[str, int] = {}
        """Requests published, by outcome."""
        self.received_bytes = 0
        self.sent_bytes = 0
        self._gauges: list[tuple[str, str, Callable[[], float]]] = []
        self._counters: list[tuple[str, str, Callable[[], float]]] = []
        self._histograms: list[tuple[str, str, Histogram]] = []
        self._before_settling: dict[str, Callable[[], None]] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def register(self, collector: Collector) -> None:
        """Add families that are kept elsewhere, such as those with labels of their own."""
        self._registry.register(collector)

    def gauge(self, name: str, documentation: str, value: Callable[[], float]) -> None:
        """Add a gauge ``headgate_observer_<name>``."""
        self._gauges.append((name, documentation, value))

    def counter(self, name: str, documentation: str, value: Callable[[], float]) -> None:
        """Add a counter ``headgate_observer_<name>_total``."""
        self._counters.append((name, documentation, value))

    def histogram(self, name: str, documentation: str, histogram: Histogram) -> None:
        """Add a histogram ``headgate_observer_<name>`` that is kept elsewhere."""
        self._histograms.append((name, documentation, histogram))

    def timings_of(self, listener: str) -> Timings:
        """Return the histograms of a listener."""
        return self.timings.setdefault(listener, Timings())

    def before_settling(self, listener: str, call: Callable[[], None]) -> None:
        """Have a listener called that counts some of its requests many at a time."""
        self._before_settling[listener] = call

    def settle(self) -> None:
        """Count what listeners have put aside and histograms have taken since the last call."""
        for call in self._before_settling.values():
            call()
        for timings in self.timings.values():
            timings.added.settle()
            timings.upstream.settle()
        for _, _, histogram in self._histograms:
            histogram.settle()

    @property
    def waited_seconds(self) -> float:
        """For how long all requests together have waited for HBase."""
        return sum(timings.upstream.total for timings in self.timings.values())

    def count_request(self, listener: str, method: str, outcome: str, count: int = 1) -> None:
        """Count a request, or several alike, that ended."""
        requests = self.requests
        key = (listener, method, outcome)
        if key in requests:
            requests[key] += count
            return
        if len(requests) >= _MAX_REQUESTS:
            method = _OTHER
        key = (listener, excerpt(method), outcome)
        requests[key] = requests.get(key, 0) + count

    def count_refusal(self, reason: str) -> None:
        """Count a connection that was refused for one of a few reasons."""
        self.refusals[reason] = self.refusals.get(reason, 0) + 1

    def count_tls_failure(self, listener: str, reason: str) -> None:
        """Count a handshake with a client that failed for one of a few reasons."""
        key = (listener, reason)
        self.tls_failures[key] = self.tls_failures.get(key, 0) + 1

    def count_denied(self, listener: str, origin: str) -> None:
        """Count a request that the rules refuse to an origin, whose name a client may invent."""
        denied = self.access_denied
        origin = excerpt(origin)
        if (listener, origin) not in denied and len(denied) >= _MAX_ORIGINS:
            origin = _OTHER
        denied[listener, origin] = denied.get((listener, origin), 0) + 1

    def count_read(self, table: str, count: int = 1) -> None:
        """Count a read of a table, or several."""
        reads = self.reads
        if table in reads:
            reads[table] += count
            return
        name = excerpt(table)
        if name not in reads and len(reads) >= _MAX_TABLES:
            name = _OTHER
        reads[name] = reads.get(name, 0) + count

    def count_column_read(self, table: str, column: bytes, count: int = 1) -> None:
        """Count a read that names a column of a table, or several; empty: it reads whole rows."""
        reads = self.column_reads
        if table not in self.reads:
            table = _OTHER
        name = key_text(column)
        if len(column) > _LONGEST_COLUMN or (
            (table, name) not in reads and len(reads) >= _MAX_COLUMNS
        ):
            name = _OTHER
        reads[table, name] = reads.get((table, name), 0) + count

    def reads_of(self, tables: Collection[str], most: int) -> dict[str, dict[str, int]]:
        """Return the columns of some tables that are read most, ``most`` of all in all."""
        found = [(key, count) for key, count in self.column_reads.items() if key[0] in tables]
        found.sort(key=lambda each: -each[1])
        by_table: dict[str, dict[str, int]] = {}
        for (table, column), count in found[:most]:
            by_table.setdefault(table, {})[column] = count
        return by_table

    def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families; called by the Prometheus client."""
        self.settle()
        yield _counter(
            "requests",
            "Requests that have ended.",
            ("listener", "method", "outcome"),
            self.requests.items(),
        )
        yield _counter(
            "reads",
            "Reads, by table.",
            ("table",),
            (((table,), count) for table, count in self.reads.items()),
        )
        yield _counter(
            "column_reads",
            "Reads that name a column, by table and column; without a column those of whole rows.",
            ("table", "column"),
            self.column_reads.items(),
        )
        yield _counter(
            "events",
            "Requests published as events, by outcome.",
            ("outcome",),
            (((outcome,), count) for outcome, count in self.events.items()),
        )
        refusals = {**self.refusals, "unreadable": self.protocol_errors}
        yield _counter(
            "connections_refused",
            "Client connections that were refused, by reason.",
            ("reason",),
            (((reason,), count) for reason, count in refusals.items()),
        )
        yield _counter(
            "tls_failures",
            "TLS handshakes with clients that failed, by reason.",
            ("listener", "reason"),
            self.tls_failures.items(),
        )
        yield _counter(
            "access_denied",
            "Requests that the rules of access refuse, by origin.",
            ("listener", "origin"),
            self.access_denied.items(),
        )
        expiries = GaugeMetricFamily(
            "headgate_observer_certificate_expiry_timestamp_seconds",
            "When the first of the certificates expires, in Unix time.",
            labels=("listener", "certificate"),
        )
        for labels, expiry in self.certificate_expiries():
            expiries.add_metric(labels, expiry)
        yield expiries
        totals = (
            ("connections_accepted", "Client connections.", self.connections_accepted),
            ("decode_errors", "Requests refused because they cannot be read.", self.decode_errors),
            ("fenced_writes", "Writes refused because a newer run exists.", self.fenced),
            ("barriers", "Barriers answered, once for each table.", self.barriers),
            ("received_bytes", "Bytes from clients.", self.received_bytes),
            ("sent_bytes", "Bytes to clients.", self.sent_bytes),
        )
        for name, documentation, value in totals:
            yield CounterMetricFamily(f"headgate_observer_{name}", documentation, value=value)
        for name, documentation, count in self._counters:
            yield CounterMetricFamily(f"headgate_observer_{name}", documentation, value=count())
        yield GaugeMetricFamily(
            "headgate_observer_connections", "Client connections now.", value=self.connections
        )
        for name, documentation, measure in self._gauges:
            yield GaugeMetricFamily(f"headgate_observer_{name}", documentation, value=measure())
        yield _histogram(
            "added_seconds",
            "Time that the observer itself took for a step of a request.",
            {name: timings.added for name, timings in self.timings.items()},
        )
        yield _histogram(
            "upstream_seconds",
            "From forwarding a request to the first bytes of its reply.",
            {name: timings.upstream for name, timings in self.timings.items()},
        )
        for name, documentation, histogram in self._histograms:
            yield _histogram(name, documentation, {"": histogram})


def _histogram(
    name: str, documentation: str, by_listener: dict[str, Histogram]
) -> HistogramMetricFamily:
    labels = () if "" in by_listener else ("listener",)
    family = HistogramMetricFamily(f"headgate_observer_{name}", documentation, labels=labels)
    for listener, histogram in by_listener.items():
        family.add_metric((listener,) if labels else (), histogram.buckets(), histogram.total)
    return family


def _counter(
    name: str,
    documentation: str,
    labels: tuple[str, ...],
    samples: Iterable[tuple[tuple[str, ...], int]],
) -> CounterMetricFamily:
    family = CounterMetricFamily(f"headgate_observer_{name}", documentation, labels=labels)
    for values, count in samples:
        family.add_metric(values, count)
    return family
