"""Dataflows that run in memory and are recorded as an agent and its observers would."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
LEARNING = HERE.parent / "learning"
for folder in map(str, (HERE, LEARNING, LEARNING / "triggers")):
    if folder not in sys.path:
        sys.path.insert(0, folder)  # for ``recorded_world``, and for ``lived`` and ``lived_models``

from recorded_world import RecordedTester  # noqa: E402 -- it is in the folder

from headgate.engine import (  # noqa: E402
    ActionRole,
    ActionSpec,
    Bound,
    DataflowSpec,
    DecisionKind,
    WatchedContainer,
)
from headgate.events import Container, ContainerId, Item  # noqa: E402

Cells = dict[tuple[bytes, bytes], bytes]
Step = Callable[["Recorded", list[bytes]], Mapping[bytes, Mapping[bytes, bytes | None]]]
"""Rows to write, given the recorded world and the rows of its input that changed since."""

COLUMN = b"c:v"


class Recorded(RecordedTester):
    """A dataflow over tables of its containers' names; every run takes ``seconds``."""

    def __init__(
        self, spec: DataflowSpec, steps: Mapping[str, Step], *, partitions: int = 2
    ) -> None:
        self.steps = steps
        self.waves = 0
        self.changed: dict[str, dict[bytes, None]] = {name: {} for name in steps}
        self.seconds = 2.0
        super().__init__(spec, partitions=partitions)

    def feed(self, table: str, values: Mapping[bytes, float]) -> None:
        self.now += 0.01
        self._note(table, values)
        self.write(table, {row: {COLUMN: b"%.6f" % value} for row, value in values.items()})

    def _note(self, table: str, rows: Mapping[bytes, object]) -> None:
        for action in self.spec.actions:
            if table in action.reads and action.name in self.changed:
                self.changed[action.name].update(dict.fromkeys(rows))

    def end_wave(self) -> None:
        """End a wave of all inputs, and let all runs end that come of it."""
        for _ in range(60):
            self.pass_time(1.0)
            self.work()
        self.waves += 1
        inputs = tuple(a.name for a in self.spec.actions if a.role is ActionRole.INPUT)
        self.note(DecisionKind.WAVE_ENDED, wave=self.waves, inputs=inputs)
        self.wave(*inputs)
        self.work()

    def work(self) -> None:
        while active := [name for name, a in self.engine.actions.items() if a.run is not None]:
            self.run_step(active[0])

    def run_step(self, action: str) -> None:
        """Let a step write and end."""
        self.pass_time(self.seconds)
        changed, self.changed[action] = sorted(self.changed[action]), {}
        written = self.steps[action](self, changed)
        spec = next(a for a in self.spec.actions if a.name == action)
        if written:
            table = str(spec.writes[0])
            self._note(table, written)
            self.write(table, written, by=action)
        self.finish(action)

    def values(self, table: str) -> dict[bytes, float]:
        return {row: float(value) for (row, _), value in self.tables.get(table, {}).items()}


def watched(name: str) -> WatchedContainer:
    return WatchedContainer(Container(ContainerId(name), (Item(name, b"c", b"v"),)))


def chain(**bounds: Bound | None) -> DataflowSpec:
    """Return ``readings -> smooth -> high -> total``, each step with its bound or synchronous."""
    names = ("readings", "smoothed", "heights", "totals")
    steps = {"smooth": 0, "high": 1, "total": 2}
    return DataflowSpec(
        "chain",
        tuple(map(watched, names)),
        (
            ActionSpec("feed", ActionRole.INPUT, writes=(ContainerId("readings"),)),
            *(
                ActionSpec(
                    name,
                    after=("feed",) if place == 0 else (list(steps)[place - 1],),
                    reads=(ContainerId(names[place]),),
                    writes=(ContainerId(names[place + 1]),),
                    bounds=tuple(filter(None, [bounds.get(name)])),
                )
                for name, place in steps.items()
            ),
        ),
    )


def smooth(world: Recorded, changed: list[bytes]) -> dict[bytes, dict[bytes, bytes]]:
    """Mean of each place and its neighbours, for places with a changed one."""
    values = world.values("readings")
    near = {n for row in changed for n in (int(row) - 1, int(row), int(row) + 1)}
    out = {}
    for place in sorted(near):
        known = [v for n in (place - 1, place, place + 1) if (v := values.get(b"%03d" % n))]
        if b"%03d" % place in values:
            out[b"%03d" % place] = {COLUMN: b"%.6f" % (sum(known) / len(known))}
    return out


def high(world: Recorded, changed: list[bytes]) -> dict[bytes, dict[bytes, bytes]]:
    """Places above 50; only those that are not as before."""
    values, before = world.values("smoothed"), world.values("heights")
    out = {}
    for row in changed:
        value = values[row] if values[row] > 50 else 0.0
        if before.get(row) != value:
            out[row] = {COLUMN: b"%.6f" % value}
    return out


def total(world: Recorded, changed: list[bytes]) -> dict[bytes, dict[bytes, bytes]]:
    del changed
    heights = [v for v in world.values("heights").values() if v > 0]
    return {b"now": {COLUMN: b"%.6f" % (sum(heights) / 10)}}


STEPS: dict[str, Step] = {"smooth": smooth, "high": high, "total": total}


def run_waves(
    spec: DataflowSpec,
    seed: int,
    waves: int = 30,
    places: int = 40,
    seconds: float = 2.0,
    after: Callable[[Recorded], None] = lambda _: None,
) -> Recorded:
    """Record ``spec`` over seeded waves, each of a random part of the places.

    ``after`` is called with what is there at the end of each wave.
    """
    chance = random.Random(seed)
    world = Recorded(spec, STEPS)
    world.seconds = seconds
    for wave in range(waves):
        count = places if wave == 0 else max(1, round(chance.random() * places))
        chosen = sorted(chance.sample(range(places), count))
        level = 50 + 10 * chance.random() - 5
        world.feed("readings", {b"%03d" % n: level + 15 * chance.gauss(0, 1) for n in chosen})
        world.end_wave()
        after(world)
    return world


@pytest.fixture(scope="module")
def make_chain() -> Callable[..., DataflowSpec]:
    return chain


@pytest.fixture(scope="module")
def record() -> Callable[..., Recorded]:
    return run_waves
