"""The page, drawn from small results that are made here and stored as JSON in between."""

import re
from html.parser import HTMLParser

import msgspec
import numpy as np
import pytest
from aqhi import report
from aqhi.report import render, write_report
from aqhi.results import STEPS, Comparison, OutputError, Way

WAVES = 6
ZERO = OutputError(0.0, 0.0, 0.0)


def way(name, *, every=1, off=0.0):
    ran = list(range(0, WAVES, every))
    errors = [
        ZERO if wave in ran else OutputError(off / 100, off / 100, off) for wave in range(WAVES)
    ]
    return Way(
        name=name,
        bounds="",
        runs={step.action: ran for step in STEPS},
        seconds={step.action: 0.3 * len(ran) for step in STEPS},
        index=[4.0 + wave - (wave % every) for wave in range(WAVES)],
        errors={step.action: errors for step in STEPS} if off else {},
        maps=[np.full((3, 3), 20.0 + wave).tolist() for wave in range(WAVES)],
    )


def comparison(*, ways=1, labels=None):
    return Comparison(
        source="a seeded <generator> & more",
        side=4,
        labels=labels or [f"wave {number + 1}" for number in range(WAVES)],
        changed=[1.0, 0.5, 0.2, 0.9, 0.1, 0.4],
        synchronous=way("synchronous"),
        bounded=[way(f"σ {20 * (n + 1)} %", every=n + 2, off=3.0 * (n + 1)) for n in range(ways)],
        conditions=[("machine", "2 cores"), ("seed", "1")],
    )


def through_json(found):
    return msgspec.json.decode(msgspec.json.encode(found), type=Comparison)


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.links = []
        self.open = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        values = dict(attrs)
        self.links += [values[name] for name in ("src", "href", "xlink:href") if name in values]


@pytest.fixture(scope="module")
def text():
    """The page of one way under bounds: its drawings take a second."""
    return render(comparison())


@pytest.fixture(scope="module")
def hourly():
    """The page of three ways under bounds, whose waves are hours."""
    labels = [f"2015-11-27 {hour:02d}:00" for hour in range(WAVES)]
    return render(through_json(comparison(ways=3, labels=labels)))


def test_the_page_has_every_plot(text, hourly):
    for ways, drawn in ((1, text), (3, hourly)):
        page = Page(drawn)
        assert page.tags.count("svg") == 4 + ways
        assert page.tags.count("figcaption") == 4 + ways


def test_the_page_refers_to_nothing_outside_itself(text):
    for link in Page(text).links:
        assert link.startswith(("data:", "#"))
    assert "@import" not in text
    assert all(found.startswith("#") for found in re.findall(r"url\(([^)]*)\)", text))


def test_names_are_escaped(text):
    assert "&lt;generator&gt; &amp; more" in text
    assert "<generator>" not in text


def test_the_table_tells_runs_saved_and_errors(text):
    row = re.search(r"<tr><th>C</th>.*?</tr>", text, re.DOTALL)
    assert row is not None
    assert "<td>6</td><td>3</td><td><b>50 %</b></td><td>1.50 %</td><td>3.00 %" in row[0]


def test_the_summary_counts_all_runs_of_all_steps(text):
    assert "ran <b>30</b> times" in text
    assert "<b>15</b> times" in text
    assert "<b>50 % fewer</b>" in text


def test_drawings_take_the_colour_of_the_page_s_text(text):
    assert "#010203" not in text
    assert "currentColor" in text


def test_hours_are_told_from_the_first_to_the_last(hourly):
    assert "2015-11-27 00:00 to 2015-11-27 05:00" in hourly


def test_the_same_results_give_the_same_page(text):
    assert render(through_json(comparison())) == text


def test_the_page_is_written_where_it_is_asked_for(tmp_path, text, monkeypatch):
    monkeypatch.setattr(report, "render", lambda _: text)
    path = write_report(comparison(), tmp_path / "new" / "page.html")
    assert path.is_absolute()
    assert path.read_text(encoding="utf-8") == text
    assert text.startswith("<!DOCTYPE html>")
