"""SmartFlux's evaluation with headgate's learned triggers: a page with its figures 7 to 12.

AQHI (with its weekly weather) and Linear Road over tables of all synchronous waves, by the formulas
of the examples, which tests hold to be what the Spark steps compute. Each step is evaluated on
synchronous input, as in the paper, beside a synchronous run, one at random, every second to fifth
wave, a bound on σ or ν tuned on the training waves, the paper's own forest, and an oracle; then the
whole dataflow, with the outputs bounded that people see. All figures are of waves that nothing was
trained, tuned or calibrated on.

    python -m evaluation.learned.run [--seeds 3] [--detectors 50] [--jobs 2] [--page FILE]
        [--only AQHI|LRB]

With the first seed of each, classifiers are compared, models are fitted to parts of training, and
overheads are measured. All of that is drawn on the page. The last line is all figures as JSON; what
each seed has given is on standard error as soon as it is there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from evaluation.learned.applications import Application, aqhi, linear_road
from evaluation.learned.evaluation import Seed, evaluate
from evaluation.learned.figures import figures_of, table_of
from evaluation.learned.page import Conditions, write_page

FIRST_SEED = 1
PAGE = Path("build", "bench-learned.html")


def _evaluate(name: str, side: int, seed: int) -> tuple[str, Seed]:
    application = _application(name, side)
    return name, evaluate(application, seed, measured=seed == FIRST_SEED)


def _application(name: str, side: int) -> Application:
    return aqhi(side) if name == "AQHI" else linear_road()


def main() -> None:
    """Print what every policy saves and violates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--detectors", type=int, default=50, help="a side, of AQHI")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", choices=("AQHI", "LRB"))
    parser.add_argument("--page", type=Path, default=PAGE, help="where to write the page")
    options = parser.parse_args()
    began = time.monotonic()
    names = (options.only,) if options.only else ("LRB", "AQHI")
    # The first seed of each takes longest, so it goes first.
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    wanted = [(name, seed) for seed in seeds for name in names]
    with ProcessPoolExecutor(options.jobs) as pool:
        waiting = [pool.submit(_evaluate, name, options.detectors, seed) for name, seed in wanted]
        for done in as_completed(waiting):
            name, seed = done.result()
            shown = f"== {name}, one seed, after {time.monotonic() - began:.0f} s"
            print(shown, table_of(figures_of([seed])), sep="\n", file=sys.stderr, flush=True)
        found = [future.result() for future in waiting]
    results = {name: [seed for of, seed in found if of == name] for name in sorted(names)}
    figures = {name: figures_of(each) for name, each in results.items()}
    for name, each in figures.items():
        print(f"== {name}")
        print(table_of(each))
    seconds = time.monotonic() - began
    conditions = Conditions(options.seeds, options.detectors**2, seconds)
    print(f"page: {write_page(results, figures, conditions, options.page)}")
    print(f"{seconds:.0f} s in all")
    print(json.dumps({"seconds": round(seconds), **figures}))


if __name__ == "__main__":
    main()
