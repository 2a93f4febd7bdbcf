"""Outputs in service: under a threshold that stays, audits and feedback, and models made anew."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from evaluation.learned.applications import AUDIT, HORIZON
from headgate.learning import (
    TRAINED_AGES,
    Bounded,
    Choice,
    ClosedLoop,
    Decider,
    Deciders,
    DeciderState,
    Feedback,
    Forest,
    Graph,
    LearnedSettings,
    Model,
    StagePolicy,
    Values,
    closed_loop,
    extra_trees,
    log_ratio,
    stages,
)
from headgate.learning.fitting.refit import LabelledRows, refit, service_pairs
from headgate.learning.fitting.training import pairs_of
from headgate.learning.triggers.renewal import Renewal, RenewalState, wait_after_change

MOST_PAIRS: Final = 10_000
"""That a forest is fitted to: pairs of a year of hours are sampled."""
_MOST_ANEW = 3000
"""Pairs of training, and labels of service, that a forest is fitted to anew."""
_RENEWAL = Renewal(LearnedSettings({}).refit, 0, LearnedSettings({}).waves, HORIZON)
"""That of a dataflow whose file says nothing of it."""
_TRAINED = 1
"""The number of the wave 0 of service, as a schedule counts: in it the model is there."""
_WAVES_AT_ONCE = 6
"""Of prediction: most outputs are made as soon, and several rows take no longer than one."""

Table = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float32]
Counts = npt.NDArray[np.int64]


def trained_pairs(waves: int, horizon: int) -> tuple[Counts, Counts]:
    """Return the later wave and the age of the pairs that models are fitted to, shape (n,) each."""
    later, ages = pairs_of(waves, horizon)
    trains = np.isin(ages, TRAINED_AGES)
    return later[trains], ages[trains]


def labelled(
    tables: Mapping[str, Rows], errors: Table, bound: float, waves: int
) -> dict[str, LabelledRows]:
    """Return the pairs of the first waves that models are fitted to, by container."""
    where = trained_pairs(waves, errors.shape[1] - 1)
    logs = log_ratio(errors[where], bound)
    return {name: LabelledRows(table[where], logs) for name, table in tables.items()}


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


class ServedOutput(Struct, frozen=True, eq=False):
    """What is known of an output over the waves of service."""

    errors: Table
    """ε by wave and age, shape (w, H+1)."""
    bound: float
    tables: Mapping[str, Rows]
    """Features by container above it, shape (w, H+1, k)."""

    @property
    def waves(self) -> int:
        """How many there are."""
        return len(self.errors)


class Scores:
    """What a model says of an output's waves and ages, predicted as it is asked for.

    Args:
        output: what is known of it.
        model: that predicts.
    """

    def __init__(self, output: ServedOutput, model: Model) -> None:
        self._output = output
        self._model = model
        self.tables = {name: np.full(output.errors.shape, math.nan) for name in output.tables}

    def replace(self, model: Model, output: ServedOutput | None = None) -> None:
        """Predict by another model, of these features or of others; forget what was predicted."""
        self._model = model
        self._output = output or self._output
        for scores in self.tables.values():
            scores[:] = math.nan

    def ask(self, containers: Sequence[str], wave: int, age: int) -> None:
        """Fill in the scores of a wave and of the next ones, of one version of the output."""
        ahead = np.arange(min(_WAVES_AT_ONCE, self._output.waves - wave, HORIZON + 1 - age))
        where = wave + ahead, age + ahead
        for name in containers:
            scores = self.tables[name]
            if math.isnan(scores[wave, age]):
                rows = self._output.tables[name][where]
                scores[where] = self._model.containers[name].scores(rows)


class ThresholdService:
    """Decides on one output by a threshold that stays: a ``StagePolicy``.

    Args:
        scores: by which.
        threshold: λ.
    """

    def __init__(self, scores: Scores, threshold: float) -> None:
        self._scores = scores
        self._threshold = threshold

    def wants(
        self,
        output: str,
        containers: Sequence[str],
        wave: int,
        age: int,
        *,
        certain: bool = True,
    ) -> bool:
        """See ``StagePolicy``."""
        self._scores.ask(containers, wave, age)
        tables = self._scores.tables
        return any(not tables[name][wave, age] <= self._threshold for name in containers)

    def is_audited(self, output: str, wave: int) -> bool:
        """See ``StagePolicy``."""
        return False

    def made(self, output: str, wave: int, age: int) -> None:
        """See ``StagePolicy``."""

    def wave_over(self, output: str, wave: int, age: int) -> None:
        """See ``StagePolicy``."""


class AuditedService:
    """Decides with audits and feedback, and counts what was decided: a ``StagePolicy``.

    Args:
        name: of the dataflow, by which audits are drawn.
        outputs: what is known of them; one without a model is made in every wave.
        models: by output.
        audit: share of the skips that run all the same.
    """

    def __init__(
        self,
        name: str,
        outputs: Mapping[str, ServedOutput],
        models: Mapping[str, Model],
        audit: float = AUDIT,
    ) -> None:
        self.counts = dict.fromkeys(Choice, 0)
        self.wrong_skips = 0
        """Waves in which a skip, made or audited, left the output out of bounds, or would have."""
        self.changes = 0
        self.fits = 0
        self.fit_seconds = 0.0
        self._name, self._audit = name, audit
        self._outputs = outputs
        self._scores = {output: Scores(outputs[output], model) for output, model in models.items()}
        self._bounded = {
            output: Bounded(
                known.errors,
                known.bound,
                self._scores[output].tables if output in self._scores else {},
            )
            for output, known in outputs.items()
        }
        self._deciders = Deciders(name, self._bounded, models, audit)

    def wants(
        self, output: str, containers: Sequence[str], wave: int, age: int, *, certain: bool = True
    ) -> bool:
        """See ``StagePolicy``."""
        if output in self._scores:
            self._scores[output].ask(containers, wave, age)
        return self._deciders.wants(output, containers, wave, age, certain=certain)

    def is_audited(self, output: str, wave: int) -> bool:
        """See ``StagePolicy``."""
        return self._deciders.is_audited(output, wave)

    def made(self, output: str, wave: int, age: int) -> None:
        """See ``StagePolicy``."""
        before, decider = self._found, self._deciders.deciders.get(output)
        if decider is not None and decider.is_audited(wave):
            self.wrong_skips += self._is_wrong(output, wave, age)
        self._deciders.made(output, wave, age)
        self.changes += self._found - before

    def wave_over(self, output: str, wave: int, age: int) -> None:
        """See ``StagePolicy``."""
        self._deciders.wave_over(output, wave, age)
        decider = self._deciders.deciders.get(output)
        judged = None if decider is None else decider.judged_in(wave)
        if judged is not None:
            self.counts[judged.choice] += 1
            self.wrong_skips += age > 0 and self._is_wrong(output, wave, age)

    def decide_by(self, model: Model) -> None:
        """Go on with a model that was fitted anew."""
        self._scores[model.output].replace(model)
        self._deciders.fitted_anew(model)

    def decide_by_trained(self, model: Model, known: ServedOutput) -> None:
        """Go on with a model of waves after a change, of which nothing has been measured yet."""
        self._scores[model.output].replace(model, known)
        self._deciders.deciders[model.output] = Decider(
            self._name, self._audit, model, DeciderState()
        )

    def feedback(self, output: str) -> Feedback:
        """Return what feedback has shown of the model that decides."""
        return self._deciders.deciders[output].state.feedback

    def is_unlike(self, output: str, wave: int) -> bool:
        """Return whether an output runs in a wave as that is unlike training."""
        judged = self._deciders.deciders[output].judged_in(wave)
        return judged is not None and judged.score == math.inf

    def _is_wrong(self, output: str, wave: int, age: int) -> bool:
        known = self._bounded[output]
        return not known.errors[wave, age] <= known.bound

    @property
    def _found(self) -> int:
        return sum(each.state.feedback.changes for each in self._deciders.deciders.values())


class Taught(Struct, frozen=True, eq=False):
    """A model of waves of service, and what it goes on with."""

    model: Model
    known: ServedOutput
    """Over the waves of service, with features as the model counts crossings."""
    training: Mapping[str, LabelledRows]
    """Its pairs, by container."""


Teach = Callable[[str, int, int], Taught | None]
"""Trains an output on waves of service, from the first to before the last; None where no threshold
holds."""


class _World(Struct):
    """The latest change of an output, where one was found."""

    changed: int = 0
    """The wave in which it was found."""
    tried: int = 0
    """Trainings since then that gave no model."""
    outdated: bool = False
    """True while the model that decides is of before it."""


class RefittedService(AuditedService):
    """Fits models anew to pairs of waves in which outputs were made, when a dataflow would.

    Where it is taught, it trains them anew, too, on waves after a change.

    Args:
        name: of the dataflow, by which audits are drawn.
        outputs: what is known of them.
        models: of training, by output.
        training: pairs of training, by output and container.
        audit: share of the skips that run all the same.
        upstream: see ``refit``, by output.
        teach: trains on waves after a change; None: nobody does.
    """

    def __init__(
        self,
        name: str,
        outputs: Mapping[str, ServedOutput],
        models: Mapping[str, Model],
        training: Mapping[str, Mapping[str, LabelledRows]],
        audit: float = AUDIT,
        upstream: Mapping[str, Sequence[str]] = MappingProxyType({}),
        teach: Teach | None = None,
    ) -> None:
        super().__init__(name, outputs, models, audit)
        self.tried = 0
        """Trainings after a change."""
        self.trained = 0
        """Those that gave a model."""
        self._models = dict(models)
        self._upstream = upstream
        self._teach = teach
        self._worlds = {} if teach is None else {output: _World() for output in models}
        self._training = {output: _sampled(tables) for output, tables in training.items()}
        self._states = {output: RenewalState(trained=_TRAINED) for output in models}
        self._made = {output: np.zeros(known.waves, np.bool_) for output, known in outputs.items()}
        for made in self._made.values():
            made[0] = True

    def made(self, output: str, wave: int, age: int) -> None:
        """See ``StagePolicy``."""
        world = self._worlds.get(output)
        if world is None:
            super().made(output, wave, age)
            return
        before, unlike = self.feedback(output), self.is_unlike(output, wave)
        super().made(output, wave, age)
        after = self.feedback(output)
        # A wave that is still unlike training is of the change that was found before.
        if after.changes > before.changes and not (unlike and world.outdated):
            world.changed, world.tried = wave, 0
        world.outdated |= bool(before.synchronous) and not after.synchronous

    def wave_over(self, output: str, wave: int, age: int) -> None:
        """See ``StagePolicy``."""
        super().wave_over(output, wave, age)
        self._made[output][wave] = age == 0
        if output in self._models and not self.feedback(output).synchronous:
            state, number = self._states[output], wave + _TRAINED
            if _RENEWAL.wants_refit(state, _TRAINED, number):
                state.refit = number
                self._fit(output, wave + 1)
        world = self._worlds.get(output)
        if world is None or not world.outdated or self._teach is None:
            return
        if wave - world.changed >= wait_after_change(world.tried):
            self._train(self._teach, output, world, wave + 1)

    def _fit(self, output: str, now: int) -> None:
        began = time.process_time()
        known, model = self._outputs[output], self._models[output]
        pairs = service_pairs(self._made[output][:now], model.horizon)
        where = pairs.waves, pairs.ages
        logs = log_ratio(known.errors[where], known.bound)
        service = _sampled(
            {name: LabelledRows(table[where], logs) for name, table in known.tables.items()}
        )
        upstream = self._upstream.get(output, ())
        self._models[output] = refit(model, self._training[output], service, upstream=upstream)
        self.fits += 1
        self.fit_seconds += time.process_time() - began
        self.decide_by(self._models[output])

    def _train(self, teach: Teach, output: str, world: _World, now: int) -> None:
        self.tried += 1
        first, last = longest_stretch(self._made[output][world.changed : now])
        taught = teach(output, world.changed + first, world.changed + last)
        if taught is None:
            world.tried += 1
            world.outdated = _RENEWAL.tries_again(world.tried)
            return
        self.trained += 1
        world.outdated = False
        self._outputs = {**self._outputs, output: taught.known}
        self._models[output] = taught.model
        self._training[output] = _sampled(taught.training)
        self._states[output] = RenewalState(trained=now)
        self.decide_by_trained(taught.model, taught.known)


def _sampled(tables: Mapping[str, LabelledRows]) -> dict[str, LabelledRows]:
    return {name: rows.sample(_MOST_ANEW) for name, rows in tables.items()}


def longest_stretch(made: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Return the first place of the longest stretch of true values, the newest, and its end."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], made.astype(np.int8), [0]))))
    firsts, ends = edges[::2], edges[1::2]
    if not len(firsts):
        return 0, 0
    longest = len(firsts) - 1 - int(np.argmax((ends - firsts)[::-1]))
    return int(firsts[longest]), int(ends[longest])


def served(
    name: str,
    graph: Graph,
    known: ServedOutput,
    model: Model,
    training: Mapping[str, LabelledRows],
) -> dict[str, Served]:
    """Return what becomes of a step in service, by policy.

    Args:
        name: of the dataflow, by which audits are drawn.
        graph: of the step alone.
        known: of its output.
        model: of training.
        training: pairs of training, by container.
    """
    outputs, models = {model.output: known}, {model.output: model}
    policies: dict[str, StagePolicy] = {
        "stays": ThresholdService(Scores(known, model), model.threshold),
        "audits": AuditedService(name, outputs, models),
        "refit": RefittedService(name, outputs, models, {model.output: training}),
    }
    oracle = closed_loop(known.errors, known.errors, known.bound, known.bound, 0, known.waves)
    found = {policy: _served(graph, model.output, known, each) for policy, each in policies.items()}
    return {"oracle": Served(oracle), **found}


def _served(graph: Graph, output: str, known: ServedOutput, policy: StagePolicy) -> Served:
    loops = stages(graph, {output: Bounded(known.errors, known.bound, {})}, policy, 0, known.waves)
    loop = ClosedLoop(loops.ran[graph.writers[output]], loops.violated[output])
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
