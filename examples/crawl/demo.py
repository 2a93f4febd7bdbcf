"""``headgate demo crawl``: an index of the web, under bounds and without."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from headgate.cli.demo.comparison import (
    Cells,
    SynchronousComparison,
    WaveInput,
    print_steps,
    read_example,
    summary,
)
from headgate.cli.demo.narration import HomeOption, JsonOption, Narrator, example_file, outcome
from headgate.cli.demo.services import DemoServices

if TYPE_CHECKING:
    from crawl.web import Document, Round

_ROUNDS = 24
_DOCUMENTS = 1500
_SPEED = 6.0  # a round every 5 seconds


def crawl(
    *,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of the crawler, 30 s each.")] = _ROUNDS,
    documents: Annotated[int, typer.Option(min=10, help="Size of the web.")] = _DOCUMENTS,
    seed: Annotated[int, typer.Option(help="Of the web, and of what the crawler fetches.")] = 1,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with Wikispeedia's links.tsv.gz and categories.tsv.gz, instead of the "
            "generator."
        ),
    ] = None,
    speed: Annotated[
        float,
        typer.Option(
            min=1.0, max=1e6, help="How much faster time goes, in bounds too: 1 for real time."
        ),
    ] = _SPEED,
    home: HomeOption = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave tables and logs behind.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Index crawled documents, news before static pages, and synchronously; compare."""
    console = Console(stderr=as_json)
    file = example_file("crawl")
    from crawl.web import ROUND_SECONDS, LinkDataError, generated, linked
    from crawl.web import crawl as crawled

    began = time.monotonic()
    with outcome(console, LinkDataError), Narrator(console, rounds) as narrator:
        web = linked(data, documents) if data else generated(documents, seed)
        stale = StalePostings(web)
        with DemoServices(home, keep=keep, on_progress=narrator.progress) as services:
            tree = read_example(file, lambda tree: _hurry(tree, speed))
            comparison = SynchronousComparison(tree, file, services, narrator, {"index": stale})
            comparison.send(_paced(crawled(web, rounds, seed), ROUND_SECONDS / speed))
        if keep:
            narrator.say(f"kept: {services.folder}")
    kinds = {kind: sum(found) / len(found) for kind, found in stale.shares.items() if found}
    if as_json:
        typer.echo(json.dumps(summary(comparison) | {"stale postings": kinds}, indent=1))
        return
    print_steps(console, comparison)
    console.print(
        "Of the index, ε is the share of postings (a word and a document that has it) that are "
        f"missing or stale: of news {kinds['news']:.2%}, of static pages {kinds['pages']:.2%} on "
        "average."
    )
    console.print(
        f"{time.monotonic() - began:.0f} s in all; everything that was started has ended."
    )


class StalePostings:
    """Measures the share of an index's postings missing or stale; called after each wave.

    Args:
        web: says which documents are news.

    Attributes:
        shares: of each call, for news and for static pages alone.
    """

    def __init__(self, web: Sequence[Document]) -> None:
        self._news = {document.url for document in web if document.news}
        self.shares: dict[str, list[float]] = {"news": [], "pages": []}

    def __call__(self, synchronous: Cells, shown: Cells) -> float:
        """Return the share of postings that are in one of two indices only."""
        right, found = _postings(synchronous), _postings(shown)
        either, apart = right | found, right ^ found
        for kind, is_news in (("news", True), ("pages", False)):
            of_kind = [posting for posting in either if (posting[1] in self._news) is is_news]
            wrong = sum(posting in apart for posting in of_kind)
            self.shares[kind].append(wrong / len(of_kind) if of_kind else 0.0)
        return len(apart) / len(either) if either else 0.0


def _postings(index: Cells) -> set[tuple[bytes, str]]:
    return {(word, url) for (word, _), urls in index.items() for url in json.loads(urls)}


def _hurry(tree: dict[str, Any], speed: float) -> None:
    """Let the bounds' time go as fast as the crawler's."""
    for action in tree["actions"].values():
        for bound in action.get("when", {}).values():
            if "time" in bound:
                seconds = float(bound["time"].removesuffix(" s"))
                bound["time"] = seconds / speed


def _paced(rounds: Iterator[Round], seconds: float) -> Iterator[WaveInput]:
    """Yield the rounds, one every so many seconds, or as fast as they are taken."""
    begun = time.monotonic()
    for number, one in enumerate(rounds):
        time.sleep(max(0.0, begun + number * seconds - time.monotonic()))
        yield WaveInput(one.label, {"crawl-news": one.news, "crawl-pages": one.pages})
