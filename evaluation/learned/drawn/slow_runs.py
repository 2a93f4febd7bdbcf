"""Promises of learned triggers, where runs take from a tenth of a wave to five.

Each of many dataflows, drawn at random, lives in an engine: rows come and go, values have both
signs, half of the input of a wave comes early, and of most steps all runs last alike. It is trained
on the waves in which all its steps ran, as soon as there are enough of them, and then served. For
each bounded output three things are asked: is it made, again and again; is the stated confidence
kept in the waves that were decided on; and does the interval of the measured confidence hold what
the truth says. Waves that end while a run makes the output are not decided on.

    python -m evaluation.learned.drawn.slow_runs [--dataflows 200] [--first 0] [--jobs 2]

Each dataflow is said as a line of JSON on the error output as soon as it is known. ``--trees 15``
and ``--served 300`` take a third of the time, and say as much of all but what is saved. The last
line is all figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

import numpy as np
from msgspec import Struct, to_builtins
from tests.learning.triggers.slow_runs import (
    SHAPES,
    SlowWorld,
    Truth,
    error_of,
    graph_of_shape,
    settings_for,
    specification,
)

from evaluation.learned.drawn.models import drawn
from headgate.engine import Consult, Consulted, Inputs
from headgate.learning import (
    AuditedRate,
    Choice,
    ContainerHistory,
    ErrorMetric,
    Lost,
    Models,
    Target,
    Train,
    closed_loop,
    decode_question,
    encode_answer,
    encode_model,
    errors,
    fit,
    levels_of,
    measured_pairs,
)
from headgate.learning.decider import Decider
from headgate.learning.fitting import training
from headgate.learning.predictor import Model
from headgate.learning.triggers.outputs import BoundedOutput
from headgate.learning.triggers.wishes import Seen, Wish

CONFIDENCE: Final = 0.95
HORIZON: Final = 12
AUDIT: Final = 0.2
TAUGHT: Final = 140
"""Waves in which all steps ran from which a training has enough."""
MOST_TAUGHT: Final = 1_000
"""Waves after which a dataflow is trained on what there is."""
SERVED: Final = 500
"""Waves of service at most."""
BOUNDS: Final = (0.3, 0.2, 0.5, 0.1)
_SAVES: Final = (0.3, 0.93)
"""Share that an oracle saves at a bound that a user might set."""
_WAVES: Final = MOST_TAUGHT + SERVED + 40


class Output(Struct, frozen=True):
    """Fate of an output."""

    learned: bool
    """True if it got a model."""
    made: bool
    """True if no wave passed for longer than the horizon and the runs above it take."""
    longest: float
    """Waves for which what was shown stayed the same at most."""
    decided: int
    """Waves of service that were decided on."""
    violations: int
    """Waves of these in which what was shown was out of bounds."""
    saved: float
    """Share of these in which it was not made."""
    audits: int
    rate: float
    """Share of these in which a skip would have been, or was, out of bounds and was predicted not
    to be."""
    low: float
    """The interval of that rate which audits have measured."""
    high: float
    changes: int
    """Changes of the world that were found, of which there are none."""

    @property
    def kept(self) -> bool:
        """True if the stated confidence was kept."""
        return self.violations <= (1.0 - CONFIDENCE) * self.decided

    @property
    def holds(self) -> bool:
        """True if the interval holds the rate."""
        return self.low <= self.rate <= self.high


class Outcome(Struct, frozen=True):
    """One dataflow."""

    shape: str
    lasts: dict[str, float]
    """How long runs of each step typically take, in waves."""
    taught: int
    """Waves that were learned from."""
    outputs: dict[str, Output]
    mixed: int
    """Runs that were made of more than one wave."""
    seconds: float
    """Seconds of processor time."""


def lasting(random: np.random.Generator, typical: Mapping[str, float]) -> Callable[[str], float]:
    """Return how long each run lasts: of most steps alike."""
    return lambda step: min(5.0, typical[step] * random.uniform(0.8, 1.25))


def of_waves(history: ContainerHistory, numbers: list[int]) -> ContainerHistory:
    """Return a history of some waves, as trainings take them."""
    places = np.array(numbers) - 1
    return ContainerHistory(
        history.values[places],
        history.elements[places],
        history.updates[places],
        history.times[places],
        np.array(numbers),
        np.cumsum(history.updates)[places],
    )


def bound_of(truth: Truth, output: str, numbers: list[int]) -> float | None:
    """Return a bound that a user might set; None where none of ours is."""
    known = errors(
        measured_pairs(of_waves(truth.history(output, truth.waves), numbers), HORIZON),
        ErrorMetric.RELATIVE,
    )
    for bound in BOUNDS:
        saved = closed_loop(known, known, bound, bound, 0, len(known)).saved
        if _SAVES[0] < saved < _SAVES[1]:
            return bound
    return None


def synchronous(world: SlowWorld) -> list[int]:
    """Return the waves in which all steps ran."""
    ran: dict[str, set[int]] = {step: set() for step in world.truth.steps}
    for made in world.runs:
        ran[made.step].add(made.wave)
    return sorted(set.intersection(*ran.values()))


def models_of(
    truth: Truth, shape: str, bounds: Mapping[str, float], numbers: list[int]
) -> dict[str, Model]:
    """Return what a training gives."""
    graph = graph_of_shape(shape)
    pairs = {}
    for container in truth.values:
        history = of_waves(truth.history(container, numbers[-1]), numbers)
        pairs[container] = measured_pairs(history, HORIZON, levels_of(history.values))
    targets = [Target(o, ErrorMetric.RELATIVE, b, CONFIDENCE) for o, b in bounds.items()]
    return dict(fit(graph, pairs, targets).models)


@contextmanager
def noting(found: dict[str, dict[int, tuple[Choice, int]]]) -> Iterator[None]:
    """Note what is decided last of each output in each wave, and the version that is shown."""
    predicted = BoundedOutput._predicted

    def note(
        self: BoundedOutput, model: Model, decider: Decider, seen: Seen, inputs: Inputs
    ) -> Wish:
        wish = predicted(self, model, decider, seen, inputs)
        judged = self.state.decided.judged
        if judged is not None:
            found.setdefault(self.name, {})[judged.wave] = judged.choice, seen.version
        return wish

    BoundedOutput._predicted = note  # type: ignore[method-assign]
    try:
        yield
    finally:
        BoundedOutput._predicted = predicted  # type: ignore[method-assign]


def of_seed(seed: int, served: int = SERVED, trees: int | None = None) -> Outcome | None:
    """Return the outcome of one dataflow; None where no bound of ours suits it.

    Args:
        seed: of the dataflow.
        served: waves of service.
        trees: of each forest; as many as trainings of agents have by default.
    """
    if trees is not None:
        training._TREES = trees
    began = time.process_time()
    random = np.random.default_rng(10_000 + seed)
    shape = list(SHAPES)[seed % len(SHAPES)]
    truth = Truth(shape, 500 + seed, _WAVES)
    typical = {
        step: float(np.exp(random.uniform(np.log(0.1), np.log(5.0)))) for step in SHAPES[shape]
    }
    # How far apart the waves are in which it is made decides which bound suits: every few waves.
    spaced = list(range(1, MOST_TAUGHT, max(1, round(max(typical.values())))))
    bounds: dict[str, float] = {}
    for output in truth.outputs:
        bound = bound_of(truth, output, spaced[:TAUGHT])
        if bound is None:
            return None
        bounds[output] = bound
    settings = settings_for(bounds, AUDIT, HORIZON, confidence=CONFIDENCE)
    spec = specification(shape, settings, f"slow {seed}")
    world = SlowWorld(truth, spec, lasting(random, typical), early=True)
    numbers: list[int] = []
    while len(numbers) < TAUGHT and world.wave < MOST_TAUGHT:
        world.live(10)
        numbers = synchronous(world)
    models = models_of(truth, shape, bounds, numbers)
    encoded = {output: encode_model(model) for output, model in models.items()}
    world.use(encoded)
    first = world.wave + 1
    decisions: dict[str, dict[int, tuple[Choice, int]]] = {}
    asked = len(world.tester.instructions)
    with noting(decisions):
        for _ in range(served):
            world.live(1)
            asked = _answered(world, asked)
    outputs = {
        output: _output(world, output, bounds[output], output in models, first, decisions)
        for output in truth.outputs
    }
    seconds = time.process_time() - began
    outcome = Outcome(shape, typical, len(numbers), outputs, len(world.mixed), seconds)
    print(json.dumps({"seed": seed, **to_builtins(outcome)}), file=sys.stderr, flush=True)
    return outcome


def _answered(world: SlowWorld, known: int) -> int:
    """Answer the trainings that were asked for since: what came has too few waves for a model."""
    new = world.tester.instructions[known:]
    for consult in new:
        question = decode_question(consult.question) if isinstance(consult, Consult) else None
        if isinstance(consult, Consult) and isinstance(question, Train):
            lost = Models({output: Lost("too few waves") for output in question.outputs})
            said = encode_answer(lost)
            world.tester.handle(Consulted(world.tester.now, consult.action, "learned", said, ""))
    return known + len(new)


def _output(
    world: SlowWorld,
    output: str,
    bound: float,
    learned: bool,
    first: int,
    decisions: Mapping[str, Mapping[int, tuple[Choice, int]]],
) -> Output:
    values = world.truth.values[output]
    known = {w: each for w, each in decisions.get(output, {}).items() if w >= first}
    wrong = {
        wave
        for wave, (_, version) in known.items()
        if error_of(values[wave - 1], values[version - 1]) > bound
    }
    chosen = Counter(choice for choice, _ in known.values())
    skipped = {w for w, (choice, _) in known.items() if choice is Choice.SKIP}
    passed = {w for w, (choice, _) in known.items() if choice in (Choice.SKIP, Choice.AUDIT)}
    maker = world.maker(output)
    ends = [made.ended for made in world.runs if made.step == maker]
    longest = float(np.diff([0.0, *ends, world.now]).max()) if ends else float("inf")
    slowest = sum(
        max(made.ended - made.begun for made in world.runs if made.step == step)
        for step in world.truth.steps
    )
    feedback = world.policy(maker).state.outputs[output].decided.feedback
    rate: AuditedRate = feedback.rate
    interval = rate.interval() if rate.waves else None
    return Output(
        learned=learned,
        made=longest <= HORIZON + 2.0 * slowest + 2.0,
        longest=longest,
        decided=len(known),
        violations=len(wrong & skipped),
        saved=chosen[Choice.SKIP] / max(1, len(known)),
        audits=rate.audits,
        rate=len(wrong & passed) / max(1, len(known)),
        low=0.0 if interval is None else interval.low,
        high=1.0 if interval is None else interval.high,
        changes=feedback.changes,
    )


def main() -> None:
    """Print how many dataflows kept what was stated of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataflows", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--served", type=int, default=SERVED, help="waves of service")
    parser.add_argument("--trees", type=int, help="of each forest; default: as agents have")
    options = parser.parse_args()
    began = time.monotonic()
    measure = partial(of_seed, served=options.served, trees=options.trees)
    found = drawn(measure, options.dataflows, options.first, options.jobs)
    outputs = [each for outcome in found for each in outcome.outputs.values()]
    served = [each for each in outputs if each.learned and each.decided]
    slow = [outcome for outcome in found if max(outcome.lasts.values()) > 1.0]
    figures = {
        "dataflows": len(found),
        "with runs longer than a wave": len(slow),
        "outputs": len(outputs),
        "made": sum(each.made for each in outputs),
        "learned": len(served),
        "kept": statistics.mean(each.kept for each in served),
        "interval holds": statistics.mean(each.holds for each in served),
        "saved": statistics.mean(each.saved for each in served),
        "violations": sum(e.violations for e in served) / sum(e.decided for e in served),
        "audits": sum(each.audits for each in served),
        "changes found": sum(each.changes for each in served),
        "made of more than one wave": sum(outcome.mixed for outcome in found),
        "seconds": statistics.mean(outcome.seconds for outcome in found),
    }
    for name, figure in figures.items():
        print(f"{name:28} {figure:.4g}")
    for outcome in found:
        for name, each in outcome.outputs.items():
            if not each.made or (each.learned and each.decided and not (each.kept and each.holds)):
                print(f"{outcome.shape} {name}: {each}, {outcome.lasts}")
    print(f"{time.monotonic() - began:.0f} s in all")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
