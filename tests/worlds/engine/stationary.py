"""A step whose limit is searched for, under noise that stays the same: it is searched for once.

What the step makes of its input, how wide the noise is and how much comes are drawn by chance.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from contradiction import require

from headgate.engine import (
    SOUGHT_SEQUENCE,
    SOUGHT_VALUE,
    ActionRole,
    ActionSpec,
    Bound,
    Codec,
    DataflowSpec,
    EngineTester,
    SignificanceSpec,
    WatchedContainer,
    at_least_one,
    launched,
)
from headgate.engine.triggers.significance.policy import Searched
from headgate.events import Container, ContainerId, Item

_SENSORS = 24
_ZONES = 6
_WAVES = 300
_MOST = 4
"""Openings after the first, in so many waves: what chance may bring about, and a limit that was
found by chance."""
_NEVER = 1e9  # seconds


class StationaryLife:
    """A dataflow of one step, and what its sensors tell."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self._power = chance.choice((0.5, 1.0, 2.0, 3.0))
        self._width = chance.uniform(0.05, 0.6)
        self._most = chance.randint(2, 12)
        self._silent = chance.choice((0.0, 0.0, 0.3))
        self._restarts = chance.choice((0.0, 0.05))
        self._sensors = [self._value() for _ in range(_SENSORS)]
        self._zones: list[float] = []
        self.tester = EngineTester(_dataflow(chance.choice((0.002, 0.01, 0.03, 0.1))))

    def _value(self) -> float:
        return 55 * self.chance.lognormvariate(0, self._width)

    def live(self) -> None:
        """Let waves come; look how often the search has opened."""
        self._tell("in", dict(enumerate(self._sensors)))
        for _ in range(_WAVES):
            self._wave()
        policy = self.tester.engine.actions["step"].policy
        assert isinstance(policy, Searched)
        search = policy.search
        opened = search.state.opened - 1
        words = f"noise that stays the same has opened a search {opened} times again"
        require(holds=opened <= _MOST, words=f"{words} in {_WAVES} waves: {search.words()}")

    def _wave(self) -> None:
        if self.chance.random() >= self._silent:
            some = self.chance.sample(range(_SENSORS), self.chance.randint(1, self._most))
            self._tell("in", {number: self._value() for number in some})
        if self.chance.random() < self._restarts:
            self.tester.restart()
        for action in launched(self.tester.wave("feed")):
            self._run(action)

    def _tell(self, table: str, values: dict[int, float], by: str | None = None) -> None:
        if table == "in":
            for number, value in values.items():
                self._sensors[number] = value
        rows = {b"r%d" % n: {b"f:x": b"%.12g" % value} for n, value in values.items()}
        if rows:
            self.tester.write(table, rows, by=by)

    def _run(self, action: str) -> None:
        size = _SENSORS // _ZONES
        zones = [
            (sum(self._sensors[n * size : (n + 1) * size]) / size) ** self._power
            for n in range(_ZONES)
        ]
        known: Sequence[float | None] = self._zones or [None] * _ZONES
        self._tell("out", {n: z for n, z in enumerate(zones) if z != known[n]}, action)
        self._zones = zones
        self.tester.finish(action)


def _dataflow(change: float) -> DataflowSpec:
    bound = Bound("in", ContainerId("in"), _NEVER, SOUGHT_SEQUENCE, SOUGHT_VALUE)
    step = ActionSpec(
        "step",
        after=("feed",),
        reads=(ContainerId("in"),),
        writes=(ContainerId("out"),),
        bounds=(bound,),
        condition=at_least_one(["in"]),
    )
    containers = tuple(
        WatchedContainer(Container(ContainerId(table), (Item(table),)), Codec())
        for table in ("in", "out")
    )
    feed = ActionSpec("feed", ActionRole.INPUT, writes=(ContainerId("in"),))
    sought = SignificanceSpec(ContainerId("out"), change, ("step",))
    return DataflowSpec("flow", containers, (feed, step), significance=sought)
