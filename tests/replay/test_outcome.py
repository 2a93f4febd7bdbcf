"""The figures of a replay, from runs and errors that are given."""

from __future__ import annotations

import pytest

from headgate.replay import OutputReplay, Replayed, ReplayedRun, StepReplay
from headgate.replay.outputs import OutputError

NEAR = OutputError(changed=0.25, epsilon=0.125, relative=0.5, largest=2.0)
FAR = OutputError(changed=0.75, epsilon=0.5, relative=None, largest=6.0)
FAIR = OutputError(changed=0.5, epsilon=0.125, relative=0.5, largest=1.0)

MISSED = OutputReplay("missed", (NEAR, FAR, FAIR))
EXACT = OutputReplay("exact", (OutputError(0.0, 0.0, 0.0, 0.0),))


def step(name: str, recorded: int, runs: int, *outputs: OutputReplay) -> StepReplay:
    made = tuple(ReplayedRun(wave, float(wave), "due", "") for wave in range(1, runs + 1))
    return StepReplay(name, recorded, made, outputs)


def test_an_output_has_the_mean_and_the_worst_of_its_errors() -> None:
    assert (MISSED.mean, MISSED.worst) == (0.25, 0.5)
    assert (MISSED.changed, MISSED.largest) == (0.5, 6.0)


def test_an_output_that_was_never_measured_has_no_error() -> None:
    nothing = OutputReplay("out", ())
    assert (nothing.mean, nothing.worst, nothing.changed, nothing.largest) == (0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("recorded", "runs", "saved"), [(8, 2, 0.75), (4, 4, 0.0), (2, 3, -0.5), (0, 3, 0.0)]
)
def test_a_step_saves_the_share_of_recorded_runs_that_would_not_have_been(
    recorded: int, runs: int, saved: float
) -> None:
    assert step("one", recorded, runs).saved == saved
    assert Replayed("label", 1, (step("one", recorded, runs),)).saved == saved


def test_a_step_is_as_far_off_as_the_worst_of_its_outputs() -> None:
    assert step("one", 1, 1, EXACT, MISSED, EXACT).error == 0.25
    assert step("one", 1, 1).error == 0.0


def test_a_dataflow_has_the_runs_of_all_of_its_steps() -> None:
    replayed = Replayed("label", 3, (step("one", 10, 2), step("two", 10, 3)))
    assert (replayed.runs, replayed.recorded, replayed.saved) == (5, 20, 0.75)
    assert replayed.step("two").recorded == 10
    assert len(replayed.step("two").runs) == 3
