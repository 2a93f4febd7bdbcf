"""Bounds are found for a target error and for a target saving."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headgate.engine import Bound, DataflowSpec, SequenceBound, SequenceUnit
from headgate.events import ContainerId
from headgate.replay import (
    ErrorTarget,
    Factors,
    OutputError,
    OutputReplay,
    Replayed,
    ReplayedRun,
    SavingTarget,
    StepReplay,
    Target,
    tune,
)

ACTIONS = ("smooth", "high", "total")
READS = {"smooth": "readings", "high": "smoothed", "total": "heights"}


@pytest.fixture(scope="module")
def evaluate(record: Any, make_chain: Callable[..., DataflowSpec]) -> Any:
    world = record(make_chain(), 2)
    known: dict[tuple[float, ...], Replayed] = {}  # all searches begin with the same

    def of(factors: Factors) -> tuple[float, ...]:
        return tuple(map(factors.__getitem__, ACTIONS))

    def evaluate(candidates: Sequence[Factors]) -> Sequence[Replayed]:
        new = {of(factors): factors for factors in candidates if of(factors) not in known}
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
            for factors in new.values()
        ]
        known.update(zip(new, world.replay(*specs).replays, strict=True) if new else ())
        return [known[of(factors)] for factors in candidates]

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


def made_up(factors: Factors) -> Replayed:
    """Return steps that run the less the larger their limits are; only ``b`` errs the more."""

    def step(action: str, epsilon: float) -> StepReplay:
        runs = (ReplayedRun(1, 1.0, "due", ""),) * round(500 / factors[action])
        error = OutputError(changed=1.0, epsilon=epsilon, relative=None, largest=1.0)
        return StepReplay(action, 1000, runs, (OutputReplay("out", (error,)),))

    return Replayed(
        "l", 1, tuple(step(each, factors["b"] / 128 if each == "b" else 0.0) for each in factors)
    )


@pytest.mark.parametrize(
    ("target", "lowest"),
    [(ErrorTarget(3 / 128), 2.0), (SavingTarget(0.7), 1.0), (SavingTarget(-8.0), 1 / 32)],
)
def test_the_octave_in_which_the_target_lies_is_searched_in_even_steps(
    target: Target, lowest: float
) -> None:
    passes: list[list[float]] = []

    def evaluate(candidates: Sequence[Factors]) -> Sequence[Replayed]:
        passes.append([factors["b"] for factors in candidates])
        return list(map(made_up, candidates))

    tune(evaluate, ["b"], ["b"], target)
    octaves, between = passes
    assert octaves == [2.0**octave for octave in range(-4, 8)]
    assert between == pytest.approx([lowest * 2 ** (step / 8) for step in range(1, 8)])


def test_a_step_that_does_not_err_is_let_off_further_round_by_round() -> None:
    passes: list[list[tuple[float, float]]] = []

    def evaluate(candidates: Sequence[Factors]) -> Sequence[Replayed]:
        passes.append([(each["b"], each["free"]) for each in candidates])
        return list(map(made_up, candidates))

    found = tune(evaluate, ["b", "free"], ["b"], ErrorTarget(3 / 128))
    assert found.best.factors == pytest.approx({"b": 2 * 2**0.5, "free": 2 * 2**0.5 * 2**3})
    together, moves = 2 * 2**0.5, (0.5, 0.8, 1.25, 2.0)
    tried = [(together * move, together) for move in moves]
    tried += [(together, together * move) for move in moves]
    assert passes[2] == [pytest.approx(each) for each in tried]
