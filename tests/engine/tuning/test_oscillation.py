"""Limits of intervals hardly ever turn, whatever the load does (section 4)."""

import itertools
import math

import msgspec
from adjusted import (
    BOUND,
    BUSY,
    QUIET,
    SPEC,
    adjustments,
    explained,
    flow,
    limit,
    many,
    pass_minutes,
)
from hypothesis import given, settings
from hypothesis import strategies as some

from headgate.engine import Assessment, DecisionKind, EngineTester, Vote
from headgate.engine.tuning.adjustment import Adjuster


def reversals(moves) -> int:
    directions = [move.outcome for _, move in moves]
    return sum(a is not b for a, b in itertools.pairwise(directions))


@given(
    load=some.lists(
        some.tuples(some.integers(0, 40), some.sampled_from(list(Vote))), min_size=60, max_size=200
    ),
    start=some.floats(0, 1),
)
def test_whatever_the_load_does_the_direction_changes_once_in_ten_minutes_at_most(load, start):
    adjuster = Adjuster(BOUND, msgspec.structs.replace(SPEC, start=start))
    updates, moves = 0, []
    for step, (writes, vote) in enumerate(load):
        updates += writes
        move = adjuster.assess(10.0 * step, updates, Assessment(vote, ""))
        if move is not None:
            moves.append((10.0 * step, move))
        assert 0 <= adjuster.state.share <= 1
    for begin, _ in moves:
        within = [(time, move) for time, move in moves if begin <= time < begin + 600]
        assert reversals(within) <= 1


@settings(max_examples=settings().max_examples // 5)
@given(writes=some.integers(0, 40), gain=some.floats(5, 200), start=some.floats(0, 1))
def test_under_steady_load_that_the_limit_itself_drives_it_hardly_ever_turns(writes, gain, start):
    """A closed loop: the lower the limit, the more runs, the busier the machine."""
    tester = EngineTester(flow(BOUND, adjustment=msgspec.structs.replace(SPEC, start=start)))
    moves = []
    for _ in range(180):
        told = tester.pass_time(10)
        if writes:
            told += tester.write("in", many(writes))
        share = explained(tester).share
        told += tester.sample(cpu=min(100.0, gain * (1.2 - share)))
        moves += [
            (tester.now, i.decision.adjustment)
            for i in told
            if hasattr(i, "decision") and i.decision.kind is DecisionKind.ADJUSTED
        ]
    assert reversals(moves) <= math.floor(180 / 60)
    for begin, _ in moves:
        within = [(time, move) for time, move in moves if begin <= time < begin + 600]
        assert reversals(within) <= 1


def test_relax_then_restrict_under_a_load_that_comes_and_goes():
    tester = EngineTester(flow(BOUND))
    pass_minutes(tester, 10, writes=50, cpu=BUSY)
    top = limit(tester)
    pass_minutes(tester, 20, writes=1, cpu=QUIET)
    assert top == 1100
    assert limit(tester) == 100
    directions = [a.outcome for a in adjustments(tester)]
    assert directions == sorted(directions, key=directions.index)  # one turn
    assert set(directions) == {Vote.RELAX, Vote.RESTRICT}
