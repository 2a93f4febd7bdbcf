"""What an increment costs while the state grows: directly, as a black box, with landmarks."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from msgspec import Struct
from pyspark.sql import SparkSession

from evaluation.incremental.counting import counter, increment_of, seeded, some_ids
from evaluation.incremental.epochs import Chain, Epoch, Increment
from evaluation.incremental.spending import Spent
from headgate.incremental.epochs.modes import Mode
from headgate.incremental.state.buckets import even_buckets
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.manifest import BucketState

KEYS: Final = 20_000
"""Of an increment."""
INCREMENTS: Final = 7
"""As in the paper's figure 8."""
DRIVER_ROUNDS: Final = 25
SPARK_ROUNDS: Final = 15
"""Chains of each size, one after another by turns; the first of each only warms up."""
LONG: Final = 64
"""Increments until the smallest state was merged some times."""
GROWING_ROUNDS: Final = 6
"""Of each mode, by turns; one before them warms up."""
_SHARES: Final = 3
"""Increments of the modes that grow."""
_PART: Final = 4
"""Increments into which the paper's figure 9 divides one."""
_AT_ONCE: Final = 4_000_000
_SEED: Final = 7

Say = Callable[[str], None]


class Sized(Struct, frozen=True):
    """A state and increments that go with it."""

    keys: int
    store: FileStore
    buckets: tuple[BucketState, ...]
    increments: Sequence[Increment]


class Flatness(Struct):
    """All that was measured of it; what a part of the bench leaves out is empty."""

    driver: dict[int, list[list[Epoch]]] = {}
    """By keys of the state: chains of epochs."""
    spark: dict[int, list[list[Epoch]]] = {}
    long: list[Epoch] = []
    increment_bytes: int = 0
    """Of an increment in memory."""
    grown: dict[int, dict[str, list[list[Epoch]]]] = {}
    """By rows of all increments and by mode: chains of epochs."""
    divided: dict[str, list[list[Epoch]]] = {}
    """Of increments at once, and of each divided by four: by mode."""
    at_once: list[tuple[float, float]] = []
    """Processor seconds of 4 M rows as one increment and as four."""


@contextmanager
def sized(folder: Path, keys: int, increments: int = INCREMENTS) -> Iterator[Sized]:
    """Make a state of so many keys, and remove it in the end."""
    random = np.random.default_rng(_SEED)
    store = FileStore.at(folder / "state")
    try:
        buckets = seeded(store, counter(), keys)
        tables = (increment_of(some_ids(random, keys, KEYS)) for _ in range(increments))
        yield Sized(keys, store, buckets, [Increment(rows, folder / "in") for rows in tables])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure_states(
    found: Flatness, states: Sequence[Sized], spark: SparkSession | None, say: Say
) -> None:
    """Measure chains of direct increments on states of several sizes, by turns."""
    found.increment_bytes = states[0].increments[0].bytes
    for kind, rounds, chains in (
        ("driver", DRIVER_ROUNDS, found.driver),
        ("Spark", SPARK_ROUNDS, found.spark),
    ):
        if kind == "Spark" and spark is None:
            continue
        for number in range(rounds + 1):
            for state in states:
                session = spark if kind == "Spark" else None
                chain = Chain(counter(), state.store, state.buckets, session)
                epochs = [chain.epoch(increment) for increment in state.increments]
                chain.forget()
                if number:
                    chains.setdefault(state.keys, []).append(epochs)
                shown = " ".join(f"{each.spent.processor:.3f}" for each in epochs)
                say(f"{kind}, {state.keys:,} keys, round {number}: {shown}")


def measure_long(found: Flatness, folder: Path, keys: int) -> None:
    """Measure what is written until the base was merged some times."""
    random = np.random.default_rng(_SEED)
    with sized(folder, keys, 0) as state:
        chain = Chain(counter(), state.store, state.buckets)
        for _ in range(LONG):
            rows = increment_of(some_ids(random, keys, KEYS))
            found.long.append(chain.epoch(Increment(rows, folder / "in")))


def measure_growing(
    found: Flatness, folder: Path, totals: Sequence[int], spark: SparkSession, say: Say
) -> None:
    """Measure all modes on increments of new keys, from nothing on."""
    for total in totals:
        modes = found.grown.setdefault(total, {})
        for number in range(GROWING_ROUNDS + 1):
            for mode in Mode:
                epochs = _grown(folder, total, mode, spark)
                if number:
                    modes.setdefault(mode.value, []).append(epochs)
                shown = " ".join(f"{each.spent.processor:.2f}" for each in epochs)
                say(f"{mode}, {total:,} keys in {_SHARES} increments, round {number}: {shown}")


def _grown(folder: Path, total: int, mode: Mode, spark: SparkSession) -> list[Epoch]:
    order = np.random.default_rng(_SEED).permutation(total)
    shares = [increment_of(part) for part in np.array_split(order, _SHARES)]
    if mode is Mode.LANDMARK:
        shares = [pa.concat_tables(shares[: at + 1]) for at in range(_SHARES)]
    nothing = tuple(BucketState(bucket) for bucket in even_buckets(1))
    try:
        chain = Chain(counter(), FileStore.at(folder / "state"), nothing, spark, mode)
        return [chain.epoch(Increment(rows, folder / "in")) for rows in shares]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure_divided(
    found: Flatness, folder: Path, keys: int, spark: SparkSession, say: Say
) -> None:
    """Measure increments at once and each in four, directly and as a black box."""
    random = np.random.default_rng(_SEED)
    with sized(folder, keys, 0) as state:
        wholes = [some_ids(random, keys, _PART * KEYS) for _ in range(_SHARES)]
        for mode in (Mode.DIRECT, Mode.BLACK_BOX):
            for parts in (1, _PART):
                ids = [part for whole in wholes for part in np.array_split(whole, parts)]
                chain = Chain(counter(), state.store, state.buckets, spark, mode)
                epochs = [chain.epoch(Increment(increment_of(i), folder / "in")) for i in ids]
                chain.forget()
                found.divided.setdefault(mode.value, []).append(epochs)
                total = sum(each.spent.processor for each in epochs)
                say(f"{mode}, {len(epochs)} increments of {len(ids[0]):,}: {total:.2f}")


def measure_at_once(found: Flatness, state: Sized, spark: SparkSession, say: Say) -> None:
    """Measure many rows as one increment and as four, by turns."""
    random = np.random.default_rng(_SEED)
    folder = state.increments[0].path.parent
    for _ in range(2):
        ids = random.integers(state.keys, size=_AT_ONCE)
        spent = []
        for parts in (1, _PART):
            chain = Chain(counter(), state.store, state.buckets, spark)
            came = [Increment(increment_of(part), folder) for part in np.array_split(ids, parts)]
            spent.append(sum(chain.epoch(each).spent.processor for each in came))
            chain.forget()
        found.at_once.append((spent[0], spent[1]))
        say(f"{_AT_ONCE:,} rows at once {spent[0]:.1f}, in {_PART} {spent[1]:.1f}")


class Measured(Protocol):
    """What has been spent on an increment."""

    @property
    def spent(self) -> Spent:
        """Seconds."""


def median_epochs(chains: Sequence[Sequence[Measured]], *, clock: bool = False) -> list[float]:
    """Return medians of chains by increment: seconds of the processor, or of the clock."""
    return [
        statistics.median(e.spent.wall if clock else e.spent.processor for e in epochs)
        for epochs in zip(*chains, strict=True)
    ]


def figures_of(found: Flatness) -> dict[str, Any]:
    """Return what is printed of it; what was not measured is left out."""
    figures: dict[str, Any] = {}
    for kind, chains in (("driver", found.driver), ("spark", found.spark)):
        if chains:
            figures[kind] = sizes_of(chains)
    if found.spark and found.increment_bytes:
        figures["shuffled_per_delta_byte"] = {
            str(keys): [
                round(statistics.median(e.shuffled or 0 for e in epochs) / found.increment_bytes, 3)
                for epochs in zip(*chains, strict=True)
            ]
            for keys, chains in found.spark.items()
        }
    if found.long:
        delta, written = (sum(getattr(e, n) for e in found.long) for n in ("delta", "written"))
        figures["written"] = {
            "increments": len(found.long),
            "per_delta_byte": round(written / delta, 2),
            "delta_bytes": delta,
            "of_increments_in_memory": round(written / (len(found.long) * _of_one(found)), 2),
        }
    if found.grown:
        figures["growing"] = {
            str(total): {
                mode: [round(seconds, 2) for seconds in median_epochs(chains)]
                for mode, chains in modes.items()
            }
            for total, modes in found.grown.items()
        }
    if found.divided:
        figures["divided"] = {
            mode: [[round(each.spent.processor, 2) for each in epochs] for epochs in both]
            for mode, both in found.divided.items()
        }
    if found.at_once:
        figures["four_against_one"] = round(statistics.median(b / a for a, b in found.at_once), 2)
    return figures


def _of_one(found: Flatness) -> int:
    return found.increment_bytes or 1


def sizes_of(chains: Mapping[int, Sequence[Sequence[Measured]]]) -> dict[str, Any]:
    """Return medians by size of the state, and how they grow with increments and with size."""
    medians = {keys: median_epochs(each) for keys, each in chains.items()}
    typical = {keys: statistics.median(each) for keys, each in medians.items()}
    smallest, largest = min(typical), max(typical)
    return {
        "seconds": {str(k): [round(s, 4) for s in each] for k, each in medians.items()},
        "wall_seconds": {
            str(k): [round(s, 4) for s in median_epochs(each, clock=True)]
            for k, each in chains.items()
        },
        "last_to_first": {str(k): round(each[-1] / each[0], 3) for k, each in medians.items()},
        "largest_to_smallest": {
            "keys": [smallest, largest],
            "ratio": round(typical[largest] / typical[smallest], 3),
        },
    }
