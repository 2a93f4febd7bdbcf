"""The demonstration of the crawl queue: what it says of rounds, and that it cannot be wrong."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from headgate.cli.demo import crawl_queue
from headgate.cli.demo.commands import app
from headgate.cli.demo.crawl_queue import CrawlFound, CrawlLoop, CrawlRound, round_words, verdict
from headgate.cli.demo.dataflows import CommittedRun
from headgate.cli.demo.narration import Narrator

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

from crawl_queue.stages import THRESHOLD
from crawl_queue.web import Crawler, Expected, Web, from_scratch

FILE = Path(__file__).parents[3] / "examples" / "crawl_queue" / "crawl_queue.yaml"
RUNS = [
    CommittedRun(4, "extract", "", 10.0, 10.25, {"links": 1234, "visited": 7}),
    CommittedRun(5, "decide", "", 10.5, 11.0),
]


class Nowhere:
    thrift1 = ("127.0.0.1", 1)
    api = "http://127.0.0.1:1"


class Heard:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.rounds = 0

    def say(self, text: str) -> None:
        self.said.append(text)

    def done(self, waves: int) -> None:
        self.rounds = waves


class Stages:
    """Tables that show at once what they should, unless a change is made to them."""

    def __init__(self) -> None:
        self.pages: dict[str, Sequence[str]] = {}
        self.wrong: dict[str, Any] = {}

    def shown(self) -> Expected:
        found = from_scratch(self.pages, THRESHOLD)
        return Expected(found.queue | self.wrong, found.sites)


class ScriptedLoop(CrawlLoop):
    """A loop without services: its tables are those of the stages above."""

    def __init__(self, stages: Stages, crawler: Crawler) -> None:
        self.heard = Heard()
        narrator = cast("Narrator", self.heard)
        super().__init__(FILE.read_text(), FILE, Nowhere(), narrator, crawler)
        self.close()
        self._stages_of_test = stages
        self._dataflows = cast("Any", ScriptedDataflows())

    def _put(self, fetched: Mapping[str, Sequence[str]]) -> None:
        self._stages_of_test.pages |= fetched

    def _shown(self, container: str) -> dict[str, float]:
        found = self._stages_of_test.shown()
        return dict(found.queue if container == "queue" else found.sites)


class ScriptedDataflows:
    def submit(self, *_: object) -> None:
        pass

    def wait_warm(self, _: object) -> None:
        pass

    def end_wave(self, _: object) -> None:
        pass

    def committed(self, _: str, after: int) -> list[CommittedRun]:
        return [CommittedRun(after + 1, "decide", "", 0.0, 1.0)]


def crawled(stages: Stages, rounds: int) -> tuple[ScriptedLoop, CrawlFound]:
    loop = ScriptedLoop(stages, Crawler(Web(300, 6, seed=1), at_once=20, again=3))
    return loop, loop.crawl(60, rounds, seed=1)


def test_the_queue_says_what_is_fetched_next_until_rounds_are_over() -> None:
    stages = Stages()
    loop, found = crawled(stages, 4)
    assert [one.fetched for one in found.rounds] == [60, 23, 23, 23]
    assert [one.again for one in found.rounds] == [0, 3, 3, 3]
    assert found.rounds[-1].crawled == len(stages.pages) == 120
    assert found.differing == []
    assert loop.heard.rounds == 4
    assert [run.number for run in found.runs("decide")] == [0, 1, 2, 3]


def test_a_table_that_shows_something_else_is_found_and_named() -> None:
    stages = Stages()
    stages.wrong = {"nowhere.example/1": 5}
    _, found = crawled(stages, 1)
    assert found.differing == ["nowhere.example/1"]
    assert "NOT" in verdict(found)
    assert "nowhere.example/1 differed" in verdict(found)
    assert "DIFFERS in 1" in next(round_words(1, found.rounds[0]))


def test_an_empty_queue_ends_the_crawl() -> None:
    loop = ScriptedLoop(Stages(), Crawler(Web(300, 6, seed=1), at_once=20, again=3))
    assert len(loop.crawl(1, 9, seed=1).rounds) == 1


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
    class Services:
        folder = tmp_path

        def __init__(self, *_: object, **__: object) -> None:
            pass

        def __enter__(self) -> Nowhere:
            return Nowhere()

        def __exit__(self, *_: object) -> None:
            pass

    found = CrawlFound((), [CrawlRound(1, 0, 1, (), 0, differing, 0.1)], 0, 0.0)
    monkeypatch.setattr(crawl_queue, "DemoServices", Services)
    monkeypatch.setattr(crawl_queue, "create_tables_of", lambda *_: None)
    monkeypatch.setattr(CrawlLoop, "crawl", lambda *_: found)
    done = CliRunner().invoke(app, ["crawl-queue"])
    assert done.exit_code == status, done.output


def test_its_help_says_what_the_exit_status_means() -> None:
    done = CliRunner().invoke(app, ["crawl-queue", "--help"])
    assert done.exit_code == 0
    assert "plain Python" in " ".join(done.output.split())
