"""What an oracle saves of each step of the Linear Road, wave by wave against running them all.

The oracle runs a step as late as its error bound lets it: the most that any trigger can save. Two
waves are compared at most ``HORIZON`` minutes apart, so 96 % is the most that it can be.

    python -m evaluation.learned.oracles.linear_road [--waves 1000] [--seeds 1 2 3]

The last line is all figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import numpy as np
from linear_road.all_waves import Waves, all_waves
from linear_road.histories import history
from linear_road.traffic import generate

from headgate.learning import ErrorMetric, closed_loop, errors, measured_pairs

HORIZON = 24
BOUNDS = (0.05, 0.1, 0.2)
STEPS = {
    "2a": "positions",
    "3a": "speeds",
    "3b": "cars",
    "3c": "accidents",
    "4": "congestion",
    "4 toll": "tolls",
    "5a": "areas",
}
"""By step, the output whose error is bounded."""


def saved(waves: Waves) -> dict[str, list[float]]:
    """Return by step the share of its runs that the oracle skips under each bound."""
    found = {}
    for step, container in STEPS.items():
        known = errors(
            measured_pairs(history(waves, container, HORIZON), HORIZON), ErrorMetric.RELATIVE
        )
        found[step] = [
            closed_loop(known, known, bound, bound, 0, len(known)).saved for bound in BOUNDS
        ]
        found[step].append(float(np.median(known[1:, 1])))
    return found


def conditions(waves: Waves) -> str:
    """Return what traffic there was, in words."""
    cars = np.array([len(row.cars) for row in waves.positions])
    wrecked = (np.nan_to_num(waves.accidents) > 0).any(1)
    shares = [float((waves.areas == kind).mean()) for kind in (1, 2, 3)]
    tolls = (waves.tolls > 0).mean()
    return (
        f"cars {cars.min()} to {cars.max()}, mean {cars.mean():.0f}; accidents in "
        f"{wrecked.mean():.0%} of the waves; tolls in {tolls:.1%} of the segments; areas low, "
        f"medium, high {shares[0]:.0%}, {shares[1]:.1%}, {shares[2]:.1%}"
    )


def main() -> None:
    """Print for each step what the oracle saves, and the median error after one skipped wave."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waves", type=int, default=1_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options = parser.parse_args()
    began = time.monotonic()
    seeds = {}
    for seed in options.seeds:
        waves = all_waves(generate(options.waves, seed))
        seeds[seed] = saved(waves)
        print(f"seed {seed}: {conditions(waves)}")
    print(f"saved by an oracle at ε {', '.join(f'{bound:.0%}' for bound in BOUNDS)}: seeds, mean")
    for step in STEPS:
        by_seed = [found[step] for found in seeds.values()]
        cells = [
            " ".join(f"{found[at]:4.0%}" for found in by_seed)
            + f" ({statistics.mean(found[at] for found in by_seed):4.0%})"
            for at in range(len(BOUNDS))
        ]
        lag = statistics.mean(found[-1] for found in by_seed)
        print(f"{step:8} {'   '.join(cells)}   median ε after one skipped wave {lag:.3f}")
    print(f"{options.waves} waves, {time.monotonic() - began:.0f} s in all")
    print(json.dumps({"waves": options.waves, "bounds": BOUNDS, "seeds": seeds}))


if __name__ == "__main__":
    main()
