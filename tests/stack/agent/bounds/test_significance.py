"""Only the change of the output that matters is given, and a live agent finds the limits."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

pytestmark = [pytest.mark.stack, pytest.mark.soak, pytest.mark.timeout(1800)]

ROWS = 40
WRITTEN = 10  # rows of a wave after the first
GROWTH = 0.04  # of each row written: the table changes by 1 % in a wave
CHANGE = 0.05  # that matters
RANGE = 100 * ROWS  # updates among which a limit is sought
BUDGET = round(3 * math.log2(RANGE))
"""Waves in which a limit must be found."""
STEPS = ("first", "second")
Eventually = Callable[..., Any]

MODULE = """
def copy(run):
    changed = run.changes(run.parameters["source"]).filter("not deleted")
    run.write(changed.selectExpr("row", "value as v"), run.parameters["target"])
"""


class Sought:
    """Two steps in a row, each of which copies what has changed, and their input."""

    def __init__(self, stand: Any) -> None:
        self.stand = stand
        self.name = f"sought-{stand.identity}"
        self.tables = {name: stand.stack.table(name) for name in ("input", "middle", "output")}
        (stand.directory / "copying.py").write_text(MODULE)
        self.agent = stand.start_agent("first")
        stand.submit(self.agent, self._text())
        self.choices = random.Random(7)
        self.values = [self.choices.uniform(50, 60) for _ in range(ROWS)]
        self.waves = 0
        self.outputs: list[dict[bytes, float]] = []
        """What the output was after each wave in which it changed."""

    def _text(self) -> str:
        return f"""
name: {self.name}
containers:
  input: {self.tables["input"]} f:v
  middle: {self.tables["middle"]} f:v
  output: {self.tables["output"]} f:v
actions:
  feed: {{input: input}}
  first:
    step: copying:copy
    reads: input
    writes: middle
    parameters: {{source: input, target: middle}}
  second:
    step: copying:copy
    reads: middle
    writes: output
    parameters: {{source: middle, target: output}}
significance: {{output: output, change: {CHANGE:.0%}}}
spark:
  spark.sql.shuffle.partitions: 1
"""

    def wave(self) -> None:
        """Some rows grow, and all that follows from it has come to rest."""
        self.waves += 1
        chosen = range(ROWS) if self.waves == 1 else self.choices.sample(range(ROWS), WRITTEN)
        for row in chosen:
            self.values[row] *= 1 + GROWTH
        written = {b"%d" % row: b"%.9f" % self.values[row] for row in chosen}
        self.stand.write(self.tables["input"], written)
        self.agent.wave(self.name)
        output = {row: float(v) for row, v in self.stand.rows(self.tables["output"]).items()}
        if not self.outputs or output != self.outputs[-1]:
            self.outputs.append(output)

    def search(self, action: str) -> Any:
        return self.agent.explained(self.name, action)["policy"]["data"]

    def until_found(self, action: str, waves: int) -> int:
        """Let waves come until a limit is found; return how many."""
        for number in range(waves):
            if self.search(action)["phase"] == "found":
                return number
            self.wave()
        raise AssertionError(f"{action} in {waves} waves: {self.search(action)}")

    def restart(self) -> None:
        self.agent.kill()
        self.agent = self.stand.start_agent("second")
        self.agent.await_dataflows()

    def changes(self) -> Iterator[float]:
        """Yield Σ|x−x′| / Σ|x′| of the output from each of its states to the next."""
        for before, after in pairwise(self.outputs):
            moved = math.fsum(abs(x - before.get(row, 0.0)) for row, x in after.items())
            yield moved / math.fsum(before.values())


def test_limits_are_found_backwards_from_the_output_while_agents_come_and_go(
    make_stand: Callable[..., Any], tmp_path: Any, eventually: Eventually
) -> None:
    sought = Sought(make_stand(tmp_path))
    for _ in range(6):
        sought.wave()
    before = sought.search("second")
    assert before["phase"] != "waiting"
    assert sought.search("first")["phase"] == "waiting"
    sought.restart()
    assert eventually(lambda: sought.search("second")) == before, "the search began anew"
    took = [sought.until_found("second", BUDGET - 6) + 6, sought.until_found("first", BUDGET)]
    # Both now hold at once; the last step may have to look once more when its input comes rarely.
    sought.until_found("second", BUDGET)
    first = len(sought.outputs)
    while len(sought.outputs) < first + 6:
        sought.wave()
    changes = list(sought.changes())[first:]
    mean = math.fsum(changes) / len(changes)
    limits = {step: sought.search(step)["limit"] for step in STEPS}
    print({"waves": took, "limits": limits, "mean change": mean, "changes": changes})
    # One wave more or less is as near as runs at the ends of waves come.
    assert abs(mean - CHANGE) <= GROWTH * WRITTEN / ROWS
