"""A pipeline of steps whose limits are searched for, and a search that is driven by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from headgate.engine import (
    SOUGHT_SEQUENCE,
    SOUGHT_VALUE,
    ActionRole,
    ActionSpec,
    Bound,
    Codec,
    DataflowSpec,
    Dimension,
    EngineTester,
    SignificanceSpec,
    WatchedContainer,
    at_least_one,
    launched,
)
from headgate.engine.triggers.significance.policy import Searched
from headgate.engine.triggers.significance.search import Search, Taken
from headgate.events import Container, ContainerId, Item

TARGET = 0.05
CELLS = 40


def container(name: str, codec: Codec | None = None) -> WatchedContainer:
    return WatchedContainer(Container(ContainerId(name), (Item(name),)), codec or Codec())


def step(name: str, reads: str, writes: str, after: str) -> ActionSpec:
    bound = Bound(reads, ContainerId(reads), 1e6, SOUGHT_SEQUENCE, SOUGHT_VALUE)
    return ActionSpec(
        name,
        after=(after,),
        reads=(ContainerId(reads),),
        writes=(ContainerId(writes),),
        bounds=(bound,),
        condition=at_least_one([reads]),
    )


def flow(
    change: float = TARGET,
    searched: tuple[str, ...] = ("first", "second"),
    **significance: Any,
) -> DataflowSpec:
    """feed -> in -> first -> middle -> second -> out; what is not searched for is synchronous."""
    steps = (step("first", "in", "middle", "feed"), step("second", "middle", "out", "first"))
    return DataflowSpec(
        "flow",
        (container("in"), container("middle"), container("out")),
        (
            ActionSpec("feed", ActionRole.INPUT, writes=(ContainerId("in"),)),
            *(
                one
                if one.name in searched
                else msgspec.structs.replace(one, bounds=(), condition=None)
                for one in steps
            ),
        ),
        significance=SignificanceSpec(ContainerId("out"), change, searched, **significance),
    )


class CopyingPipeline:
    """Runs the steps at once where the engine launches them: each copies its input."""

    def __init__(self, spec: DataflowSpec, seed: int = 1) -> None:
        self.tester = EngineTester(spec)
        self.random = np.random.default_rng(seed)
        self.values = self.random.uniform(50, 60, CELLS)
        self.runs: dict[str, list[int]] = {"first": [], "second": []}
        self.waves = 0

    def wave(self, growth: float, number: int = 10) -> None:
        """So many of the elements grow by a ratio, then the wave ends."""
        self.waves += 1
        chosen = self.random.choice(CELLS, CELLS if self.waves == 1 else number, replace=False)
        self.values[chosen] *= 1 + growth
        cells = {b"r%d" % i: {b"f:x": b"%.9f" % self.values[i]} for i in chosen}
        self.tester.write("in", cells)
        self._run(self.tester.wave("feed"))

    def _run(self, told: list) -> None:
        for action in launched(told):
            source, target = {"first": ("in", "middle"), "second": ("middle", "out")}[action]
            known = self.tester.tables.get(target, {})
            rows = {
                row: {column: value}
                for (row, column), value in self.tester.tables[source].items()
                if known.get((row, column)) != value
            }
            if rows:
                self.tester.write(target, rows, by=action)
            self.runs[action].append(self.waves)
            self._run(self.tester.finish(action))

    def search(self, action: str) -> Search:
        policy = self.tester.engine.actions[action].policy
        assert isinstance(policy, Searched)
        return policy.search

    def until(self, holds: Callable[[], bool], growth: float, waves: int) -> int:
        """Let waves come until it holds; return how many."""
        for number in range(waves):
            if holds():
                return number
            self.wave(growth)
        raise AssertionError(f"not in {waves} waves: {self.tester.engine.explain(0).actions}")


def drive(
    search: Search, change: Callable[[float], float], waves: int, updates: int = 10
) -> list[float]:
    """Let waves of so many updates come; a run with u updates changes the output by change(u).

    Returns the limits that held, one after the other.
    """
    received = pending = 0
    limits: list[float] = []
    for _ in range(waves):
        received += updates
        pending += updates
        if pending >= search.limits[Dimension.SEQUENCE] or (
            pending / 1000 >= search.limits[Dimension.VALUE]
        ):
            search.launched(Taken(pending, pending / 1000))
            search.finished(change(pending))
            pending = 0
        search.wave(received, 1000)
        if search.state.limit not in limits[-1:]:
            limits.append(search.state.limit)
    return limits
