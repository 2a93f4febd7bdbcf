"""States of the crawl queue that the bench makes are those that stages would have left."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from crawl_queue.stages import count, decide
from evaluation.incremental.crawling import QueueChain
from evaluation.incremental.epochs import Increment
from evaluation.incremental.web_states import LINKS, Web, nothing, seeded_web

from headgate.incremental.epochs.writing import reader_of
from headgate.incremental.stages.specification import StageSpec
from headgate.incremental.state.files import FileStore
from headgate.incremental.state.manifest import BucketState

URLS = 5000


def rows_of(
    store: FileStore, stage: StageSpec, buckets: tuple[BucketState, ...]
) -> list[dict[str, object]]:
    assert stage.state is not None
    names = stage.state.columns.names
    found: list[dict[str, object]] = []
    for bucket in buckets:
        reader = reader_of(stage, store, bucket)
        assert reader is not None
        for batch in reader.everything():
            found += batch.select(names).to_pylist()
    return found


def test_links_and_sites_are_skewed_and_all_urls_are_told_apart() -> None:
    web = Web(URLS, seed=1)
    ids = np.arange(URLS)
    links = np.sort(web.links_to(ids))[::-1]
    assert 0.4 < links[: URLS // 10].sum() / links.sum() < 0.6
    sizes = np.diff(web.begins)
    assert sizes.max() > 10 * np.median(sizes)
    assert len(set(web.url_texts(ids, web.sites_of(ids)).to_pylist())) == URLS


def test_a_seeded_state_has_each_url_and_the_links_of_each_site(tmp_path: Path) -> None:
    store, web = FileStore.at(tmp_path), Web(URLS, seed=1)
    counted, decided = seeded_web(store, web, count.spec, decide.spec)
    rows = rows_of(store, count.spec, counted)
    urls = {row["url"]: row["links"] for row in rows if row["url"] is not None}
    assert len(urls) == URLS
    sites = sorted(int(str(row["links"])) for row in rows if row["url"] is None)
    expected: Counter[str] = Counter()
    for url, links in urls.items():
        expected[str(url).partition("/")[0]] += int(str(links))
    assert [each for each in sites if each] == sorted(expected.values())
    known = rows_of(store, decide.spec, decided)
    assert {row["url"]: row["links"] for row in known} == urls


@pytest.mark.parametrize("seeded", [False, True])
def test_an_increment_adds_its_links_to_the_state(tmp_path: Path, *, seeded: bool) -> None:
    store, web = FileStore.at(tmp_path / "state"), Web(URLS, seed=1)
    states = seeded_web(store, web, count.spec, decide.spec) if seeded else (nothing(), nothing())
    before = {row["url"]: row["links"] for row in rows_of(store, count.spec, states[0])}
    pages = web.pages(web.drawn(50))
    chain = QueueChain(store, states, None)
    chain.epoch(Increment(pages, tmp_path / "in"))
    linked = Counter(
        url for text in pages.column("value").to_pylist() for url in set(text.decode().split())
    )
    after = {row["url"]: row["links"] for row in rows_of(store, count.spec, chain.counted)}
    changed = {url: n for url, n in after.items() if url is not None and n != before.get(url, 0)}
    assert len(pages) == 50
    assert sum(linked.values()) <= 50 * LINKS
    assert changed == {url: int(str(before.get(url, 0))) + n for url, n in linked.items()}
