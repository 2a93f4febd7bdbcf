"""A generated web of any size: pages to crawl, and what stages know of all that was crawled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.incremental.epochs.bucket import stored_schema
from headgate.incremental.stages.specification import StageSpec
from headgate.incremental.state.buckets import even_buckets
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.hashing import hashes
from headgate.incremental.state.keys import key_column
from headgate.incremental.state.manifest import BucketState
from headgate.incremental.state.names import Writer
from headgate.incremental.state.rows import DELETED, HASH, KEY, ORDER, Match
from headgate.incremental.state.runs import write_run

PageIds = npt.NDArray[np.int64]

LINKS: Final = 10
"""Of a page."""
_SKEW: Final = 3
"""Links go to the page that has this power of an even number as its rank."""
_URLS_OF_A_SITE: Final = 100
"""On average: the largest has a tenth of all."""
_MIXING: Final = 7_368_787
"""A prime, by which pages that many link to are spread over the sites."""
_VISITED: Final = 5
"""One URL of so many was crawled."""
_SITE_DIGITS: Final = 7
_URL_DIGITS: Final = 10
_CHUNK: Final = 1 << 20
"""Rows that are made at a time."""


class Web:
    """URLs of sites in the order in which state has them, and links that are skewed.

    Args:
        urls: how many.
        seed: of what is drawn.
    """

    def __init__(self, urls: int, seed: int) -> None:
        self.urls = urls
        self._random = np.random.default_rng(seed)
        sites = max(1, urls // _URLS_OF_A_SITE)
        shares = self._random.permutation(1 / np.arange(1, sites + 1))
        ends = np.round(np.cumsum(shares) / shares.sum() * urls).astype(np.int64)
        names = np.arange(sites)
        placed = hashes(key_column([_text(b"s", names, _SITE_DIGITS)]))
        order = np.argsort(placed)
        self.hashes = placed[order]
        """Of the sites, rising, shape (sites,)."""
        self._names = names[order]
        self.begins = np.concatenate([[0], ends])
        """The first URL of each site, and the end, shape (sites + 1,)."""

    def sites_of(self, ids: PageIds) -> PageIds:
        """Return where the sites of URLs are among all."""
        return np.searchsorted(self.begins, ids, "right") - 1

    def site_texts(self, sites: PageIds) -> pa.Array:
        """Return text such as s0000042."""
        return _text(b"s", self._names[sites], _SITE_DIGITS)

    def url_texts(self, ids: PageIds, sites: PageIds) -> pa.Array:
        """Return text such as s0000042/p0000000007; null of what is below 0."""
        known = np.maximum(ids, 0)
        rows = np.concatenate(
            [
                _letters(b"s", self._names[sites], _SITE_DIGITS),
                np.full((len(ids), 1), ord("/"), np.uint8),
                _letters(b"p", known, _URL_DIGITS),
            ],
            axis=1,
        )
        texts = _strings(rows)
        return pc.if_else(pa.array(ids < 0), pa.scalar(None, pa.string()), texts)

    def links_to(self, ids: PageIds) -> PageIds:
        """Return how many links URLs have after as many pages as there are URLs; at least one."""
        inverse = pow(_MIXING, -1, self.urls)
        ranks = ids * inverse % self.urls
        share = np.diff(np.stack([ranks, ranks + 1]) ** (1 / _SKEW), axis=0)[0]
        links = share / self.urls ** (1 / _SKEW) * self.urls * LINKS
        return np.maximum(1, np.round(links)).astype(np.int64)

    def drawn(self, count: int) -> PageIds:
        """Return so many pages that are crawled next."""
        return self._random.integers(self.urls, size=count)

    def pages(self, ids: PageIds) -> pa.Table:
        """Return pages with their links, as they come to the stage that extracts these."""
        ranks = (self.urls * self._random.random(len(ids) * LINKS) ** _SKEW).astype(np.int64)
        linked = ranks * _MIXING % self.urls
        texts = self.url_texts(linked, self.sites_of(linked)).to_pylist()
        values = [
            "\n".join(texts[first : first + LINKS]).encode()
            for first in range(0, len(texts), LINKS)
        ]
        return pa.table(
            {
                "row": self.url_texts(ids, self.sites_of(ids)),
                "value": pa.array(values, pa.binary()),
                "weight": np.ones(len(ids), np.int64),
            }
        )


def nothing() -> tuple[BucketState, ...]:
    """Return the state of a stage that has not run."""
    return tuple(BucketState(bucket) for bucket in even_buckets(1))


def seeded_web(
    store: FileStore, web: Web, count: StageSpec, decide: StageSpec
) -> tuple[tuple[BucketState, ...], tuple[BucketState, ...]]:
    """Write the states of both stages after all of a web, as bases without runs; return them."""
    sizes = np.diff(web.begins)
    each = np.arange(len(sizes))
    # Of each site first its own number, which is of no URL.
    sites = np.repeat(each, sizes + 1)
    ids = np.arange(web.urls + len(sizes)) - sites - 1
    ids[web.begins[:-1] + each] = -1
    counted = _seeded(store, web, count, ids, sites)
    known = np.arange(web.urls)
    return counted, _seeded(store, web, decide, known, np.repeat(each, sizes))


def _seeded(
    store: FileStore, web: Web, stage: StageSpec, ids: PageIds, sites: PageIds
) -> tuple[BucketState, ...]:
    placed = web.hashes[sites]
    writer = Writer(stage.name, "seed", 1, "bench")
    found = []
    for bucket in even_buckets(1):
        first = int(np.searchsorted(placed, bucket.first, "left"))
        end = int(np.searchsorted(placed, bucket.last, "right"))
        rows = _stored(web, stage, ids[first:end], sites[first:end])
        ref = write_run(
            store,
            writer.rows_name(),
            rows,
            stage.name,
            schema=stored_schema(stage),
            match=Match.ROW,
        )
        found.append(BucketState(bucket, ref if end > first else None))
    return tuple(found)


def _stored(web: Web, stage: StageSpec, ids: PageIds, sites: PageIds) -> Iterator[pa.RecordBatch]:
    schema = stored_schema(stage)
    links = web.links_to(np.arange(web.urls))
    totals = np.diff(np.concatenate([[0], np.cumsum(links)])[web.begins])
    for first in range(0, len(ids), _CHUNK):
        some, of = ids[first : first + _CHUNK], sites[first : first + _CHUNK]
        urls = web.url_texts(some, of)
        columns = {
            HASH: pa.array(web.hashes[of]),
            KEY: key_column([web.site_texts(of)]),
            ORDER: key_column([urls]),
            DELETED: pa.array(np.zeros(len(some), np.bool_)),
            "url": urls,
            "links": pa.array(np.where(some < 0, totals[of], links[np.maximum(some, 0)])),
            "visits": pa.array((some % _VISITED == 0).astype(np.int64)),
        }
        yield pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _letters(first: bytes, numbers: PageIds, digits: int) -> npt.NDArray[np.uint8]:
    """Return a letter and digits for each number, shape (n, digits + 1)."""
    text = np.empty((len(numbers), digits + 1), np.uint8)
    text[:, 0] = first[0]
    rest = numbers.copy()
    for at in range(digits, 0, -1):
        text[:, at] = ord("0") + rest % 10
        rest //= 10
    return text


def _text(first: bytes, numbers: PageIds, digits: int) -> pa.Array:
    return _strings(_letters(first, numbers, digits))


def _strings(rows: npt.NDArray[np.uint8]) -> pa.Array:
    """Return text of one width, shape (n, width), as an Arrow column."""
    count, width = rows.shape
    ends = np.arange(0, rows.size + 1, width, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(rows.tobytes()))
