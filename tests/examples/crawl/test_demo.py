"""The demonstration of the crawled index: its bounds and its own measure of error."""

import pytest
import yaml
from crawl.demo import FILE, StalePostings, hurried
from crawl.web import Document

from headgate.flows import parse_dataflow

WEB = [Document("n", True, ()), Document("p", False, ()), Document("q", False, ())]


def index(**words):
    return {(word.encode(), b"i:urls"): urls.encode() for word, urls in words.items()}


def test_postings_are_counted_for_news_and_static_pages_apart():
    stale = StalePostings(WEB)
    right = index(fire='["n","p"]', sea='["p","q"]')
    shown = index(fire='["p","n"]', sea='["p"]', gone='["q"]')
    assert stale(right, shown) == pytest.approx(2 / 5)
    assert stale.shares == {"news": [0.0], "pages": [2 / 4]}


def test_an_index_that_nobody_has_written_is_not_stale():
    stale = StalePostings(WEB)
    assert stale({}, {}) == 0.0
    assert stale.shares == {"news": [0.0], "pages": [0.0]}


def test_time_goes_faster_in_bounds_too():
    tree = hurried(yaml.safe_load(FILE.read_text()), 4.0)
    parsed = parse_dataflow(yaml.safe_dump(tree), "crawl.yaml")
    times = {a.name: a.bounds[0].time for a in parsed.spec.actions if a.bounds}
    assert (times["news-words"], times["page-words"]) == (50, 75)


def test_the_bounds_are_those_of_the_paper():
    parsed = parse_dataflow(FILE.read_text(), "crawl.yaml")
    bounds = {a.name: a.bounds[0] for a in parsed.spec.actions if a.bounds}
    limits = []
    for bound in (bounds["news-words"], bounds["page-words"]):
        assert bound.sequence is not None
        assert bound.value is not None
        limits.append((bound.time, bound.sequence.limit, bound.value.limit))
    assert limits == [(200, 100, 0.1), (300, 500, 0.2)]
