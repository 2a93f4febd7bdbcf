"""The metrics of ``/metrics``, in Prometheus' conventions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from headgate.engine import PolicyReport

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds, for what should take milliseconds."""
_SLOW = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
"""Seconds, for steps."""


class AgentMetrics:
    """All metrics of an agent, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        flow = ("dataflow",)
        action = (*flow, "action")
        self.cells = self._counter("cells_consumed", "Cells of updates consumed.", flow)
        self.records_set_aside = self._counter(
            "records_set_aside",
            "Records left out because they cannot be read, or because the engine fails on them.",
            (*flow, "topic"),
        )
        self.undelivered = self._counter(
            "messages_undelivered", "Messages that Kafka will never have.", ("topic",)
        )
        self.thread_failures = self._counter(
            "thread_failures", "Threads that an error ended and that began again.", ("kind",)
        )
        self.broken = self._gauge(
            "dataflows_failed", "Dataflows that this agent could not go on with.", ()
        )
        self.decisions = self._counter(
            "decisions", "What the engine decided.", (*flow, "kind", "action")
        )
        self.runs = self._counter(
            "runs",
            "Attempts that ended, by outcome and by what set them off.",
            (*action, "outcome", "cause"),
        )
        self.runs_saved = self._gauge("runs_saved", "Runs that bounds made needless.", action)
        self.bound_fill = self._gauge(
            "bound_fill_ratio", "How full a bound is; 1 is reached.", (*action, "bound", "vector")
        )
        self.lag = self._gauge(
            "consumer_lag_records", "Records not consumed yet.", (*flow, "topic", "partition")
        )
        self.retention_used = self._gauge(
            "retention_used_ratio",
            "How old the oldest record is that a next run needs; at 1 Kafka deletes it.",
            (*flow, "topic"),
        )
        self.snapshot_bytes = self._gauge("snapshot_bytes", "Size of the last checkpoint.", flow)
        self.checkpoint_seconds = self._histogram(
            "checkpoint_seconds", "Time to save a checkpoint.", flow, _FAST
        )
        self.barrier_seconds = self._histogram(
            "barrier_seconds",
            "From asking for a barrier until all before it was consumed.",
            flow,
            _FAST,
        )
        self.delay = self._histogram(
            "update_delay_seconds", "From an update's publication to the engine.", flow, _FAST
        )
        self.launch_latency = self._histogram(
            "launch_latency_seconds",
            "From the decision to run until the step is called.",
            flow,
            _SLOW,
        )
        self.run_seconds = self._histogram("run_seconds", "Time a step took.", action, _SLOW)
        output = (*flow, "output")
        self.trainings = self._counter(
            "trainings", "Trainings for an output, by what came of them.", (*output, "outcome")
        )
        self.training_seconds = self._histogram(
            "training_seconds", "Time a training took.", flow, _SLOW
        )
        self.model_age = self._gauge(
            "model_age_waves", "Waves since the model of an output began to decide.", output
        )
        self.violation_rate = self._gauge(
            "audited_violation_ratio",
            "Share of the audited skips that left an output out of its bound, and the ends of its "
            "confidence interval; allowed is what the stated confidence leaves.",
            (*output, "value"),
        )
        self.scan_seconds = self._histogram(
            "scan_seconds", "Time to scan a table for what went round.", ("table",), _SLOW
        )
        self.found = self._counter("cells_found", "Cells that went round observers.", ("table",))
        self.denied = self._counter(
            "requests_denied", "Requests to the API that its guard refused.", ("reason",)
        )
        self.owned = self._gauge("dataflows", "Dataflows that this agent runs.", ())
        self.spares = self._gauge("spare_sessions", "Warm sessions that nobody has taken.", ())
        self.sessions = self._gauge("session_warm", "1 while the session is warm.", flow)
        self.set_aside = self._gauge(
            "rows_set_aside", "Rows of the state table that are not believed.", ("state",)
        )
        self.observers = self._gauge("observers_live", "Observers whose lease runs.", ())

    def of(self, dataflow: str) -> DataflowMetrics:
        """Return the metrics of one dataflow."""
        return DataflowMetrics(self, dataflow)

    def text(self) -> bytes:
        """Return all metrics as Prometheus reads them."""
        return generate_latest(self.registry)

    def _counter(self, name: str, words: str, labels: tuple[str, ...]) -> Counter:
        return Counter(f"headgate_agent_{name}", words, labels, registry=self.registry)

    def _gauge(self, name: str, words: str, labels: tuple[str, ...]) -> Gauge:
        return Gauge(f"headgate_agent_{name}", words, labels, registry=self.registry)

    def _histogram(
        self, name: str, words: str, labels: tuple[str, ...], buckets: tuple[float, ...]
    ) -> Histogram:
        return Histogram(
            f"headgate_agent_{name}", words, labels, buckets=buckets, registry=self.registry
        )


class _Labelled:
    """A metric with its first label filled in."""

    def __init__(self, metric: Any, dataflow: str) -> None:
        self._metric = metric
        self._dataflow = dataflow

    def labels(self, *values: str) -> Any:
        """Return the child with the other labels filled in."""
        return self._metric.labels(self._dataflow, *values)


class _Gauges(_Labelled):
    """A gauge with its first label filled in: what it shows is what there is now."""

    def __init__(self, metric: Gauge, dataflow: str) -> None:
        super().__init__(metric, dataflow)
        self._shown: set[tuple[str, ...]] = set()

    def replace(self, values: Mapping[tuple[str, ...], float]) -> None:
        """Show these values, by the other labels, and none that were shown before."""
        for gone in self._shown - values.keys():
            self._metric.remove(self._dataflow, *gone)
        for labels, value in values.items():
            self.labels(*labels).set(value)
        self._shown = set(values)


class DataflowMetrics:
    """The metrics of one dataflow."""

    def __init__(self, metrics: AgentMetrics, dataflow: str) -> None:
        self.cells = metrics.cells.labels(dataflow)
        self.records_set_aside = _Labelled(metrics.records_set_aside, dataflow)
        self.snapshot_bytes = _Gauges(metrics.snapshot_bytes, dataflow)
        self.checkpoint_seconds = metrics.checkpoint_seconds.labels(dataflow)
        self.barrier_seconds = metrics.barrier_seconds.labels(dataflow)
        self.delay = metrics.delay.labels(dataflow)
        self.launch_latency = metrics.launch_latency.labels(dataflow)
        self.decisions = _Labelled(metrics.decisions, dataflow)
        self.runs = _Labelled(metrics.runs, dataflow)
        self.retention_used = _Gauges(metrics.retention_used, dataflow)
        self.runs_saved = _Gauges(metrics.runs_saved, dataflow)
        self.bound_fill = _Gauges(metrics.bound_fill, dataflow)
        self.lag = _Gauges(metrics.lag, dataflow)
        self.run_seconds = _Labelled(metrics.run_seconds, dataflow)
        self.session_warm = _Gauges(metrics.sessions, dataflow)
        self.trainings = _Labelled(metrics.trainings, dataflow)
        self.training_seconds = metrics.training_seconds.labels(dataflow)
        self.model_age = _Gauges(metrics.model_age, dataflow)
        self.violation_rate = _Gauges(metrics.violation_rate, dataflow)

    def show_models(self, reports: Iterable[PolicyReport]) -> None:
        """Show how old models are, and how often audits found them wrong, by output."""
        ages: dict[tuple[str, ...], float] = {}
        rates: dict[tuple[str, ...], float] = {}
        for output, data in ((name, data) for one in reports for name, data in one.data.items()):
            if "model_age" not in data:
                continue
            ages[output,] = data["model_age"]
            if data["audits"]:
                rates[output, "measured"] = data["audited_rate"]
                rates[output, "lower"] = data["rate_from"]
                rates[output, "upper"] = data["rate_to"]
                rates[output, "allowed"] = 1.0 - data["confidence"]
        self.model_age.replace(ages)
        self.violation_rate.replace(rates)

    def end(self) -> None:
        """Show no gauge any more: the dataflow is with another agent, or gone."""
        for gauges in (
            self.snapshot_bytes,
            self.retention_used,
            self.runs_saved,
            self.bound_fill,
            self.lag,
            self.session_warm,
            self.model_age,
            self.violation_rate,
        ):
            gauges.replace({})
