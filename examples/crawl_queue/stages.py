"""From crawled pages to the queue of what to crawl next, by stages that keep a state.

"Programming Bulk-Incremental Dataflows", figures 1 and 7: links of new pages are counted by
page and by site, merged with what was crawled already, and queued above a threshold. A page that is
crawled again has its old links taken back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from headgate.incremental import InputFlow, Match, Stage, StateFlow, library

THRESHOLD: Final = 5
"""Pages that link to one, from which on it is crawled."""

Flows = Mapping[str, Sequence[dict[str, Any]]]
Made = dict[str, list[dict[str, Any]]]

pages = library.differences("pages")
"""Of the container of pages, whose rows are URLs and whose only column is the URLs they link to."""


def site_of(url: str) -> str:
    """Return the site of a URL without a scheme: what is before its first slash."""
    return url.partition("/")[0]


def links_of(text: bytes) -> Iterable[str]:
    """Return the URLs in the text of a page, which names each in a line, once each, in order."""
    return dict.fromkeys(text.decode().split())


def _extract(_: object, flows: Flows) -> Made:
    links, visited = [], []
    for page in flows["changes"]:
        visited.append({"site": site_of(page["row"]), "url": page["row"], "weight": page["weight"]})
        links += [
            {"site": site_of(url), "url": url, "weight": page["weight"]}
            for url in links_of(page["value"] or b"")
        ]
    return {"links": links, "visited": visited}


_PLACED: Final = {"site": "string", "url": "string", "weight": "int64"}

extract = Stage(
    "extract links",
    inputs={"changes": InputFlow()},
    outputs={"links": _PLACED, "visited": _PLACED},
    translate=_extract,
)
"""The links of pages, and which pages there are, each with how often more it is there now."""


def _count(site: object, flows: Flows) -> Made:
    before = {row["url"]: row["links"] for row in flows["state"]}
    now = dict(before)
    for link in flows["links"]:
        # Without a URL it is the number of the site, which is there whatever URL has come.
        for url in (link["url"], None):
            now[url] = now.get(url, 0) + link["weight"]
    counts = [
        {"site": site, "url": url, "links": links}
        for url, links in now.items()
        if url is not None and links != before.get(url, 0)
    ]
    sites = [{"row": site, "links": now.get(None, 0) or None}]
    kept = [{"url": url, "links": links} for url, links in now.items() if links]
    return {"state": kept, "counts": counts, "sites": sites}


count = Stage(
    "count in-links",
    inputs={"links": InputFlow("site", order_by="url")},
    outputs={
        "counts": {"site": "string", "url": "string", "links": "int64"},
        "sites": {"row": "string", "links": "int64"},
    },
    translate=_count,
    state=StateFlow(
        pa.schema({"url": pa.string(), "links": pa.int64()}), order_by="url", match=Match.ROW
    ),
)
"""Links by URL and, in a row without one, by site: a new URL does not rewrite those of its site."""


def _merged(flows: Flows) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield what is known of each page that came, and what is to be."""
    known = {row["url"]: row for row in flows["state"]}
    links = {row["url"]: row["links"] for row in flows["counts"]}
    visits: Counter[str] = Counter()
    for row in flows["visited"]:
        visits[row["url"]] += row["weight"]
    for url in dict.fromkeys((*known, *links, *visits)):
        before = known.get(url, {"url": url, "links": 0, "visits": 0})
        now = {
            "url": url,
            "links": links.get(url, before["links"]),
            "visits": before["visits"] + visits[url],
        }
        yield before, now


def _decide(_: object, flows: Flows) -> Made:
    queue, state = [], []
    for before, now in _merged(flows):
        if _score(now) != _score(before):
            queue.append({"row": now["url"], "score": _score(now)})
        if now["links"] or now["visits"]:
            state.append(now)
    return {"state": state, "queue": queue}


def _score(page: Mapping[str, Any]) -> int | None:
    """Return the score of a page that is to be crawled: the links to it; None of all others."""
    return page["links"] if page["links"] >= THRESHOLD and not page["visits"] else None


_KNOWN: Final = StateFlow(
    pa.schema({"url": pa.string(), "links": pa.int64(), "visits": pa.int64()}),
    order_by="url",
    match=Match.ROW,
)
_TO_MERGE: Final = {
    "counts": InputFlow("site", order_by="url"),
    "visited": InputFlow("site", order_by="url"),
}
_QUEUE: Final = {"row": "string", "score": "int64"}

decide = Stage(
    "decide crawl",
    inputs=_TO_MERGE,
    outputs={"queue": _QUEUE},
    translate=_decide,
    state=_KNOWN,
)
"""The queue: a score for what is to be crawled, none for what is not any more."""


# -- the same as the two jobs of figure 7: all that is by unit is a part of what is next to it


def _merge(_: object, flows: Flows) -> Made:
    pages, state = [], []
    for before, now in _merged(flows):
        pages.append({**now, "links_before": before["links"], "visits_before": before["visits"]})
        if now["links"] or now["visits"]:
            state.append(now)
    return {"state": state, "queue": pages}


def _rate(_: object, flows: Flows) -> Made:
    [page] = flows["pages"]
    before = {"links": page["links_before"], "visits": page["visits_before"]}
    return {"scores": [{"row": page["url"], "score": _links(page), "before": _links(before)}]}


def _links(page: Mapping[str, Any]) -> int:
    """Return the links to a page that was not crawled; 0 of all others."""
    return 0 if page["visits"] else int(page["links"])


def _choose(_: object, flows: Flows) -> Made:
    [page] = flows["scores"]
    now, before = (
        score if score >= THRESHOLD else None for score in (page["score"], page["before"])
    )
    return {"queue": [{"row": page["row"], "score": now}] if now != before else []}


score = Stage(
    "score",
    inputs={"pages": InputFlow()},
    outputs={"scores": {"row": "string", "score": "int64", "before": "int64"}},
    translate=_rate,
)
threshold = Stage(
    "threshold", inputs={"scores": InputFlow()}, outputs={"queue": _QUEUE}, translate=_choose
)

count_links = count.fused(before={"links": extract.flow("links")})
"""Extracts links and counts them in one run: its flow `links` is that of changed pages."""

decide_crawl = Stage(
    "merge",
    inputs=_TO_MERGE,
    outputs={
        "queue": {
            "url": "string",
            "links": "int64",
            "visits": "int64",
            "links_before": "int64",
            "visits_before": "int64",
        }
    },
    translate=_merge,
    state=_KNOWN,
).fused(before={"visited": extract.flow("visited")}, after={"queue": [score, threshold]})
"""Merges, scores, and drops what is below the threshold: it is not written."""
