"""What an oracle saves of the steps of AQHI, with weeks against without.

Each step's output is within its error bound for as long as can be without a run: the most that a
learned trigger can save. Under the weather ``WEEKLY``, and under ``DRIFTING`` beside it, for the
waves that SmartFlux tests on (section 5, AQHI); the error is its (3).

    python -m evaluation.learned.oracles.weekly [--seeds 3] [--side 50]

The last line is all figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np
from aqhi.generator import DRIFTING, WEEKLY, Trend, Weather, generate
from aqhi.grid import Grid

from evaluation.aqhi.histories import histories
from headgate.learning import ErrorMetric, closed_loop, errors, measured_pairs

TRAINING = 336
WAVES = TRAINING + 384
HORIZON = 24
BOUNDS = (0.05, 0.1, 0.2)
STEPS = {"B": "detectors", "C": "zones", "D": "map", "E": "hotspots", "F": "now"}
"""By its letter, the container that a step writes."""


def measured(weather: Weather, grid: Grid, seed: int) -> dict[str, dict[str, float]]:
    """Return by step the median change per wave, and the share saved by bound."""
    waves = list(generate(grid, WAVES, seed, Trend.UNIFORM, weather))
    containers = histories(waves, grid)
    found = {}
    for step, container in STEPS.items():
        known = errors(measured_pairs(containers[container], HORIZON), ErrorMetric.RELATIVE)
        loops = {b: closed_loop(known, known, b, b, TRAINING, WAVES) for b in BOUNDS}
        found[step] = {
            "change": float(np.median(known[1:, 1])),
            **{f"{bound:g}": loop.saved for bound, loop in loops.items()},
        }
    return found


def main() -> None:
    """Print changes and savings of each seed, and the ratio of what the two weathers save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--side", type=int, default=50, help="detectors along each side")
    options = parser.parse_args()
    began = time.monotonic()
    figures: dict[str, dict[int, dict[str, dict[str, float]]]] = {}
    saved = {}
    for name, weather in {"weekly": WEEKLY, "drifting": DRIFTING}.items():
        figures[name] = {}
        for seed in range(1, options.seeds + 1):
            found = measured(weather, Grid(options.side), seed)
            figures[name][seed] = found
            for step, shares in found.items():
                change = shares["change"]
                row = "  ".join(f"{b:4.0%}: {shares[f'{b:g}']:6.1%}" for b in BOUNDS)
                print(f"{name:8} seed {seed}  {step}  changes by {change:6.2%}  saved at {row}")
        every = [found for seed in figures[name].values() for found in seed.values()]
        saved[name] = statistics.mean(found[f"{b:g}"] for found in every for b in BOUNDS)
    ratio = saved["weekly"] / saved["drifting"]
    print(
        f"{WAVES - TRAINING} waves after {TRAINING}, {options.side**2} detectors, delays up to "
        f"{HORIZON} waves, {options.seeds} seeds: weekly saves {ratio:.2f} of what drifting saves; "
        f"{time.monotonic() - began:.0f} s"
    )
    print(json.dumps({"ratio": ratio, "saved": saved, "figures": figures}))


if __name__ == "__main__":
    main()
