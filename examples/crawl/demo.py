"""``headgate demo crawl``: an index of the web, under bounds and without."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from crawl.web import ROUND_SECONDS, Document, LinkDataError, Round, generated, linked
from crawl.web import crawl as crawled
from headgate.cli import (
    Cells,
    Example,
    Report,
    SettledWave,
    Stand,
    Submission,
    SynchronousComparison,
    Times,
    Wave,
    demonstration,
)

FILE = Path(__file__).with_name("crawl.yaml")
_ROUNDS = 24
_DOCUMENTS = 1500
_SPEED = 6.0  # a round every 5 seconds


@demonstration(LinkDataError)
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
) -> Example:
    """Index crawled documents, news before static pages, and synchronously; compare."""
    web = linked(data, documents) if data else generated(documents, seed)
    return CrawledIndex(web, rounds, seed, speed)


class CrawledIndex:
    """The index of a web that is crawled round by round, beside one that is always fresh.

    Args:
        web: all documents.
        waves: rounds of the crawler.
        seed: decides what the crawler fetches.
        speed: how much faster than the crawler's time the rounds come.
    """

    def __init__(self, web: Sequence[Document], waves: int, seed: int, speed: float) -> None:
        self.waves = waves
        self._stale = StalePostings(web)
        rounds = paced(crawled(web, waves, seed), ROUND_SECONDS / speed)
        tree = hurried(yaml.safe_load(FILE.read_text(encoding="utf-8")), speed)
        self._beside = SynchronousComparison(tree, FILE, rounds, {"index": self._stale})

    def dataflows(self, folder: Path) -> Sequence[Submission]:
        """Return the dataflow without and with its bounds."""
        return self._beside.dataflows(folder)

    def feed(self, stand: Stand) -> Iterator[Wave]:
        """Yield what the crawler has fetched, round by round."""
        return self._beside.feed(stand)

    def measure(self, wave: SettledWave, stand: Stand) -> Iterable[str]:
        """Compare both outputs of each step."""
        return self._beside.measure(wave, stand)

    def report(self, _: Times) -> Report:
        """Return what was left out, and how stale the index was for news and static pages."""
        kinds = {kind: sum(each) / len(each) for kind, each in self._stale.shares.items() if each}
        words = (
            "Of the index, ε is the share of postings (a word and a document that has it) that are "
            f"missing or stale: of news {kinds['news']:.2%}, of static pages {kinds['pages']:.2%} "
            "on average."
        )
        document = self._beside.document() | {"stale postings": kinds}
        return Report(document, [*self._beside.shown(), words])


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


def hurried(tree: dict[str, Any], speed: float) -> dict[str, Any]:
    """Return the dataflow with bounds whose time goes as fast as the crawler's."""
    for action in tree["actions"].values():
        for bound in action.get("when", {}).values():
            if "time" in bound:
                seconds = float(bound["time"].removesuffix(" s"))
                bound["time"] = seconds / speed
    return tree


def paced(rounds: Iterator[Round], seconds: float) -> Iterator[Wave]:
    """Yield the rounds, one every so many seconds, or as fast as they are taken."""
    begun = time.monotonic()
    for number, one in enumerate(rounds):
        time.sleep(max(0.0, begun + number * seconds - time.monotonic()))
        yield Wave(one.label, {"crawl-news": one.news, "crawl-pages": one.pages})
