"""What waves of service teach of an output: rows and labels of the pairs in which it was made.

Between two waves in which it was made there may be others of which nothing but the updates is
known. So pairs are measured one by one, as they would have been while the dataflow ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from headgate.learning.features import FEATURES, Row, WaveContext, row_of
from headgate.learning.fitting.quality import Examples
from headgate.learning.fitting.refit import LabelledRows, service_pairs
from headgate.learning.impact import ErrorMetric, Values, error, measure, version_of
from headgate.learning.pairs import ContainerHistory
from headgate.learning.predictor import Model, log_ratio

MOST_LABELS: Final = 3000
"""That a forest is fitted anew to, and as many pairs of training: with so many it was evaluated on
recorded years, and is fitted in a second or two."""

_Counts = npt.NDArray[np.int64]


class ServiceWaves(Struct, frozen=True, eq=False):
    """The waves in which an output was made, and what there was at each."""

    numbers: _Counts
    """Of the waves, rising, shape (w,)."""
    histories: Mapping[str, ContainerHistory]
    """By container, of these waves alone."""
    counted: Mapping[str, _Counts]
    """By source, its updates up to and with each wave, those between included, shape (w,)."""
    uncounted: _Counts
    """Waves up to and with each of which nobody has counted the updates, shape (w,)."""


def service_labels(
    model: Model, service: ServiceWaves, most: int = MOST_LABELS, seed: int = 0
) -> dict[str, LabelledRows]:
    """Return the labels of service by container that a model predicts from, bit for bit as online.

    Args:
        model: gives output, error, horizon, and the levels by which crossings are counted.
        service: the waves.
        most: labels that are drawn, where there are more.
        seed: by which they are.

    Raises:
        ValueError: a container of the model has no history.
        TypeError: the error is a user's to measure.
    """
    if not isinstance(model.metric, ErrorMetric):
        message = f"`{model.output}` is measured by {model.metric.entry}, which is not asked here"
        raise TypeError(message)
    missing = {model.output, *model.containers} - service.histories.keys()
    if missing:
        message = f"there is no history of {', '.join(sorted(missing))}; give that of each"
        raise ValueError(message)
    pairs = _drawn(_known_pairs(service, model.horizon), most, seed)
    metric, output = model.metric, service.histories[model.output]
    shown = [_mean(output, int(then)) for then in pairs.then]
    logs = log_ratio(np.array([_error(metric, output, *at) for at in pairs.places]), model.bound)
    found = {}
    for container, known in model.containers.items():
        history = service.histories[container]
        rows = [
            _row(service, container, history, known.levels, at, mean)
            for at, mean in zip(pairs.places, shown, strict=True)
        ]
        table = np.array(rows, np.float32).reshape(len(rows), len(FEATURES))
        found[container] = LabelledRows(known.shown(table), logs)
    return found


class _Pairs(Struct, frozen=True, eq=False):
    now: _Counts
    """Places in the histories, shape (n,)."""
    then: _Counts

    @property
    def places(self) -> list[tuple[int, int]]:
        return list(zip(self.now.tolist(), self.then.tolist(), strict=True))


def _known_pairs(service: ServiceWaves, horizon: int) -> _Pairs:
    numbers = service.numbers
    if not len(numbers):
        return _Pairs(numbers, numbers)
    made = np.zeros(int(numbers[-1] - numbers[0]) + 1, np.bool_)
    made[numbers - numbers[0]] = True
    pairs: Examples = service_pairs(made, horizon)
    now = np.searchsorted(numbers, pairs.waves + numbers[0])
    then = np.searchsorted(numbers, pairs.waves - pairs.ages + numbers[0])
    counted = service.uncounted[now] == service.uncounted[then]
    return _Pairs(now[counted], then[counted])


def _drawn(pairs: _Pairs, most: int, seed: int) -> _Pairs:
    if len(pairs.now) <= most:
        return pairs
    drawn = np.random.default_rng(seed).choice(len(pairs.now), most, replace=False)
    drawn.sort()
    return _Pairs(pairs.now[drawn], pairs.then[drawn])


def _mean(history: ContainerHistory, place: int) -> float:
    return version_of(history.values[place]).sum / max(1, int(history.elements[place]))


def _error(metric: ErrorMetric, history: ContainerHistory, now: int, then: int) -> float:
    current, previous = history.values[now], history.values[then]
    elements = int(history.elements[now])
    return error(measure(current, previous, version_of(previous), elements), metric)


def _row(
    service: ServiceWaves,
    container: str,
    history: ContainerHistory,
    levels: Values,
    at: tuple[int, int],
    shown: float,
) -> Row:
    now, then = at
    current, previous = history.values[now], history.values[then]
    version = version_of(previous, levels, int(history.elements[then]))
    measured = measure(current, previous, version, int(history.elements[now]), levels)
    counted = service.counted.get(container)
    return row_of(
        measured,
        WaveContext(
            time=float(history.times[now]),
            age=int(service.numbers[now] - service.numbers[then]),
            updates=0 if counted is None else int(counted[now] - counted[then]),
            last_updates=0 if counted is None else int(history.updates[now]),
            shown=shown,
        ),
    )
