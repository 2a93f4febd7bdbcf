"""A small dataflow, and worlds in memory to run it in."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.engine import Engine, Instruction, Stimulus, WaveEnded
from headgate.flows import Dataflow, parse_dataflow

HERE = Path(__file__).resolve().parent
LEARNING = HERE.parent / "learning"
for folder in (str(HERE), str(LEARNING), str(LEARNING / "triggers")):
    if folder not in sys.path:
        sys.path.insert(0, folder)  # for ``simulation``, and ``lived`` and ``lived_models``

from simulation import World  # noqa: E402

TWO_STEPS = """
name: two-steps
containers:
  input: in c:v
  middle: mid c:v
  output: out c:v
actions:
  feed: {input: input}
  first:
    step: steps:first
    reads: input
    writes: middle
    when:
      input: {sequence: 3}
    retries: {attempts: 2, backoff: 1 s}
  second:
    step: steps:second
    after: first
    reads: middle
    writes: output
"""


@pytest.fixture
def two_steps() -> str:
    return TWO_STEPS


@pytest.fixture
def dataflow(two_steps: str) -> Dataflow:
    return parse_dataflow(two_steps, "two-steps.yaml")


@pytest.fixture
def world(dataflow: Dataflow) -> World:
    return World(dataflow)


@pytest.fixture
def ended_waves(monkeypatch: pytest.MonkeyPatch) -> list[WaveEnded]:
    """Ends of waves that engines have been given, whoever drives them."""
    ended: list[WaveEnded] = []
    handle = Engine.handle

    def noting(engine: Engine, stimulus: Stimulus) -> list[Instruction]:
        if isinstance(stimulus, WaveEnded):
            ended.append(stimulus)
        return handle(engine, stimulus)

    monkeypatch.setattr(Engine, "handle", noting)
    return ended


@pytest.fixture
def make_world(dataflow: Dataflow) -> Callable[..., World]:
    return lambda **settings: World(dataflow, **settings)
