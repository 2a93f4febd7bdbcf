"""The counter by Headgate and by Spark's own state, in one program and by turns.

Each is given increments of keys that it knows. ``applyInPandasWithState`` and
``transformWithStateInPandas`` begin with a state of few keys and are given few, since they would
take minutes to load what the others hold: that is in their favour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from evaluation.incremental.counting import ROWS, counter, increment_of, seeded, some_ids
from evaluation.incremental.epochs import Chain, Increment
from evaluation.incremental.spending import Spent, by_tree, median_of
from headgate.incremental.state.files import FileStore

KEYS: Final = 580_000
SMALL: Final = 20_000
LARGE: Final = 200_000
SAMPLE: Final = 5_000
"""Keys of an increment of the APIs that call Python for each key."""
_KNOWN: Final = 50
"""Keys that these begin with."""
ROUNDS: Final = 7
SAMPLED_ROUNDS: Final = 3
"""Of these: one takes as long as ten of the others."""
_WARMING: Final = 2
"""Rounds that do not count."""
_SEED: Final = 11
SETTINGS: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.metricsEnabled": "false",
}
"""Spark's own, for states of this size."""

Say = Callable[[str], None]


class Rival(Struct, frozen=True):
    """One way to count."""

    name: str
    keys: int
    """Of an increment."""
    rounds: int
    count: Callable[[pa.Table], Spent]


class _Counter(StatefulProcessor):
    """For ``transformWithStateInPandas``."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Take the state."""
        self._count = handle.getValueState("count", "n long")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Count."""
        known = self._count.get()
        n = (known[0] if known else 0) + sum(int(part["n"].sum()) for part in rows)
        self._count.update((n,))
        yield pd.DataFrame({"key": [key[0]], "n": [n]})

    def close(self) -> None:
        """Hold nothing."""


def _count_with_state(
    key: Any, rows: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """For ``applyInPandasWithState``."""
    n = (state.get[0] if state.exists else 0) + sum(int(part["n"].sum()) for part in rows)
    state.update((n,))
    yield pd.DataFrame({"key": [key[0]], "n": [n]})


def _native(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").agg(sf.sum("n").alias("n"))


def _apply(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").applyInPandasWithState(
        _count_with_state, ROWS, "n long", "update", GroupStateTimeout.NoTimeout
    )


def _transform(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").transformWithStateInPandas(_Counter(), ROWS, "Update", "None")


class Query:
    """A streaming query that is given a file at a time.

    Args:
        spark: the session.
        folder: of its files.
        build: from the frame of the files to that of the counts.
        known: what it is given first.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        build: Callable[[DataFrame], DataFrame],
        known: pa.Table,
    ) -> None:
        self._folder = folder / "in"
        self._folder.mkdir(parents=True)
        self._files = 0
        self._put(known)
        source = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1)
        started = build(source.parquet(str(self._folder))).writeStream.outputMode("update")
        checkpoint = str(folder / "checkpoint")
        self.query = started.format("noop").option("checkpointLocation", checkpoint).start()
        self.query.processAllAvailable()

    def _put(self, rows: pa.Table) -> None:
        self._files += 1
        part = self._folder / f".{self._files}"
        pq.write_table(rows, part)
        part.rename(self._folder / f"{self._files}.parquet")

    def count(self, rows: pa.Table) -> Spent:
        """Have it count, and return what that has cost."""

        def work() -> None:
            self._put(rows)
            self.query.processAllAvailable()

        return by_tree(work)[1]


def measure_rivals(
    folder: Path, spark: SparkSession, say: Say, keys: int = KEYS
) -> dict[str, list[Spent]]:
    """Return what each way has spent on each of its increments, without the first rounds.

    Args:
        folder: for all files.
        spark: a session with ``SETTINGS``.
        say: is told of each increment.
        keys: of the states.
    """
    store = FileStore.at(folder / "state")
    buckets = seeded(store, counter(), keys)
    known = increment_of(np.arange(keys))
    few = known.slice(0, _KNOWN)
    queries = {
        "native": Query(spark, folder / "native", _native, known),
        "applyInPandasWithState": Query(spark, folder / "apply", _apply, few),
        "transformWithStateInPandas": Query(spark, folder / "transform", _transform, few),
    }

    def chained(session: SparkSession | None, *, by_group: bool = False) -> Any:
        chain = Chain(counter(by_group=by_group), store, buckets, session)
        return lambda rows: chain.epoch(Increment(rows, folder / "in")).spent

    small, large = min(SMALL, keys), min(LARGE, keys)
    rivals = [
        Rival("driver", small, ROUNDS, chained(None)),
        Rival("driver, by group", small, ROUNDS, chained(None, by_group=True)),
        Rival("Spark job", small, ROUNDS, chained(spark)),
        Rival("native", small, ROUNDS, queries["native"].count),
        Rival("Spark job, large", large, ROUNDS, chained(spark)),
        *(
            Rival(name, min(SAMPLE, keys), SAMPLED_ROUNDS, queries[name].count)
            for name in ("applyInPandasWithState", "transformWithStateInPandas")
        ),
    ]
    try:
        return _by_turns(rivals, keys, say)
    finally:
        for query in queries.values():
            query.query.stop()


def _by_turns(rivals: list[Rival], keys: int, say: Say) -> dict[str, list[Spent]]:
    random = np.random.default_rng(_SEED)
    found: dict[str, list[Spent]] = {rival.name: [] for rival in rivals}
    for number in range(ROUNDS + _WARMING):
        for rival in rivals:
            if number >= rival.rounds + _WARMING:
                continue
            spent = rival.count(increment_of(some_ids(random, keys, rival.keys)))
            say(
                f"{rival.name}, {rival.keys:,} keys, round {number}: "
                f"{spent.wall:.3f} s, processor {spent.processor:.3f} s"
            )
            if number >= _WARMING:
                found[rival.name].append(spent)
    return found


def figures_of(found: Mapping[str, list[Spent]], keys: int = KEYS) -> dict[str, Any]:
    """Return medians and the ratios that goals are about, by the clock and by the processor."""
    if not found:
        return {}
    counts = {
        name: min(
            LARGE if name.endswith("large") else SAMPLE if "InPandas" in name else SMALL, keys
        )
        for name in found
    }
    medians = {name: median_of(spent) for name, spent in found.items()}
    figures: dict[str, Any] = {
        name: {
            "keys": counts[name],
            "wall_seconds": round(each.wall, 3),
            "seconds": round(each.processor, 3),
            "keys_per_second": round(counts[name] / each.wall),
            "keys_per_processor_second": round(counts[name] / max(each.processor, 1e-3)),
        }
        for name, each in medians.items()
    }
    for unit, pace in (
        ("wall", lambda name: counts[name] / medians[name].wall),
        ("processor", lambda name: counts[name] / max(medians[name].processor, 1e-3)),
    ):
        slow = ("transformWithStateInPandas", "applyInPandasWithState")
        figures[f"ratios_{unit}"] = {
            **{
                f"{mine} / {other}": round(pace(mine) / pace(other), 2)
                for mine in ("driver", "Spark job, large", "Spark job")
                for other in slow
            },
            "native / Spark job": round(pace("native") / pace("Spark job"), 3),
            "driver, by group / driver": round(pace("driver, by group") / pace("driver"), 3),
        }
    return figures
