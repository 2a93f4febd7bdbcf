"""What a change of regime costs, with feedback and audits, with feedback alone, and with neither.

Each of many dataflows, drawn at random, is trained on 336 waves and runs for 1,000 more. In one of
two worlds all stays as it was; in the other, from the 400th wave on, its step makes something
steeper of its input, so that the same change of the input is a larger error. Five policies are
compared on both: a fixed threshold; one that feedback moves by what runs show; one that audits one
skip in twenty besides; a model that is fitted anew besides; and one that is trained anew as well,
on waves after a change that was found, as that of a dataflow is whose file says nothing. The first
and third are measured anywhere as well, without the rule that what is unlike training runs.

    python -m evaluation.learned.drawn.drift [--dataflows 100] [--first 0] [--jobs 2] [--audit 0.05]

Printed are savings and violations of the 600 waves after the change, how many dataflows keep the
confidence over them, how many have the last 100 waves within it, for good, 400 waves after the
change, the interval of the audited rate, and how many trainings after a change gave a model. The
last line is all figures as JSON.
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
from msgspec import Struct, structs

from evaluation.learned.adaptation import (
    AuditedService,
    RefittedService,
    Scores,
    ServedOutput,
    Taught,
    ThresholdService,
    labelled,
)
from evaluation.learned.drawn.models import (
    CONFIDENCE,
    GRAPH,
    TRAINING,
    WAVES,
    Learned,
    SyntheticDataflow,
    dataflow,
    drawn,
    learned,
)
from headgate.learning import (
    Bounded,
    Choice,
    ContainerHistory,
    ErrorMetric,
    StagePolicy,
    Target,
    features,
    fit,
    levels_of,
    measured_pairs,
    stages,
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
    saved_later: float
    """Of the waves after the change."""
    violated: Flags
    """By wave."""
    changes: int = 0
    """That were found."""
    covered: bool | None = None
    """Whether the interval of the audited rate holds the true one; None without audits."""
    tried: int = 0
    """Trainings after a change."""
    trained: int = 0
    """Those that gave a model."""


class Policy(Struct, frozen=True):
    """What became of a dataflow under a policy in both worlds; shares of waves."""

    saved: float
    violations: float
    kept: bool
    changes: int
    """Found where there is none."""
    changed_saved: float
    """Of the waves after the change, as the next two."""
    changed_violations: float
    changed_kept: bool
    recovery: int
    """Waves after the change from which on the recent ones are within the confidence."""
    found: bool
    """Whether a change was found."""
    covered: bool | None
    """Whether the interval of the audited rate holds the share of waves in which a skip would have
    violated, in the world without a change; None without audits."""
    tried: int
    """Trainings in the world with a change."""
    trained: int
    """Those that gave a model."""


def known_of(flow: Learned) -> ServedOutput:
    """Return what is known of the waves of service."""
    table, known = flow.table[TRAINING:], flow.known[TRAINING:]
    return ServedOutput(known, flow.bound, {"input": table})


def run(flow: Learned, policy: StagePolicy) -> Run:
    """Return what becomes of a dataflow under a policy."""
    known = flow.known[TRAINING:]
    outputs = {"output": Bounded(known, flow.bound, {})}
    loop = stages(GRAPH, outputs, policy, 0, len(known))
    ran, violated = loop.ran["make"], loop.violated["output"]
    saved, later = (1.0 - float(ran[first:].mean()) for first in (0, CHANGE))
    if not isinstance(policy, AuditedService):
        return Run(saved, later, violated)
    covered, rate = None, policy.feedback("output").rate
    if rate.waves:
        decided = sum(policy.counts.values()) - policy.counts[Choice.SYNCHRONOUS]
        interval = rate.interval()
        covered = interval.low <= policy.wrong_skips / max(1, decided) <= interval.high
    return Run(saved, later, violated, policy.changes, covered)


def fixed(flow: Learned) -> Run:
    """Return what becomes of a threshold that nothing moves."""
    scores = Scores(known_of(flow), flow.model)
    return run(flow, ThresholdService(scores, flow.threshold))


def followed(flow: Learned, audit: float, name: str) -> Run:
    """Return what becomes of a threshold that feedback moves."""
    outputs, models = {"output": known_of(flow)}, {"output": flow.model}
    return run(flow, AuditedService(name, outputs, models, audit))


def refitted(flow: Learned, audit: float, name: str, world: SyntheticDataflow | None = None) -> Run:
    """Return what becomes of a model that is fitted anew as well, and in a world trained anew."""
    outputs, models = {"output": known_of(flow)}, {"output": flow.model}
    training = {"output": labelled({"input": flow.table}, flow.known, flow.bound, TRAINING)}
    teach = None if world is None else partial(taught, flow, world)
    policy = RefittedService(name, outputs, models, training, audit, teach=teach)
    served = run(flow, policy)
    return structs.replace(served, tried=policy.tried, trained=policy.trained)


def taught(
    flow: Learned, world: SyntheticDataflow, output: str, first: int, last: int
) -> Taught | None:
    """Return what a training on waves of service gives; None where it gives no model."""
    shown = slice(TRAINING + first, TRAINING + last)
    levels = levels_of(world.input.values[shown].ravel())
    horizon = flow.model.horizon
    pairs = {
        "input": measured_pairs(between(world.input, shown), horizon, levels),
        output: measured_pairs(between(world.output, shown), horizon),
    }
    target = Target(output, ErrorMetric.RELATIVE, flow.bound, CONFIDENCE)
    model = fit(GRAPH, pairs, [target]).models.get(output)
    if model is None:
        return None
    source = measured_pairs(world.input, horizon, levels)
    table = features(source, measured_pairs(world.output, horizon).means)
    return Taught(
        model,
        ServedOutput(flow.known[TRAINING:], flow.bound, {"input": table[TRAINING:]}),
        labelled({"input": table[shown]}, flow.known[shown], flow.bound, last - first),
    )


def between(history: ContainerHistory, waves: slice) -> ContainerHistory:
    """Return some waves of a history."""
    return ContainerHistory(
        history.values[waves],
        history.elements[waves],
        history.updates[waves],
        history.times[waves],
    )


def anywhere(flow: Learned) -> Learned:
    """Return a dataflow whose model takes nothing for unlike its training."""
    known = flow.model.containers["input"]
    endless = structs.replace(
        known,
        lowest=np.full_like(known.lowest, -math.inf),
        highest=np.full_like(known.highest, math.inf),
    )
    return structs.replace(flow, model=structs.replace(flow.model, containers={"input": endless}))


def recovery(after: Flags) -> int:
    """Return the waves after which the recent ones are within the confidence for good."""
    rates = np.convolve(after, np.ones(RECENT) / RECENT, "valid")
    beyond = np.flatnonzero(rates > 1.0 - CONFIDENCE + 1e-9)
    return int(beyond[-1]) + RECENT if len(beyond) else 0


def compared(stationary: Run, changed: Run) -> Policy:
    """Return a policy's outcome from its runs in both worlds."""
    after = changed.violated[CHANGE:]
    return Policy(
        saved=stationary.saved,
        violations=float(stationary.violated.mean()),
        kept=bool(stationary.violated.mean() <= 1.0 - CONFIDENCE),
        changes=stationary.changes,
        changed_saved=changed.saved_later,
        changed_violations=float(after.mean()),
        changed_kept=bool(after.mean() <= 1.0 - CONFIDENCE),
        recovery=recovery(after),
        found=changed.changes > 0,
        covered=stationary.covered,
        tried=changed.tried,
        trained=changed.trained,
    )


def of_seed(seed: int, audit: float) -> dict[str, Policy] | None:
    """Return the outcome of one dataflow by policy; None where no bound of ours suits it.

    Nor is there one where no threshold holds: what runs in every wave keeps any confidence.
    """
    flows = dataflow(seed, WAVES), dataflow(seed, WAVES, TRAINING + CHANGE)
    worlds = learned(list(flows))
    if worlds is None or worlds[0].calibration.threshold is None:
        return None
    name = f"dataflow {seed}"
    runs: dict[str, Callable[[Learned], Run]] = {
        "fixed": fixed,
        "feedback": partial(followed, audit=0.0, name=name),
        "audits": partial(followed, audit=audit, name=name),
    }
    stays, changes = worlds
    found = {key: compared(made(stays), made(changes)) for key, made in runs.items()}
    anew = partial(refitted, audit=audit, name=name)
    found["fitted anew"] = compared(anew(stays), anew(changes))
    trained = (anew(flow, world=world) for flow, world in zip(worlds, flows, strict=True))
    found["trained anew"] = compared(*trained)
    stays, changes = map(anywhere, worlds)
    for key in ("fixed", "audits"):
        found[f"{key} anywhere"] = compared(runs[key](stays), runs[key](changes))
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
            "trainings": sum(one.tried for one in each),
            "trainings_with_a_model": sum(one.trained for one in each),
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
    anew = figures["trained anew"]
    print(
        f"{anew['trainings']} trainings after a change, of which "
        f"{anew['trainings_with_a_model']} gave a model"
    )
    print(f"{time.monotonic() - began:.0f} s in all")
    print(json.dumps({"dataflows": len(found), "audit": options.audit, **figures}))


if __name__ == "__main__":
    main()
