"""When sessions that do nothing end, and when they start again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulation import World

from headgate.agent.launchers.warm.resting import Rest, lead_of
from headgate.flows import parse_dataflow

REST = Rest(600.0)


@pytest.mark.parametrize(("took", "lead"), [(0.0, 5.0), (2.0, 5.0), (12.0, 24.0)])
def test_a_session_starts_as_long_ahead_as_twice_the_last_start(took: float, lead: float) -> None:
    assert lead_of(took) == lead


def test_a_session_ends_after_its_time_without_a_run() -> None:
    assert REST.ends(100.0, None, 24.0) == 700.0


def test_without_a_time_a_session_stays() -> None:
    assert Rest(0.0).ends(100.0, None, 24.0) is None
    assert Rest(0.0).ends(100.0, 200.0, 24.0) is None


def test_a_run_far_off_does_not_keep_a_session() -> None:
    assert REST.ends(100.0, 725.0, 24.0) == 700.0


def test_a_session_that_would_have_to_start_again_by_then_stays_past_the_run() -> None:
    assert REST.ends(100.0, 724.0, 24.0) == 1324.0
    assert REST.ends(100.0, 300.0, 24.0) == 900.0


def test_a_run_that_was_foreseen_and_did_not_come_is_no_reason_to_stay() -> None:
    assert REST.ends(100.0, 50.0, 24.0) == 700.0


def test_a_session_starts_again_ahead_of_a_run() -> None:
    assert REST.starts(700.0, 3600.0, 24.0) == 3576.0
    assert REST.starts(700.0, 710.0, 24.0) == 700.0


def test_what_was_foreseen_before_it_ended_starts_nothing() -> None:
    assert REST.starts(700.0, None, 24.0) is None
    assert REST.starts(700.0, 700.0, 24.0) is None


@given(
    since=st.floats(0, 1e6), due=st.floats(0, 1e6), lead=st.floats(5, 1e3), idle=st.floats(1, 1e5)
)
def test_no_session_ends_only_to_start_again_at_once(
    since: float, due: float, lead: float, idle: float
) -> None:
    rest = Rest(idle)
    ends = rest.ends(since, due, lead)
    assert ends is not None
    assert ends >= since + idle
    starts = rest.starts(ends, due, lead)
    assert starts is None or starts > ends


THETA = """
name: timed
containers: {input: "in c:v", output: "out c:v"}
actions:
  feed: {input: input}
  step:
    step: steps:first
    reads: input
    writes: output
    evaluate: write
    when: {input: {time: 1 h}}
"""


def test_the_launcher_is_told_when_time_alone_brings_the_next_run() -> None:
    world = World(parse_dataflow(THETA, "timed.yaml"))
    agent = world.start_agent()
    world.run(lambda: True)
    world.write("in", b"1", b"c:v", b"1")
    world.run(lambda: bool(world.commits) and agent.worker.expected[-1] is not None)
    expected = agent.worker.expected[-1]
    assert expected is not None
    assert 3500.0 < expected <= 3600.0

    agent.ask(lambda runtime, now: runtime.commands.pause(now))
    world.run(lambda: agent.worker.expected[-1] is None)
