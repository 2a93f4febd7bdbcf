"""After every increment of pages the queue is what all pages say that there are."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from crawl_queue.stages import (
    THRESHOLD,
    count,
    count_links,
    decide,
    decide_crawl,
    extract,
    links_of,
    pages,
    site_of,
)
from filed_stage import FiledStage
from reference import bag

from headgate.flows import load_dataflow
from headgate.incremental import Stage

CELLS = pa.schema(
    {"row": pa.string(), "column": pa.string(), "value": pa.binary(), "deleted": pa.bool_()}
)
REAL = Path(__file__).parents[4] / "shared/data/links"
EXAMPLE = Path(__file__).parents[3] / "examples" / "crawl_queue"
INCREMENTS = 10

Rows = Mapping[str, list[dict[str, Any]]]


class Crawled:
    """Pages, and the stages that follow them."""

    def __init__(self, folder: Path) -> None:
        self.pages: dict[str, list[str]] = {}
        self.queue: dict[str, int] = {}
        self.sites: dict[str, int] = {}
        self._pages, self._extract, self._count, self._decide = (
            FiledStage(stage, folder / stage.spec.name, bits=1)
            for stage in (pages, extract, count, decide)
        )
        self._count_links, self._decide_crawl = (
            FiledStage(stage, folder / "two jobs" / stage.spec.name, bits=1)
            for stage in (count_links, decide_crawl)
        )

    def crawl(self, found: Mapping[str, list[str] | None]) -> None:
        """Take pages with their links, None of one that is gone, through all stages."""
        for url, links in found.items():
            if links is None:
                self.pages.pop(url, None)
            else:
                self.pages[url] = links
        rows = [
            (url, "links", None if links is None else "\n".join(links).encode(), links is None)
            for url, links in found.items()
        ]
        came = [dict(zip(CELLS.names, row, strict=True)) for row in rows]
        changes = self._pages.epoch({"pages": pa.Table.from_pylist(came, CELLS)})
        made = self._extract.epoch({"changes": _flow(pages, "changes", changes)})
        counted = self._count.epoch({"links": _flow(extract, "links", made)})
        decided = self._decide.epoch(
            {
                "counts": _flow(count, "counts", counted),
                "visited": _flow(extract, "visited", made),
            }
        )
        self._check_two_jobs(_flow(pages, "changes", changes), counted, decided)
        for row in counted["sites"]:
            _put(self.sites, row["row"], row["links"])
        for row in decided["queue"]:
            _put(self.queue, row["row"], row["score"])

    def _check_two_jobs(self, changes: pa.Table, counted: Rows, decided: Rows) -> None:
        """Compare what the stages have made with what they make fused, as in figure 7."""
        links = self._count_links.epoch({"links": changes})
        counts = _flow(count, "counts", links)
        queue = self._decide_crawl.epoch({"counts": counts, "visited": changes})
        for made, wanted in ((links, counted), (queue, decided)):
            assert {flow: bag(rows) for flow, rows in made.items()} == {
                flow: bag(rows) for flow, rows in wanted.items()
            }

    def check(self) -> None:
        """Compare the queue and the sites with those computed from all pages."""
        linked = Counter(
            url for links in self.pages.values() for url in links_of("\n".join(links).encode())
        )
        assert self.queue == {
            url: links
            for url, links in linked.items()
            if links >= THRESHOLD and url not in self.pages
        }
        sites: Counter[str] = Counter()
        for url, links in linked.items():
            sites[site_of(url)] += links
        assert self.sites == dict(sites)


def _flow(stage: Stage, flow: str, made: Rows) -> pa.Table:
    return pa.Table.from_pylist(made[flow], stage.spec.outputs[flow])


def _put(table: dict[str, int], row: object, value: object) -> None:
    """Put as ``Run.write`` does: null deletes."""
    if value is None:
        table.pop(str(row), None)
    else:
        assert isinstance(value, int)
        table[str(row)] = value


@pytest.mark.parametrize("seed", range(3))
def test_the_queue_is_that_of_all_pages_though_they_change_and_go(
    seed: int, tmp_path: Path
) -> None:
    drawn, crawled = random.Random(seed), Crawled(tmp_path)
    urls = [f"{site}/{page}" for site in "abc" for page in range(12)]
    for _ in range(8):
        found: dict[str, list[str] | None] = {
            url: drawn.choices(urls, k=drawn.randrange(12)) for url in drawn.sample(urls, 7)
        }
        for url in drawn.sample(urls, 2):
            found[url] = None
        crawled.crawl(found)
        crawled.check()
    assert crawled.queue


def test_what_is_crawled_as_the_queue_says_is_all_that_can_be_reached(tmp_path: Path) -> None:
    """The loop of a crawler: it ends once nothing that five pages link to was not crawled."""
    drawn, crawled = random.Random(1), Crawled(tmp_path)
    urls = [f"s{number % 5}/{number}" for number in range(120)]
    web = {url: drawn.choices(urls, k=9) for url in urls}
    crawled.crawl({url: web[url] for url in urls[:50]})
    rounds = 0
    while crawled.queue:
        crawled.crawl({url: web[url] for url in sorted(crawled.queue)[:20]})
        crawled.check()
        rounds += 1
    assert rounds > 2
    assert len(crawled.pages) > 80


@pytest.mark.skipif(not REAL.is_dir(), reason="Wikispeedia's links are not here")
def test_the_queue_of_recorded_links(tmp_path: Path) -> None:
    with gzip.open(REAL / "links.tsv.gz", "rt") as file:
        lines = [line.split() for line in file if line.strip() and not line.startswith("#")][1:]
    web: dict[str, list[str]] = {}
    for source, target in lines:
        web.setdefault(f"{source[0]}/{source}", []).append(f"{target[0]}/{target}")
    sources = sorted(web)
    random.Random(1).shuffle(sources)
    crawled = Crawled(tmp_path)
    for first in range(INCREMENTS):
        crawled.crawl({url: web[url] for url in sources[first::INCREMENTS]})
        crawled.check()
    assert len(crawled.pages) == len(web)


def test_its_file_is_right() -> None:
    dataflow = load_dataflow(EXAMPLE / "crawl_queue.yaml")
    actions = {action.name: action for action in dataflow.spec.actions}
    stage = actions["decide"].stage
    assert stage is not None
    assert {str(source) for source in stage.inputs.values()} == {
        "count.counts",
        "extract.visited",
    }


def test_the_file_of_two_jobs_is_right() -> None:
    dataflow = load_dataflow(EXAMPLE / "two_jobs.yaml")
    actions = {action.name: action for action in dataflow.spec.actions}
    assert {name for name, action in actions.items() if action.stage is not None} == {
        "pages",
        "count",
        "decide",
    }
