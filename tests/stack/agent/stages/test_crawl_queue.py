"""The crawl queue on the real stack: what it says is crawled next, until it says nothing.

The loop is that of ``headgate demo crawl-queue``, on services that are there already.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headgate.cli import send

sys.path.insert(0, str(Path(__file__).parents[4] / "examples"))

from crawl_queue.demo import CrawlFound, CrawlLoop, verdict
from crawl_queue.stages import THRESHOLD
from crawl_queue.web import Crawler, Web, from_scratch

pytestmark = pytest.mark.stack

EXAMPLES = Path(__file__).parents[4] / "examples"
FILE = EXAMPLES / "crawl_queue" / "crawl_queue.yaml"
STAGES = ["pages", "extract", "count", "decide"]
PAGES, FIRST, ROUNDS = 150, 60, 4
LIMIT = 1800  # seconds; two minutes on two idle cores


class Silent:
    """A narrator that nobody hears."""

    def say(self, text: str) -> None:
        """Say nothing."""

    def done(self, waves: int) -> None:
        """Show nothing."""


class Running:
    """The stand's services, as a demonstration has its own."""

    def __init__(self, stand: Any) -> None:
        self.thrift1 = stand.thrift1
        self.api = f"http://{stand.start_agent().address}"
        self.folder = EXAMPLES  # no stage writes there


class Crawl:
    """The example with tables of its own."""

    def __init__(self, stand: Any) -> None:
        self._stand = stand
        names = ("pages", "sites", "scores")
        self.tables = {name: f"queue-{name}-{stand.identity}" for name in names}
        self.crawler = Crawler(Web(PAGES, 6, seed=1), at_once=15, again=3)
        text = FILE.read_text().replace("name: crawl-queue", f"name: crawl-queue-{stand.identity}")
        for kind, table in self.tables.items():
            text = text.replace(f"table: queue-{kind}", f"table: {table}")
        first = self.crawler.begin(FIRST, seed=1)
        self._loop = CrawlLoop(text, self.crawler, first, ROUNDS)

    def run(self) -> CrawlFound:
        send(self._loop, Running(self._stand), Silent())
        return self._loop.found()

    def shown(self, kind: str, column: bytes) -> dict[str, float]:
        """Return a table as it is behind the observer."""
        with closing(self._stand.stack.happybase()) as connection:
            rows = connection.table(self.tables[kind]).scan()
            return {row.decode(): float(cells[column]) for row, cells in rows}


def test_a_crawler_that_follows_the_queue_has_what_all_pages_say(stand: Any) -> None:
    crawl = Crawl(stand)
    found = crawl.run()
    assert found.differing == [], verdict(found)
    assert len(found.rounds) == ROUNDS
    assert [[run.action for run in one.runs] for one in found.rounds] == [STAGES] * ROUNDS
    assert all(one.again for one in found.rounds[1:]), "pages that had changed took links back"
    assert found.rounds[-1].crawled > FIRST + 20
    links = [run.made["links"] for run in found.runs("extract")]
    assert links[0] > links[1] > 0, "an increment is of the pages of its round"
    right = from_scratch(crawl.crawler.pages, THRESHOLD)
    assert crawl.shown("scores", b"q:score") == right.queue
    assert crawl.shown("sites", b"s:links") == right.sites


@pytest.mark.soak
@pytest.mark.timeout(LIMIT)
def test_the_command_says_that_the_queue_was_right_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headgate.cli", "demo", "crawl-queue"]
    sizes = ["--rounds", "4", "--pages", "400", "--first", "80", "--at-once", "30"]
    done = subprocess.run(
        [*command, "--home", str(tmp_path), *sizes, "--json"],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["differing"] == []
    assert [one["again"] for one in result["rounds"]] == [0, 15, 15, 15]
    assert "in the queue, as from scratch" in done.stderr
    assert not [entry for entry in (tmp_path / "demos").iterdir() if entry.is_dir()]
