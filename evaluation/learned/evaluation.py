"""Every policy over the tables of one dataflow and seed: what it saves, and what it violates."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from evaluation.learned.adaptation import AuditedService, RefittedService, ServedOutput, labelled
from evaluation.learned.applications import AUDIT, HORIZON, Application
from evaluation.learned.classification import (
    Classification,
    Table,
    classification,
    mean_impacts,
    paper_forest,
)
from evaluation.learned.overheads import Overhead, overheads
from headgate.learning import (
    FEATURES,
    Bounded,
    ClosedLoop,
    ErrorMetric,
    Fitted,
    Graph,
    MeasuredPairs,
    Model,
    StagedLoop,
    Step,
    Target,
    calibrate,
    candidates,
    closed_loop,
    error_of_current,
    errors,
    features,
    fit,
    staged_loop,
    stages,
)
from headgate.learning.fitting.quality import Quality, quality, simulated_runs
from headgate.learning.fitting.refit import LabelledRows
from headgate.learning.pairs import FeatureTable

BOUNDS: Final = (0.05, 0.1, 0.2)
CONFIDENCE: Final = 0.95
SETTLED: Final = 100
"""Waves after which confidence is looked at, as in the paper."""
_RELATIVE_ERROR, _UPDATES = map(FEATURES.index, ("relative_error", "updates"))


class Truth(Struct, frozen=True, eq=False):
    """What skips of an output cost, by wave and age, shape (T, H+1) each."""

    errors: Table
    """ε by Σ max(|x|, |x′|), the denominator of (3) that bounds are of."""
    current: Table
    """ε by Σ|x|, the other one; of the test waves, and NaN before them."""


class Outcome(Struct, frozen=True):
    """One output, or one step, under one policy over the test waves."""

    application: str
    seed: int
    setting: str
    """``step``: on synchronous input, as in the paper; ``whole``: the dataflow."""
    bound: float
    name: str
    """Of the step, or of the bounded output of the whole."""
    policy: str
    saved: float
    violated: list[bool]
    """By wave."""
    ran: list[bool]
    errors: list[float]
    """ε of what is shown at the end of each wave; 0 where it is of the wave."""
    current: list[float]
    """The same with the other denominator, Σ|x|; may be infinite."""

    @property
    def sizes(self) -> list[float]:
        """ε / bound of each violation after the first waves."""
        later = zip(self.errors[SETTLED:], self.violated[SETTLED:], strict=True)
        return [error / self.bound for error, violated in later if violated]


class StepQuality(Struct, frozen=True):
    """How well the model of a step classifies the waves after training, at the calibrated λ."""

    step: str
    bound: float
    quality: Quality


class Seed(Struct, frozen=True):
    """All outcomes of one dataflow and seed."""

    outcomes: list[Outcome]
    whole_saved: dict[str, dict[str, float]]
    """By bound and policy, the share of all runs of the whole dataflow that was skipped."""
    qualities: list[StepQuality]
    """Of those steps of which there is a model."""
    phase: list[float]
    """Seconds of processor time of fitting with its test phase and calibration."""
    classification: Classification | None
    """Figures 7 and 8, and the classifiers; None where it was not asked for."""
    overheads: list[Overhead]
    """None where they were not asked for."""


class _Single(Struct, frozen=True):
    """A step on synchronous input."""

    outcomes: list[Outcome]
    quality: StepQuality | None
    spent: float
    """Seconds of processor time of fitting."""


def truth_of(pairs: MeasuredPairs, first: int) -> Truth:
    """Return the errors of an output, by the other denominator from a wave on."""
    current = np.full(pairs.impacts.changed.shape, np.nan)
    for wave in range(first, pairs.waves):
        for age in range(min(wave, pairs.horizon) + 1):
            current[wave, age] = error_of_current(pairs.impacts.one((wave, age)))
    return Truth(errors(pairs, ErrorMetric.RELATIVE), current)


class _Known(Struct, frozen=True, eq=False):
    """An output in all waves."""

    errors: Table
    bound: float
    tables: Mapping[str, FeatureTable]
    """Features by container above it."""

    def served(self, training: int) -> ServedOutput:
        """Return what is known of it in the waves after training."""
        tables = {name: table[training:] for name, table in self.tables.items()}
        return ServedOutput(self.errors[training:], self.bound, tables)

    def trained(self, training: int) -> dict[str, LabelledRows]:
        """Return the pairs of training, by container."""
        return labelled(self.tables, self.errors, self.bound, training)


def scores_of(model: Model, tables: Mapping[str, FeatureTable]) -> dict[str, Table]:
    """Return what a model says of all waves and ages, by container."""
    return {
        name: model.containers[name]
        .scores(table.reshape(-1, table.shape[-1]))
        .reshape(table.shape[:2])
        for name, table in tables.items()
    }


def _loops_of_learned(
    name: str, graph: Graph, known: Mapping[str, _Known], fitted: Fitted, training: int
) -> Iterator[tuple[str, StagedLoop]]:
    """Yield what becomes of a dataflow by its models.

    Once as in service, audited and fitted anew, once by those of training, with no audit, and once
    with no feedback either, as policies are that are not ours.
    """
    outputs = {output: each.served(training) for output, each in known.items()}
    rows = {output: known[output].trained(training) for output in fitted.models}
    bounded = {output: Bounded(each.errors, each.bound, {}) for output, each in outputs.items()}
    waves = min(each.waves for each in outputs.values())
    upstream = {output: graph.upstream(output) for output in fitted.models}
    for policy, service in (
        ("learned", RefittedService(name, outputs, fitted.models, rows, AUDIT, upstream)),
        ("learned, alone", AuditedService(name, outputs, fitted.models, 0.0)),
    ):
        yield policy, stages(graph, bounded, service, 0, waves)
    scored = {
        output: Bounded(
            each.errors,
            each.bound,
            scores_of(fitted.models[output], each.tables)
            if output in fitted.models
            else dict.fromkeys(each.tables, each.errors),
            fitted.models[output].persistence if output in fitted.models else {},
        )
        for output, each in outputs.items()
    }
    thresholds = dict.fromkeys(outputs, -math.inf) | {
        output: model.threshold for output, model in fitted.models.items()
    }
    yield "learned, fixed", staged_loop(graph, scored, thresholds, 0, waves)


def _tuned(known: Table, scores: Table, bound: float, training: int) -> float:
    """Return the largest threshold up to which training keeps the confidence."""
    best = -math.inf
    for threshold in candidates(scores[:training]):
        loop = closed_loop(known, scores, threshold, bound, 0, training)
        if loop.confidence < CONFIDENCE:
            break
        best = threshold
    return best


def _as_sure(known: Table, scores: Table, bound: float, training: int) -> float:
    """Return the threshold that is calibrated as ours are: at equal confidence."""

    def loop(threshold: float) -> ClosedLoop:
        return closed_loop(known, scores, threshold, bound, 0, training)

    found = calibrate(loop, candidates(scores[:training]), CONFIDENCE).threshold
    return -math.inf if found is None else found


def _of_paper(known: Table, impacts: Table, bound: float, training: int) -> Table:
    """Return the violations that the paper's forest predicts of the impact alone."""
    examples = simulated_runs(known[:training], bound)
    where = examples.waves, examples.ages
    predict = paper_forest(impacts[where][:, None], ~(known[where] <= bound))
    return predict(impacts.reshape(-1, 1)).reshape(known.shape)


def _single(
    application: Application,
    seed: int,
    step: str,
    pairs: Mapping[str, MeasuredPairs],
    truth: Truth,
    bound: float,
) -> _Single:
    """Return each policy's outcome for a step on synchronous input."""
    output, reads = application.singles[step]
    training, known = application.training, truth.errors
    graph = Graph([Step(step, reads, (output,))])
    began = time.process_time()
    fitted = fit(
        graph,
        {c: pairs[c].until(training) for c in (output, *reads)},
        [Target(output, ErrorMetric.RELATIVE, bound, CONFIDENCE)],
    )
    spent = time.process_time() - began
    tables = {c: features(pairs[c], pairs[output].means) for c in reads}
    name = f"{application.name} {seed}"
    outputs = {output: _Known(known, bound, tables)}
    loops = {
        policy: ClosedLoop(loop.ran[step], loop.violated[output])
        for policy, loop in _loops_of_learned(name, graph, outputs, fitted, training)
    }
    loops |= _loops_of_others(known, list(tables.values()), bound, seed, training)
    outcome = _outcomes(application, seed, "step", bound)
    found = None
    model = fitted.models.get(output)
    if model is not None:
        highest = np.max(list(scores_of(model, tables).values()), 0)
        later = _later_quality(known, highest, model.threshold, bound, training)
        found = StepQuality(step, bound, later)
    return _Single([outcome(step, *each, truth) for each in loops.items()], found, spent)


def _later_quality(
    known: Table, scores: Table, threshold: float, bound: float, training: int
) -> Quality:
    """Return how well the examples after training are classified."""
    examples = simulated_runs(known, bound)
    later = examples.waves >= training
    where = examples.waves[later], examples.ages[later]
    return quality(~(known[where] <= bound), scores[where], threshold)


def _loops_of_others(
    known: Table, tables: Sequence[FeatureTable], bound: float, seed: int, training: int
) -> Iterator[tuple[str, ClosedLoop]]:
    """Yield what becomes of a step by policies that are not ours, and by the oracle."""

    def by(scores: Table, threshold: float) -> ClosedLoop:
        return closed_loop(known, scores, threshold, bound, training, len(known))

    ages = np.broadcast_to(np.arange(known.shape[1], dtype=np.float64), known.shape)
    for every in (2, 3, 4, 5):
        yield f"seq{every}", by(ages, every - 1)
    chance = np.random.default_rng(seed).random(len(known))
    yield "random", by(np.broadcast_to(chance[:, None], known.shape), 0.5)
    for policy, column in (("σ", _UPDATES), ("ν", _RELATIVE_ERROR)):
        scores = np.max([table[..., column].astype(np.float64) for table in tables], 0)
        yield policy, by(scores, _tuned(known, scores, bound, training))
        yield f"{policy}, as sure", by(scores, _as_sure(known, scores, bound, training))
    yield "paper", by(_of_paper(known, mean_impacts(tables), bound, training), 0.5)
    yield "oracle", by(known, bound)


def _outcomes(
    application: Application, seed: int, setting: str, bound: float
) -> Callable[[str, str, ClosedLoop, Truth], Outcome]:
    """Return what makes an outcome of a name, a policy, its loop and the truth."""

    def outcome(name: str, policy: str, loop: ClosedLoop, truth: Truth) -> Outcome:
        waves = np.arange(len(loop.ran))
        version = np.maximum.accumulate(np.where(loop.ran, waves, 0))
        where = application.training + waves, np.minimum(waves - version, HORIZON)
        return Outcome(
            application.name,
            seed,
            setting,
            bound,
            name,
            policy,
            loop.saved,
            loop.violated.tolist(),
            loop.ran.tolist(),
            truth.errors[where].tolist(),
            truth.current[where].tolist(),
        )

    return outcome


def _whole(
    application: Application,
    seed: int,
    pairs: Mapping[str, MeasuredPairs],
    truths: Mapping[str, Truth],
    bound: float,
) -> tuple[list[Outcome], dict[str, float], float]:
    graph, training, last = application.graph, application.training, application.waves
    began = time.process_time()
    targets = [
        Target(output, ErrorMetric.RELATIVE, bound, CONFIDENCE) for output in application.bounded
    ]
    fitted = fit(graph, {c: p.until(training) for c, p in pairs.items()}, targets)
    spent = time.process_time() - began
    known = {output: truths[output].errors for output in application.bounded}
    outputs = {
        output: _Known(
            by_age,
            bound,
            {c: features(pairs[c], pairs[output].means) for c in graph.above(output)},
        )
        for output, by_age in known.items()
    }
    perfect = {
        o: Bounded(known[o], bound, dict.fromkeys(graph.above(o), known[o]))
        for o in application.bounded
    }
    name = f"{application.name} {seed}"
    loops = dict(_loops_of_learned(name, graph, outputs, fitted, training))
    loops["oracle"] = staged_loop(
        graph, perfect, dict.fromkeys(application.bounded, bound), training, last
    )
    outcome = _outcomes(application, seed, "whole", bound)
    found = [
        outcome(
            output,
            policy,
            ClosedLoop(loop.ran[graph.writers[output]], loop.violated[output]),
            truths[output],
        )
        for policy, loop in loops.items()
        for output in application.bounded
    ]
    return found, {policy: loop.saved for policy, loop in loops.items()}, spent


def evaluate(application: Application, seed: int, *, measured: bool) -> Seed:
    """Return all outcomes of a dataflow and seed.

    Args:
        application: the dataflow.
        seed: of its input.
        measured: whether classifiers are compared and overheads measured too.
    """
    states = application.histories(seed)
    pairs = application.pairs(states)
    truths = {
        output: truth_of(pairs[output], application.training)
        for output, _ in application.singles.values()
    }
    outcomes: list[Outcome] = []
    whole: dict[str, dict[str, float]] = {}
    qualities, phase = [], []
    for bound in BOUNDS:
        for step, (output, _) in application.singles.items():
            single = _single(application, seed, step, pairs, truths[output], bound)
            outcomes += single.outcomes
            qualities += [] if single.quality is None else [single.quality]
            phase.append(single.spent)
        found, saved, spent = _whole(application, seed, pairs, truths, bound)
        outcomes += found
        whole[f"{bound:g}"] = saved
        phase.append(spent)
    return Seed(
        outcomes,
        whole,
        qualities,
        phase,
        classification(application, pairs, BOUNDS) if measured else None,
        overheads(application, states, pairs) if measured else [],
    )
