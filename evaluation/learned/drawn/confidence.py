"""Whether a threshold that is calibrated keeps the confidence that it states.

Each of many dataflows, drawn at random, is trained on 336 waves and then runs for 1,000 more: an
output with an error bound, a forest that predicts its error from the input, out of fold for the
waves it was fitted to. Two thresholds are compared on the later waves: the largest with at most 5 %
of violations in cross-validation, and the largest whose upper confidence bound is below 5 %, of a
model that runs where a feature is outside the range of training. An oracle, which runs as late as
can be, says what could be saved.

    python -m evaluation.learned.drawn.confidence [--dataflows 200] [--first 0] [--jobs 2]

The last line is all figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time

from msgspec import Struct

from evaluation.learned.drawn.models import (
    CONFIDENCE,
    TRAINING,
    WAVES,
    Learned,
    dataflow,
    drawn,
    learned,
)
from headgate.learning import candidates, closed_loop


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
    """Of processor time for one model, with all folds."""


def plugged_in(flow: Learned) -> float:
    """Return the largest threshold up to which cross-validation shows 5 % of violations at most."""
    best = -math.inf
    for threshold in candidates(flow.scores[:TRAINING]):
        loop = closed_loop(flow.known, flow.scores, threshold, flow.bound, 0, TRAINING)
        if 1.0 - loop.confidence > 1.0 - CONFIDENCE:
            break
        best = threshold
    return best


def of_seed(seed: int) -> Outcome | None:
    """Return the outcome of one dataflow; None where no bound of ours suits it."""
    found = learned([dataflow(seed, WAVES)])
    if found is None:
        return None
    [flow] = found
    oracle = closed_loop(flow.known, flow.known, flow.bound, flow.bound, TRAINING, WAVES)
    loops = {
        name: closed_loop(flow.known, scores, threshold, flow.bound, TRAINING, WAVES)
        for name, scores, threshold in (
            ("5 %", flow.predicted, plugged_in(flow)),
            ("calibrated", flow.scores, flow.threshold),
        )
    }
    policies = {
        name: Policy(loop.saved, 1.0 - loop.confidence)
        for name, loop in {**loops, "oracle": oracle}.items()
    }
    return Outcome(flow.kind, flow.bound, policies, flow.seconds)


def main() -> None:
    """Print what each policy saves, and in how many dataflows it keeps the confidence."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataflows", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    began = time.monotonic()
    found = drawn(of_seed, options.dataflows, options.first, options.jobs)
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
