"""Every policy over the tables of one dataflow and seed: what it saves, and what it violates."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from applications import HORIZON, Application
from msgspec import Struct
from sklearn.ensemble import RandomForestClassifier

from headgate.learning import (
    FEATURES,
    Bounded,
    ClosedLoop,
    Deciders,
    ErrorMetric,
    Graph,
    MeasuredPairs,
    Model,
    Step,
    Target,
    candidates,
    closed_loop,
    errors,
    features,
    fit,
    staged_loop,
    stages,
)
from headgate.learning.fitting.quality import simulated_runs

BOUNDS: Final = (0.05, 0.1, 0.2)
CONFIDENCE: Final = 0.95
AUDIT: Final = 0.05
SETTLED: Final = 100
"""Waves after which confidence is looked at, as in the paper."""
_RELATIVE_IMPACT, _RELATIVE_ERROR, _UPDATES = map(
    FEATURES.index, ("relative_impact", "relative_error", "updates")
)

Table = npt.NDArray[np.float64]


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
    sizes: list[float]
    """ε / bound of each violation after the first waves."""


class Seed(Struct, frozen=True):
    """All outcomes of one dataflow and seed."""

    outcomes: list[Outcome]
    whole_saved: dict[str, dict[str, float]]
    """By bound and policy, the share of all runs of the whole dataflow that was skipped."""
    models: list[float]
    """Seconds of processor time of fitting one model, its test phase left out."""
    phase: list[float]
    """Seconds of fitting with its test phase and calibration."""


def scores_of(
    model: Model, pairs: Mapping[str, MeasuredPairs], containers: Sequence[str]
) -> dict[str, Table]:
    """Return what a model says of all waves and ages, by container."""
    found = {}
    for container in containers:
        table = features(pairs[container], pairs[model.output].means)
        rows = table.reshape(-1, table.shape[-1])
        found[container] = model.containers[container].scores(rows).reshape(table.shape[:2])
    return found


def _constant(shape: tuple[int, ...], by_wave: npt.NDArray[np.float64]) -> Table:
    return np.broadcast_to(by_wave[:, None], shape)


def _tuned(known: Table, scores: Table, bound: float, training: int) -> float:
    """Return the largest threshold up to which training keeps the confidence."""
    best = -math.inf
    for threshold in candidates(scores[:training]):
        loop = closed_loop(known, scores, threshold, bound, 0, training)
        if loop.confidence < CONFIDENCE:
            break
        best = threshold
    return best


def _of_paper(
    known: Table, tables: Sequence[npt.NDArray[np.float32]], bound: float, training: int
) -> Table:
    """Return the violations that the paper's forest predicts of the impact alone."""
    impacts = np.stack([table[..., _RELATIVE_IMPACT] for table in tables], -1).astype(np.float64)
    with np.errstate(divide="ignore"):
        mean = np.exp(np.log(impacts).mean(-1))
    examples = simulated_runs(known[:training], bound)
    where = examples.waves, examples.ages
    labels = ~(known[where] <= bound)
    if labels.all() or not labels.any():
        return np.full(known.shape, float(labels.all()))
    forest = RandomForestClassifier(100, random_state=0).fit(mean[where][:, None], labels)
    predicted: Table = forest.predict_proba(mean.reshape(-1, 1))[:, 1].reshape(known.shape)
    return predicted


def _single(
    application: Application, seed: int, step: str, pairs: Mapping[str, MeasuredPairs], bound: float
) -> Iterator[tuple[Outcome, float]]:
    """Yield each policy's outcome for a step on synchronous input, with seconds of fitting."""
    output, reads = application.singles[step]
    training, last = application.training, application.waves
    known = errors(pairs[output], ErrorMetric.RELATIVE)
    tables = [features(pairs[c], pairs[output].means) for c in reads]

    def outcome(policy: str, loop: ClosedLoop) -> Outcome:
        return _outcome(application, seed, "step", bound, step, policy, loop, known, training)

    def by(scores: Table, threshold: float) -> ClosedLoop:
        return closed_loop(known, scores, threshold, bound, training, last)

    graph = Graph([Step(step, reads, (output,))])
    began = time.process_time()
    fitted = fit(
        graph,
        {c: pairs[c].until(training) for c in (output, *reads)},
        [Target(output, ErrorMetric.RELATIVE, bound, CONFIDENCE)],
    )
    spent = time.process_time() - began
    bounded, models = _bounded(known, bound, reads, fitted.models, pairs)
    for policy, audit in (("learned", AUDIT), ("learned, no audits", 0.0)):
        deciders = Deciders(f"{application.name} {seed}", {output: bounded}, models, audit)
        loop = stages(graph, {output: bounded}, deciders, training, last)
        yield outcome(policy, ClosedLoop(loop.ran[step], loop.violated[output])), spent
        spent = 0.0
    ages = np.broadcast_to(np.arange(known.shape[1], dtype=np.float64), known.shape)
    for every in (2, 3, 4, 5):
        yield outcome(f"seq{every}", by(ages, every - 1)), 0.0
    chance = np.random.default_rng(seed).random(len(known))
    yield outcome("random", by(_constant(known.shape, chance), 0.5)), 0.0
    for policy, column in (("σ", _UPDATES), ("ν", _RELATIVE_ERROR)):
        scores = np.max([table[..., column].astype(np.float64) for table in tables], 0)
        yield outcome(policy, by(scores, _tuned(known, scores, bound, training))), 0.0
    yield outcome("paper", by(_of_paper(known, tables, bound, training), 0.5)), 0.0
    yield outcome("oracle", by(known, bound)), 0.0


def _bounded(
    known: Table,
    bound: float,
    containers: Sequence[str],
    models: Mapping[str, Model],
    pairs: Mapping[str, MeasuredPairs],
) -> tuple[Bounded, Mapping[str, Model]]:
    if not models:
        never = dict.fromkeys(containers, np.full(known.shape, math.inf))
        return Bounded(known, bound, never), {}
    (model,) = models.values()
    return Bounded(known, bound, scores_of(model, pairs, containers)), models


def _outcome(
    application: Application,
    seed: int,
    setting: str,
    bound: float,
    name: str,
    policy: str,
    loop: ClosedLoop,
    known: Table,
    training: int,
) -> Outcome:
    version, sizes = 0, []
    for wave in range(len(loop.ran)):
        if loop.ran[wave]:
            version = wave
        elif loop.violated[wave] and wave >= SETTLED:
            age = min(wave - version, HORIZON)
            sizes.append(float(known[training + wave, age]) / bound)
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
        sizes,
    )


def _whole(
    application: Application, seed: int, pairs: Mapping[str, MeasuredPairs], bound: float
) -> tuple[list[Outcome], dict[str, float], float]:
    graph, training, last = application.graph, application.training, application.waves
    began = time.process_time()
    targets = [
        Target(output, ErrorMetric.RELATIVE, bound, CONFIDENCE) for output in application.bounded
    ]
    fitted = fit(graph, {c: p.until(training) for c, p in pairs.items()}, targets)
    spent = time.process_time() - began
    known = {o: errors(pairs[o], ErrorMetric.RELATIVE) for o in application.bounded}
    outputs = {
        output: _bounded(
            known[output],
            bound,
            graph.above(output),
            {output: fitted.models[output]} if output in fitted.models else {},
            pairs,
        )[0]
        for output in application.bounded
    }
    perfect = {
        o: Bounded(known[o], bound, dict.fromkeys(graph.above(o), known[o]))
        for o in application.bounded
    }
    name = f"{application.name} {seed}"
    loops = {
        policy: stages(
            graph, outputs, Deciders(name, outputs, fitted.models, audit), training, last
        )
        for policy, audit in (("learned", AUDIT), ("learned, no audits", 0.0))
    }
    loops["oracle"] = staged_loop(
        graph, perfect, dict.fromkeys(application.bounded, bound), training, last
    )
    found = [
        _outcome(
            application, seed, "whole", bound, output, policy,
            ClosedLoop(loop.ran[graph.writers[output]], loop.violated[output]),
            known[output], training,
        )
        for policy, loop in loops.items()
        for output in application.bounded
    ]  # fmt: skip
    return found, {policy: loop.saved for policy, loop in loops.items()}, spent


def evaluate(application: Application, seed: int) -> Seed:
    """Return all outcomes of a dataflow and seed."""
    pairs = application.pairs(seed)
    outcomes: list[Outcome] = []
    whole: dict[str, dict[str, float]] = {}
    phase = []
    for bound in BOUNDS:
        for step in application.singles:
            for outcome, spent in _single(application, seed, step, pairs, bound):
                outcomes.append(outcome)
                phase += [spent] if spent else []
        found, saved, spent = _whole(application, seed, pairs, bound)
        outcomes += found
        whole[f"{bound:g}"] = saved
        phase.append(spent)
    return Seed(outcomes, whole, [], phase)
