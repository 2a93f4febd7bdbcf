"""The metrics of several workers as those of one observer.

Counters and histograms are sums, in which what ended workers have counted stays, so that they never
fall. Gauges are each worker's own: they get a label ``worker``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

_SUMMED = frozenset({"counter", "histogram"})
_Labels = tuple[tuple[str, str], ...]


class _Family:
    def __init__(self, metric: Metric) -> None:
        self.metric = Metric(metric.name, metric.documentation, metric.type)
        self.sums: dict[tuple[str, _Labels], float] = {}


class _Families(Collector):
    def __init__(self, families: Mapping[str, _Family], own: Iterable[Metric]) -> None:
        self._families = families
        self._own = own

    def collect(self) -> Iterator[Metric]:
        for family in self._families.values():
            for (name, labels), value in family.sums.items():
                family.metric.add_sample(name, dict(labels), value)
            yield family.metric
        yield from self._own


def aggregate(live: Mapping[int, bytes], ended: bytes = b"", own: Iterable[Metric] = ()) -> bytes:
    """Return one text in Prometheus' format from the texts of live workers, by number.

    Args:
        live: what each worker says.
        ended: the aggregate, with nothing live, of those that have ended.
        own: families to add.
    """
    families: dict[str, _Family] = {}
    texts = chain((("", ended),), ((str(number), text) for number, text in live.items()))
    for worker, text in texts:
        for metric in text_string_to_metric_families(text.decode()):
            family = families.setdefault(metric.name, _Family(metric))
            for sample in metric.samples:
                if metric.type in _SUMMED:
                    key = sample.name, tuple(sample.labels.items())
                    family.sums[key] = family.sums.get(key, 0.0) + sample.value
                else:
                    labels = {**sample.labels, "worker": worker}
                    family.metric.add_sample(sample.name, labels, sample.value)
    return generate_latest(_Families(families, own))


def ended_totals(texts: Iterable[bytes]) -> bytes:
    """Return the sums of workers that have ended, without their gauges."""
    found = aggregate(dict(enumerate(texts))).decode()
    summed = (each for each in text_string_to_metric_families(found) if each.type in _SUMMED)
    return generate_latest(_Families({}, summed))
