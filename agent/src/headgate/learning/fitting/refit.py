"""Models fitted anew to what service shows for nothing: pairs of waves in which an output was made.

A made output is the synchronous one of its wave. So of any two waves in which it was made, and that
are no farther apart than the horizon, both the features and the error of a skip are known. Nothing
runs for these labels; they follow a world that training has not seen.

Where a step further up is decided on, an output was made only if all that lies between wanted it,
too. Labels are those of waves that looked worse from there, of which a prediction from further up
knows nothing: it would come to run in the others as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from headgate.learning.features import Rows
from headgate.learning.fitting.clock import known_ranges, without_partial_cycles
from headgate.learning.fitting.quality import Examples
from headgate.learning.fitting.training import extra_trees
from headgate.learning.forest import Forest
from headgate.learning.impact import Values
from headgate.learning.predictor import ContainerModel, Model
from headgate.learning.simulation import Flags

RECENT_WAVES: Final = 3000
"""Waves of service whose labels are used: four months of hours, so that seasons follow."""
SERVICE_WEIGHT: Final = 3.0
"""Of a label of service, against 1 of a pair of training."""


class WeightedFitter(Protocol):
    """Whatever makes a forest of rows that count differently."""

    def __call__(self, rows: Rows, logs: Values, output: str, weights: Values) -> Forest:
        """Return a forest with the output's name as its label.

        Args:
            rows: features, shape (n, k).
            logs: ln(ε / bound), shape (n,).
            output: its name.
            weights: of each row, shape (n,).
        """


class LabelledRows(Struct, frozen=True, eq=False):
    """What a container showed at pairs of waves, and what the output's error was there."""

    rows: Rows
    """Features, shape (n, k)."""
    logs: Values
    """ln(ε / bound) as ``log_ratio`` cuts it off, shape (n,)."""

    def sample(self, most: int, seed: int = 0) -> LabelledRows:
        """Return so many of the rows at most, drawn without replacement, in their order."""
        if len(self.logs) <= most:
            return self
        drawn = np.random.default_rng(seed).choice(len(self.logs), most, replace=False)
        drawn.sort()
        return LabelledRows(self.rows[drawn], self.logs[drawn])


def service_pairs(made: Flags, horizon: int, recent: int = RECENT_WAVES) -> Examples:
    """Return all pairs of the latest waves in which an output was made, up to the horizon apart.

    Args:
        made: whether it was made, by wave of service, shape (w,).
        horizon: H, in waves.
        recent: waves at the end of ``made`` in which the earlier one of a pair is looked for.
    """
    waves = np.flatnonzero(made)
    waves = waves[waves >= len(made) - recent]
    later, ages = [], []
    # Waves differ, so what is more than H places before in the list is more than H waves before.
    for places in range(1, min(horizon, len(waves) - 1) + 1):
        apart = waves[places:] - waves[:-places]
        near = apart <= horizon
        later.append(waves[places:][near])
        ages.append(apart[near])
    if not later:
        return Examples(np.zeros(0, np.int64), np.zeros(0, np.int64))
    return Examples(np.concatenate(later), np.concatenate(ages))


def refit(
    model: Model,
    training: Mapping[str, LabelledRows],
    service: Mapping[str, LabelledRows],
    fitter: WeightedFitter = extra_trees,
    weight: float = SERVICE_WEIGHT,
    upstream: Collection[str] = (),
) -> Model:
    """Return a model fitted anew to pairs of training and to labels of service.

    Its threshold, its calibration and the residuals that feedback starts from stay those of
    training, as do the levels by which crossings are counted; ranges widen to what service has
    shown. It is the same for the same rows. From upstream as many pairs of training are skipped
    after it as before: which ones is learned, how many is not.

    Args:
        model: as it was trained, or fitted anew before.
        training: by container that the model predicts from, pairs that it was trained on.
        service: likewise, of ``service_pairs``.
        fitter: makes a forest.
        weight: of a label of service against a pair of training.
        upstream: the containers that the step which makes the output does not read.

    Raises:
        ValueError: a container's rows are missing, or are of other features than the model's.
    """
    found = {}
    for name, known in model.containers.items():
        taught, labels = _of(training, name), _of(service, name)
        anew = _refitted(name, model.output, known, taught, labels, fitter, weight)
        if name in upstream and anew is not known and len(taught.rows):
            anew = _as_often(anew, known, taught.rows, model.threshold)
        found[name] = anew
    return replace(model, containers=found)


def _as_often(
    anew: ContainerModel, known: ContainerModel, rows: Rows, threshold: float
) -> ContainerModel:
    """Return a container's model adjusted so that as many rows pass a threshold as by another."""
    passing = int(np.count_nonzero(known.adjusted(rows) <= threshold))
    predicted, beyond = np.sort(anew.adjusted(rows)), known.residuals.spread
    edges = np.concatenate(([predicted[0] - beyond], predicted, [predicted[-1] + beyond]))
    # Halfway between two of them, so that no rounding moves one to the other side.
    limit = float(edges[passing : passing + 2].mean())
    return replace(anew, adjustment=anew.adjustment + threshold - limit)


def _of(rows: Mapping[str, LabelledRows], container: str) -> LabelledRows:
    found = rows.get(container)
    if found is None:
        message = f"there are no rows of {container}, from which the model predicts; give its pairs"
        raise ValueError(message)
    return found


def _refitted(
    container: str,
    output: str,
    known: ContainerModel,
    training: LabelledRows,
    service: LabelledRows,
    fitter: WeightedFitter,
    weight: float,
) -> ContainerModel:
    for each in (training, service):
        if each.rows.shape != (len(each.logs), len(known.forest.features)):
            message = (
                f"rows of {container} have the shape {each.rows.shape} beside {len(each.logs)} "
                f"labels; a row has {len(known.forest.features)} features"
            )
            raise ValueError(message)
    if not len(service.logs):
        return known
    rows = without_partial_cycles(np.concatenate([training.rows, service.rows]))
    logs = np.concatenate([training.logs, service.logs])
    weights: npt.NDArray[np.float64] = np.ones(len(logs))
    weights[len(training.logs) :] = weight
    lowest, highest = known_ranges(rows)
    return replace(
        known,
        forest=fitter(rows, logs, output, weights),
        lowest=np.minimum(known.lowest, lowest),
        highest=np.maximum(known.highest, highest),
    )
