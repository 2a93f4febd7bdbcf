"""``headgate demo crawl-queue``: a crawler that goes by the queue which stages make."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct
from rich.table import Table

from crawl_queue.stages import THRESHOLD
from crawl_queue.web import Crawler, Web, from_scratch
from headgate.cli import (
    CommittedRun,
    Example,
    Report,
    SettledWave,
    Stand,
    Submission,
    Times,
    Wave,
    demonstration,
)
from headgate.engine import ActionRole
from headgate.events import Container
from headgate.flows import parse_dataflow

FILE = Path(__file__).with_name("crawl_queue.yaml")
_PAGES = 3000
_SITES = 60
_FIRST = 300  # a tenth of all: with fewer, hardly any page reaches the threshold
_AT_ONCE = 150
_AGAIN = 15
_ROUNDS = 12
_DIFFERENT = 1  # exit status


@demonstration()
def crawl_queue(
    *,
    rounds: Annotated[
        int, typer.Option(min=1, help="Rounds of the crawler; fewer where the queue is empty.")
    ] = _ROUNDS,
    pages: Annotated[int, typer.Option(min=10, help="Pages of the web.")] = _PAGES,
    first: Annotated[
        int, typer.Option(min=1, help="Pages of the first round, which no queue names.")
    ] = _FIRST,
    at_once: Annotated[
        int, typer.Option(min=1, help="Pages of a round that the queue names.")
    ] = _AT_ONCE,
    again: Annotated[
        int, typer.Option(min=0, help="Pages of a round that were fetched before.")
    ] = _AGAIN,
    seed: Annotated[int, typer.Option(help="Of the web, and of the first round.")] = 1,
) -> Example:
    """Crawl a generated web by the queue that stages make of it; compare with all pages' links.

    The exit status is 1 where queue or sites are not what plain Python counts from scratch.
    """
    crawler = Crawler(Web(pages, _SITES, seed), at_once, again)
    text = FILE.read_text(encoding="utf-8")
    return CrawlLoop(text, crawler, crawler.begin(first, seed), rounds)


class CrawlRound(Struct, frozen=True):
    """The result of one round."""

    fetched: int
    """Pages that were put into the table."""
    again: int
    """Pages among these that were there before."""
    crawled: int
    """Pages in the table."""
    runs: Sequence[CommittedRun]
    """Runs of the stages."""
    queue: int
    """URLs to be crawled next."""
    differing: Sequence[str]
    """Names whose numbers in queue or sites differ from those counted from scratch."""
    seconds: float
    """Time from the first put until all stages had run."""


class CrawlFound(Struct, frozen=True):
    """All rounds."""

    stages: Sequence[str]
    rounds: Sequence[CrawlRound]
    sites: int
    """Sites that are linked to in the end."""
    counting: float
    """Seconds that plain Python took to count from scratch, after the last round."""

    @property
    def differing(self) -> list[str]:
        """Return the names that differed in any round, each once."""
        return list(dict.fromkeys(name for one in self.rounds for name in one.differing))

    def runs(self, stage: str) -> list[CommittedRun]:
        """Return the runs of a stage."""
        return [run for one in self.rounds for run in one.runs if run.action == stage]

    def summary(self) -> dict[str, Any]:
        """Return all figures for programs."""
        return {
            "rounds": [
                {
                    "fetched": one.fetched,
                    "again": one.again,
                    "crawled": one.crawled,
                    "queue": one.queue,
                    "seconds": round(one.seconds, 2),
                    "stages": {
                        run.action: {"seconds": round(run.seconds, 3), "made": run.made}
                        for run in one.runs
                    },
                }
                for one in self.rounds
            ],
            "sites": self.sites,
            "counting_seconds": round(self.counting, 3),
            "differing": self.differing,
        }


class CrawlLoop:
    """A crawler that fetches what the queue names, and stages that make the queue.

    Args:
        text: the dataflow file's.
        crawler: fetches pages.
        first: what it has fetched for the first round, which no queue names: links by URL.
        waves: rounds at most; fewer where the queue is empty.

    Attributes:
        rounds: that were measured so far.
    """

    def __init__(
        self, text: str, crawler: Crawler, first: Mapping[str, Sequence[str]], waves: int
    ) -> None:
        self.waves = waves
        self.rounds: list[CrawlRound] = []
        self._text = text
        self._crawler = crawler
        self._fetched = first
        self._known: set[str] = set()
        self._queue: dict[str, float] = {}
        self._sites = 0
        self._counting = 0.0
        spec = parse_dataflow(text, FILE.name).spec
        self._name = spec.name
        self._stages = [a.name for a in spec.actions if a.role is not ActionRole.INPUT]
        self._places = {str(watched.id): _place(watched.container) for watched in spec.containers}

    def dataflows(self, _: Path) -> Sequence[Submission]:
        """Return the dataflow of the stages."""
        return [Submission(self._text, FILE)]

    def feed(self, _: Stand) -> Iterator[Wave]:
        """Yield the pages of the first round, then those that the queue names."""
        table, column = self._places["pages"]
        while self._fetched:
            puts = (
                (url.encode(), {column: "\n".join(links).encode()})
                for url, links in self._fetched.items()
            )
            yield Wave(f"round {len(self.rounds) + 1}", {table: puts})
            more = len(self.rounds) < self.waves
            self._fetched = self._crawler.follow(self._queue) if more else {}

    def measure(self, wave: SettledWave, stand: Stand) -> Iterable[str]:
        """Compare queue and sites with what all pages say."""
        self._queue, sites = (self._shown(stand, container) for container in ("queue", "sites"))
        began = time.monotonic()
        right = from_scratch(self._crawler.pages, THRESHOLD)
        self._counting = time.monotonic() - began
        self._sites = len(sites)
        again = len(self._known.intersection(self._fetched))
        self._known.update(self._fetched)
        found = CrawlRound(
            fetched=len(self._fetched),
            again=again,
            crawled=len(self._known),
            runs=wave.runs[self._name],
            queue=len(self._queue),
            differing=(*_differing(right.queue, self._queue), *_differing(right.sites, sites)),
            seconds=wave.seconds,
        )
        self.rounds.append(found)
        return round_words(wave.number, found)

    def found(self) -> CrawlFound:
        """Return all rounds so far."""
        return CrawlFound(self._stages, self.rounds, self._sites, self._counting)

    def report(self, _: Times) -> Report:
        """Return what each stage has cost, and whether the tables are right."""
        found = self.found()
        status = _DIFFERENT if found.differing else 0
        return Report(found.summary(), [_costs(found), verdict(found)], status=status)

    def _shown(self, stand: Stand, container: str) -> dict[str, float]:
        """Return the numbers of a container by row, as any HBase client reads them."""
        table, column = self._places[container]
        rows = stand.tables.table(table).scan(columns=[column])
        return {row.decode(): float(cells[column]) for row, cells in rows}


def _place(container: Container) -> tuple[str, bytes]:
    """Return the table and the column of a container, which is one column."""
    [item] = container.items
    assert item.column is not None  # noqa: S101 - the example's file names them
    return item.table, item.column


def _differing(right: Mapping[str, float], shown: Mapping[str, float]) -> list[str]:
    """Return the names whose numbers are others, or in one of both only."""
    return sorted(name for name in right.keys() | shown if right.get(name) != shown.get(name))


def round_words(number: int, found: CrawlRound) -> Iterator[str]:
    """Yield what is printed of a round: its pages and its queue, and below it its stages."""
    again = f" ({found.again} of them again)" if found.again else ""
    right = f"DIFFERS in {len(found.differing)}" if found.differing else "as from scratch"
    yield (
        f"round {number}: {found.fetched} pages fetched{again}, {found.crawled:,} in all; "
        f"{found.queue} in the queue, {right}; {found.seconds:.1f} s"
    )
    yield "    " + "; ".join(_run_words(run) for run in found.runs)


def _run_words(run: CommittedRun) -> str:
    made = ", ".join(f"{rows:,} {flow}" for flow, rows in run.made.items())
    return (
        f"{run.action} {made} in {run.seconds:.2f} s"
        if made
        else (f"{run.action} in {run.seconds:.2f} s")
    )


def _costs(found: CrawlFound) -> Table:
    """Return what each stage has cost."""
    table = Table("stage")
    for title in ("runs", "rows of its\nincrements", "seconds of\na run", "of the\nlast"):
        table.add_column(title, justify="right")
    for stage in found.stages:
        runs = found.runs(stage)
        seconds = [run.seconds for run in runs]
        rows = sum(sum(run.made.values()) for run in runs)
        mean = sum(seconds) / len(seconds) if seconds else 0.0
        last = f"{seconds[-1]:.2f}" if seconds else "-"
        table.add_row(stage, str(len(runs)), f"{rows:,}", f"{mean:.2f}", last)
    return table


_NAMED = 5
"""Names that a message lists."""


def verdict(found: CrawlFound) -> str:
    """Return whether the tables were what plain Python counts from scratch, in words."""
    last = found.rounds[-1]
    if found.differing:
        names = ", ".join(found.differing[:_NAMED])
        rest = len(found.differing) - _NAMED
        more = f" and {rest} more" if rest > 0 else ""
        return (
            f"queue or sites were NOT what plain Python counts from scratch: {names}{more} differed"
        )
    return (
        f"After each of {len(found.rounds)} rounds queue and sites were what plain Python counts "
        f"from scratch; in the end {last.queue} URLs and {found.sites} sites from "
        f"{last.crawled:,} pages, counted in {found.counting:.2f} s."
    )
