"""A small dataflow, and worlds in memory to run it in."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.agent.scripted import World
from headgate.flows import Dataflow, parse_dataflow

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
def make_world(dataflow: Dataflow) -> Callable[..., World]:
    return lambda **settings: World(dataflow, **settings)
