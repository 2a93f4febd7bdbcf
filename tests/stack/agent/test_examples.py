"""The examples on the real stack, small: their steps under Spark, and what bounds leave out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from headgate.cli import SynchronousComparison, Wave, send

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

from crawl.demo import StalePostings
from crawl.web import Document
from fire_risk.forest import Forest
from fire_risk.weather import generated
from linear_road import model
from linear_road.all_waves import all_waves
from linear_road.records import Field, Kind, Minute
from linear_road.traffic import generate

EXAMPLES = Path(__file__).parents[3] / "examples"

pytestmark = pytest.mark.stack


class Listener:
    """An audience that keeps each line."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def say(self, text: str) -> None:
        self.told.append(text)

    def done(self, waves: int) -> None:
        pass


class Place:
    """The addresses of the test's observer and agent."""

    def __init__(self, stand: Any, agent: Any) -> None:
        with closing(stand.connect()) as connection:
            self.thrift1 = (connection.host, connection.port)
        self.api = f"http://{agent.address}"
        self.folder = EXAMPLES  # no step is told to write there


@pytest.fixture(scope="module")
def place(stand: Any) -> Place:
    return Place(stand, stand.start_agent(spark=()))  # its plans are compiled


@pytest.mark.soak
def test_fire_risk_leaves_steps_out_and_misses_no_fire(
    place: Place, stand: Any, tmp_path: Path
) -> None:
    own = f"fire-{stand.identity}"
    text = (EXAMPLES / "fire_risk/fire_risk.yaml").read_text()
    tree = yaml.safe_load(text.replace(" fire-", f" {own}-").replace('"fire-', f'"{own}-'))
    tree["name"] = own
    tree["actions"]["thermal-map"]["parameters"] = {"charts": str(tmp_path)}
    forest = Forest(side=6, seed=1)
    every = list(forest.hours(generated(8, seed=1)))
    hours = [every[at] for at in (0, 1, 2, 4, 6)]  # a calm one, the fault, the fire, its spread
    waves = [
        Wave(h.label, {f"{own}-satellite": h.satellite, f"{own}-sensors": h.sensors}) for h in hours
    ]
    beside = SynchronousComparison(tree, EXAMPLES / "fire_risk/fire_risk.yaml", waves)
    send(beside, place, Listener())

    steps = beside.steps
    assert all(step.runs_synchronous == len(waves) for step in steps.values())
    assert steps["measure"].runs == len(waves)
    assert 0 < steps["areas"].runs < len(waves)
    assert 0 < steps["order"].runs < steps["pictures"].runs < len(waves)
    assert set(steps["measure"].errors) == {0.0}
    assert set(steps["pictures"].errors) == set(steps["order"].errors) == {0.0}
    assert 0 < steps["risk"].worst_error < 0.5
    assert all(step.mean_error <= 1 for step in steps.values()), "no output holds a NaN"

    burning = {
        row
        for hour in hours
        for row, cells in hour.satellite
        if sum(kelvin >= 330 for kelvin in json.loads(cells[b"s:image"])) >= 3
    }
    hot = {row for row, _ in beside.output("pictures")}
    assert {row for row, _ in beside.output("order")} == burning
    assert len(burning) == 2
    assert len(hot) == 3, "the faulty sensor's area too, of which a picture tells that it is cold"
    assert {path.stem for path in tmp_path.iterdir()} == {own, f"synchronous-{own}"}


def test_crawl_shows_news_before_static_pages(place: Place, stand: Any) -> None:
    own = f"crawl-{stand.identity}"
    text = (EXAMPLES / "crawl/crawl.yaml").read_text()
    tree = yaml.safe_load(text.replace(" crawl-", f" {own}-"))
    tree["name"] = own
    tree["spark_pool"] = own  # one session for both dataflows
    web = [Document(f"n{at}", True, ()) for at in range(10)]
    web += [Document(f"p{at:02d}", False, ()) for at in range(20)]

    def puts(names: list[str], text: str) -> list[tuple[bytes, dict[bytes, bytes]]]:
        return [(name.encode(), {b"p:text": text.encode()}) for name in names]

    def rounds() -> Iterator[Wave]:
        first = [puts([d.url for d in web if d.news is news], "the same") for news in (True, False)]
        yield Wave("all", {f"{own}-news": first[0], f"{own}-pages": first[1]})
        some = [f"p{at:02d}" for at in range(3)]
        yield Wave(
            "10 % of the news, 15 % of the pages",
            {f"{own}-news": puts(["n1"], "the news"), f"{own}-pages": puts(some, "the change")},
        )
        with closing(stand.connect()) as connection:
            connection.table(f"{own}-pages").delete(b"p07")
        yield Wave("a page is gone, one of the news as before", {f"{own}-news": first[0][5:6]})

    stale = StalePostings(web)
    file = EXAMPLES / "crawl/crawl.yaml"
    beside = SynchronousComparison(tree, file, rounds(), {"index": stale})
    send(beside, place, Listener())

    assert [beside.steps[name].runs for name in ("news-words", "page-words", "index")] == [2, 2, 3]
    assert stale.shares["news"] == [0.0, 0.0, 0.0]
    assert stale.shares["pages"] == pytest.approx([0.0, 6 / 43, 0.0])
    index = {row.decode(): json.loads(urls) for (row, _), urls in beside.output("index").items()}
    assert index["news"] == ["n1"]
    assert index["change"] == ["p00", "p01", "p02"]
    assert "n1" not in index["same"]
    assert "p07" not in index["the"]


@pytest.mark.soak
def test_linear_road_shows_what_its_formulas_say_and_answers_in_every_wave(
    place: Place, stand: Any
) -> None:
    own = f"lr-{stand.identity}"
    text = (EXAMPLES / "linear_road/linear_road.yaml").read_text()
    tree = yaml.safe_load(text.replace(" lr-", f" {own}-"))
    tree["name"] = own
    # 2a runs in every wave. Of the minutes before, a new one is 100 %, then 50 %: 3b skips a wave.
    tree["actions"]["positions"]["when"] = {"reports": {"sequence": 1}}
    tree["actions"]["cars"]["when"] = {"minute-cars": {"value": {"relative": "70%"}}}
    every = generate(4, seed=1)
    minutes = [Minute(m.number, m.records[m.records[:, Field.CAR] % 10 == 0]) for m in every]
    puts = ((minute.label, list(minute.puts())) for minute in minutes)
    file = EXAMPLES / "linear_road/linear_road.yaml"
    fed = [Wave(label, {f"{own}-input": rows}) for label, rows in puts]
    beside = SynchronousComparison(tree, file, fed)
    send(beside, place, Listener())

    steps = beside.steps
    assert all(step.runs_synchronous == len(minutes) for step in steps.values())
    assert [steps[name].runs for name in ("split", "positions", "rank", "answer")] == [4] * 4
    assert steps["accidents"].runs < len(minutes)
    assert set(steps["positions"].errors) == set(steps["rank"].errors) == {0.0}
    third = steps["cars"].errors[2]
    assert 0 < third < 1
    assert steps["cars"].errors == [0, 0, third, 0], "what was skipped comes with the next run"

    waves = all_waves(minutes)
    shown = beside.output("positions")
    positions = {row: float(cell) for (row, name), cell in shown.items() if name == b"p:position"}
    expected = waves.positions[-1]
    keys = [b"c%010d" % car for car in expected.cars.tolist()]
    assert positions == dict(zip(keys, expected.values.tolist(), strict=True))
    segments = model.segment_keys()
    seen = {row: float(cell) for (row, name), cell in shown.items() if name == b"m:cars3"}
    cars = dict(zip(segments, waves.minute_cars[-1, :, 3].tolist(), strict=True))
    assert {row.decode(): cars for row, cars in seen.items()} == {
        segment: count for segment, count in cars.items() if not np.isnan(count)
    }
    asked = [one.queries[one.queries[:, Field.KIND] == Kind.TRAVEL] for one in minutes]
    answered = {row.decode() for row, name in beside.output("answer") if name == b"a:minutes"}
    assert answered == {f"q{query:010d}" for one in asked for query in one[:, Field.QUERY].tolist()}
