"""Errors and impacts in training by metrics of the user's: asked for pair by pair of waves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from headgate.agent.advisers.metrics import MetricProcess
from headgate.agent.children.code_process import CodeWorker, Silent
from headgate.engine import MetricQuestion, SpecificationError, UserMetric
from headgate.learning import (
    Changes,
    ContainerHistory,
    GivenImpact,
    Graph,
    LearnedSettings,
    MeasuredPairs,
    Table,
    amount_in,
    questions,
    spacing_of,
)


class AskedAmounts(Struct, frozen=True, eq=False):
    """What a metric says of all pairs of waves of a container."""

    table: Table
    """ε or ι by wave and age, shape (T, H+1): infinity where the metric failed, and 0 at age 0."""
    usable: bool
    """Whether anything is to be learned from it: the metric did not fail on all that it was asked
    for, nor leave a question without an answer."""
    failure: str
    """What it failed on, for people; empty where nothing is."""


def asked_amounts(
    process: MetricProcess,
    history: ContainerHistory,
    horizon: int,
    container: str,
    metric: UserMetric,
    most: int | None = None,
) -> AskedAmounts:
    """Return the errors of an output, or the impacts of a container, by a metric.

    One that leaves a question without an answer is asked no more: each would take as long again.

    Args:
        process: in which it is computed.
        history: of the container.
        horizon: how many waves the two of a pair are apart at most.
        container: its name.
        metric: of the user's.
        most: the largest age that is asked about; all of them by default.
    """
    ages = spacing_of(history, horizon).horizon if most is None else most
    table = np.zeros((history.waves, ages + 1))
    asked = failed = 0
    first = ""
    for wave, age, question in questions(history, horizon, container, metric, ages):
        if not isinstance(question, MetricQuestion):
            table[wave, age] = question
            continue
        asked += 1
        try:
            found = amount_in(process.ask(question))
        except Silent as silent:
            table[...] = math.inf
            return AskedAmounts(table, usable=False, failure=str(silent))
        table[wave, age] = found.value
        failed += bool(found.failure)
        first = first or found.failure
    words = ""
    if failed:
        words = f"its metric failed on {failed} of {asked} pairs of waves; the first time, {first}"
    return AskedAmounts(table, failed < asked or not asked, words)


class UsersMetrics(Struct, frozen=True):
    """What the users' metrics of a dataflow say of its recorded waves."""

    errors: dict[str, Table] = {}
    """By output, ε."""
    impacts: dict[str, GivenImpact] = {}
    """By container. A feature of which one value is not known is left out."""
    unknown: dict[str, str] = {}
    """By output of whose error nothing is known, why."""
    failures: dict[str, str] = {}
    """By output or container, what its metric failed on."""

    def shown(self, container: str, pairs: MeasuredPairs) -> MeasuredPairs:
        """Return pairs of a container with what was said of it."""
        error, impact = self.errors.get(container), self.impacts.get(container)
        return replace(pairs, given=error, impact=impact)


def ask_users_metrics(
    worker: CodeWorker | None,
    histories: Mapping[str, ContainerHistory],
    settings: LearnedSettings,
    graph: Graph,
    outputs: Sequence[str],
) -> UsersMetrics:
    """Return what users' metrics say of outputs and of containers above them.

    Args:
        worker: how their process is started; None where nobody computes any.
        histories: by container.
        settings: of the dataflow's learned triggers.
        graph: of its steps.
        outputs: that are learned.

    Raises:
        SpecificationError: there are such metrics, and nobody computes any.
    """
    bounded = {output: settings.outputs[output] for output in outputs if output in settings.outputs}
    errors = {output: o for output, o in bounded.items() if isinstance(o.metric, UserMetric)}
    above = {container for output in bounded for container in graph.above(output)}
    impacts = {c: UserMetric(e) for c, e in settings.impacts.items() if c in above}
    if not errors and not impacts:
        return UsersMetrics()
    if worker is None:
        words = f"nobody computes metrics of {', '.join((*errors, *impacts))} here"
        raise SpecificationError((words,))
    process, found = MetricProcess(worker), UsersMetrics()
    try:
        for output, o in errors.items():
            assert isinstance(o.metric, UserMetric)  # noqa: S101 -- as chosen
            most = 1 if o.changes is Changes.ACCUMULATE else None
            history = histories[output]
            said = asked_amounts(process, history, settings.horizon, output, o.metric, most)
            found.errors[output] = said.table
            if said.failure:
                found.failures[output] = f"{said.failure}; its error there is a violation"
            if not said.usable:
                found.unknown[output] = f"its error is not known: {said.failure}"
        for container, metric in impacts.items():
            history = histories[container]
            said = asked_amounts(process, history, settings.horizon, container, metric)
            if said.failure:
                words = f"{said.failure}; its impact is left out"
                earlier = found.failures.get(container)
                found.failures[container] = f"{earlier}; {words}" if earlier else words
            else:
                found.impacts[container] = GivenImpact(metric.entry, said.table)
    finally:
        process.end()
    return found
