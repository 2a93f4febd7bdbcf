"""A generated web, the crawler that follows the queue, and what both say computed from scratch.

In-degrees are skewed as those of the real web: a few pages are linked to by very many others, and
most by hardly any. Pages change: one that is fetched again may have other links.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

LEAST_LINKS: Final = 8
MOST_LINKS: Final = 32
"""Of a page."""
_SKEW: Final = 3
"""A page is drawn by this power of an even number: a tenth of all has nearly half of the links."""
_CHANGED: Final = 0.5
"""Share of the pages whose links are others when they are fetched again."""


class Web:
    """Pages, of which each fetch may show other links; the same for a seed.

    Args:
        pages: how many.
        sites: that they are spread over, unevenly.
        seed: of all that is drawn.

    Attributes:
        urls: of all pages, without a scheme; the first are linked to the most.
    """

    def __init__(self, pages: int, sites: int, seed: int) -> None:
        drawn = random.Random(seed)
        self._seed = seed
        self.urls = [
            f"site{int(sites * drawn.random() ** 2)}.example/{number}" for number in range(pages)
        ]

    def links(self, url: str, fetch: int) -> tuple[str, ...]:
        """Return the links that a page has at its nth fetch, from 0 on; one may come twice."""
        version = sum(
            random.Random(f"{self._seed} {url} {number}").random() < _CHANGED
            for number in range(1, fetch + 1)
        )
        drawn = random.Random(f"{self._seed} {url} version {version}")
        count = drawn.randint(LEAST_LINKS, MOST_LINKS)
        pages = len(self.urls)
        return tuple(self.urls[int(pages * drawn.random() ** _SKEW)] for _ in range(count))


class Expected(Struct, frozen=True):
    """What the tables have to show."""

    queue: dict[str, int]
    """Links to each URL that is to be crawled."""
    sites: dict[str, int]
    """Links to each site that has any."""


def from_scratch(pages: Mapping[str, Sequence[str]], threshold: int) -> Expected:
    """Return what all pages that were crawled say, counted anew.

    Args:
        pages: their links, by URL; a page counts once for a URL, however often it names it.
        threshold: links from which on a URL is crawled.
    """
    linked = Counter(url for links in pages.values() for url in set(links))
    sites: Counter[str] = Counter()
    for url, count in linked.items():
        sites[url.split("/")[0]] += count
    queue = {url: count for url, count in linked.items() if count >= threshold and url not in pages}
    return Expected(queue, dict(sites))


class Crawler:
    """Fetches what the queue says, those with the most links first, and some pages again.

    Args:
        web: what it crawls.
        at_once: pages of a round that the queue names.
        again: pages of a round that were fetched before, the longest ago first.

    Attributes:
        pages: the links of all pages as they were last fetched, by URL.
    """

    def __init__(self, web: Web, at_once: int, again: int) -> None:
        self._web = web
        self._at_once = at_once
        self._again = again
        self._fetches: dict[str, int] = {}
        self.pages: dict[str, tuple[str, ...]] = {}

    def begin(self, count: int, seed: int) -> dict[str, tuple[str, ...]]:
        """Fetch so many pages of the web, any of them, and return their links by URL."""
        urls = self._web.urls
        return self._fetched(random.Random(seed).sample(urls, min(count, len(urls))))

    def follow(self, queue: Mapping[str, float]) -> dict[str, tuple[str, ...]]:
        """Fetch the best of a queue of URLs with scores and some known pages; return their links.

        Nothing is fetched again once the queue is empty: the crawl is over then.
        """
        if not queue:
            return {}
        best = sorted(queue, key=lambda url: (-queue[url], url))[: self._at_once]
        return self._fetched(list(dict.fromkeys([*best, *list(self.pages)[: self._again]])))

    def _fetched(self, urls: Sequence[str]) -> dict[str, tuple[str, ...]]:
        found = {}
        for url in urls:
            number = self._fetches.get(url, 0)
            self._fetches[url] = number + 1
            found[url] = self._web.links(url, number)
            self.pages.pop(url, None)  # it goes to the end: it was fetched last
            self.pages[url] = found[url]
        return found
