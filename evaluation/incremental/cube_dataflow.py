"""The data cube (paper: Figure 5) in an engine, one run at a time, whatever carries the runs out.

``split`` and ``preprocess`` have input without end. What an engine launches, and what that reads,
is its own decision; what a run costs says who carries it out: stages, or a table of costs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from msgspec import Struct

from headgate.engine import (
    ActionFlows,
    ActionSpec,
    Bound,
    DataflowSpec,
    EngineTester,
    FlowId,
    Instruction,
    Launch,
    Produced,
    RunnableSpec,
    SequenceBound,
    WatchedContainer,
)
from headgate.events import Container, ContainerId, Item

ROWS, QUERIES = ContainerId("rows"), ContainerId("queries")
SOURCES: Final = {"split": ROWS, "preprocess": QUERIES}
OUTPUTS: Final = {
    "split": "cells",
    "update": "changes",
    "preprocess": "points",
    "cube": "answers",
    "result": "results",
}
_UNREAD: Final = "unread"
"""An output flow that nobody reads: it never holds its stage, so that nothing does."""
_BACKLOG: Final = 1_000_000
"""Increments: none of the scenarios is to be held by what waits, however much that is."""


class Scenario(Struct, frozen=True):
    """One line of Figure 10."""

    name: str
    runnable: RunnableSpec
    """Of the cube."""
    aware: bool
    """Whether stages are held by bottlenecks."""


PREFERRED: Final = RunnableSpec("prefer", {"points": 4, "changes": 1})
PLAIN: Final = Scenario("no priority", RunnableSpec("any"), aware=False)
ALONE: Final = Scenario("priority", PREFERRED, aware=False)
BOTH: Final = Scenario("priority, bottlenecks known", PREFERRED, aware=True)
SCENARIOS: Final = (PLAIN, ALONE, BOTH)


def dataflow(scenario: Scenario) -> DataflowSpec:
    """Return the dataflow of a scenario, with one place."""

    def stage(
        name: str, inputs: Mapping[str, str], runnable: RunnableSpec | None = None
    ) -> ActionSpec:
        flows = {flow: FlowId(maker, flow) for flow, maker in inputs.items()}
        unread = () if scenario.aware else (_UNREAD,)
        spec = ActionFlows(flows, (OUTPUTS[name], *unread), runnable or RunnableSpec(), _BACKLOG)
        source = SOURCES.get(name)
        each = SequenceBound(1)
        bounds = () if source is None else (Bound(f"each {name}", source, sequence=each),)
        return ActionSpec(name, bounds=bounds, stage=spec)

    actions = (
        stage("split", {}),
        stage("update", {"cells": "split"}),
        stage("preprocess", {}),
        stage("cube", {"changes": "update", "points": "preprocess"}, scenario.runnable),
        stage("result", {"answers": "cube"}),
    )
    watched = tuple(WatchedContainer(Container(one, (Item(one),))) for one in SOURCES.values())
    return DataflowSpec("cube", watched, actions, places=1)


class Ran(Struct, frozen=True):
    """What has come of a run."""

    seconds: float
    produced: tuple[Produced, ...]
    result: str = ""
    """What its commit names."""


class Carrier(Protocol):
    """Who carries runs out."""

    def carry_out(self, launch: Launch, needed: frozenset[str]) -> Ran:
        """Return what comes of a run, after it; ``needed`` names what others may still read."""


class Step(Struct, frozen=True):
    """A run of a stage, when it had ended."""

    action: str
    reads: tuple[str, ...]
    """Input flows of which something was read that is not empty."""
    seconds: float
    """Of the run."""
    at: float
    """Seconds since the begin, of all runs so far."""

    @property
    def kind(self) -> str:
        """What its cost depends on."""
        return kind_of(self.action, self.reads)


def kind_of(action: str, reads: tuple[str, ...]) -> str:
    """Return the kind of a run: runs of one kind cost much the same."""
    return f"{action} of {' and '.join(reads) or 'nothing'}"


class CubeDriver:
    """Has an engine decide, and each run that it launches carried out before the next.

    Args:
        scenario: which.
        carrier: of its runs.

    Attributes:
        steps: the runs so far.
        at: seconds of all of them.
    """

    def __init__(self, scenario: Scenario, carrier: Carrier) -> None:
        self.steps: list[Step] = []
        self.at = 0.0
        self._read: set[str] = set()
        self._carrier = carrier
        self._tester = EngineTester(dataflow(scenario), check=lambda _: None)
        self._launches: deque[Launch] = deque()
        for name in SOURCES:
            self._feed(name)

    def run_until(self, seconds: float) -> None:
        """Have runs made until they have taken so many seconds in all."""
        while self.at < seconds:
            self.step()

    def step(self) -> Step:
        """Have the next run made and committed."""
        launch = self._launches.popleft()
        if launch.action in SOURCES:
            self._feed(launch.action)
        read = [one for taken in launch.work.taken.values() for one in taken.read]
        ran = self._carrier.carry_out(launch, self._needed(launch.action))
        self.at += ran.seconds
        self._tester.now += ran.seconds
        self._take(self._tester.finish(launch.action, *ran.produced, result=ran.result))
        flows = tuple(
            sorted(
                flow
                for flow, taken in launch.work.taken.items()
                if any(one.rows for one in taken.read)
            )
        )
        if launch.action in SOURCES:
            flows = (str(SOURCES[launch.action]),)
        self._read.update(one.name for one in read)
        step = Step(launch.action, flows, ran.seconds, self.at)
        self.steps.append(step)
        return step

    def _needed(self, action: str) -> frozenset[str]:
        return self._tester.engine.needed_increments(action)

    def _feed(self, name: str) -> None:
        number = b"%d" % len(self.steps)
        self._take(self._tester.write(str(SOURCES[name]), {b"row": {b"f:q": number}}))

    def _take(self, instructions: Iterable[Instruction]) -> None:
        self._launches.extend(one for one in instructions if isinstance(one, Launch))

    # -- what is counted

    def count(self, action: str, flow: str | None = None, since: float = 0.0) -> int:
        """Return how many runs of a stage there were, or of those that read a flow."""
        return sum(
            step.action == action and step.at > since and (flow is None or flow in step.reads)
            for step in self.steps
        )

    @property
    def useless_updates(self) -> float:
        """The share of the runs of ``update`` of which nothing was read by the cube."""
        return 1 - self.count("cube", "changes") / self.count("update")


class Costs:
    """Carries nothing out: runs take what a table says.

    Args:
        seconds: by kind of run.
    """

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._seconds = seconds
        self._made = 0

    def carry_out(self, launch: Launch, needed: frozenset[str]) -> Ran:
        """Return the increment that a stage would have made; see ``Carrier``."""
        reads = {flow for flow, t in launch.work.taken.items() if any(one.rows for one in t.read)}
        if launch.action in SOURCES:
            reads = {str(SOURCES[launch.action])}
        # A cube that was only changed has no answers, and says so with an increment of no rows.
        rows = int(bool(reads) and (launch.action != "cube" or "points" in reads))
        self._made += 1
        flow = OUTPUTS[launch.action]
        made = Produced(flow, f"{flow}-{self._made}", None, rows)
        return Ran(self._seconds[kind_of(launch.action, tuple(sorted(reads)))], (made,))


def equal_costs(of_nothing: float) -> dict[str, float]:
    """Return costs of 1 for each run, and another one for a ``result`` that has nothing to add.

    In the paper's simulation that does not run: there a cube without queries makes no increment.
    """
    return {
        "split of rows": 1.0,
        "update of cells": 1.0,
        "preprocess of queries": 1.0,
        "cube of changes": 1.0,
        "cube of points": 1.0,
        "cube of changes and points": 1.0,
        "result of answers": 1.0,
        "result of nothing": of_nothing,
    }
