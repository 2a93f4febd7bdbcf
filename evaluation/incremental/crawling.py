"""The paper's crawl queue on a generated web: what an increment costs while the state grows.

Jobs are those of the paper's figure 7: CountLinks is stages `extract` and `count` of the example,
DecideCrawl its stage `decide`, all called group by group. As in the paper (section 5.1) the loop is
not closed: increments are pages drawn before. In-degrees and sites are skewed.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from crawl_queue.stages import count, decide, extract
from msgspec import Struct
from pyspark.sql import SparkSession

from evaluation.incremental.epochs import Chain, Epoch, Flowing, Increment, MadeIncrement
from evaluation.incremental.flat import sizes_of
from evaluation.incremental.spending import Spent
from evaluation.incremental.web_states import LINKS, PageIds, Web, nothing, seeded_web
from headgate.incremental.epochs.modes import Mode
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.manifest import BucketState

SIZES: Final = (500_000, 5_000_000, 50_000_000)
"""URLs of the states that increments begin with."""
PAGES: Final = 2_000
"""Of an increment, with ten links each."""
INCREMENTS: Final = 7
"""As in the paper's figure 8."""
DRIVER_ROUNDS: Final = 8
SPARK_ROUNDS: Final = 8
"""Chains of each size, one after another by turns."""
_WARMING: Final = 2
"""Increments of chains before those that count."""
GROWING_PAGES: Final = 4_000
"""Of an increment of the modes that grow."""
_GROWING_INCREMENTS: Final = 7
_GROWING_ROUNDS: Final = 3
"""Of each mode, by turns; increments of each before them warm up."""
_GROWING_URLS: Final = 1_000_000
GROWN_LINKS: Final = (500_000, 2_000_000)
"""Links of all pages that come in three increments, in the modes that grow."""
_SHARES: Final = 3
SHUFFLED_SIZES: Final = (500_000, 2_000_000)
"""URLs of the states that black-box increments begin with."""
_SHUFFLED_INCREMENTS: Final = 2
_PART: Final = 4
"""Into which the paper's figure 9 divides an increment."""
_PARTED: Final = 1_000
"""Pages of such a part."""
_DIVIDED_INCREMENTS: Final = 2
_SEED: Final = 7
_STAGES: Final = (extract.spec, count.spec, decide.spec)

Say = Callable[[str], None]


class QueueEpoch(Struct, frozen=True):
    """What one increment of pages has cost in both jobs."""

    count_links: float
    """Seconds of the processor, of stages `extract` and `count`."""
    decide_crawl: float
    wall: float
    shuffled: int
    """Bytes."""
    came: int
    """Bytes of the increments of the stages that shuffle: links, counts, and pages visited."""

    @property
    def total(self) -> float:
        """Seconds of the processor."""
        return self.count_links + self.decide_crawl

    @property
    def spent(self) -> Spent:
        """Of both jobs."""
        return Spent(self.total, self.wall)


Chains = list[list[QueueEpoch]]


class Crawled(Struct):
    """All that was measured of it; what was left out is empty."""

    driver: dict[int, Chains] = {}
    """By URLs of the state: chains of epochs."""
    spark: dict[int, Chains] = {}
    grown: dict[str, Chains] = {}
    """By mode, chains of increments from nothing on."""
    shared: dict[int, dict[str, list[QueueEpoch]]] = {}
    """By links of all pages and by mode, three increments from nothing on."""
    black_box: dict[int, list[QueueEpoch]] = {}
    """By URLs of the state, increments in that mode."""
    divided: dict[str, Chains] = {}
    """By mode: increments at once, and each in four."""


class QueueChain:
    """The three stages one after another, increment by increment, from states that stay.

    Args:
        store: where all files are.
        states: of `count` and `decide`.
        spark: what runs the jobs; none where the driver does it all.
        mode: of the jobs.
    """

    def __init__(
        self,
        store: FileStore,
        states: Sequence[tuple[BucketState, ...]],
        spark: SparkSession | None,
        mode: Mode = Mode.DIRECT,
    ) -> None:
        self._extract, self._count, self._decide = (
            Chain(stage, store, buckets, spark, mode)
            for stage, buckets in zip(_STAGES, (nothing(), *states), strict=True)
        )

    def epoch(self, pages: Flowing) -> QueueEpoch:
        """Take pages through all stages."""
        found = [
            self._extract.epoch({"changes": pages}),
            self._count.epoch({"links": self._extract.made("links")}),
        ]
        came: Mapping[str, MadeIncrement] = {
            "counts": self._count.made("counts"),
            "visited": self._extract.made("visited"),
        }
        last = self._decide.epoch(came)
        every: list[Epoch] = [*found, last]
        return QueueEpoch(
            sum(each.spent.processor for each in found),
            last.spent.processor,
            sum(each.spent.wall for each in every),
            sum(each.shuffled or 0 for each in every),
            self._extract.made("links").bytes + sum(each.bytes for each in came.values()),
        )

    @property
    def counted(self) -> tuple[BucketState, ...]:
        """The state of stage `count`."""
        return self._count.buckets

    def forget(self) -> None:
        """Remove the files of its epochs."""
        for chain in (self._extract, self._count, self._decide):
            chain.forget()


class SizedWeb:
    """A web of which all was crawled, and increments that go with it.

    Args:
        folder: for the files of both.
        urls: how many there are.
    """

    def __init__(self, folder: Path, urls: int) -> None:
        self.web = Web(urls, _SEED)
        self._folder = folder / str(urls)
        self._store = FileStore.at(self._folder / "state")
        self._states = seeded_web(self._store, self.web, count.spec, decide.spec)

    def pages(self, ids: PageIds) -> Increment:
        """Return an increment of pages."""
        return Increment(self.web.pages(ids), self._folder / "in")

    def increments(self, number: int) -> list[Increment]:
        """Return so many increments of pages that are drawn."""
        return [self.pages(self.web.drawn(PAGES)) for _ in range(number)]

    def epochs(
        self, came: Sequence[Increment], spark: SparkSession | None, mode: Mode = Mode.DIRECT
    ) -> list[QueueEpoch]:
        """Take increments through all stages, from the state in which all was crawled."""
        chain = QueueChain(self._store, self._states, spark, mode)
        epochs = [chain.epoch(pages) for pages in came]
        chain.forget()
        return epochs


def measure_crawl(
    folder: Path, sizes: Sequence[int], spark: SparkSession | None, say: Say
) -> Crawled:
    """Return what increments of the crawl queue have cost.

    Args:
        folder: for all files; removed in the end.
        sizes: URLs of the states.
        spark: a session; without it the driver's path alone is measured.
        say: is told of each chain.
    """
    found = Crawled()
    try:
        _measure_states(found, folder, sizes, spark, say)
        if spark is not None:
            _measure_growing(found, folder, spark, say)
            largest = max(sizes, default=0)
            for links in (links for links in GROWN_LINKS if links <= largest):
                _measure_shares(found, folder, links, spark, say)
            shuffled = [urls for urls in SHUFFLED_SIZES if urls <= largest]
            _measure_black_box(found, folder, shuffled, spark, say)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _measure_states(
    found: Crawled, folder: Path, sizes: Sequence[int], spark: SparkSession | None, say: Say
) -> None:
    """Measure chains of direct increments on states of several sizes, by turns."""
    states = {}
    for urls in sizes:
        sized = SizedWeb(folder, urls)
        states[urls] = sized, sized.increments(INCREMENTS)
        say(f"crawl queue: states of {urls:,} URLs are there")
    for kind, rounds, chains in (
        ("driver", DRIVER_ROUNDS, found.driver),
        ("Spark", SPARK_ROUNDS, found.spark),
    ):
        session = spark if kind == "Spark" else None
        if kind == "Spark" and spark is None:
            continue
        for number in range(rounds + 1):
            for urls, (sized, came) in states.items():
                epochs = sized.epochs(came if number else came[:_WARMING], session)
                if number:
                    chains.setdefault(urls, []).append(epochs)
                say(f"crawl queue, {kind}, {urls:,} URLs, round {number}: {_shown(epochs)}")


def _measure_growing(found: Crawled, folder: Path, spark: SparkSession, say: Say) -> None:
    """Measure all modes from nothing on; with landmarks an increment is all pages so far."""
    web = Web(_GROWING_URLS, _SEED)
    shares = [web.drawn(GROWING_PAGES) for _ in range(_GROWING_INCREMENTS)]
    for number in range(_GROWING_ROUNDS + 1):
        for mode in Mode:
            came = shares if number else shares[:_WARMING]
            epochs = _from_nothing(folder / "growing", web, came, spark, mode)
            if number:
                found.grown.setdefault(mode.value, []).append(epochs)
            shown = _shown(epochs)
            say(f"crawl queue, {mode}, {GROWING_PAGES:,} pages, round {number}: {shown}")


def _measure_shares(
    found: Crawled, folder: Path, links: int, spark: SparkSession, say: Say
) -> None:
    """Measure the modes that grow on so many links in three increments, by as many URLs."""
    web = Web(links, _SEED)
    shares = np.array_split(web.drawn(links // LINKS), _SHARES)
    for mode in (Mode.BLACK_BOX, Mode.LANDMARK):
        epochs = _from_nothing(folder / "shares", web, shares, spark, mode)
        found.shared.setdefault(links, {})[mode.value] = epochs
        say(f"crawl queue, {mode}, {links:,} links in {_SHARES} increments: {_shown(epochs)}")


def _from_nothing(
    place: Path, web: Web, shares: Sequence[PageIds], spark: SparkSession, mode: Mode
) -> list[QueueEpoch]:
    so_far = [np.concatenate(shares[: at + 1]) for at in range(len(shares))]
    came = so_far if mode is Mode.LANDMARK else shares
    chain = QueueChain(FileStore.at(place), (nothing(), nothing()), spark, mode)
    epochs = [chain.epoch(Increment(web.pages(ids), place / "in")) for ids in came]
    shutil.rmtree(place)
    return epochs


def _measure_black_box(
    found: Crawled, folder: Path, sizes: Sequence[int], spark: SparkSession, say: Say
) -> None:
    """Measure states that are shuffled, by size; on the smallest increments at once and in four."""
    for urls in sizes:
        sized = SizedWeb(folder / "black-box", urls)
        epochs = sized.epochs(sized.increments(_SHUFFLED_INCREMENTS), spark, Mode.BLACK_BOX)
        found.black_box[urls] = epochs
        say(f"crawl queue, black-box, {urls:,} URLs: {_shown(epochs)}")
        if urls != sizes[0]:
            continue
        shares = [sized.web.drawn(_PART * _PARTED) for _ in range(_DIVIDED_INCREMENTS)]
        for mode in (Mode.DIRECT, Mode.BLACK_BOX):
            for parts in (1, _PART):
                ids = [part for share in shares for part in np.array_split(share, parts)]
                epochs = sized.epochs([sized.pages(part) for part in ids], spark, mode)
                found.divided.setdefault(mode.value, []).append(epochs)
                say(f"crawl queue, {mode}, {len(ids[0]):,} pages an increment: {_shown(epochs)}")


def _shown(epochs: Sequence[QueueEpoch]) -> str:
    return " ".join(f"{each.total:.2f}" for each in epochs)


def figures_of(found: Crawled) -> dict[str, Any]:
    """Return what is printed of it; what was not measured is left out."""
    figures: dict[str, Any] = {}
    for kind, chains in (("driver", found.driver), ("spark", found.spark)):
        if chains:
            figures[kind] = sizes_of(chains) | {
                "jobs": {str(k): _jobs(v) for k, v in chains.items()}
            }
    if found.spark:
        figures["shuffled_per_delta_byte"] = {
            str(urls): [
                round(statistics.median(e.shuffled / e.came for e in each), 3)
                for each in zip(*chains, strict=True)
            ]
            for urls, chains in found.spark.items()
        }
    if found.grown:
        figures["growing"] = {mode: _jobs(chains) for mode, chains in found.grown.items()}
    if found.shared:
        figures["shares"] = {
            str(links): {mode: _jobs([epochs]) for mode, epochs in modes.items()}
            for links, modes in found.shared.items()
        }
    if found.black_box:
        medians = {
            urls: statistics.median(each.total for each in epochs)
            for urls, epochs in found.black_box.items()
        }
        figures["black_box"] = {str(urls): round(each, 2) for urls, each in medians.items()}
    if found.divided:
        figures["divided"] = {
            mode: [[round(each.total, 2) for each in epochs] for epochs in both]
            for mode, both in found.divided.items()
        }
    return figures


def _jobs(chains: Chains) -> dict[str, list[float]]:
    """Return medians of chains by increment, of both jobs and of each."""
    return {
        name: [
            round(statistics.median(getattr(e, field) for e in each), 3)
            for each in zip(*chains, strict=True)
        ]
        for name, field in (
            ("total", "total"),
            ("CountLinks", "count_links"),
            ("DecideCrawl", "decide_crawl"),
        )
    }
