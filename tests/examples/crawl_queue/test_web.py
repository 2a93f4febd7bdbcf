"""The generated web is skewed and the same for a seed; the crawler goes by the queue."""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlsplit

import pytest
from crawl_queue.web import LEAST_LINKS, MOST_LINKS, Crawler, Web, from_scratch
from hypothesis import given
from hypothesis import strategies as st

PAGES = st.dictionaries(
    st.sampled_from([f"{site}/{page}" for site in "ab" for page in range(6)]),
    st.lists(st.sampled_from([f"{site}/{page}" for site in "ab" for page in range(6)])),
)


def test_a_few_pages_are_linked_to_by_very_many() -> None:
    web = Web(1000, 20, seed=1)
    linked = Counter(link for url in web.urls for link in web.links(url, 0))
    numbers = sorted(linked.values(), reverse=True)
    total = sum(numbers)
    assert 0.4 < sum(numbers[:100]) / total < 0.6
    assert linked.most_common(1)[0][0] == web.urls[0]


def test_sites_are_of_uneven_size() -> None:
    sites = Counter(urlsplit(f"//{url}").netloc for url in Web(1000, 20, seed=1).urls)
    assert len(sites) == 20
    assert max(sites.values()) > 5 * min(sites.values())


def test_a_seed_gives_the_same_web_and_another_seed_another() -> None:
    one, same, other = Web(50, 5, 1), Web(50, 5, 1), Web(50, 5, 2)
    assert [one.links(url, 3) for url in one.urls] == [same.links(url, 3) for url in same.urls]
    assert [one.links(url, 3) for url in one.urls] != [other.links(url, 3) for url in other.urls]


def test_about_half_of_the_pages_have_changed_when_they_are_fetched_again() -> None:
    web = Web(200, 5, 1)
    changed = sum(web.links(url, 0) != web.links(url, 1) for url in web.urls)
    assert 70 < changed < 130
    assert all(LEAST_LINKS <= len(web.links(url, 1)) <= MOST_LINKS for url in web.urls)


def test_from_scratch_counts_a_page_once_for_a_url_and_leaves_out_what_was_crawled() -> None:
    pages = {"a/1": ["b/1", "b/1", "a/2"], "a/2": ["b/1", "a/1", "a/2"]}
    found = from_scratch(pages, 2)
    assert found.queue == {"b/1": 2}
    assert found.sites == {"b": 2, "a": 3}


@given(PAGES, st.integers(1, 4))
def test_each_link_counts_at_one_site_and_below_the_threshold_nothing_is_queued(
    pages: dict[str, list[str]], threshold: int
) -> None:
    found = from_scratch(pages, threshold)
    assert sum(found.sites.values()) == sum(len(set(links)) for links in pages.values())
    assert all(links >= threshold for links in found.queue.values())
    assert not found.queue.keys() & pages.keys()


def test_the_crawler_takes_the_best_of_the_queue_and_the_oldest_of_what_it_knows() -> None:
    web = Web(100, 5, 1)
    crawler = Crawler(web, at_once=2, again=1)
    first = crawler.begin(3, seed=1)
    assert list(crawler.pages) == list(first)
    oldest = next(iter(first))
    fresh = [url for url in web.urls if url not in first][:3]
    fetched = crawler.follow({fresh[0]: 5, fresh[1]: 9, fresh[2]: 7})
    assert list(fetched) == [fresh[1], fresh[2], oldest]
    assert list(crawler.pages)[-1] == oldest, "it was fetched last"
    assert fetched[oldest] == web.links(oldest, 1)


@pytest.mark.parametrize("again", [0, 5])
def test_the_crawl_is_over_when_the_queue_is_empty(again: int) -> None:
    crawler = Crawler(Web(100, 5, 1), at_once=2, again=again)
    crawler.begin(10, seed=1)
    assert crawler.follow({}) == {}


def test_a_page_that_the_queue_names_is_fetched_once_though_it_is_known() -> None:
    crawler = Crawler(Web(20, 5, 1), at_once=5, again=2)
    first = crawler.begin(2, seed=1)
    url = next(iter(first))
    assert len(crawler.follow({url: 9})) == 2
    assert crawler.pages[url] == Web(20, 5, 1).links(url, 1)
