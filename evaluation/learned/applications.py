"""The two dataflows of SmartFlux's evaluation, as tables of all their synchronous waves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from aqhi.generator import WEEKLY, Trend, generate
from aqhi.grid import Grid
from linear_road.all_waves import all_waves
from linear_road.histories import history
from linear_road.traffic import generate as traffic
from msgspec import Struct

from evaluation.aqhi.histories import histories
from headgate.learning import (
    ContainerHistory,
    Graph,
    MeasuredPairs,
    Step,
    levels_of,
    measured_pairs,
)

HORIZON: Final = 24
"""H, in waves."""
AUDIT: Final = 0.05
"""Share of the skips that are audited."""


class Application(Struct, frozen=True):
    """A dataflow with steps that tolerate error."""

    name: str
    graph: Graph
    singles: Mapping[str, tuple[str, tuple[str, ...]]]
    """By step, as the paper numbers them: its output and what it reads."""
    bounded: tuple[str, ...]
    """The outputs that people see, which bound the whole dataflow."""
    training: int
    """Waves."""
    test: int
    """Waves after them."""
    histories: Callable[[int], Mapping[str, ContainerHistory]]
    """Returns the containers' states, by seed."""

    @property
    def waves(self) -> int:
        """All waves."""
        return self.training + self.test

    def pairs(self, states: Mapping[str, ContainerHistory]) -> dict[str, MeasuredPairs]:
        """Return the measured pairs of all containers; what steps write is not counted."""
        found = {}
        for name, each in states.items():
            written = name in self.graph.writers
            counted = ContainerHistory(
                each.values, each.elements, each.updates * (not written), each.times
            )
            levels = levels_of(each.values[: self.training].ravel())
            found[name] = measured_pairs(counted, HORIZON, levels)
        return found


def _graph(steps: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]) -> Graph:
    return Graph([Step(name, reads, writes) for name, (reads, writes) in steps.items()])


def aqhi(side: int) -> Application:
    """Return the air quality index over a grid of so many detectors a side."""
    training, test = 336, 384

    def states(seed: int) -> Mapping[str, ContainerHistory]:
        grid = Grid(side)
        return histories(list(generate(grid, training + test, seed, Trend.UNIFORM, WEEKLY)), grid)

    return Application(
        "AQHI",
        _graph(
            {
                "2": (("sensors",), ("detectors",)),
                "3a": (("detectors",), ("zones",)),
                "3b": (("detectors",), ("map",)),
                "4": (("zones",), ("hotspots",)),
                "5": (("hotspots", "zones"), ("now",)),
            }
        ),
        {
            "2": ("detectors", ("sensors",)),
            "3a": ("zones", ("detectors",)),
            "3b": ("map", ("detectors",)),
            "4": ("hotspots", ("zones",)),
            "5": ("now", ("hotspots", "zones")),
        },
        ("now", "map"),
        training,
        test,
        states,
    )


def linear_road() -> Application:
    """Return variable tolling; its two synchronous steps, 2b and 5b, are left out."""
    training, test = 500, 500
    measured = ("reports", "positions", "minute-speeds", "minute-cars", "standing")
    containers = (*measured, "speeds", "cars", "accidents", "congestion", "areas")

    def states(seed: int) -> Mapping[str, ContainerHistory]:
        waves = all_waves(traffic(training + test, seed))
        return {name: history(waves, name, HORIZON) for name in containers}

    return Application(
        "LRB",
        _graph(
            {
                "2a": (("reports",), ("positions", "minute-speeds", "minute-cars", "standing")),
                "3a": (("minute-speeds",), ("speeds",)),
                "3b": (("minute-cars",), ("cars",)),
                "3c": (("standing",), ("accidents",)),
                "4": (("speeds", "cars", "accidents"), ("congestion",)),
                "5a": (("congestion",), ("areas",)),
            }
        ),
        {
            "2a": ("positions", ("reports",)),
            "3a": ("speeds", ("minute-speeds",)),
            "3b": ("cars", ("minute-cars",)),
            "3c": ("accidents", ("standing",)),
            "4": ("congestion", ("speeds", "cars", "accidents")),
            "5a": ("areas", ("congestion",)),
        },
        ("congestion", "areas"),
        training,
        test,
        states,
    )
