"""What the demonstrations of examples add to a dataflow and to its comparison."""

import sys
from pathlib import Path
from typing import cast

import pytest
import yaml

from headgate.cli.demo.comparison import SynchronousComparison, read_example
from headgate.cli.demo.crawl import StalePostings, _hurry
from headgate.cli.demo.fire_risk import _against_record
from headgate.cli.demo.narration import Narrator
from headgate.flows import parse_dataflow

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

from crawl.web import Document
from fire_risk.forest import Forest
from fire_risk.weather import Hour

EXAMPLES = Path(__file__).parents[3] / "examples"
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
    tree = read_example(EXAMPLES / "crawl/crawl.yaml", lambda tree: _hurry(tree, 4.0))
    parsed = parse_dataflow(yaml.safe_dump(tree), "crawl.yaml")
    times = {a.name: a.bounds[0].time for a in parsed.spec.actions if a.bounds}
    assert (times["news-words"], times["page-words"]) == (50, 75)


def test_the_bounds_are_those_of_the_paper():
    parsed = parse_dataflow((EXAMPLES / "crawl/crawl.yaml").read_text(), "crawl.yaml")
    bounds = {a.name: a.bounds[0] for a in parsed.spec.actions if a.bounds}
    limits = []
    for bound in (bounds["news-words"], bounds["page-words"]):
        assert bound.sequence is not None
        assert bound.value is not None
        limits.append((bound.time, bound.sequence.limit, bound.value.limit))
    assert limits == [(200, 100, 0.1), (300, 500, 0.2)]


def test_codes_at_the_station_are_held_against_the_record():
    forest = Forest(6, seed=1)
    codes = {"ffmc": 90.0, "dmc": 8.0, "dc": 20.0}
    hour = Hour("now", 20.0, 50.0, 5.0, 0.0, 1.0, codes)
    floor = {(forest.station, f"f:{name}".encode()): b"%.2f" % v for name, v in codes.items()}
    assert _against_record(floor, forest, [hour]) == 0.0
    floor[forest.station, b"f:dc"] = b"20.5"
    assert _against_record(floor, forest, [hour]) == 0.5


@pytest.mark.parametrize("example", ["fire_risk", "crawl", "linear_road"])
def test_examples_can_run_beside_themselves(example):
    class Nowhere:
        thrift1 = ("127.0.0.1", 1)
        api = "http://127.0.0.1:1"

    file = EXAMPLES / example / f"{example}.yaml"
    silent = cast("Narrator", None)  # nothing goes on that it could be told of
    beside = SynchronousComparison(read_example(file, lambda _: None), file, Nowhere(), silent)
    assert list(beside.steps)
    assert all(step.description for step in beside.steps.values())
