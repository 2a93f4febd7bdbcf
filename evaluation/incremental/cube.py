"""The data cube under three ways to schedule (paper: section 5.2 and Figure 10).

An engine decides, stages run on files by the driver's path, or as Spark jobs, which cost much the
same each. What runs cost is given to a simulation by the same engine. Scenarios go on by turns, so
that all have the same machine.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from pyspark.sql import SparkSession

from evaluation.incremental.cube_dataflow import (
    BOTH,
    PLAIN,
    SCENARIOS,
    Costs,
    CubeDriver,
    Scenario,
    equal_costs,
)
from evaluation.incremental.cube_stages import Feed, FiledStages, Sizes

SIZES: Final = {
    "as in the paper": Sizes(),
    "small": Sizes(rows=150, queries=150, width=2),
}
"""With small increments a run costs what any run costs, which by the driver is as equal as it
gets."""
AS_JOBS: Final = "small, as Spark jobs"
"""A job costs what a job costs, as in the paper, whose stages are jobs of Hadoop's."""
JOB_SECONDS: Final = 60.0
"""By the clock, of a scenario of jobs: some 150."""
_DRIVER_ROWS: Final = "spark.headgate.driverRows"
SECONDS: Final = 10.0
"""Processor time of the runs of a scenario: some hundred, of which noise takes a few per cent."""
_SLICES: Final = 5
"""Turns of each scenario."""
_WARM: Final = 40
"""Runs that are not counted: until then the cube has cells that it has not seen."""
_SIMULATED: Final = 2_000
"""Runs, so that where a round ends does not matter."""
_BINS: Final = 30

RATES: Final = {
    "updates": ("update", None),
    "writes": ("cube", "changes"),
    "results": ("result", "answers"),
}
"""Graphs (a), (b) and (c): increments that the stage made, where given of which flow."""


class Measured(Struct, frozen=True):
    """What came of the scenarios with one size of increments, by name."""

    drivers: Mapping[str, CubeDriver]


def measure_sizes(
    folder: Path, sizes: Sizes, seconds: float = SECONDS, spark: SparkSession | None = None
) -> Measured:
    """Have the scenarios run by turns.

    Args:
        folder: of the files of their states.
        sizes: of increments.
        seconds: for each scenario: of the processor, or by the clock where there is a session.
        spark: of which each run with a row is a job; by the driver without it.
    """
    feed = Feed(sizes)
    drivers = {
        scenario.name: CubeDriver(
            scenario, FiledStages(folder / f"scenario-{number}", feed.table, spark)
        )
        for number, scenario in enumerate(SCENARIOS)
    }
    for number in range(_SLICES):
        for driver in drivers.values():
            driver.run_until(seconds * (number + 1) / _SLICES)
    return Measured(drivers)


def measure_cube(
    folder: Path, spark: SparkSession | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """Return all figures: those of each size of increments, as jobs too, and of equal costs."""
    figures: dict[str, Any] = {"sizes": {}}
    measured = {
        name: measure_sizes(folder / name.replace(" ", "-"), sizes) for name, sizes in SIZES.items()
    }
    if spark is not None:
        spark.conf.set(_DRIVER_ROWS, "0")
        measured[AS_JOBS] = measure_sizes(folder / "jobs", SIZES["small"], JOB_SECONDS, spark)
        spark.conf.unset(_DRIVER_ROWS)
    for name, each in measured.items():
        found = figures_of(each)
        figures["sizes"][name] = found
        say(
            f"a data cube, increments {name}: {found['gain']:.2f} times the queries, "
            f"simulated {found['gain_simulated']:.2f}"
        )
    for words, of_nothing in (("equal", 1.0), ("equal_without_empty", 0.0)):
        figures[words] = round(_gain(equal_costs(of_nothing)), 3)
    return figures


def figures_of(measured: Measured) -> dict[str, Any]:
    """Return the figures of one size of increments."""
    drivers = measured.drivers
    costs = _costs(list(drivers.values()))
    simulated = {scenario.name: _simulated(scenario, costs) for scenario in SCENARIOS}
    found: dict[str, dict[str, Any]] = {}
    for name, driver in drivers.items():
        rates = _rates(driver)
        results = _rates(simulated[name])["results"]
        found[name] = {
            "runs": len(driver.steps),
            "useless": round(useless(driver), 3),
            "rates": {graph: round(rate, 3) for graph, rate in rates.items()},
            "results_simulated": round(results, 3),
            "to_simulated": round(rates["results"] / results, 3),
            "over_time": _over_time(driver),
        }
    plain, both = found[PLAIN.name], found[BOTH.name]
    stages = [costs[kind] for kind in costs if not kind.endswith("nothing")]
    return {
        "costs_ms": {kind: round(1e3 * seconds, 2) for kind, seconds in sorted(costs.items())},
        "dearest_to_cheapest": round(max(stages) / min(stages), 1),
        "scenarios": found,
        "gain": round(both["rates"]["results"] / plain["rates"]["results"], 3),
        "gain_simulated": round(both["results_simulated"] / plain["results_simulated"], 3),
    }


def useless(driver: CubeDriver) -> float:
    """Return the share of the runs of ``update`` of which nothing was read, nor is to be next.

    One increment that waits is what the cube reads next; those behind it came too early.
    """
    runs = driver.count("update")
    return max(0, runs - driver.count("cube", "changes") - 1) / runs


def _costs(drivers: Sequence[CubeDriver]) -> dict[str, float]:
    """Return mean seconds by kind of run, over all scenarios."""
    found: dict[str, list[float]] = defaultdict(list)
    for driver in drivers:
        for step in driver.steps[_WARM:]:
            found[step.kind].append(step.seconds)
    return {kind: statistics.fmean(seconds) for kind, seconds in found.items()}


def _simulated(scenario: Scenario, costs: Mapping[str, float]) -> CubeDriver:
    known = {**dict.fromkeys(equal_costs(0.0), statistics.fmean(costs.values())), **costs}
    driver = CubeDriver(scenario, Costs(known))
    for _ in range(_SIMULATED):
        driver.step()
    return driver


def _gain(costs: Mapping[str, float]) -> float:
    plain, both = (_rates(_simulated(scenario, costs))["results"] for scenario in (PLAIN, BOTH))
    return both / plain


def _rates(driver: CubeDriver) -> dict[str, float]:
    """Return increments a second, by graph, after what is not counted."""
    since = driver.steps[_WARM - 1].at
    return {
        graph: driver.count(action, flow, since) / (driver.at - since)
        for graph, (action, flow) in RATES.items()
    }


def _over_time(driver: CubeDriver) -> dict[str, list[float]]:
    """Return increments so far, by graph, at some moments."""
    moments = [driver.at * number / _BINS for number in range(1, _BINS + 1)]
    found: dict[str, list[float]] = {"seconds": [round(moment, 2) for moment in moments]}
    for graph, (action, flow) in RATES.items():
        ends = [
            step.at
            for step in driver.steps
            if step.action == action and (flow is None or flow in step.reads)
        ]
        found[graph] = [sum(end <= moment for end in ends) for moment in moments]
    return found
