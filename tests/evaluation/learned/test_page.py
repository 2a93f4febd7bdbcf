"""The page of the bench, of outcomes that were drawn at random."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from evaluation.learned.classification import Classification, CurvePoint, RocArea
from evaluation.learned.evaluation import BOUNDS, SETTLED, Outcome, Seed, StepQuality
from evaluation.learned.figures import figures_of
from evaluation.learned.overheads import Overhead
from evaluation.learned.page import Conditions, write_page

from headgate.learning.fitting.quality import Quality

WAVES = SETTLED + 40
OTHERS = ("seq2", "seq3", "seq4", "seq5", "random", "σ", "ν", "paper", "oracle")
CONDITIONS = Conditions(2, 196, 600.0)


class Balance(HTMLParser):
    """Holds the elements that are open."""

    VOID = ("meta", "br", "path", "use", "rect", "image")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def outcomes(name: str, seed: int) -> list[Outcome]:
    random = np.random.default_rng(seed)
    found = []
    for bound in BOUNDS:
        for setting, outputs in (("step", ("2", "3<a>")), ("whole", ("map",))):
            some = OTHERS if setting == "step" else ("oracle",)
            for output in outputs:
                for policy in ("learned", "learned, alone", *some):
                    ran = random.random(WAVES) < 0.5
                    errors = np.where(ran, 0.0, random.uniform(0.0, 1.2 * bound, WAVES))
                    found.append(
                        Outcome(
                            name, seed, setting, bound, output, policy,
                            1.0 - float(ran.mean()), (errors > bound).tolist(), ran.tolist(),
                            errors.tolist(), (1.1 * errors).tolist(),
                        )
                    )  # fmt: skip
    return found


def measured() -> Classification:
    one, none = Quality(40, 9, 0.9, 0.8, 0.7, 0.95), Quality(40, 0, 1.0, None, None, None)
    return Classification(
        {"2": [(0.01, 0.1), (0.02, 0.3), (0.03, 0.2)], "3<a>": [(0.0, 0.0), (0.0, 0.1)]},
        [
            CurvePoint("2", bound, waves, way, one if waves > 50 and bound < 0.2 else none)
            for bound in BOUNDS
            for waves in (50, 100)
            for way in ("learned", "paper")
        ],
        [
            RocArea(name, inputs, "2", 0.1, area, None if inputs == "ι" else 0.5)
            for name, area in (("SVM", 0.75), ("random forest", 0.85))
            for inputs in ("ι", "features")
        ],
    )


def seed(name: str, number: int, *, extra: bool) -> Seed:
    whole = {
        f"{bound:g}": {"learned": 0.2, "learned, alone": 0.25, "oracle": 0.5} for bound in BOUNDS
    }
    return Seed(
        outcomes(name, number),
        whole,
        [StepQuality("2", 0.1, Quality(40, 9, 0.925, 0.8, 0.7, 0.95))],
        [2.0],
        measured() if extra else None,
        [Overhead("classifying instances", "all <decisions>", 1.25)] if extra else [],
    )


def drawn(path: Path, *, extra: bool) -> str:
    results = {
        name: [seed(name, number, extra=extra and number == 1) for number in (1, 2)]
        for name in ("AQHI", "LRB")
    }
    figures = {name: figures_of(each) for name, each in results.items()}
    json.dumps(figures, allow_nan=False)
    written = write_page(results, figures, CONDITIONS, path)
    assert written == path
    return written.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return drawn(tmp_path_factory.mktemp("new") / "folder" / "page.html", extra=True)


def test_the_page_has_every_figure_of_both_dataflows(page: str) -> None:
    for number in range(7, 13):
        assert f"Figure {number}:" in page
    assert page.count("<svg") == 2 * 6
    assert page.count("<table>") == 2 * 6
    assert "Not part of this run" not in page
    assert not re.search(r"\$\w", page)


def test_the_page_is_well_formed_and_escapes_names(page: str) -> None:
    balance = Balance()
    balance.feed(page)
    assert balance.open == []
    assert "all &lt;decisions&gt;" in page


def test_drawings_take_the_pages_own_text_colour(page: str) -> None:
    assert "currentColor" in page
    assert "#010203" not in page
    assert "prefers-color-scheme: dark" in page


def test_tables_have_the_figures_beside_the_papers(page: str) -> None:
    assert (
        "<td>random forest</td><td>0.85</td><td>none</td><td>0.85</td><td>0.50</td><td>0.86</td>"
        in (page)
    )
    assert "<td>10 %</td><td>92.5</td><td>80.0</td><td>70.0</td>" in page
    assert "1.25 ms, within the 5 ms" in page
    assert "<td>20.0</td><td>50.0</td></tr>" in page


def test_what_was_not_measured_is_left_out(tmp_path: Path) -> None:
    page = drawn(tmp_path / "page.html", extra=False)
    assert page.count("Not part of this run") == 2 * 4
    assert page.count("<svg") == 2 * 4
