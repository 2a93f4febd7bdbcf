"""Incremental stages: what an increment costs while the state grows, and against Spark's own state.

A counter by key. First direct increments of 20,000 keys on states of several sizes, by the driver
and as Spark jobs, then the paper's black-box emulation and landmark windows (section 5.1), then
the same of the paper's crawl queue, then Spark's streaming state by turns with ours. Then a data
cube, under three ways to schedule it.

    python -m evaluation.incremental.run [--only flat|crawl|spark|cube] [--rows N ...]
        [--without-spark] [--page FILE] [--folder FOLDER]

It takes half an hour and 10 GB of disk. What each increment has cost is on standard error as
soon as it is there; the last line is all figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from evaluation.incremental import crawling, cube, flat, rivals
from evaluation.incremental.goals import goals_of, table_of
from evaluation.incremental.plotting import write_page
from headgate.spark.worker.worker import session_of

ROOT: Final = str(Path(__file__).resolve().parents[2])
PAGE: Final = Path("build", "bench-incremental.html")
SIZES: Final = (500_000, 5_000_000, 50_000_000)
GROWING: Final = (500_000, 2_000_000)
_AT_ONCE_KEYS: Final = 5_000_000


def _session() -> SparkSession:
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "3g",
        # Compressed, what is shuffled says how often the keys of an increment repeat.
        "spark.shuffle.compress": "false",
        **rivals.SETTINGS,
    }
    spark = session_of(settings)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _say(words: str) -> None:
    load = os.getloadavg()[0]
    print(f"{time.strftime('%H:%M:%S')} load {load:.1f}: {words}", file=sys.stderr, flush=True)


def _flat(folder: Path, sizes: list[int], spark: SparkSession | None) -> flat.Flatness:
    found = flat.Flatness()
    with ExitStack() as stack:
        states = []
        for keys in sizes:
            states.append(stack.enter_context(flat.sized(folder / str(keys), keys)))
            _say(f"a state of {keys:,} keys is there")
        flat.measure_states(found, states, spark, _say)
        large = [state for state in states if state.keys >= _AT_ONCE_KEYS]
        if large and spark is not None:
            flat.measure_at_once(found, large[0], spark, _say)
    flat.measure_long(found, folder / "long", sizes[0])
    if spark is not None:
        growing = [rows for rows in GROWING if rows <= sizes[-1]]
        flat.measure_growing(found, folder / "growing", growing, spark, _say)
        flat.measure_divided(found, folder / "divided", sizes[0], spark, _say)
    return found


def main() -> None:
    """Print what increments cost."""
    # Spark's workers import the functions that are measured.
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (ROOT, inherited)))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("flat", "crawl", "spark", "cube"))
    parser.add_argument("--rows", type=int, nargs="+", default=list(SIZES), help="keys of states")
    parser.add_argument("--without-spark", action="store_true", help="the driver's path only")
    parser.add_argument("--page", type=Path, default=PAGE, help="where to write the page")
    parser.add_argument("--folder", type=Path, help="for states; in the temporary ones by default")
    options = parser.parse_args()
    began, load = time.monotonic(), os.getloadavg()[0]
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="headgate-bench-") as name:
        folder = Path(name)
        spark = None if options.without_spark else _session()
        try:
            if options.only in {None, "flat"}:
                measured = _flat(folder / "flat", sorted(options.rows), spark)
                figures["flat"] = flat.figures_of(measured)
            if options.only in {None, "crawl"}:
                sizes = [urls for urls in crawling.SIZES if urls <= max(options.rows)]
                crawled = crawling.measure_crawl(folder / "crawl", sizes, spark, _say)
                figures["crawl"] = crawling.figures_of(crawled)
            if options.only in {None, "spark"} and spark is not None:
                found = rivals.measure_rivals(folder / "spark", spark, _say)
                figures["spark"] = rivals.figures_of(found)
            if options.only in {None, "cube"}:
                figures["cube"] = cube.measure_cube(folder / "cube", spark, _say)
        finally:
            if spark is not None:
                spark.stop()
    seconds = time.monotonic() - began
    conditions = (
        f"{os.cpu_count()} cores, load {load:.1f} at the start and {os.getloadavg()[0]:.1f} at the "
        f"end; Python {platform.python_version()}; {seconds / 60:.0f} minutes in all"
    )
    goals = goals_of(figures)
    print(conditions)
    print(table_of(goals))
    print(f"page: {write_page(figures, goals, conditions, options.page)}")
    missed = [goal.words for goal in goals if not goal.met]
    shown = {"seconds": round(seconds), "conditions": conditions, "missed": missed, **figures}
    print(json.dumps(shown))


if __name__ == "__main__":
    main()
