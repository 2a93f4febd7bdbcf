"""Goals are met or missed by their figures, and the page names those that were missed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evaluation.incremental import crawling, flat, rivals
from evaluation.incremental.epochs import Epoch
from evaluation.incremental.goals import goals_of, table_of
from evaluation.incremental.plotting import write_page
from evaluation.incremental.spending import Spent

RIVALS = {
    "driver": (20_000, 0.05),
    "driver, by group": (20_000, 0.15),
    "Spark job": (20_000, 0.5),
    "native": (20_000, 1.0),
    "Spark job, large": (200_000, 1.0),
    "applyInPandasWithState": (5_000, 2.0),
    "transformWithStateInPandas": (5_000, 2.0),
}


def scenario(useless: float) -> dict[str, Any]:
    times = {graph: [1, 2] for graph in ("seconds", "updates", "writes", "results")}
    return {"useless": useless, "to_simulated": 0.95, "over_time": times}


SCENARIOS = {
    "no priority": scenario(0.0),
    "priority": scenario(0.8),
    "priority, bottlenecks known": scenario(0.0),
}
CUBE = {"sizes": {"small": {"scenarios": SCENARIOS, "gain": 1.3}}, "equal": 1.25}


def epoch(seconds: float, shuffled: int = 1000) -> Epoch:
    return Epoch(Spent(seconds, seconds), 100, 300, shuffled)


def queue_epoch(seconds: float) -> crawling.QueueEpoch:
    """Of both jobs half."""
    return crawling.QueueEpoch(seconds / 2, seconds / 2, seconds, 1000, 500)


def measured(last: float) -> dict[str, Any]:
    chain = [epoch(1.0), epoch(last)]
    found = flat.Flatness(
        driver={1: [chain], 2: [chain]},
        spark={1: [chain], 2: [chain]},
        long=chain,
        increment_bytes=1000,
        grown={
            9: {mode: [[epoch(1.0), epoch(3.0)]] for mode in ("direct", "black-box", "landmark")}
        },
        divided={"direct": [[epoch(1.0)], [epoch(0.3)] * 4]},
        at_once=[(1.0, 1.2)],
    )
    crawl = [queue_epoch(1.0), queue_epoch(last)]
    crawled = crawling.Crawled(
        driver={1: [crawl], 2: [crawl]},
        spark={1: [crawl], 2: [crawl]},
        grown={
            "direct": [[queue_epoch(9.0), queue_epoch(0.1)], crawl, crawl],
            "black-box": [[queue_epoch(1.0), queue_epoch(3.0)]],
            "landmark": [[queue_epoch(1.0), queue_epoch(3.0)]],
        },
        shared={
            8: {
                "black-box": [queue_epoch(1.0), queue_epoch(2.0)],
                "landmark": [queue_epoch(1.0), queue_epoch(3.0)],
            }
        },
        black_box={1: [queue_epoch(2.0)], 4: [queue_epoch(5.0)]},
        divided={"direct": [crawl, crawl * 4], "black-box": [crawl, crawl * 4]},
    )
    spent = {name: [Spent(seconds, seconds)] * 3 for name, (_, seconds) in RIVALS.items()}
    return {
        "flat": flat.figures_of(found),
        "crawl": crawling.figures_of(crawled),
        "spark": rivals.figures_of(spent),
        "cube": CUBE,
    }


def test_all_goals_are_there_and_met() -> None:
    goals = goals_of(measured(last=1.05))
    assert [goal.words for goal in goals if not goal.met] == []
    assert len([goal for goal in goals if "crawl queue" in goal.words]) == 4 + 2 + 1 + 1 + 2 + 1
    assert len(goals) == 4 + 2 + 1 + 1 + 2 + 1 + 11 + 16 + 7


@pytest.mark.parametrize("last", [1.2, 3.0])
def test_an_increment_that_costs_more_is_missed(last: float) -> None:
    missed = [goal for goal in goals_of(measured(last)) if not goal.met]
    assert {goal.value for goal in missed} == {last}
    assert all("last increment / first" in goal.words for goal in missed)


def test_bytes_shuffled_are_those_of_what_comes_whatever_the_state() -> None:
    assert measured(1.0)["crawl"]["shuffled_per_delta_byte"] == {"1": [2.0, 2.0], "2": [2.0, 2.0]}
    grows = {"shuffled_per_delta_byte": {"1": [1.0, 1.05], "2": [1.2, 1.2]}}
    [goal] = goals_of({"crawl": grows})
    assert not goal.met
    assert goal.value == 1.2


def test_keys_a_second_are_of_increments() -> None:
    figures = measured(1.0)["spark"]
    assert figures["driver"]["keys_per_second"] == 400_000
    assert figures["ratios_wall"]["driver / applyInPandasWithState"] == 160.0


def test_both_jobs_of_the_crawl_queue_are_shown_beside_their_sum() -> None:
    jobs = measured(1.0)["crawl"]["shares"]["8"]["landmark"]
    assert jobs == {"total": [1.0, 3.0], "CountLinks": [0.5, 1.5], "DecideCrawl": [0.5, 1.5]}


def test_the_page_names_what_was_missed_and_has_all_drawings(tmp_path: Path) -> None:
    figures = measured(1.2)
    goals = goals_of(figures)
    page = write_page(figures, goals, "two cores", tmp_path / "page.html").read_text()
    assert page.count("<svg") == 4 + 4 + 1
    assert "MISSED" in table_of(goals)
    assert "Missed: last increment / first, 1 keys" in page
    assert "Not part of this run" not in page


def test_a_part_of_the_bench_leaves_out_the_rest(tmp_path: Path) -> None:
    figures = {"flat": measured(1.0)["flat"]}
    page = write_page(figures, goals_of(figures), "two cores", tmp_path / "page.html").read_text()
    assert page.count("<svg") == 3
    assert page.count("Not part of this run") == 3
    assert json.loads(json.dumps(figures)) == figures
