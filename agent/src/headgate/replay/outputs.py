"""How far the outputs that a replay shows stand from the recorded ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from headgate.replay.tables import Cell, ContainerExtent, RecordedTables, Value, Write


class OutputError(Struct, frozen=True):
    """x recorded, x′ shown, over the cells of a container; a missing one is 0, and 0/0 = 0."""

    changed: float
    """Cells with x ≠ x′ to all cells."""
    epsilon: float
    """Σ|x−x′| / Σ max(|x|, |x′|), 0 to 1: design equation (3). 0 where values have no numbers."""
    relative: float | None
    """Σ|x−x′| / Σ|x|; None where all that was recorded is 0 and something else is shown."""
    largest: float
    """max |x−x′| in the values' units."""


class RecordedOutput:
    """A container that an action writes, as recorded: what errors are measured against."""

    def __init__(self, extent: ContainerExtent) -> None:
        self.extent = extent
        self.magnitude = 0.0
        """Σ|x|."""
        self.cells = 0

    def take(self, writes: Iterable[Write]) -> None:
        """Keep the sums up to date."""
        has, number = self.extent.has, self.extent.number
        for _, cell, old, new in writes:
            if old == new or not has(cell):
                continue
            self.magnitude += abs(number(cell, new)) - abs(number(cell, old))
            self.cells += (new is not None) - (old is not None)

    def error(self, shown: Mapping[Cell, Value], tables: RecordedTables) -> OutputError:
        """Return the error now.

        Args:
            shown: x′ of the cells in which it may differ.
            tables: x.
        """
        extent = self.extent
        differing = 0
        differences = more = largest = 0.0
        cells = self.cells
        for cell, before in shown.items():
            now = tables.value(cell)
            if now == before or not extent.has(cell):
                continue
            differing += 1
            cells += now is None
            x, y = extent.number(cell, now), extent.number(cell, before)
            apart = abs(x - y)
            differences += apart
            largest = max(largest, apart)
            # As in the engine: where signs differ, |x| + |x′| stands for the larger of both.
            more += (abs(x) + abs(y) if x * y < 0 else max(abs(x), abs(y))) - abs(x)
        whole = self.magnitude + more
        relative: float | None = 0.0
        if differences:
            relative = differences / self.magnitude if self.magnitude > 0 else None
        return OutputError(
            changed=differing / cells if cells else 0.0,
            epsilon=min(1.0, differences / whole) if whole > 0 else 0.0,
            relative=relative,
            largest=largest,
        )
