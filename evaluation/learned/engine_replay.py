"""AQHI's waves after training through an engine, which has to decide as the tables say.

For each bound of the evaluation models are fitted to the waves of training. What they decide of the
later waves by the tables, audits and feedback included, is compared with the runs of an engine to
which every cell is written as the dataflow would write it.

    python -m evaluation.learned.engine_replay [--detectors 20] [--seed 1]

The exit status is 1 where a wave runs other steps.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from evaluation.learned.applications import AUDIT, HORIZON, Application, aqhi
from evaluation.learned.evaluation import BOUNDS, CONFIDENCE, scores_of
from headgate.engine import (
    ActionRole,
    ActionSpec,
    Codec,
    CodecName,
    Consulted,
    DataflowSpec,
    Engine,
    EngineTester,
    WatchedContainer,
    launched,
    with_triggers,
)
from headgate.events import Container, ContainerId, Item
from headgate.learning import (
    Bounded,
    ContainerHistory,
    Deciders,
    ErrorMetric,
    LearnedSettings,
    MeasuredPairs,
    Model,
    Models,
    OutputSettings,
    StagedLoop,
    Target,
    decided_on,
    encode_answer,
    encode_model,
    errors,
    features,
    fit,
    learned,
    stages,
    trigger_of,
)

_HOUR = 3600.0

Values = npt.NDArray[np.float64]
Where = npt.NDArray[np.bool_]


def engine_agrees(
    application: Application,
    name: str,
    states: Mapping[str, ContainerHistory],
    outputs: Mapping[str, Bounded],
    models: Mapping[str, Model],
) -> StagedLoop:
    """Return what the tables say of the waves after training, which an engine has run alike.

    Args:
        application: the dataflow, whose containers have all of their elements after training.
        name: of it, by which audits are drawn.
        states: of its containers, in all waves.
        outputs: the bounded ones, with the scores of all waves.
        models: by output, which stay as they are.

    Raises:
        RuntimeError: a wave runs others; it names the wave and the steps.
    """
    training, last = application.training, application.waves
    # The engine counts its waves from 1.
    deciders = Deciders(name, outputs, models, AUDIT, first=1 - training)
    expected = stages(application.graph, outputs, deciders, training, last)
    settings = LearnedSettings(
        {o: OutputSettings(each.bound, ErrorMetric.RELATIVE) for o, each in outputs.items()},
        audit=AUDIT,
        waves=last,
        horizon=HORIZON,
        refit=0,
    )
    world = _World(application, name, states, settings)
    world.use(models)
    for wave in range(training, last):
        ran = set(world.pass_wave(wave))
        wanted = {step for step, flags in expected.ran.items() if flags[wave - training]}
        if ran != wanted:
            message = f"wave {wave}: the engine runs {sorted(ran)}, the tables {sorted(wanted)}"
            raise RuntimeError(message)
    return expected


def _unchecked(_: Engine) -> None:
    """Look at nothing: the invariants take longer than the engine."""


class _World:
    def __init__(
        self,
        application: Application,
        name: str,
        states: Mapping[str, ContainerHistory],
        settings: LearnedSettings,
    ) -> None:
        self._graph = application.graph
        self._states = states
        self._shown: dict[str, Values] = {}
        self._begun = 0
        spec = _spec(application, name, settings)
        policies = with_triggers({"learned": learned})
        self._tester = EngineTester(spec, check=_unchecked, policies=policies)

    def use(self, models: Mapping[str, Model]) -> None:
        """Have models decide."""
        for output, model in models.items():
            answer = encode_answer(Models({output: encode_model(model)}))
            writer = self._graph.writers[output]
            self._tester.handle(Consulted(self._tester.now, writer, "learned", answer, ""))

    def pass_wave(self, wave: int) -> Iterator[str]:
        """Have a wave come; yield the steps that run, after each has made its outputs."""
        tester = self._tester
        for source in sorted(self._graph.sources):
            history = self._states[source]
            changed = self._differs(source, wave)
            # What is written to no effect counts as an update too.
            idle = np.flatnonzero(~changed)[: max(0, int(history.updates[wave]) - changed.sum())]
            changed[idle] = True
            self._write(source, wave, changed, None)
        tester.now += _HOUR
        self._begun += 1
        time = float(self._states[source].times[wave])
        waiting = launched(tester.wave("feed", number=self._begun, time=time))
        while waiting:
            step = waiting.pop(0)
            written = next(s.writes for s in self._graph.steps if s.name == step)
            for container in written:
                self._write(container, wave, self._differs(container, wave), step)
            waiting += launched(tester.finish(step))
            yield step

    def _differs(self, container: str, wave: int) -> Where:
        values = self._states[container].values[wave]
        shown = self._shown.get(container)
        return np.ones(len(values), np.bool_) if shown is None else values != shown

    def _write(self, container: str, wave: int, where: Where, by: str | None) -> None:
        values = self._states[container].values[wave]
        rows = {
            b"%06d" % i: {b"f:x": repr(float(values[i])).encode()} for i in np.flatnonzero(where)
        }
        if rows:
            self._tester.write(container, rows, by=by)
        self._shown[container] = values


def _spec(application: Application, name: str, settings: LearnedSettings) -> DataflowSpec:
    graph = application.graph
    sources = tuple(sorted(graph.sources))
    actions = [ActionSpec("feed", ActionRole.INPUT, writes=tuple(map(ContainerId, sources)))]
    for step in graph.steps:
        before = dict.fromkeys(graph.writers.get(container, "feed") for container in step.reads)
        reads, writes = (tuple(map(ContainerId, each)) for each in (step.reads, step.writes))
        actions.append(ActionSpec(step.name, after=tuple(before), reads=reads, writes=writes))
    decided = decided_on(actions, tuple(settings.outputs))
    trigger = trigger_of(settings)
    return DataflowSpec(
        name,
        tuple(
            WatchedContainer(Container(ContainerId(c), (Item(c),)), Codec(CodecName.UTF8))
            for c in (*sources, *graph.writers)
        ),
        tuple(
            ActionSpec(
                each.name,
                each.role,
                each.after,
                each.reads,
                each.writes,
                trigger=trigger if each.name in decided else None,
            )
            for each in actions
        ),
    )


def main() -> None:
    """Print for each bound how many waves an engine has decided on as the tables say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--detectors", type=int, default=20, help="a side")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    application = aqhi(options.detectors)
    states = application.histories(options.seed)
    pairs = application.pairs(states)
    trained = {name: each.until(application.training) for name, each in pairs.items()}
    for bound in BOUNDS:
        began = time.monotonic()
        targets = [
            Target(output, ErrorMetric.RELATIVE, bound, CONFIDENCE)
            for output in application.bounded
        ]
        models = fit(application.graph, trained, targets).models
        outputs = {o: _bounded(application, o, bound, pairs, models[o]) for o in models}
        name = f"AQHI {options.seed}"
        try:
            loop = engine_agrees(application, name, states, outputs, models)
        except RuntimeError as error:
            sys.exit(f"ε {100 * bound:g} %: {error}")
        waves = application.waves - application.training
        print(
            f"ε {100 * bound:g} %: an engine decides on {waves} waves as the tables say; "
            f"{100 * loop.saved:.1f} % of the runs saved, {time.monotonic() - began:.0f} s",
            flush=True,
        )


def _bounded(
    application: Application,
    output: str,
    bound: float,
    pairs: Mapping[str, MeasuredPairs],
    model: Model,
) -> Bounded:
    known = errors(pairs[output], ErrorMetric.RELATIVE)
    above = application.graph.above(output)
    tables = {c: features(pairs[c], pairs[output].means) for c in above}
    return Bounded(known, bound, scores_of(model, tables))


if __name__ == "__main__":
    main()
