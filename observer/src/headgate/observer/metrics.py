"""Counters of the observer, plain numbers while it works, Prometheus families when asked."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

_MAX_TABLES: Final = 1000  # names come from clients: labels must not grow with what they invent
_OTHER: Final = "(other)"
# Seconds: from what a bare relay adds to what a user would notice.
_ADDED_BOUNDS: Final = (
    0.00001,
    0.00002,
    0.00005,
    0.0001,
    0.0002,
    0.0005,
    0.001,
    0.002,
    0.005,
    0.01,
    0.05,
    0.1,
)
_UPSTREAM_BOUNDS: Final = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)


class Histogram:
    """Counts of seconds in fixed buckets."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    def family(self, name: str, documentation: str) -> HistogramMetricFamily:
        """Return the histogram as Prometheus wants it, buckets cumulated."""
        cumulated, buckets = 0, []
        for bound, count in zip((*self.bounds, None), self.counts, strict=True):
            cumulated += count
            buckets.append(("+Inf" if bound is None else str(bound), cumulated))
        family = HistogramMetricFamily(name, documentation)
        family.add_metric([], buckets, self.total)
        return family


class Metrics(Collector):
    """What the observer counts. ``gauges`` are asked when Prometheus asks."""

    def __init__(self) -> None:
        """Begin with zeros."""
        self.requests: dict[tuple[str, str, str], int] = {}
        """By listener, method and outcome."""
        self.reads: dict[str, int] = {}
        """By table."""
        self.added = Histogram(_ADDED_BOUNDS)
        self.upstream = Histogram(_UPSTREAM_BOUNDS)
        self.connections = 0
        self.connections_accepted = 0
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
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def gauge(self, name: str, documentation: str, value: Callable[[], float]) -> None:
        """Add a gauge ``headgate_observer_<name>``."""
        self._gauges.append((name, documentation, value))

    def counter(self, name: str, documentation: str, value: Callable[[], float]) -> None:
        """Add a counter ``headgate_observer_<name>_total``."""
        self._counters.append((name, documentation, value))

    def count_request(self, listener: str, method: str, outcome: str) -> None:
        """Count a request that has ended."""
        key = (listener, method, outcome)
        self.requests[key] = self.requests.get(key, 0) + 1

    def count_read(self, table: str) -> None:
        """Count a read of a table."""
        reads = self.reads
        if table in reads:
            reads[table] += 1
            return
        name = table if len(reads) < _MAX_TABLES else _OTHER
        reads[name] = reads.get(name, 0) + 1

    def text(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families; called by the Prometheus client."""
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
            "events",
            "Requests published as events, by outcome.",
            ("outcome",),
            (((outcome,), count) for outcome, count in self.events.items()),
        )
        totals = (
            ("connections_accepted", "Client connections.", self.connections_accepted),
            ("protocol_errors", "Connections refused: unreadable.", self.protocol_errors),
            ("decode_errors", "Writes that could not be decoded.", self.decode_errors),
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
        yield self.added.family(
            "headgate_observer_added_seconds", "Time that the observer itself took for a request."
        )
        yield self.upstream.family(
            "headgate_observer_upstream_seconds",
            "From forwarding a request to the first bytes of its reply.",
        )


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
