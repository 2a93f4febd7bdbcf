"""The engine against an oracle that computes everything from the list of all updates.

Random dataflows, bounds and updates: whatever the order between partitions, however often messages
come twice, and wherever the engine is restarted, the same runs happen with the same causes and
cuts, and no update is lost.
"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from partitioned import World, failing_runs, play, play_waves, updates_of
from random_dataflows import chances, dataflows, waves
from recomputed import Oracle

from headgate.engine import (
    Count,
    DataflowSpec,
    Engine,
    Paused,
    Resumed,
    SpecificationChanged,
    WaveEnded,
    check_invariants,
)
from headgate.engine.protocol.stimuli import ContainerScanned


def _against_the_oracle(spec: DataflowSpec, waves, *, fail: bool) -> None:
    plain = World(spec, random.Random(0))
    play_waves(plain, waves, set(), Oracle(spec))
    if fail:
        failures = failing_runs(plain.launched, random.Random(1))
        play_waves(World(spec, random.Random(0)), waves, failures, Oracle(spec))


@given(dataflows(), waves, st.booleans())
def test_the_incremental_state_agrees_with_one_computed_from_all_updates(spec, waves, fail):
    _against_the_oracle(spec, waves, fail=fail)


@pytest.mark.soak
@settings(max_examples=5000, deadline=None)
@given(dataflows(), waves, st.booleans())
def test_the_incremental_state_agrees_for_long(spec, waves, fail):
    _against_the_oracle(spec, waves, fail=fail)


@settings(max_examples=settings().max_examples // 2)
@given(dataflows(), waves, chances, st.booleans())
def test_order_duplicates_and_restarts_change_no_run(spec, waves, chance, fail):
    plain = World(spec, random.Random(0))
    play_waves(plain, waves, set(), None)
    failures = failing_runs(plain.launched, random.Random(1)) if fail else set()
    if failures:
        plain = World(spec, random.Random(0))
        play_waves(plain, waves, failures, None)
    rough = World(spec, chance, disorder=True, redeliver=True, restart=True)
    play_waves(rough, waves, failures, None)
    assert rough.launched == plain.launched
    assert rough.engine.cut == plain.engine.cut
    assert [a.missing for a in rough.engine.explain(0).actions] == [
        a.missing for a in plain.engine.explain(0).actions
    ]


@settings(max_examples=settings().max_examples // 2)
@given(dataflows(), waves, chances)
def test_a_request_published_twice_counts_once(spec, waves, chance):
    plain = World(spec, random.Random(0))
    play_waves(plain, waves, set(), None)
    rough = World(spec, chance, republish=True)
    play_waves(rough, waves, set(), None)
    # Offsets differ, since the log is longer; what ran and why does not.
    assert [(r.run, r.cause) for r in rough.launched] == [(r.run, r.cause) for r in plain.launched]


@settings(max_examples=settings().max_examples // 2)
@given(dataflows(), waves, chances)
def test_a_further_attempt_has_the_run_cut_and_cause_of_the_first(spec, waves, chance):
    world = World(spec, chance, restart=True)
    play_waves(world, waves, set(), None)
    first = {launch.run: launch for launch in world.launched}
    for attempt in world.attempts:
        original = first[attempt.run]
        assert (attempt.cut, attempt.since, attempt.cause) == (
            original.cut,
            original.since,
            original.cause,
        )


@settings(max_examples=settings().max_examples // 2)
@given(dataflows(), waves, chances)
def test_cuts_of_an_action_follow_each_other_without_hole(spec, waves, chance):
    world = World(spec, chance, disorder=True)
    play_waves(world, waves, set(), None)
    for name in ("one", "two", "three"):
        runs = [launch for launch in world.launched if launch.action == name]
        for earlier, later in pairwise(runs):
            assert later.since == earlier.cut
            assert later.cut.covers(earlier.cut)


@settings(max_examples=settings().max_examples // 2)
@given(dataflows(), waves, chances, st.booleans())
def test_no_update_is_uncounted(spec, waves, chance, fail):
    failures = {"flow-one-1", "flow-three-1"} if fail else set()
    world = World(spec, chance, disorder=True, redeliver=True, republish=True, restart=True)
    play_waves(world, waves, failures, None)
    oracle = Oracle(spec)
    for action in world.engine.actions.values():
        for container, parts in action.parts.items():
            by_row = oracle.watched[container].count is Count.ROWS
            every = {
                (u.request, u.table, u.row, b"" if by_row else u.column)
                for u in oracle.cells(container, world.updates)
                if action.spec.own or u.writer != action.name
            }
            # No run is active at the end, so all else was consumed by runs that committed.
            counted = sum(pending.committed + pending.updates for _, pending in parts)
            assert counted == len(every)


def remembered(engine: Engine) -> object:
    """Return what an engine remembers of cells, and of what each action has not consumed."""
    found: dict[tuple, object] = {}
    for place, cells in engine.cells.items():
        found[place] = (
            cells.columns.contents(),
            cells.scans.complete,
            cells.reads.unsettled,
            cells.elements,
        )
        for one in cells.watchers.pendings:
            taken = cells.watchers.consumed.get(one.action)
            found[place, one.action] = (
                (one.updates, one.received, one.committed, set(one.distinct), one.uncounted),
                (
                    one.fresh,
                    one.measured(),
                    one.measured_magnitude(),
                    cells.columns.previous(one.past),
                ),
                None if taken is None else (taken.updates, set(taken.distinct), taken.fresh),
                None if taken is None else cells.columns.previous(taken.past),
            )
    return found


@settings(max_examples=settings().max_examples // 2)
@given(dataflows(), dataflows(), waves, st.integers(0, 30), st.randoms(use_true_random=False))
def test_going_on_with_an_edit_is_what_beginning_anew_from_a_snapshot_is(
    first, second, story, moment, chance
):
    graph = {action.name: action.after for action in first.actions}
    actions = [replace(action, after=graph[action.name]) for action in second.actions]
    second = replace(second, actions=tuple(actions))
    world = World(first, random.Random(0))
    numbers = iter(range(1, 1_000_000))
    steps = iter(range(1_000_000))
    edited = False

    def maybe_edit() -> None:
        nonlocal edited
        if next(steps) != moment or edited:
            return
        edited = True
        world.handle(Paused(world.now))
        anew = Engine(second, world.engine.snapshot())
        world.spec = second
        world.engine.handle(SpecificationChanged(world.now, second))
        check_invariants(world.engine)
        check_invariants(anew)
        assert remembered(world.engine) == remembered(anew)
        for (container, table), cells in world.engine.cells.items():
            if not cells.scans.complete:  # what the table holds is what the world has not told yet
                world.engine.handle(ContainerScanned(world.now, container, table, [], []))
        world.handle(Resumed(world.now))

    for wave in story:
        for table, written in wave:
            world.publish(updates_of(numbers, None, table, written))
        world.deliver()
        maybe_edit()
        world.now += 1
        world.handle(WaveEnded(world.now, ("in",)))
        for _ in range(20):
            active = [a for a in world.engine.actions.values() if a.run is not None]
            if not active:
                break
            maybe_edit()
            active = [a for a in world.engine.actions.values() if a.run is not None]
            if active:
                play(world, chance.choice(active).name, set(), None, numbers)
            check_invariants(world.engine)
