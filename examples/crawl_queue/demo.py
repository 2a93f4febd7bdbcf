"""``headgate demo crawl-queue``: a crawler that goes by the queue which stages make."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from headgate.cli.demo.comparison import Services
from headgate.cli.demo.dataflows import AgentDataflows, CommittedRun
from headgate.cli.demo.hbase import FreshTables, create_tables_of, put_rows
from headgate.cli.demo.narration import HomeOption, JsonOption, Narrator, example_file, outcome
from headgate.cli.demo.services import DemoServices
from headgate.engine import ActionRole
from headgate.events import Container
from headgate.flows import parse_dataflow

if TYPE_CHECKING:
    from crawl_queue.web import Crawler, Expected

_PAGES = 3000
_SITES = 60
_FIRST = 300  # a tenth of all: with fewer, hardly any page reaches the threshold
_AT_ONCE = 150
_AGAIN = 15
_ROUNDS = 12
_DIFFERENT = 1  # exit status


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
    home: HomeOption = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave tables and logs behind.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Crawl a generated web by the queue that stages make of it; compare with all pages' links.

    The exit status is 1 where queue or sites are not what plain Python counts from scratch.
    """
    console = Console(stderr=as_json)
    file = example_file("crawl_queue")
    from crawl_queue.web import Crawler, Web

    began = time.monotonic()
    crawler = Crawler(Web(pages, _SITES, seed), at_once, again)
    text = file.read_text(encoding="utf-8")
    with outcome(console), Narrator(console, rounds) as narrator:
        with DemoServices(home, keep=keep, on_progress=narrator.progress) as services:
            narrator.say("tables: creating")
            create_tables_of(*services.thrift1, [parse_dataflow(text, file.name).spec])
            loop = CrawlLoop(text, file, services, narrator, crawler)
            try:
                found = loop.crawl(first, rounds, seed)
            finally:
                loop.close()
        if keep:
            narrator.say(f"kept: {services.folder}")
    if as_json:
        typer.echo(json.dumps(found.summary(), indent=1))
    else:
        _print(console, found)
        console.print(
            f"{time.monotonic() - began:.0f} s in all; everything that was started has ended."
        )
    if found.differing:
        raise typer.Exit(_DIFFERENT)


class CrawlRound(Struct, frozen=True):
    """What came of the pages of one round."""

    fetched: int
    """Pages that were put into the table."""
    again: int
    """Of these, such as were there before."""
    crawled: int
    """Pages that are there."""
    runs: Sequence[CommittedRun]
    """Of the stages."""
    queue: int
    """URLs to be crawled next."""
    differing: Sequence[str]
    """Names that queue and sites have otherwise than what is counted from scratch."""
    seconds: float
    """From the first put until all stages had run."""


class CrawlFound(Struct, frozen=True):
    """All rounds."""

    stages: Sequence[str]
    rounds: Sequence[CrawlRound]
    sites: int
    """That are linked to in the end."""
    counting: float
    """Seconds in which plain Python counted from scratch, after the last round."""

    @property
    def differing(self) -> list[str]:
        """Return what differed in any round, each name once."""
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
    """The dataflow on running services, and the crawler that reads its queue.

    Args:
        text: the dataflow file's.
        file: where it was read from.
        services: that run it; its tables are there.
        narrator: prints what goes on.
        crawler: fetches pages.
    """

    def __init__(
        self, text: str, file: Path, services: Services, narrator: Narrator, crawler: Crawler
    ) -> None:
        self._text = text
        self._file = file
        self._narrator = narrator
        self._crawler = crawler
        self._hbase = FreshTables(*services.thrift1)
        self._dataflows = AgentDataflows(services.api)
        self._newest = -1
        spec = parse_dataflow(text, file.name).spec
        self._name = spec.name
        self._stages = [a.name for a in spec.actions if a.role is not ActionRole.INPUT]
        self._places = {str(watched.id): _place(watched.container) for watched in spec.containers}

    def close(self) -> None:
        """Close the connection to the agent."""
        self._dataflows.close()

    def crawl(self, first: int, rounds: int, seed: int) -> CrawlFound:
        """Submit the dataflow and crawl until rounds or queue are at their end.

        Args:
            first: pages of the first round.
            rounds: how many at most.
            seed: by which the first pages are drawn.

        Raises:
            DemoError: the dataflow is stuck.
        """
        say = self._narrator.say
        say(f"dataflow: submitting {self._name}")
        self._dataflows.submit(self._text, self._file.parent, self._file.name)
        say("Spark: starting a session")
        self._dataflows.wait_warm([self._name])
        found: list[CrawlRound] = []
        fetched = self._crawler.begin(first, seed)
        known: set[str] = set()
        while True:
            began = time.monotonic()
            self._put(fetched)
            self._dataflows.end_wave([self._name])
            seconds = time.monotonic() - began
            queue, sites = self._shown("queue"), self._shown("sites")
            counted = time.monotonic()
            right = self._expected()
            counting = time.monotonic() - counted
            differing = (*_differing(right.queue, queue), *_differing(right.sites, sites))
            again = len(known.intersection(fetched))
            known.update(fetched)
            runs = self._runs()
            found.append(
                CrawlRound(len(fetched), again, len(known), runs, len(queue), differing, seconds)
            )
            self._report(found)
            fetched = self._crawler.follow(queue) if len(found) < rounds else {}
            if not fetched:
                return CrawlFound(self._stages, found, len(sites), counting)

    def _put(self, fetched: Mapping[str, Sequence[str]]) -> None:
        table, column = self._places["pages"]
        puts = (
            (url.encode(), {column: "\n".join(links).encode()}) for url, links in fetched.items()
        )
        put_rows(self._hbase, table, puts)

    def _shown(self, container: str) -> dict[str, float]:
        """Return the numbers of a container by row, as any HBase client reads them."""
        table, column = self._places[container]
        rows = self._hbase.table(table).scan(columns=[column])
        return {row.decode(): float(cells[column]) for row, cells in rows}

    def _expected(self) -> Expected:
        from crawl_queue.stages import THRESHOLD
        from crawl_queue.web import from_scratch

        return from_scratch(self._crawler.pages, THRESHOLD)

    def _runs(self) -> Sequence[CommittedRun]:
        runs = self._dataflows.committed(self._name, self._newest)
        self._newest = max((self._newest, *(run.number for run in runs)))
        return runs

    def _report(self, found: Sequence[CrawlRound]) -> None:
        self._narrator.done(len(found))
        for line in round_words(len(found), found[-1]):
            self._narrator.say(line)


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


def _print(console: Console, found: CrawlFound) -> None:
    """Print what each stage has cost, and whether the tables are right."""
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
    console.print(table)
    console.print(verdict(found), soft_wrap=True)


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
