"""Bounds are found for a target error and for a target saving."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headgate.engine import Bound, DataflowSpec, SequenceBound, SequenceUnit
from headgate.events import ContainerId
from headgate.replay import ErrorTarget, Factors, Replayed, SavingTarget, tune

ACTIONS = ("smooth", "high", "total")
READS = {"smooth": "readings", "high": "smoothed", "total": "heights"}


@pytest.fixture(scope="module")
def evaluate(record: Any, make_chain: Callable[..., DataflowSpec]) -> Any:
    world = record(make_chain(), 2)

    def evaluate(candidates: Sequence[Factors]) -> Sequence[Replayed]:
        specs = [
            make_chain(
                **{
                    action: Bound(
                        "k",
                        ContainerId(READS[action]),
                        sequence=SequenceBound(factor, SequenceUnit.PERCENT),
                    )
                    for action, factor in factors.items()
                }
            )
            for factors in candidates
        ]
        return list(world.replay(*specs).replays)

    return evaluate


@pytest.mark.parametrize("limit", [0.02, 0.1, 0.2])
def test_an_error_is_kept_with_the_largest_saving_that_was_tried(
    evaluate: Any, limit: float
) -> None:
    found = tune(evaluate, ACTIONS, ["total"], ErrorTarget(limit))
    assert found.met
    assert found.best.error <= limit
    within = [trial.saved for trial in found.curve if trial.error <= limit]
    assert found.best.saved == max(within)
    assert found.best.replayed.runs < found.best.replayed.recorded


@pytest.mark.parametrize("limit", [0.3, 0.6, 0.9])
def test_a_saving_is_reached_with_the_least_error_that_was_tried(
    evaluate: Any, limit: float
) -> None:
    found = tune(evaluate, ACTIONS, ["total"], SavingTarget(limit))
    assert found.met
    assert found.best.saved >= limit
    assert found.best.error == min(t.error for t in found.curve if t.saved >= limit)


def test_the_curve_only_saves_more_where_it_errs_more(evaluate: Any) -> None:
    curve = tune(evaluate, ACTIONS, ["total"], SavingTarget(0.5)).curve
    assert len(curve) > 3
    pairs = [(trial.saved, trial.error) for trial in curve]
    assert pairs == sorted(pairs)
    assert [e for _, e in pairs] == sorted({e for _, e in pairs})


def test_what_cannot_be_met_is_said(evaluate: Any) -> None:
    found = tune(evaluate, ACTIONS, ["total"], SavingTarget(1.0))
    assert not found.met
    assert found.best.saved == max(trial.saved for trial in found.curve)
