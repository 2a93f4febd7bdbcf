"""What a change of regime costs, with feedback and audits, with feedback alone, and with neither.

Each of many dataflows, drawn at random, is trained on 336 waves and runs for 1,000 more. In one of
two worlds all stays as it was; in the other, from the 400th wave on, its step makes something
steeper of its input, so that the same change of the input is a larger error. Three policies are
compared on both, by one model: a fixed threshold; one that feedback moves by what runs show; and
one that audits one skip in twenty besides. Each is measured with the rule that what is unlike
training runs, and anywhere, without that rule.

    python tests/bench/learned_drift.py [--dataflows 100] [--first 0] [--jobs 2] [--audit 0.05]

Printed are violations of the 600 waves after the change and how many dataflows keep the confidence
over them; how many have the last 100 waves within it, for good, 400 waves after the change; and
the interval of the audited rate. The last line is all figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
from measuring.learned import CONFIDENCE, TRAINING, WAVES, Learned, dataflow, drawn, learned
from msgspec import Struct, structs

from headgate.learning import (
    RELEARNING_AGES,
    Choice,
    Feedback,
    Label,
    audit_draw,
    closed_loop,
)

CHANGE = 400
"""Waves after training."""
RECENT = 100
"""Waves over which it is looked at whether it has recovered."""
RECOVERED = 400
"""Waves after the change until which it should have."""

Flags = npt.NDArray[np.bool_]


class Run(Struct, frozen=True, eq=False):
    """One dataflow under one policy, after training."""

    saved: float
    violated: Flags
    """By wave."""
    feedback: Feedback | None
    """At the end."""


class Policy(Struct, frozen=True):
    """What became of a dataflow under a policy in both worlds; shares of waves."""

    saved: float
    violations: float
    kept: bool
    changes: int
    """Found where there is none."""
    changed_saved: float
    changed_violations: float
    """Of the waves after the change."""
    changed_kept: bool
    recovery: int
    """Waves after the change from which on the recent ones are within the confidence."""
    found: bool
    """Whether a change was found."""
    covered: bool | None
    """Whether the interval of the audited rate holds the share of waves in which a skip would have
    violated, in the world without a change; None without audits."""


def fixed(flow: Learned) -> Run:
    """Return what becomes of a threshold that nothing moves."""
    loop = closed_loop(flow.known, flow.scores, flow.threshold, flow.bound, TRAINING, WAVES)
    return Run(loop.saved, loop.violated, None)


def followed(flow: Learned, audit: float, name: str) -> tuple[Run, float]:
    """Return what becomes of a threshold that feedback moves, and the true rate that it audits."""
    horizon = flow.known.shape[1] - 1
    feedback, version, begun = Feedback(), TRAINING, TRAINING
    ran, violated = np.zeros(WAVES - TRAINING, np.bool_), np.zeros(WAVES - TRAINING, np.bool_)
    ran[0] = True
    decided = would_violate = 0
    for wave in range(TRAINING + 1, WAVES):
        if feedback.synchronous:
            labels = [
                Label(float(flow.predicted[wave, age]), flow.known[wave, age] / flow.bound)
                for age in RELEARNING_AGES
                if wave - age >= begun
            ]
            feedback = feedback.after_synchronous(labels, flow.residuals)
            ran[wave - TRAINING], version = True, wave
            continue
        age = wave - version
        score = float(flow.scores[wave, age]) if age <= horizon else math.inf
        draw = audit_draw(name, wave)
        choice = feedback.choice(flow.threshold, score, draw, audit)
        ratio = float(flow.known[wave, age]) / flow.bound if age <= horizon else math.nan
        label = Label(score, ratio)
        decided += 1
        would_violate += choice is not Choice.RUN and label.violated
        if choice is Choice.SKIP:
            violated[wave - TRAINING] = label.violated
            feedback = feedback.after_skip(audit)
            continue
        feedback, relearn = feedback.after_run(label, flow.residuals, choice, audit)
        ran[wave - TRAINING], version = True, wave
        if relearn is not None:
            begun = wave
    saved = 1.0 - float(ran.mean())
    return Run(saved, violated, feedback), would_violate / max(1, decided)


def recovery(after: Flags) -> int:
    """Return the waves after which the recent ones are within the confidence for good."""
    rates = np.convolve(after, np.ones(RECENT) / RECENT, "valid")
    beyond = np.flatnonzero(rates > 1.0 - CONFIDENCE + 1e-9)
    return int(beyond[-1]) + RECENT if len(beyond) else 0


def compared(stays: tuple[Run, float], changes: tuple[Run, float]) -> Policy:
    """Return a policy's outcome from its runs in both worlds, each with the rate that it audits."""
    (stationary, rate), (changed, _) = stays, changes
    after = changed.violated[CHANGE:]
    covered = None
    if stationary.feedback is not None and stationary.feedback.rate.waves:
        interval = stationary.feedback.rate.interval()
        covered = interval.low <= rate <= interval.high
    return Policy(
        saved=stationary.saved,
        violations=float(stationary.violated.mean()),
        kept=bool(stationary.violated.mean() <= 1.0 - CONFIDENCE),
        changes=stationary.feedback.changes if stationary.feedback else 0,
        changed_saved=changed.saved,
        changed_violations=float(after.mean()),
        changed_kept=bool(after.mean() <= 1.0 - CONFIDENCE),
        recovery=recovery(after),
        found=changed.feedback is not None and changed.feedback.changes > 0,
        covered=covered,
    )


def of_seed(seed: int, audit: float) -> dict[str, Policy] | None:
    """Return the outcome of one dataflow by policy; None where no bound of ours suits it."""
    worlds = learned([dataflow(seed, WAVES), dataflow(seed, WAVES, TRAINING + CHANGE)])
    if worlds is None:
        return None
    name = f"dataflow {seed}"
    runs: dict[str, Callable[[Learned], tuple[Run, float]]] = {
        "fixed": lambda world: (fixed(world), 0.0),
        "feedback": lambda world: followed(world, 0.0, name),
        "audits": lambda world: followed(world, audit, name),
    }
    found: dict[str, Policy] = {}
    for where in ("", " anywhere"):
        stays, changes = (
            structs.replace(world, scores=world.predicted) if where else world for world in worlds
        )
        found |= {f"{key}{where}": compared(run(stays), run(changes)) for key, run in runs.items()}
    return found


def main() -> None:
    """Print what each policy saves and violates, with and without a change."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataflows", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--audit", type=float, default=0.05, help="probability")
    options = parser.parse_args()
    began = time.monotonic()
    measure = partial(of_seed, audit=options.audit)
    found = drawn(measure, options.dataflows, options.first, options.jobs)
    print(
        f"{len(found)} dataflows, {TRAINING} waves of training, {WAVES - TRAINING} after it, a "
        f"change {CHANGE} waves after it"
    )
    figures: dict[str, dict[str, float | None]] = {}
    for name in found[0]:
        each = [outcome[name] for outcome in found]
        covered = [one.covered for one in each if one.covered is not None]
        figures[name] = {
            "saved": statistics.mean(one.saved for one in each),
            "violations": statistics.mean(one.violations for one in each),
            "kept": statistics.mean(one.kept for one in each),
            "changes": statistics.mean(one.changes for one in each),
            "changed_saved": statistics.mean(one.changed_saved for one in each),
            "changed_violations": statistics.mean(one.changed_violations for one in each),
            "changed_kept": statistics.mean(one.changed_kept for one in each),
            "recovered": statistics.mean(one.recovery <= RECOVERED for one in each),
            "changes_found": statistics.mean(one.found for one in each),
            "covered": statistics.mean(covered) if covered else None,
        }
        now = figures[name]
        print(
            f"{name:17} unchanged: saved {now['saved']:6.1%}, violations {now['violations']:5.2%}, "
            f"kept by {now['kept']:6.1%}, {now['changes']:.2f} changes found\n"
            f"{'':17} changed:   saved {now['changed_saved']:6.1%}, violations after it "
            f"{now['changed_violations']:5.2%}, kept by {now['changed_kept']:6.1%}, recovered by "
            f"{now['recovered']:6.1%}, found in {now['changes_found']:.0%}"
        )
    print(f"the interval of the audited rate holds it in {figures['audits']['covered']:.1%}")
    print(f"{time.monotonic() - began:.0f} s in all")
    print(json.dumps({"dataflows": len(found), "audit": options.audit, **figures}))


if __name__ == "__main__":
    main()
