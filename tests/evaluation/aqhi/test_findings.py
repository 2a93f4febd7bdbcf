"""Sentences of the evaluation's page follow from its figures."""

from __future__ import annotations

from typing import Any

from evaluation.aqhi.findings import held_by_divergence, papers_f, spared_by_c


def ran(**percent: float) -> dict[str, dict[str, float]]:
    return {s.removeprefix("s"): {"executions_percent": p} for s, p in percent.items()}


def test_what_bounds_on_c_spare_is_told_by_sigma() -> None:
    said = spared_by_c(ran(s20=82.1, s40=48.2, s80=29.8), ran(s20=81.5, s40=39.3, s80=18.5))
    assert said.startswith(
        "Bounds on C spare runs of E: 48 → 39 % at σ 40 %, 30 → 18 % at σ 80 %, "
        "and nothing at σ 20 %."
    )


def test_where_bounds_on_c_spare_nothing_that_is_said() -> None:
    same = ran(s20=82.1, s80=29.8)
    assert spared_by_c(same, same).startswith("Bounds on C spare E nothing")


def test_the_divergence_takes_over_where_executions_change_no_more() -> None:
    said = held_by_divergence(ran(s20=30.4, s40=6.5, s60=5.4, s80=5.4), 0.3)
    assert "30 % at σ 20 %, 6 % at σ 40 %, 5 % at σ 60 %" in said
    assert "From σ 60 % on that does not change: it is the 0.3 points" in said
    said = held_by_divergence(ran(s20=30.4, s40=5.9, s60=5.4, s80=5.4), 0.3)
    assert "From σ 40 % on" in said
    assert "σ counts up to the largest" in held_by_divergence(ran(s20=30, s40=20, s80=10), 0.3)


def test_a_dip_between_is_no_end() -> None:
    assert "From σ 60 % on" in held_by_divergence(ran(s20=5.4, s40=9.0, s60=5.4, s80=5.4), 0.3)


def test_the_papers_figures_stand_beside_and_the_fit_is_called_one() -> None:
    figures: dict[str, dict[str, Any]] = {
        "20": {"executions_percent": 27.0, "paper_percent": 30.0},
        "40": {"executions_percent": 7.0, "paper_percent": None},
        "80": {"executions_percent": 5.0, "paper_percent": 5.0},
    }
    said = papers_f(figures)
    assert "27 % here and 30 % there at σ 20 %, 5 % here and 5 % there at σ 80 %" in said
    assert "chosen to come near these two" in said
