"""The demonstration of the crawl queue: what it says of rounds, and that it cannot be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from crawl_queue.demo import FILE, CrawlFound, CrawlLoop, CrawlRound, round_words, verdict
from crawl_queue.stages import THRESHOLD
from crawl_queue.web import Crawler, Web, from_scratch
from typer.testing import CliRunner

from headgate.cli import CommittedRun, SettledWave, Stand, Wave
from headgate.cli.demo.commands import app

PLACES = yaml.safe_load(FILE.read_text())["containers"]
RUNS = [
    CommittedRun(4, "extract", "", 10.0, 10.25, {"links": 1234, "visited": 7}),
    CommittedRun(5, "decide", "", 10.5, 11.0),
]


class Stages:
    """Tables that show at once what they should, unless a change is made to them."""

    def __init__(self) -> None:
        self.pages: dict[str, Sequence[str]] = {}
        self.wrong: dict[str, float] = {}
        self._asked = ""

    def put(self, wave: Wave) -> None:
        [(table, puts)] = wave.puts.items()
        assert table == PLACES["pages"]["table"]
        for url, cells in puts:
            [links] = cells.values()
            self.pages[url.decode()] = links.decode().split()

    def table(self, name: str) -> Stages:
        self._asked = name
        return self

    def scan(self, columns: Sequence[bytes]) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        found = from_scratch(self.pages, THRESHOLD)
        shown = found.sites if self._asked == PLACES["sites"]["table"] else found.queue | self.wrong
        for row, value in shown.items():
            yield row.encode(), {columns[0]: str(value).encode()}


class Crawl:
    """Rounds as the runner has them."""

    def __init__(self, stages: Stages, rounds: int, first: int = 60) -> None:
        crawler = Crawler(Web(300, 6, seed=1), at_once=20, again=3)
        loop = CrawlLoop(FILE.read_text(), crawler, crawler.begin(first, 1), rounds)
        stand = Stand(cast("Any", stages), cast("Any", None), print)
        self.lines: list[str] = []
        for number, wave in enumerate(loop.feed(stand), 1):
            stages.put(wave)
            runs = {"crawl-queue": [CommittedRun(number - 1, "decide", "", 0.0, 1.0)]}
            self.lines += loop.measure(SettledWave(number, wave.label, runs, 0.5), stand)
        self.found = loop.found()


def test_the_queue_says_what_is_fetched_next_until_rounds_are_over() -> None:
    stages = Stages()
    crawl = Crawl(stages, 4)
    found = crawl.found
    assert [one.fetched for one in found.rounds] == [60, 23, 23, 23]
    assert [one.again for one in found.rounds] == [0, 3, 3, 3]
    assert found.rounds[-1].crawled == len(stages.pages) == 120
    assert found.differing == []
    assert [line.split(":")[0] for line in crawl.lines[::2]] == [f"round {n}" for n in range(1, 5)]
    assert [run.number for run in found.runs("decide")] == [0, 1, 2, 3]


def test_a_table_that_shows_something_else_is_found_and_named() -> None:
    stages = Stages()
    stages.wrong = {"nowhere.example/1": 5}
    found = Crawl(stages, 1).found
    assert found.differing == ["nowhere.example/1"]
    assert "NOT" in verdict(found)
    assert "nowhere.example/1 differed" in verdict(found)
    assert "DIFFERS in 1" in next(round_words(1, found.rounds[0]))


def test_an_empty_queue_ends_the_crawl() -> None:
    assert len(Crawl(Stages(), 9, first=1).found.rounds) == 1


def test_a_round_is_a_line_and_its_stages_another() -> None:
    found = CrawlRound(165, 15, 1200, RUNS, 45, [], 0.75)
    line, stages = round_words(7, found)
    assert line == (
        "round 7: 165 pages fetched (15 of them again), 1,200 in all; 45 in the queue, as from "
        "scratch; 0.8 s"
    )
    assert stages == "    extract 1,234 links, 7 visited in 0.25 s; decide in 0.50 s"


def test_the_result_has_all_rounds_for_programs() -> None:
    rounds = [CrawlRound(10, 0, 10, RUNS, 2, [], 0.5), CrawlRound(5, 1, 14, (), 0, ["a"], 0.25)]
    result = CrawlFound(("extract", "decide"), rounds, 3, 0.01).summary()
    assert result["differing"] == ["a"]
    assert result["rounds"][0]["stages"]["extract"] == {
        "seconds": 0.25,
        "made": {"links": 1234, "visited": 7},
    }
    assert [one["crawled"] for one in result["rounds"]] == [10, 14]


@pytest.mark.parametrize(("differing", "status"), [((), 0), (("a/1",), 1)])
def test_the_exit_status_says_whether_the_tables_were_right(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, differing: tuple[str, ...], status: int
) -> None:
    def send(loop: CrawlLoop, *_: object) -> float:
        loop.rounds.append(CrawlRound(1, 0, 1, (), 0, differing, 0.1))
        return 1.0

    monkeypatch.setattr("headgate.cli.demo.runner.send", send)
    monkeypatch.setattr("headgate.cli.demo.services.DemoServices.__enter__", lambda self: self)
    monkeypatch.setattr("headgate.cli.demo.services.DemoServices.close", lambda _: None)
    done = CliRunner().invoke(app, ["crawl-queue", "--home", str(tmp_path)])
    assert done.exit_code == status, done.output
    assert ("NOT" in done.output) is bool(differing)


def test_its_help_says_what_the_exit_status_means() -> None:
    done = CliRunner().invoke(app, ["crawl-queue", "--help"])
    assert done.exit_code == 0
    assert "plain Python" in " ".join(done.output.split())
