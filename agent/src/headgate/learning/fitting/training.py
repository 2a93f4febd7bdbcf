"""Forests of the bounded outputs of a dataflow, and what they say of waves that they have not seen.

The training phase of SmartFlux (section 3), on pairs of recorded synchronous waves. Scores are out
of fold: each block of waves is predicted by a forest that has seen no wave near it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from headgate.learning.calibration import FOLDS, Waves, blocks, outside
from headgate.learning.features import FEATURES, Rows
from headgate.learning.fitting.clock import known_ranges, without_partial_cycles
from headgate.learning.fitting.persistence import persistence_of
from headgate.learning.fitting.quality import (
    Examples,
    Quality,
    decided_pairs,
    quality,
    simulated_runs,
)
from headgate.learning.fitting.risk import RISK_AGES, limit_of, risk_of
from headgate.learning.forest import Forest, Predicted, forest_of
from headgate.learning.impact import Changes, OutputMetric, Values
from headgate.learning.pairs import (
    FeatureTable,
    MeasuredPairs,
    Table,
    errors,
    feature_names,
    features,
)
from headgate.learning.predictor import FOLLOWED, ContainerModel, Residuals, log_ratio
from headgate.learning.simulation import Bounded, Flags, Graph
from headgate.learning.spacing import Spacing

TENFOLD: Final = 10
"""Of the paper's cross-validation."""
TRAINED_AGES: Final = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 36, 48, 72, 96])
"""Of the pairs that train: all would take three times as long for the same forests."""
_RESIDUAL_AGES = 8
"""Waves up to which residuals of pairs are counted: the ages at which most runs are."""
_FEWEST_RUNS = 20
"""Runs in training whose quantile of residuals means something."""
_TREES = 50
_OWN = "own"
"""Stands for the impact by a user's metric until it is known which one it is."""
_SMALLEST_SPREAD = 1e-6
_ROUNDING = 1e-9
"""Of a share times a count that is meant to be whole."""

Fitter = Callable[[Rows, Values, str], Forest]
"""From rows (n, k) and ln(ε / bound) (n,) of an output to a forest with its name as the label."""


def extra_trees(rows: Rows, logs: Values, output: str, weights: Values | None = None) -> Forest:
    """Return extremely randomised trees, fitted; the same for the same rows.

    Args:
        rows: features, shape (n, k).
        logs: ln(ε / bound), shape (n,).
        output: its name.
        weights: of each row, shape (n,); None where all count the same.
    """
    from sklearn.ensemble import ExtraTreesRegressor  # whoever only predicts goes without it

    fitted = ExtraTreesRegressor(_TREES, min_samples_leaf=2, max_features=0.4, random_state=0)
    fitted.fit(rows, logs, weights)
    trees = [tree.tree_ for tree in fitted.estimators_]
    names = (*FEATURES, _OWN)[: rows.shape[1]]
    return forest_of(trees, names, (output,), Predicted.LOG_ERROR)


class Target(Struct, frozen=True):
    """An output with its bound."""

    output: str
    """The container."""
    metric: OutputMetric
    bound: float
    confidence: float = 0.95
    recall: float | None = None
    """Share of the violations that shall be predicted as such at least; it tightens λ only."""
    changes: Changes = Changes.CANCEL


class OutputPairs(Struct, frozen=True, eq=False):
    """All pairs of successive waves of an output, up to the horizon: what is trained on."""

    errors: Table
    """ε by wave and age, shape (T, H+1), as ``errors`` of ``pairs`` returns it."""
    tables: Mapping[str, FeatureTable]
    """By container above it, shape (T, H+1, k) each."""
    levels: Mapping[str, Values]
    """By container, the deciles by which crossings were counted, shape (9,)."""
    features: Mapping[str, tuple[str, ...]]
    """By container, their names, k each."""
    first_time: float
    """Of the first wave, in Unix seconds."""
    last_time: float
    spacing: Spacing | None = None
    """Pairs that there are; None where the waves follow one another."""

    @property
    def shape(self) -> tuple[int, int]:
        """T and H."""
        return len(self.errors), int(self.errors.shape[1]) - 1

    @property
    def spaced(self) -> Spacing:
        """Pairs that there are."""
        waves, horizon = self.shape
        return self.spacing or Spacing(np.arange(waves), horizon)


class TrainedOutput(Struct, frozen=True, eq=False):
    """An output's forests, and what is predicted of its own waves out of fold."""

    target: Target
    bounded: Bounded
    """With predicted ln(ε / bound) as scores."""
    risks: Mapping[str, Table]
    """By container, the risk of what is predicted, by which containers can be compared."""
    forests: Mapping[str, Forest]
    """By container above it, of all waves."""
    tables: Mapping[str, FeatureTable]
    """By container above it, as they were learned from."""
    spacing: Spacing
    """Pairs that there are."""

    @property
    def waves(self) -> int:
        """How many there are."""
        return len(self.bounded.errors)

    @property
    def horizon(self) -> int:
        """H, the largest age."""
        return int(self.bounded.errors.shape[1]) - 1

    def violated(self, examples: Examples) -> Flags:
        """Return whether skips would be out of bounds, shape (n,)."""
        return ~(self.bounded.errors[examples.waves, examples.ages] <= self.bounded.bound)

    def decided(self, threshold: float) -> Bounded:
        """Return it with scores that pass at 0 where a risk as threshold lets a skip pass."""
        scores = self.bounded.scores
        passing = {name: scores[name] - self.limit(name, threshold) for name in scores}
        return replace(self.bounded, scores=passing)

    def limit(self, container: str, threshold: float) -> float:
        """Return the largest predicted ln(ε / bound) at which a risk lets a skip pass."""
        return limit_of(self.bounded.scores[container], self.risks[container], threshold)

    def blocked(self, container: str, threshold: float) -> Quality:
        """Return the quality of a risk as threshold at simulated runs, out of fold."""
        examples = simulated_runs(self.bounded.errors, self.bounded.bound)
        risks = self.risks[container][examples.waves, examples.ages]
        return quality(self.violated(examples), risks, threshold)

    def tenfold(self, container: str, threshold: float, fitter: Fitter) -> Quality:
        """Return the quality of a risk as threshold in the paper's cross-validation.

        Ten parts of the simulated runs, drawn at random, are each predicted by a forest that is
        fitted to the other nine.
        """
        examples = simulated_runs(self.bounded.errors, self.bounded.bound)
        where = examples.waves, examples.ages
        rows = self.tables[container][where]
        logs = log_ratio(self.bounded.errors[where], self.bounded.bound)
        parts = np.random.default_rng(0).permutation(len(logs)) % TENFOLD
        scores = np.empty(len(logs))
        for part in range(TENFOLD):
            forest = fitter(rows[parts != part], logs[parts != part], self.target.output)
            scores[parts == part] = forest.predict(rows[parts == part])[:, 0]
        return quality(self.violated(examples), scores, self.limit(container, threshold))

    def recall_threshold(self, wanted: float) -> float:
        """Return the largest risk at which so many violations are predicted from every container.

        It is just below that of a score, or infinity where there is no violation. Violations are
        those at simulated runs; scores are out of fold.
        """
        examples = simulated_runs(self.bounded.errors, self.bounded.bound)
        violated = self.violated(examples)
        if not violated.any():
            return math.inf
        found = []
        for risks in self.risks.values():
            ordered = np.sort(risks[examples.waves, examples.ages][violated])
            missed = math.floor((1.0 - wanted) * len(ordered) + _ROUNDING)
            found.append(ordered[missed] if missed < len(ordered) else math.inf)
        return float(np.nextafter(min(found), -math.inf))

    def container_model(
        self, container: str, levels: Values, ran: Flags, adjustment: float = 0.0
    ) -> ContainerModel:
        """Return what predicts the output from a container.

        Args:
            container: above the output.
            levels: its deciles, shape (9,).
            ran: when the output's step ran in the closed loop of training, shape (T,).
            adjustment: of its scores, see ``ContainerModel``.
        """
        table = self.tables[container]
        waves, ages = known_pairs(self.spacing, self.horizon)
        lowest, highest = known_ranges(table[waves, ages])
        logs = log_ratio(self.bounded.errors, self.bounded.bound)
        residuals = logs - (self.bounded.scores[container] + adjustment)
        near = residuals[waves[ages <= _RESIDUAL_AGES], ages[ages <= _RESIDUAL_AGES]]
        decided = decided_pairs(ran, self.bounded.errors)
        runs = ran[decided.waves]
        at_runs = residuals[decided.waves[runs], decided.ages[runs]]
        followed = at_runs if len(at_runs) >= _FEWEST_RUNS else near
        return ContainerModel(
            forest=self.forests[container],
            lowest=lowest,
            highest=highest,
            levels=levels,
            adjustment=adjustment,
            residuals=Residuals(
                float(np.quantile(followed, FOLLOWED)), max(float(near.std()), _SMALLEST_SPREAD)
            ),
            persistence={
                nearer: left ** (1.0 / self.spacing.gap)
                for nearer, left in self.bounded.persistence.get(container, {}).items()
            },
        )


def pairs_of(waves: int, horizon: int) -> tuple[Waves, Waves]:
    """Return the later wave and the age of all pairs of successive waves, shape (n,) each."""
    return known_pairs(Spacing(np.arange(waves), horizon), horizon)


def known_pairs(spacing: Spacing, horizon: int) -> tuple[Waves, Waves]:
    """Return the later wave and the age of all pairs up to an age, shape (n,) each."""
    later, ages = np.nonzero(spacing.there(horizon)[:, 1:])
    return later, ages + 1


def output_pairs(graph: Graph, pairs: Mapping[str, MeasuredPairs], target: Target) -> OutputPairs:
    """Return the pairs of an output of what was measured of it and of the containers above it.

    Raises:
        ValueError: a container above it was measured without levels.
    """
    measured = pairs[target.output]
    above = graph.above(target.output)
    return OutputPairs(
        errors(measured, target.metric, target.changes),
        {container: features(pairs[container], measured.means) for container in above},
        {container: pairs[container].deciles for container in above},
        {container: feature_names(pairs[container]) for container in above},
        float(measured.times[0]) if measured.waves else 0.0,
        float(measured.times[-1]) if measured.waves else 0.0,
        measured.spacing,
    )


def train(
    graph: Graph, pairs: Mapping[str, MeasuredPairs], target: Target, fitter: Fitter
) -> TrainedOutput:
    """Return an output's forests of measured waves; see ``output_pairs`` and ``train_on``."""
    nearer = graph.nearer(target.output)
    return train_on(output_pairs(graph, pairs, target), target, fitter, nearer)


def train_on(
    pairs: OutputPairs,
    target: Target,
    fitter: Fitter,
    nearer: Mapping[str, Sequence[str]],
) -> TrainedOutput:
    """Return an output's forests, one for each container above it, and their scores.

    Args:
        pairs: of the output.
        target: its bound.
        fitter: makes a forest.
        nearer: by container, those that are made of it, as ``Graph.nearer`` returns them.
    """
    known = pairs.errors
    logs = log_ratio(known, target.bound)
    forests, scores, risks = {}, {}, {}
    waves, ages = known_pairs(pairs.spaced, known.shape[1] - 1)
    tables = {
        container: _without_partial_cycles(table, waves, ages)
        for container, table in pairs.tables.items()
    }
    where = waves[ages <= RISK_AGES], ages[ages <= RISK_AGES]
    violated = ~(known[where] <= target.bound)
    for container, table in tables.items():
        forest, found = _scored(table, logs, (waves, ages), target.output, fitter)
        forests[container] = replace(forest, features=pairs.features[container])
        scores[container] = found
        risks[container] = risk_of(found[where], violated).of(found)
    return TrainedOutput(
        target,
        Bounded(known, target.bound, scores, persistence_of(logs, scores, nearer)),
        risks,
        forests,
        tables,
        pairs.spaced,
    )


def _without_partial_cycles(table: FeatureTable, waves: Waves, ages: Waves) -> FeatureTable:
    """Return a table whose pairs say nothing of what of the clock they have not seen whole."""
    rows = table[waves, ages]
    found = without_partial_cycles(rows)
    if found is rows:
        return table
    known = table.copy()
    known[waves, ages] = found
    return known


def _scored(
    table: FeatureTable, logs: Table, pairs: tuple[Waves, Waves], output: str, fitter: Fitter
) -> tuple[Forest, Table]:
    """Return a forest of all waves, and the scores of all pairs out of fold."""
    horizon = logs.shape[1] - 1
    waves, ages = pairs
    trains = np.isin(ages, TRAINED_AGES)

    def fitted(chosen: Flags) -> Forest:
        where = waves[chosen], ages[chosen]
        return fitter(table[where], logs[where], output)

    scores = np.full(logs.shape, np.nan)
    for fold in blocks(0, len(logs), FOLDS):
        inside = (waves >= fold.first) & (waves < fold.last)
        forest = fitted(trains & outside(fold, waves, ages, horizon))
        where = waves[inside], ages[inside]
        scores[where] = forest.predict(table[where])[:, 0]
    return fitted(trains), scores
