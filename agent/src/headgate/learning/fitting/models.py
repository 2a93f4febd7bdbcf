"""From recorded synchronous waves to models, and a report of how far they are to be believed.

Training, calibration and the test phase of SmartFlux (section 3). What the report says of closed
loops is of scores out of fold, as are the thresholds. Where none holds there is no model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from msgspec import Struct

from headgate.learning.calibration import (
    SURE,
    Calibration,
    calibrate,
    calibration_of,
    candidates,
    fewest_waves,
)
from headgate.learning.fitting.quality import Quality
from headgate.learning.fitting.risk import MOST_RISK
from headgate.learning.fitting.training import (
    Fitter,
    OutputPairs,
    Target,
    TrainedOutput,
    extra_trees,
    output_pairs,
    train_on,
)
from headgate.learning.pairs import MeasuredPairs
from headgate.learning.predictor import Model
from headgate.learning.simulation import ClosedLoop, Graph, StagedLoop, staged_loop


class StepQuality(Struct, frozen=True):
    """How well the steps that read a container are decided on for an output below."""

    output: str
    container: str
    steps: tuple[str, ...]
    tenfold: Quality
    """As in the paper: ten parts of waves drawn at random, of the simulated last run. It flatters,
    as the waves beside those that are predicted have trained."""
    blocked: Quality
    """Blocks of waves with a gap around each."""


class OutputReport(Struct, frozen=True):
    """What calibration has found for an output."""

    output: str
    calibration: Calibration
    """Of the output alone, before a preference for recall and the other outputs; its threshold is
    a risk. The words are of all outputs together."""
    threshold: float | None
    """The risk up to which skips pass, a share of violations; None where there is no model."""
    confidence: float
    """Share of the waves within the bound, in the closed loop of all outputs together."""
    missing: int | None
    """Waves of training that are missing; None where there is a model or none would do."""
    words: str


class FitReport(Struct, frozen=True):
    """The test phase of a dataflow."""

    waves: int
    outputs: tuple[OutputReport, ...]
    steps: tuple[StepQuality, ...]
    """None where there are too few waves to fit anything."""
    saved: float
    """Share of all runs skipped, in the closed loop of all outputs together."""


class Fitted(Struct, frozen=True, eq=False):
    """Models of those outputs for which a threshold holds, and what is known of all."""

    models: Mapping[str, Model]
    report: FitReport


def fit(
    graph: Graph,
    pairs: Mapping[str, MeasuredPairs],
    targets: Sequence[Target],
    fitter: Fitter = extra_trees,
) -> Fitted:
    """Return models of the bounded outputs of a dataflow, and the report of its test phase.

    Args:
        graph: of its steps.
        pairs: by container: of every output, and of everything above one with its levels.
        targets: its bounded outputs.
        fitter: makes a forest.

    Raises:
        ValueError: a container is not measured, or in other waves or horizons than the others.
    """
    _check(graph, pairs, targets)
    known = {target.output: output_pairs(graph, pairs, target) for target in targets}
    return fit_on(graph, known, targets, fitter)


def fit_on(
    graph: Graph,
    pairs: Mapping[str, OutputPairs],
    targets: Sequence[Target],
    fitter: Fitter = extra_trees,
) -> Fitted:
    """Return what ``fit`` does, of pairs that are known already.

    Args:
        graph: of the steps.
        pairs: by bounded output, all of the same waves and horizon.
        targets: the bounded outputs.
        fitter: makes a forest.

    Raises:
        ValueError: there is no output, or they differ in waves or horizons.
    """
    shapes = {pairs[target.output].shape for target in targets}
    if len(shapes) != 1:
        message = f"outputs have pairs of different waves and horizons: {sorted(shapes)}"
        raise ValueError(message)
    waves, horizon = shapes.pop()
    few = fewest_waves(horizon) - waves
    if few > 0:
        return Fitted({}, _too_few(targets, waves, few))
    trained = {
        each.output: train_on(pairs[each.output], each, fitter, graph.nearer(each.output))
        for each in targets
    }
    found = {output: _calibrated(graph, each) for output, each in trained.items()}
    loop, thresholds = _together(graph, trained, found)
    models = {
        output: _model(graph, each, pairs[output], thresholds[output], loop)
        for output, each in trained.items()
        if thresholds[output] > -math.inf
    }
    outputs = tuple(
        _output_report(each.target, found[output], thresholds[output], loop, models.get(output))
        for output, each in trained.items()
    )
    steps = tuple(
        StepQuality(
            output,
            container,
            graph.readers(container, output),
            each.tenfold(container, thresholds[output], fitter),
            each.blocked(container, thresholds[output]),
        )
        for output, each in trained.items()
        for container in each.forests
    )
    return Fitted(models, FitReport(waves, outputs, steps, loop.saved))


class _Found(Struct, frozen=True):
    """What an output's calibration has found, alone."""

    calibration: Calibration
    tried: tuple[float, ...]
    """Risks as thresholds, in rising order; none with less recall than is asked for."""
    threshold: float
    """The largest of them that holds; -infinity where none does."""


def _check(graph: Graph, pairs: Mapping[str, MeasuredPairs], targets: Sequence[Target]) -> None:
    if not targets:
        message = "no output has a bound, so there is nothing to learn; give one a bound"
        raise ValueError(message)
    shapes = set()
    for target in targets:
        if target.output not in graph.writers:
            message = f"no step writes {target.output}; bound an output of a step"
            raise ValueError(message)
        for container in (target.output, *graph.above(target.output)):
            if container not in pairs:
                message = f"{container} was not measured, and {target.output} depends on it"
                raise ValueError(message)
            shapes.add((pairs[container].waves, pairs[container].horizon))
    if len(shapes) != 1:
        message = f"containers were measured in different waves and horizons: {sorted(shapes)}"
        raise ValueError(message)


def _too_few(targets: Sequence[Target], waves: int, missing: int) -> FitReport:
    needed = waves + missing
    words = (
        f"{waves} waves are too few to train and test on; {missing} more are missing: raise "
        f"`waves` to {needed} where it is less"
    )
    nothing = Calibration(None, 0, 0, 0.0, 1.0, 0.0, missing)
    outputs = tuple(
        OutputReport(each.output, nothing, None, 1.0, missing, words) for each in targets
    )
    return FitReport(waves, outputs, (), 0.0)


def _calibrated(graph: Graph, trained: TrainedOutput) -> _Found:
    risks = candidates(np.stack(list(trained.risks.values())))
    tried = tuple(risk for risk in risks if risk <= MOST_RISK)
    found = calibrate(partial(_alone, graph, trained), tried, trained.target.confidence)
    if found.threshold is None:
        return _Found(found, tried, -math.inf)
    if trained.target.recall is None:
        return _Found(found, tried, found.threshold)
    most = trained.recall_threshold(trained.target.recall)
    threshold = min(found.threshold, most)
    skips = threshold >= min(tried) and not _alone(graph, trained, threshold).ran.all()
    with_recall = sorted({risk for risk in tried if risk <= most} | {threshold})
    return _Found(found, tuple(with_recall), threshold if skips else -math.inf)


def _alone(graph: Graph, trained: TrainedOutput, threshold: float) -> ClosedLoop:
    """Return what becomes of an output whose dataflow has no other bound."""
    output = trained.target.output
    return _of_output(graph, _loop(graph, {output: trained}, {output: threshold}), trained)


def _of_output(graph: Graph, loop: StagedLoop, trained: TrainedOutput) -> ClosedLoop:
    output = trained.target.output
    ran, violated = loop.ran[graph.writers[output]], loop.violated[output]
    return ClosedLoop(ran, violated, trained.spacing.gap)


def _together(
    graph: Graph, trained: Mapping[str, TrainedOutput], found: Mapping[str, _Found]
) -> tuple[StagedLoop, dict[str, float]]:
    """Return the closed loop of all outputs, and the thresholds that hold in it.

    A step that runs for one output makes others younger, and their steps run at other waves. Where
    one does not hold beside the others, its threshold is lowered; then each is raised in its turn,
    for as long as all hold: what runs for another lets an output skip more.
    """
    thresholds = {output: each.threshold for output, each in found.items()}
    loop = _loop(graph, trained, thresholds)
    while failed := _failed(graph, trained, thresholds, loop):
        for output in failed:
            lower = [each for each in found[output].tried if each < thresholds[output]]
            thresholds[output] = max(lower, default=-math.inf)
        loop = _loop(graph, trained, thresholds)
    rising = [output for output, threshold in thresholds.items() if threshold > -math.inf]
    while len(trained) > 1 and (
        rising := [output for output in rising if thresholds[output] < found[output].tried[-1]]
    ):
        for output in tuple(rising):
            higher = min(each for each in found[output].tried if each > thresholds[output])
            raised = {**thresholds, output: higher}
            tried = _loop(graph, trained, raised)
            if _failed(graph, trained, raised, tried):
                rising.remove(output)
            else:
                loop, thresholds = tried, raised
    return loop, thresholds


def _loop(
    graph: Graph, trained: Mapping[str, TrainedOutput], thresholds: Mapping[str, float]
) -> StagedLoop:
    last = next(iter(trained.values())).waves
    decided = {output: each.decided(thresholds[output]) for output, each in trained.items()}
    return staged_loop(graph, decided, dict.fromkeys(decided, 0.0), 0, last)


def _failed(
    graph: Graph,
    trained: Mapping[str, TrainedOutput],
    thresholds: Mapping[str, float],
    loop: StagedLoop,
) -> list[str]:
    """Return the outputs that are decided on and do not keep their confidence."""
    return [
        output
        for output, threshold in thresholds.items()
        if threshold > -math.inf
        and calibration_of(threshold, _of_output(graph, loop, trained[output])).upper
        > 1.0 - trained[output].target.confidence
    ]


def _model(
    graph: Graph,
    trained: TrainedOutput,
    pairs: OutputPairs,
    threshold: float,
    loop: StagedLoop,
) -> Model:
    target = trained.target
    own = _of_output(graph, loop, trained)
    joint = calibration_of(threshold, own)
    limits = {container: trained.limit(container, threshold) for container in trained.forests}
    nearest = limits[graph.above(target.output)[-1]]
    return Model(
        output=target.output,
        metric=target.metric,
        bound=target.bound,
        confidence=target.confidence,
        threshold=nearest,
        containers={
            container: trained.container_model(
                container, pairs.levels[container], own.ran, nearest - limit
            )
            for container, limit in limits.items()
        },
        horizon=trained.spacing.reach,
        waves=trained.waves,
        first_time=pairs.first_time,
        last_time=pairs.last_time,
        upper=joint.upper,
        calibration=words_of(joint, target.confidence),
        changes=target.changes,
    )


def _output_report(
    target: Target, found: _Found, threshold: float, loop: StagedLoop, model: Model | None
) -> OutputReport:
    kept = 1.0 - float(loop.violated[target.output].mean())
    calibration = found.calibration
    if model is not None:
        return OutputReport(target.output, calibration, threshold, kept, None, model.calibration)
    if calibration.threshold is None:
        words = words_of(calibration, target.confidence)
    elif found.threshold > -math.inf:
        words = "no threshold holds beside the other outputs; train for longer"
    else:
        words = (
            f"no threshold that skips anything has a recall of {target.recall:.1%}; ask for less, "
            "or train for longer"
        )
    return OutputReport(target.output, calibration, None, kept, calibration.missing, words)


def words_of(calibration: Calibration, confidence: float) -> str:
    """Return what a calibration has found, as a sentence."""
    seen = (
        f"{calibration.violations} of {calibration.waves} waves were out of bounds, which count as "
        f"{calibration.effective:.0f} independent ones: at most {calibration.upper:.1%} are, with "
        f"{SURE:.0%} certainty"
    )
    if calibration.threshold is not None:
        return f"{confidence:.1%} kept with {calibration.saved:.0%} of the runs skipped; {seen}"
    if not calibration.waves:
        return (
            "no threshold skips anything that is more likely right than wrong; train for longer or "
            "raise the bound"
        )
    if calibration.missing is None:
        return (
            f"no threshold keeps {confidence:.1%}: {seen}; more waves do not help, raise the bound "
            "or lower the confidence"
        )
    needed = calibration.waves + calibration.missing
    return (
        f"no threshold keeps {confidence:.1%} yet: {seen}; about {calibration.missing} more waves "
        f"are missing: raise `waves` to {needed} where it is less"
    )
