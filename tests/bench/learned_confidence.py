"""Whether a threshold that is calibrated keeps the confidence that it states.

Each of many dataflows, drawn at random, is trained on 336 waves and then runs for 1,000 more: an
output with an error bound, a forest that predicts its error from the input, out of fold for the
waves it was fitted to. Two thresholds are compared on the later waves: the largest with at most 5 %
of violations in cross-validation, and the largest whose upper confidence bound is below 5 %. An
oracle, which runs as late as can be, says what could be saved.

    python tests/bench/learned_confidence.py [--dataflows 200] [--first 0] [--jobs 2]

The last line is all figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from sklearn.ensemble import ExtraTreesRegressor

from headgate.learning import (
    ErrorMetric,
    blocks,
    calibrate,
    candidates,
    closed_loop,
    errors,
    features,
    levels_of,
    measured_pairs,
    outside,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "learning"))
from synthetic import SyntheticDataflow, dataflow

TRAINING = 336
WAVES = TRAINING + 1_000
HORIZON = 24
CONFIDENCE = 0.95
FOLDS = 4
BOUNDS = (0.1, 0.05, 0.2, 0.02)
"""The first of which the oracle saves between a fifth and nine tenths is a user's bound."""
_SAVES = (0.2, 0.93)
_AGES = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24])
_SMALLEST = 1e-3
"""Added to errors before their logarithm is taken."""

Table = npt.NDArray[np.float64]


class Policy(Struct, frozen=True):
    """What became of the later waves: shares."""

    saved: float
    violations: float


class Outcome(Struct, frozen=True):
    """One dataflow under all policies."""

    kind: str
    bound: float
    policies: dict[str, Policy]
    seconds: float
    """Of processor time for one model."""


def predicted(known: Table, table: npt.NDArray[np.float32]) -> tuple[Table, float]:
    """Return predicted log errors of all pairs, out of fold in training, and seconds per model."""
    scores = np.full(known.shape, np.nan)
    waves, ages = (grid.ravel() for grid in np.indices(known.shape))
    there = (ages >= 1) & (ages <= waves)
    waves, ages = waves[there], ages[there]
    trains = (waves < TRAINING) & np.isin(ages, _AGES)
    target = np.log(np.minimum(known, 1.0) + _SMALLEST)
    spent = []

    def fill(fitted: npt.NDArray[np.bool_], asked: npt.NDArray[np.bool_]) -> None:
        began = time.process_time()
        model = ExtraTreesRegressor(50, min_samples_leaf=4, max_features=0.4, random_state=0)
        model.fit(table[waves[fitted], ages[fitted]], target[waves[fitted], ages[fitted]])
        spent.append(time.process_time() - began)
        where = waves[asked], ages[asked]
        scores[where] = model.predict(table[where])

    fill(trains, waves >= TRAINING)
    for fold in blocks(0, TRAINING, FOLDS):
        inside = (waves >= fold.first) & (waves < fold.last)
        fill(trains & outside(fold, waves, ages, HORIZON), inside)
    return scores, statistics.mean(spent)


def plugged_in(known: Table, scores: Table, tried: list[float], bound: float) -> float:
    """Return the largest threshold up to which cross-validation shows 5 % of violations at most."""
    best = -np.inf
    for threshold in tried:
        loop = closed_loop(known, scores, threshold, bound, 0, TRAINING)
        if 1.0 - loop.confidence > 1.0 - CONFIDENCE:
            break
        best = threshold
    return best


def measured(flow: SyntheticDataflow) -> Outcome | None:
    """Return a dataflow's outcome; None where no bound of ours is one that a user might set."""
    output = measured_pairs(flow.output, HORIZON)
    known = errors(output, ErrorMetric.RELATIVE)
    for bound in BOUNDS:
        saved = closed_loop(known, known, bound, bound, 0, TRAINING).saved
        if _SAVES[0] < saved < _SAVES[1]:
            break
    else:
        return None
    levels = levels_of(flow.input.values[:TRAINING].ravel())
    table = features(measured_pairs(flow.input, HORIZON, levels), output.means)
    scores, seconds = predicted(known, table)
    tried = candidates(scores[:TRAINING])
    found = calibrate(
        lambda threshold: closed_loop(known, scores, threshold, bound, 0, TRAINING),
        tried,
        CONFIDENCE,
    )
    calibrated = -np.inf if found.threshold is None else found.threshold
    thresholds = {"5 %": plugged_in(known, scores, tried, bound), "calibrated": calibrated}
    loops = {
        name: closed_loop(known, scores, threshold, bound, TRAINING, WAVES)
        for name, threshold in thresholds.items()
    }
    loops["oracle"] = closed_loop(known, known, bound, bound, TRAINING, WAVES)
    policies = {name: Policy(loop.saved, 1.0 - loop.confidence) for name, loop in loops.items()}
    return Outcome(flow.kind, bound, policies, seconds)


def of_seed(seed: int) -> Outcome | None:
    """Return the outcome of one dataflow."""
    return measured(dataflow(seed, WAVES))


def main() -> None:
    """Print what each policy saves, and in how many dataflows it keeps the confidence."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataflows", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    began = time.monotonic()
    found: list[Outcome] = []
    seeds = iter(range(options.first, options.first + 4 * options.dataflows))
    with ProcessPoolExecutor(options.jobs) as pool:
        while len(found) < options.dataflows:
            batch = [seed for seed, _ in zip(seeds, range(4 * options.jobs), strict=False)]
            if not batch:
                break
            found += [outcome for outcome in pool.map(of_seed, batch) if outcome is not None]
    found = found[: options.dataflows]
    figures: dict[str, dict[str, float]] = {}
    oracle = statistics.mean(outcome.policies["oracle"].saved for outcome in found)
    print(f"{len(found)} dataflows, {TRAINING} waves of training, {WAVES - TRAINING} after it")
    for name in ("5 %", "calibrated", "oracle"):
        policies = [outcome.policies[name] for outcome in found]
        saved = statistics.mean(policy.saved for policy in policies)
        kept = statistics.mean(policy.violations <= 1.0 - CONFIDENCE for policy in policies)
        figures[name] = {
            "saved": saved,
            "of_oracle": saved / oracle,
            "violations": statistics.mean(policy.violations for policy in policies),
            "most_violations": max(policy.violations for policy in policies),
            "kept": kept,
        }
        print(
            f"{name:12} saved {saved:6.1%} ({saved / oracle:4.0%} of the oracle), violations "
            f"{figures[name]['violations']:5.2%} (most {figures[name]['most_violations']:5.1%}), "
            f"confidence kept by {kept:6.1%}"
        )
    ratio = figures["calibrated"]["saved"] / figures["5 %"]["saved"]
    seconds = statistics.mean(outcome.seconds for outcome in found)
    print(f"calibrated saves {ratio:.2f} of what the threshold at 5 % saves")
    print(
        f"a model takes {seconds:.2f} s of processor time; {time.monotonic() - began:.0f} s in all"
    )
    print(
        json.dumps({"dataflows": len(found), "ratio": ratio, "model_seconds": seconds, **figures})
    )


if __name__ == "__main__":
    main()
