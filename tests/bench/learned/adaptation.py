"""A step in service for years: by a threshold that stays, with audits, and fitted anew as well."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from applications import HORIZON
from evaluation import AUDIT
from msgspec import Struct

from headgate.learning import (
    Bounded,
    Choice,
    ClosedLoop,
    Deciders,
    Forest,
    Graph,
    Model,
    StagePolicy,
    Values,
    closed_loop,
    extra_trees,
    log_ratio,
    stages,
)
from headgate.learning.fitting.refit import LabelledRows, refit, service_pairs

FORTNIGHT: Final = 14 * 24
"""Waves between two fits."""
MOST_PAIRS: Final = 10_000
"""That a forest is fitted to: pairs of a year of hours are sampled."""
_MOST_ANEW = 3000
"""Pairs of training, and labels of service, that a forest is fitted to anew."""
_WAVES_AT_ONCE = 6
"""Of prediction: most outputs are made as soon, and several rows take no longer than one."""

Table = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float32]


def sampled_trees(rows: Rows, logs: Values, output: str) -> Forest:
    """Return trees fitted to a sample of the rows, where there are too many."""
    drawn = LabelledRows(rows, logs).sample(MOST_PAIRS)
    return extra_trees(drawn.rows, drawn.logs, output)


class Served(Struct, frozen=True, eq=False):
    """One step in service under one policy."""

    loop: ClosedLoop
    audits: int = 0
    """Runs that were skips but for an audit."""
    synchronous: int = 0
    """Waves of relearning after a change."""
    changes: int = 0
    """That were found."""
    fits: int = 0
    fit_seconds: float = 0.0
    """Of processor time, of all fits in service."""


class ServedStep(Struct, frozen=True, eq=False):
    """What is known of a step on synchronous input, over the waves of service."""

    graph: Graph
    output: str
    errors: Table
    """ε by wave and age, shape (w, H+1)."""
    bound: float
    tables: Mapping[str, Rows]
    """Features by container that it reads, shape (w, H+1, k)."""

    @property
    def waves(self) -> int:
        """How many there are."""
        return len(self.errors)


class Scores:
    """What a model says of a step's waves and ages, predicted as it is asked for.

    Args:
        step: what is known of it.
        model: that predicts.
    """

    def __init__(self, step: ServedStep, model: Model) -> None:
        self._step = step
        self._model = model
        self.tables = {name: np.full(step.errors.shape, math.nan) for name in step.tables}

    def replace(self, model: Model) -> None:
        """Predict by another model; what was predicted is of no use to it."""
        self._model = model
        for scores in self.tables.values():
            scores[:] = math.nan

    def ask(self, wave: int, age: int) -> None:
        """Fill in the scores of a wave and of the next ones, of one version of the output."""
        ahead = np.arange(min(_WAVES_AT_ONCE, self._step.waves - wave, HORIZON + 1 - age))
        where = wave + ahead, age + ahead
        for name, scores in self.tables.items():
            if math.isnan(scores[wave, age]):
                rows = self._step.tables[name][where]
                scores[where] = self._model.containers[name].scores(rows)


class ThresholdService:
    """Decides by a threshold that stays: a ``StagePolicy``.

    Args:
        scores: by which.
        threshold: λ.
    """

    def __init__(self, scores: Scores, threshold: float) -> None:
        self._scores = scores
        self._threshold = threshold

    def wants(self, output: str, containers: Sequence[str], wave: int, age: int) -> bool:
        """See ``StagePolicy``."""
        self._scores.ask(wave, age)
        tables = self._scores.tables
        return any(not tables[name][wave, age] <= self._threshold for name in containers)

    def made(self, output: str, wave: int, age: int) -> None:
        """See ``StagePolicy``."""

    def wave_over(self, output: str, wave: int, age: int) -> None:
        """See ``StagePolicy``."""


class AuditedService:
    """Decides with audits and feedback, and counts what was decided: a ``StagePolicy``.

    Args:
        name: of the dataflow, by which audits are drawn.
        step: what is known of it.
        scores: by which.
        model: that they are of.
    """

    def __init__(self, name: str, step: ServedStep, scores: Scores, model: Model) -> None:
        self.counts = dict.fromkeys(Choice, 0)
        self.changes = 0
        self.fits = 0
        self.fit_seconds = 0.0
        self._name = name
        self._step = step
        self._scores = scores
        self._deciders = self._decided_by(model)

    def wants(self, output: str, containers: Sequence[str], wave: int, age: int) -> bool:
        """See ``StagePolicy``."""
        self._scores.ask(wave, age)
        return self._deciders.wants(output, containers, wave, age)

    def made(self, output: str, wave: int, age: int) -> None:
        """See ``StagePolicy``."""
        before = self._found
        self._deciders.made(output, wave, age)
        self.changes += self._found - before

    def wave_over(self, output: str, wave: int, age: int) -> None:
        """See ``StagePolicy``."""
        self._deciders.wave_over(output, wave, age)
        judged = self._deciders.deciders[output].state.judged
        if judged is not None and judged.wave == wave:
            self.counts[judged.choice] += 1

    def decide_by(self, model: Model) -> None:
        """Go on with another model; feedback on the one before is of no use to it."""
        self._deciders = self._decided_by(model)

    def _decided_by(self, model: Model) -> Deciders:
        bounded = Bounded(self._step.errors, self._step.bound, self._scores.tables)
        output = self._step.output
        return Deciders(self._name, {output: bounded}, {output: model}, AUDIT)

    @property
    def _found(self) -> int:
        return self._deciders.deciders[self._step.output].state.feedback.changes


class RefittedService(AuditedService):
    """Is fitted anew each fortnight to pairs of waves in which the output was made.

    Args:
        name: of the dataflow, by which audits are drawn.
        step: what is known of it.
        model: of training.
        training: pairs of training, by container.
    """

    def __init__(
        self, name: str, step: ServedStep, model: Model, training: Mapping[str, LabelledRows]
    ) -> None:
        self._model = model
        self._training = {name: rows.sample(_MOST_ANEW) for name, rows in training.items()}
        self._made = np.zeros(step.waves, np.bool_)
        self._made[0] = True
        super().__init__(name, step, Scores(step, model), model)

    def wave_over(self, output: str, wave: int, age: int) -> None:
        """See ``StagePolicy``."""
        super().wave_over(output, wave, age)
        self._made[wave] = age == 0
        if (wave + 1) % FORTNIGHT == 0:
            self._fit(wave + 1)

    def _fit(self, now: int) -> None:
        began = time.process_time()
        pairs = service_pairs(self._made[:now], self._model.horizon)
        where = pairs.waves, pairs.ages
        logs = log_ratio(self._step.errors[where], self._step.bound)
        service = {
            name: LabelledRows(table[where], logs).sample(_MOST_ANEW)
            for name, table in self._step.tables.items()
        }
        self._model = refit(self._model, self._training, service)
        self.fits += 1
        self.fit_seconds += time.process_time() - began
        self._scores.replace(self._model)
        self.decide_by(self._model)


def served(
    name: str, step: ServedStep, model: Model, training: Mapping[str, LabelledRows]
) -> dict[str, Served]:
    """Return what becomes of a step in service, by policy.

    Args:
        name: of the dataflow, by which audits are drawn.
        step: what is known of it.
        model: of training.
        training: pairs of training, by container.
    """
    scores = Scores(step, model)
    policies: dict[str, StagePolicy] = {
        "stays": ThresholdService(scores, model.threshold),
        "audits": AuditedService(name, step, scores, model),
        "refit": RefittedService(name, step, model, training),
    }
    oracle = closed_loop(step.errors, step.errors, step.bound, step.bound, 0, step.waves)
    found = {policy: _served(step, each) for policy, each in policies.items()}
    return {"oracle": Served(oracle), **found}


def _served(step: ServedStep, policy: StagePolicy) -> Served:
    outputs = {step.output: Bounded(step.errors, step.bound, {})}
    loops = stages(step.graph, outputs, policy, 0, step.waves)
    loop = ClosedLoop(loops.ran[step.graph.writers[step.output]], loops.violated[step.output])
    if not isinstance(policy, AuditedService):
        return Served(loop)
    return Served(
        loop,
        policy.counts[Choice.AUDIT],
        policy.counts[Choice.SYNCHRONOUS],
        policy.changes,
        policy.fits,
        policy.fit_seconds,
    )
