"""Metrics of several workers as one."""

from prometheus_client.parser import text_string_to_metric_families

from headgate.observer.monitoring.metrics import Histogram, Metrics
from headgate.observer.workers.aggregation import aggregate, ended_totals


def worker(requests: int, connections: int, seconds: float) -> bytes:
    metrics = Metrics()
    metrics.connections = connections
    metrics.barriers = requests
    metrics.gauge("depth", "A gauge.", lambda: float(connections))
    histogram = Histogram((0.5, 1.0))
    histogram.new.append(seconds)
    metrics.histogram("waited_seconds", "A histogram.", histogram)
    return metrics.text()


def samples(text: bytes) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name.removeprefix("headgate_observer_"), tuple(sample.labels.values())): (
            sample.value
        )
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


LIVE = {1: worker(3, 10, 0.2), 2: worker(4, 20, 0.7)}


def test_counters_are_summed() -> None:
    assert samples(aggregate(LIVE))["barriers_total", ()] == 7


def test_histograms_are_summed_bucket_by_bucket() -> None:
    found = samples(aggregate(LIVE))
    assert found["waited_seconds_bucket", ("0.5",)] == 1
    assert found["waited_seconds_bucket", ("1.0",)] == 2
    assert found["waited_seconds_bucket", ("+Inf",)] == 2
    assert found["waited_seconds_count", ()] == 2
    assert found["waited_seconds_sum", ()] == 0.2 + 0.7


def test_gauges_are_told_by_worker() -> None:
    found = samples(aggregate(LIVE))
    assert (found["depth", ("1",)], found["depth", ("2",)]) == (10, 20)


def test_what_ended_workers_counted_stays_and_their_gauges_go() -> None:
    ended = ended_totals([ended_totals([b"", worker(100, 5, 0.1)]), worker(1000, 6, 0.1)])
    found = samples(aggregate({2: LIVE[2]}, ended))
    assert found["barriers_total", ()] == 1104
    assert found["waited_seconds_bucket", ("0.5",)] == 2
    assert {labels for name, labels in found if name == "depth"} == {("2",)}


def test_types_and_descriptions_stay() -> None:
    families = {
        each.name: each for each in text_string_to_metric_families(aggregate(LIVE).decode())
    }
    assert families["headgate_observer_barriers"].type == "counter"
    assert families["headgate_observer_depth"].documentation == "A gauge."
