"""The crawl queue on the real stack: what it says is crawled next, until it says nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.stack

EXAMPLE = Path(__file__).parents[4] / "examples" / "crawl_queue"
THRESHOLD = 5
ROUNDS = 5
AT_ONCE = 15
"""Pages that a round crawls."""


def test_a_crawler_that_follows_the_queue_reaches_what_can_be_reached(stand: Any) -> None:
    drawn = random.Random(1)
    urls = [f"s{number % 4}/{number}" for number in range(60)]
    web = {url: drawn.choices(urls, k=9) for url in urls}
    tables = {
        kind: stand.stack.table(f"queue-{kind}", families=[family])
        for kind, family in (("pages", "p"), ("sites", "s"), ("scores", "q"))
    }
    name = f"crawl-queue-{stand.identity}"
    text = (EXAMPLE / "crawl_queue.yaml").read_text().replace("crawl-queue", name)
    for kind, table in tables.items():
        text = text.replace(f"table: queue-{kind}", f"table: {table}")
    agent = stand.start_agent()
    agent.ask(
        "POST",
        "/v1/flows",
        {"source": text, "file": "crawl_queue.yaml", "directory": str(EXAMPLE)},
    )
    crawled: dict[str, list[str]] = {}

    def crawl(found: Iterable[str]) -> None:
        with closing(stand.connect()) as connection:
            for url in found:
                crawled[url] = web[url]
                text = "\n".join(web[url]).encode()
                connection.table(tables["pages"]).put(url.encode(), {b"p:links": text})
        agent.wave(name)

    def shown(table: str, column: bytes) -> dict[str, int]:
        with closing(stand.stack.happybase()) as connection:
            rows = connection.table(tables[table]).scan()
            return {row.decode(): int(float(cells[column])) for row, cells in rows}

    crawl(urls[:25])
    for _ in range(ROUNDS):
        linked = Counter(url for links in crawled.values() for url in dict.fromkeys(links))
        queue = shown("scores", b"q:score")
        assert queue == {
            url: links for url, links in linked.items() if links >= THRESHOLD and url not in crawled
        }
        sites: Counter[str] = Counter()
        for url, links in linked.items():
            sites[url.partition("/")[0]] += links
        assert shown("sites", b"s:links") == dict(sites)
        if not queue:
            break
        crawl(sorted(queue)[:AT_ONCE])
    assert len(crawled) > 40
