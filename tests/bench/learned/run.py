"""SmartFlux's evaluation with headgate's learned triggers: a page with its figures 7 to 12.

AQHI (with its weekly weather) and Linear Road over tables of all synchronous waves, by the formulas
of the examples, which tests hold to be what the Spark steps compute. Each step is evaluated on
synchronous input, as in the paper, beside a synchronous run, one at random, every second to fifth
wave, a bound on σ or ν tuned on the training waves, the paper's own forest, and an oracle; then the
whole dataflow, with the outputs bounded that people see. All figures are of waves that nothing was
trained, tuned or calibrated on.

    python tests/bench/learned/run.py [--seeds 3] [--detectors 50] [--jobs 2] [--page FILE]
        [--only AQHI|LRB]

The last line is all figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from applications import Application, aqhi, linear_road
from evaluation import Seed, evaluate
from figures import figures_of, table_of


def _evaluate(name: str, side: int, seed: int) -> tuple[str, Seed]:
    application = _application(name, side)
    return name, evaluate(application, seed)


def _application(name: str, side: int) -> Application:
    return aqhi(side) if name == "AQHI" else linear_road()


def main() -> None:
    """Print what every policy saves and violates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--detectors", type=int, default=50, help="a side, of AQHI")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", choices=("AQHI", "LRB"))
    options = parser.parse_args()
    began = time.monotonic()
    names = (options.only,) if options.only else ("LRB", "AQHI")
    wanted = [(name, seed) for name in names for seed in range(1, options.seeds + 1)]
    with ProcessPoolExecutor(options.jobs) as pool:
        waiting = [pool.submit(_evaluate, name, options.detectors, seed) for name, seed in wanted]
        found = [future.result() for future in waiting]
    figures = {
        name: figures_of([seed for of, seed in found if of == name]) for name in sorted(set(names))
    }
    for name, each in figures.items():
        print(f"== {name}")
        print(table_of(each))
    seconds = time.monotonic() - began
    print(f"{seconds:.0f} s in all")
    print(json.dumps({"seconds": round(seconds), **figures}))


if __name__ == "__main__":
    main()
