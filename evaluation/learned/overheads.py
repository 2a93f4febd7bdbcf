"""The overheads of SmartFlux's section 5, measured on the waves of one dataflow.

All are of processor time, so that other programs on the machine count less. Monitoring the accesses
is measured by ``tests/bench/proxy.py``.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct
from tests.bench.checkpoints import LOGGED, Saving, begun

from evaluation.learned.applications import Application
from headgate.agent.state.log_segments import first_segment
from headgate.agent.training.knowledge import Knowledge
from headgate.agent.training.pairs import wave_pairs
from headgate.learning import (
    ContainerHistory,
    Decider,
    DeciderState,
    ErrorMetric,
    Impact,
    ImpactMetric,
    MeasuredPairs,
    Model,
    Target,
    WaveContext,
    encode_model,
    error,
    extra_trees,
    impact,
    log_ratio,
    measure,
    row_of,
    version_of,
)
from headgate.learning.fitting.training import TRAINED_AGES, TrainedOutput, pairs_of, train

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "agent"))
from simulation import SEALS, MemoryRows

BOUND: Final = 0.1
"""Of the outputs that are predicted; costs hardly depend on it."""
DECISIONS_LIMIT: Final = 5.0
"""Milliseconds of all decisions of a wave: what was aimed at."""
_WAVES = 20
"""Waves after training that are measured."""
_CHECKPOINTS = 10


class Overhead(Struct, frozen=True):
    """What one of the paper's sources of overhead costs."""

    source: str
    """As the paper names it."""
    what: str
    """That was measured, and for how much data."""
    milliseconds: float
    """Median, of processor time."""


def overheads(
    application: Application,
    states: Mapping[str, ContainerHistory],
    pairs: Mapping[str, MeasuredPairs],
) -> list[Overhead]:
    """Return the overheads of a dataflow with its outputs bounded, in the paper's order.

    Args:
        application: the dataflow.
        states: of its containers, in all waves.
        pairs: measured of them.
    """
    measured = _Measured(application, states, pairs)
    return [
        *measured.impacts_and_errors(),
        measured.examples(),
        *measured.models(),
        measured.checkpoints(),
        *measured.decisions(),
    ]


class _Measured:
    """A dataflow of which everything is known and whose models stay as they are fitted."""

    def __init__(
        self,
        application: Application,
        states: Mapping[str, ContainerHistory],
        pairs: Mapping[str, MeasuredPairs],
    ) -> None:
        self._application = application
        self._states = states
        self._pairs = pairs
        graph, training = application.graph, application.training
        self._above = {output: graph.above(output) for output in application.bounded}
        self._training_pairs = {name: each.until(training) for name, each in pairs.items()}
        self._trained = {
            output: train(
                graph,
                self._training_pairs,
                Target(output, ErrorMetric.RELATIVE, BOUND),
                extra_trees,
            )
            for output in application.bounded
        }
        self._models = {output: self._model(each) for output, each in self._trained.items()}
        self._waves = range(training, min(training + _WAVES, application.waves))

    def _model(self, trained: TrainedOutput) -> Model:
        """Return a model that runs from the bound on, calibrated or not: it costs the same."""
        output, times = trained.target.output, self._pairs[trained.target.output].times
        runs = np.ones(trained.waves, np.bool_)
        containers = {
            container: trained.container_model(container, self._pairs[container].deciles, runs)
            for container in trained.forests
        }
        return Model(
            output,
            ErrorMetric.RELATIVE,
            BOUND,
            trained.target.confidence,
            0.0,
            containers,
            trained.horizon,
            trained.waves,
            float(times[0]),
            float(times[-1]),
            1.0,
            "of a bench",
        )

    def _impact(self, container: str, wave: int, *, levels: bool) -> Callable[[], Impact]:
        """Return what measures a container against the wave before it."""
        states = self._states[container]
        now, then = states.values[wave], states.values[wave - 1]
        known = self._pairs[container].deciles if levels else None
        version = version_of(then, known, int(states.elements[wave - 1]))
        elements = int(states.elements[wave])
        return lambda: measure(now, then, version, elements, known)

    def impacts_and_errors(self) -> list[Overhead]:
        """Return what ι and ε cost in a wave, each container measured for each output below."""
        of_impacts, of_errors = [], []
        for wave in self._waves:
            above = [
                self._impact(container, wave, levels=True)
                for containers in self._above.values()
                for container in containers
            ]
            below = [self._impact(output, wave, levels=False) for output in self._above]
            of_impacts.append(
                _milliseconds(lambda: [impact(m(), ImpactMetric.RELATIVE) for m in above])  # noqa: B023 -- called at once
            )
            of_errors.append(
                _milliseconds(lambda: [error(m(), ErrorMetric.RELATIVE) for m in below])  # noqa: B023 -- called at once
            )
        cells = self._cells([c for containers in self._above.values() for c in containers])
        shown = self._cells(list(self._above))
        return [
            Overhead(
                "computing the input impact",
                f"all containers above outputs in a wave, {cells:,} values, crossings included",
                statistics.median(of_impacts),
            ),
            Overhead(
                "computing the output error",
                f"all bounded outputs in a wave, {shown:,} values",
                statistics.median(of_errors),
            ),
        ]

    def _cells(self, containers: Sequence[str]) -> int:
        return sum(int(self._states[c].elements[self._waves[0]]) for c in containers)

    def examples(self) -> Overhead:
        """Return what it costs to encode, sign and keep the pairs of a wave, in memory."""
        application = self._application
        found = wave_pairs(
            application.name,
            0.0,
            range(1, application.training + 1),
            application.graph,
            [Target(output, ErrorMetric.RELATIVE, BOUND) for output in application.bounded],
            self._training_pairs,
        )
        knowledge = Knowledge(MemoryRows(), SEALS, application.training, 3)
        spent = []
        for wave in sorted({each.key.wave for each in found})[-_WAVES:]:
            rows = [each for each in found if each.key.wave == wave]
            spent.append(_milliseconds(lambda: knowledge.keep_pairs(rows), 1))  # noqa: B023 -- called at once
        kinds = sum(map(len, self._above.values()))
        return Overhead(
            "writing the training set",
            f"pairs of a wave with {found[-1].features.shape[0]} before it for "
            f"{kinds} containers and outputs: encoded, signed and put into a table in memory",
            statistics.median(spent),
        )

    def models(self) -> list[Overhead]:
        """Return what it costs to build the models of all outputs, without and with their folds."""
        spent: list[float] = []
        for trained in self._trained.values():
            waves, ages = pairs_of(trained.waves, trained.horizon)
            chosen = np.isin(ages, TRAINED_AGES)
            where = waves[chosen], ages[chosen]
            logs = log_ratio(trained.bounded.errors[where], BOUND)
            spent += [
                _milliseconds(lambda: extra_trees(table[where], logs, "output"), 1)  # noqa: B023 -- called at once
                for table in trained.tables.values()
            ]
        size = sum(len(encode_model(model)) for model in self._models.values())
        return [
            Overhead(
                "building the model",
                f"{len(spent)} forests of all outputs and containers above them, from "
                f"{self._application.training} waves; without folds and tests; {size / 1024:,.0f} "
                "KiB",
                sum(spent),
            )
        ]

    def checkpoints(self) -> Overhead:
        """Return what a checkpoint costs after a wave in which all cells have changed."""
        cells = self._cells(list(self._states))
        saving = Saving(MemoryRows())
        saving.take_over()
        writer = begun(cells, first_segment(saving.epoch))
        saving.save(writer.engine.checkpoint(LOGGED))
        spent = []
        for _ in range(_CHECKPOINTS):
            writer.write(range(cells))
            spent.append(_milliseconds(lambda: saving.save(writer.engine.checkpoint(LOGGED)), 1))
        return Overhead(
            "persisting previous state",
            f"a checkpoint after a wave that changes all of {cells:,} values, which one probe "
            "measures, to memory; tests/bench/checkpoints.py has more of it, and HBase",
            statistics.median(spent),
        )

    def decisions(self) -> list[Overhead]:
        """Return what one instance and all decisions of a wave cost."""
        of_one, of_all = [], []
        for wave in self._waves:
            questions = {
                (output, container): (self._impact(container, wave, levels=True)(), context)
                for output, containers in self._above.items()
                for container in containers
                for context in (self._context(output, container, wave),)
            }
            of_all.append(_milliseconds(lambda: self._decide(questions, wave)))  # noqa: B023 -- called at once
            for (output, container), asked in questions.items():
                row, known = row_of(*asked), self._models[output].containers[container]
                of_one.append(_milliseconds(lambda: known.score(row)))  # noqa: B023 -- called at once
        return [
            Overhead(
                "classifying instances", "one output seen from one container",
                statistics.median(of_one),
            ),
            Overhead(
                "classifying instances",
                f"all decisions of a wave: {len(questions)} times features, forest and choice",
                statistics.median(of_all),
            ),
        ]  # fmt: skip

    def _context(self, output: str, container: str, wave: int) -> WaveContext:
        updates = int(self._pairs[container].updates[wave])
        shown = float(self._pairs[output].means[wave - 1])
        return WaveContext(float(self._pairs[output].times[wave]), 1, updates, updates, shown)

    def _decide(
        self, questions: Mapping[tuple[str, str], tuple[Impact, WaveContext]], wave: int
    ) -> None:
        """Decide on every output at every step at or above it, as each container is seen once."""
        for output, model in self._models.items():
            decider = Decider("bench", 0.05, model, DeciderState())
            for container in self._above[output]:
                score = model.score(container, row_of(*questions[output, container]))
                decider.judge(wave, wave - 1, {container: score})


def _milliseconds(work: Callable[[], object], times: int = 5) -> float:
    """Return the least processor time of some runs of one piece of work."""
    least = math.inf
    for _ in range(times):
        began = time.process_time_ns()
        work()
        least = min(least, (time.process_time_ns() - began) / 1e6)
    return least
