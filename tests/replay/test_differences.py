"""Where a replay and its record do not agree, wave by wave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.engine import Bound, DataflowSpec, SequenceBound, SequenceUnit
from headgate.events import ContainerId
from headgate.replay import differences
from headgate.replay.outcome import Difference

Chain = Callable[..., DataflowSpec]
Record = Callable[..., Any]


def limited(make_chain: Chain) -> DataflowSpec:
    sequence = SequenceBound(60, SequenceUnit.PERCENT)
    return make_chain(smooth=Bound("k", ContainerId("readings"), sequence=sequence))


def waves_of(runs: Any) -> set[int]:
    return {run.wave for run in runs}


def test_runs_that_would_not_have_been_are_differences(make_chain: Chain, record: Record) -> None:
    world = record(make_chain(), 1, waves=10)
    [replayed] = world.replay(limited(make_chain)).replays
    left_out = [
        Difference(step.action, wave, 1, 0)
        for step in replayed.steps
        for wave in sorted(set(range(1, 11)) - waves_of(step.runs))
    ]
    assert {each.action for each in left_out} == {"smooth", "high", "total"}
    assert list(differences(replayed, world.recording())) == left_out


def test_runs_that_were_not_recorded_are_differences(make_chain: Chain, record: Record) -> None:
    world = record(limited(make_chain), 1, waves=10)
    recording = world.recording()
    [replayed] = world.replay(make_chain()).replays
    added = [
        Difference(step.action, wave, 0, 1)
        for step in replayed.steps
        for wave in sorted(waves_of(step.runs) - waves_of(recording.runs[step.action]))
    ]
    assert {each.action for each in added} == {"smooth", "high", "total"}
    assert list(differences(replayed, recording)) == added
