"""What is taught of a recording is what the dataflow was, and what is decided by in service."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from lived import CONTAINERS, HOUR, AllWaves, Lived
from lived_models import fitted as lived_fitted
from msgspec.structs import replace
from sklearn.ensemble import ExtraTreesRegressor
from taught import (
    GRAPH,
    STEPS,
    Hostile,
    RecordedWorld,
    Unsure,
    lesson_of,
    recording_of,
    service_of,
)

from headgate.agent.training.teacher import Lesson, Wanted
from headgate.engine import DecisionKind, Engine, ObserverLost
from headgate.events import VERSION, Gap, UpdateBatch
from headgate.learning import (
    FEATURES,
    ContainerModel,
    ErrorMetric,
    LearnedSettings,
    Model,
    OutputSettings,
    Predicted,
    Residuals,
    WaveContext,
    encode_model,
    errors,
    features,
    forest_of,
    levels_of,
    log_ratio,
    measured_pairs,
)
from headgate.learning import row_of as rows_of

WAVES, HORIZON = 30, 6
BOUNDS = {"level": 0.04, "map": 0.1}
SETTINGS = LearnedSettings({name: OutputSettings(b) for name, b in BOUNDS.items()}, 0.0, 336, 6)
EVERYTHING = Wanted(WAVES, WAVES)


def unchecked(_: Engine) -> None:
    """Look at nothing: the invariants take longer than the engine."""


def lived_through(
    seed: int = 0,
    world: type[RecordedWorld] = RecordedWorld,
    *,
    early: bool = False,
    between: Callable[[Lived], None] = lambda _: None,
    after: Callable[[Lived, int], None] = lambda *_: None,
) -> Lived:
    """Return a world after all its waves, in which every step ran."""
    lived = Lived(AllWaves(seed, WAVES), SETTINGS, unchecked, world)
    for wave in range(1, WAVES + 1):
        assert lived.pass_wave(early=early, between=lambda: between(lived)) == set(STEPS)
        after(lived, wave)
    return lived


def assert_true(lesson: Lesson, truth: AllWaves) -> None:
    waves = np.array(lesson.waves) - 1
    for container in CONTAINERS:
        taught, expected = lesson.histories[container], truth.history(container)
        np.testing.assert_array_equal(taught.values, expected.values[waves])
        np.testing.assert_array_equal(taught.elements, expected.elements[waves])
        np.testing.assert_array_equal(taught.updates, expected.updates[waves])
        np.testing.assert_array_equal(taught.times, expected.times[waves])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["plain", "early", "twice", "restarts"])
def test_containers_are_taught_as_they_were_wave_by_wave(seed: int, kind: str) -> None:
    world = Hostile if kind == "twice" else RecordedWorld
    lived = lived_through(
        seed,
        world,
        early=kind == "early",
        between=lambda lived: lived.tester.restart() if kind == "restarts" else None,
    )

    lesson = lesson_of(lived, EVERYTHING)

    assert lesson.waves == tuple(range(1, WAVES + 1))
    assert lesson.left_out == ()
    assert_true(lesson, lived.truth)


@pytest.mark.parametrize("seed", range(3))
def test_features_of_a_lesson_are_bit_for_bit_those_of_service(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lesson = lesson_of(lived_through(seed, Hostile), EVERYTHING)
    tables, models = fitted(lesson)
    served = Lived(AllWaves(seed, WAVES), SETTINGS, unchecked, Hostile)
    served.use(models)
    seen: list[tuple[int, int, bytes]] = []

    def noting(measured, context: WaveContext):
        row = rows_of(measured, context)
        seen.append((served.wave, context.age, row.tobytes()))
        return row

    monkeypatch.setattr("headgate.learning.triggers.above.row_of", noting)
    for _ in range(WAVES):
        served.pass_wave(early=True)

    known = {
        (wave, age, table[wave, age].tobytes())
        for table in tables
        for wave in range(WAVES)
        for age in range(1, HORIZON + 1)
    }
    assert set(seen) <= known
    assert {age for _, age, _ in seen} >= {1, 2, 3}, "skips make outputs older"


def fitted(lesson: Lesson) -> tuple[list[np.ndarray], dict[str, bytes]]:
    """Return all features that models are shown, and models that skip some waves."""
    tables, models = [], {}
    for output, bound in BOUNDS.items():
        pairs = measured_pairs(lesson.histories[output], HORIZON)
        known = errors(pairs, ErrorMetric.RELATIVE)
        containers = {}
        for container in GRAPH.above(output):
            history = lesson.histories[container]
            levels = levels_of(history.values)
            table = features(measured_pairs(history, HORIZON, levels), pairs.means)
            tables.append(table)
            there = [(t, a) for t in range(WAVES) for a in range(1, min(t, HORIZON) + 1)]
            rows = np.array([table[pair] for pair in there])
            target = log_ratio(np.array([known[pair] for pair in there]), bound)
            forest = ExtraTreesRegressor(5, min_samples_leaf=3, random_state=1).fit(rows, target)
            containers[container] = ContainerModel(
                forest_of(
                    [one.tree_ for one in forest.estimators_],
                    FEATURES,
                    (output,),
                    Predicted.LOG_ERROR,
                ),
                rows.min(0),
                rows.max(0),
                levels,
                Residuals(50.0, 0.3),
            )
        models[output] = encode_model(
            Model(output, ErrorMetric.RELATIVE, bound, 0.95, 0.2, containers, HORIZON, WAVES,
                  0.0, 1.0, 0.05, "")
        )  # fmt: skip
    return tables, models


def test_only_what_an_output_depends_on_is_taught() -> None:
    lesson = lesson_of(lived_through(), EVERYTHING, ("map",))

    assert set(lesson.histories) == {"sensors", "areas", "map"}


def test_the_newest_stretch_that_is_long_enough_is_taken_and_no_more_of_it() -> None:
    lesson = lesson_of(lived_through(), Wanted(last=20, waves=8))

    assert lesson.waves == tuple(range(13, 21))
    assert_true(lesson, AllWaves(0, WAVES))


def spoiled(first: int, last: int) -> Callable[[Lived, int], None]:
    """Return what has one more sensor, without a number, from one wave to another."""

    def after(lived: Lived, wave: int) -> None:
        if wave == first - 1:
            lived.tester.write("sensors", {b"999": {b"f:x": b"no number"}})
        elif wave == last:
            lived.tester.write("sensors", {b"999": {b"f:x": None}})

    return after


@pytest.mark.parametrize(
    ("waves", "taught"), [(5, range(26, 31)), (10, range(15, 25)), (30, range(1, 25))]
)
def test_stretches_have_no_hole_and_the_longest_is_taken_if_none_is_long_enough(
    waves: int, taught: range
) -> None:
    lesson = lesson_of(lived_through(after=spoiled(25, 25)), Wanted(WAVES, waves))

    assert lesson.waves == tuple(taught)
    assert [each.wave for each in lesson.left_out] == [25]


def test_waves_with_values_that_no_codec_reads_are_left_out() -> None:
    lesson = lesson_of(lived_through(after=spoiled(10, 14)), EVERYTHING)

    assert lesson.waves == tuple(range(15, 31))
    assert lesson.words == (
        "5 waves are left out, 5 for this: `sensors` has values that its codec cannot read"
    )
    assert lesson.histories["sensors"].values.shape == (16, 30), "what is gone is no element"


def test_waves_in_which_a_step_rested_are_left_out_and_it_is_named() -> None:
    lived = Lived(AllWaves(0, WAVES), SETTINGS, unchecked, RecordedWorld)
    for wave in range(1, WAVES + 1):
        lived.pass_wave()
        if wave == 12:
            rested = b'"action":"spot"'
            world = lived.tester
            assert isinstance(world, RecordedWorld)
            last = max(i for i, line in enumerate(world.lines) if rested in line)
            run = world.engine.actions["spot"]
            assert run.run is None
            del world.lines[last]

    lesson = lesson_of(lived, EVERYTHING)

    assert lesson.waves == tuple(range(13, WAVES + 1))
    [left_out] = lesson.left_out
    assert (left_out.wave, left_out.reason) == (12, "`spot` did not run")
    assert lesson.words == "1 waves are left out, 1 for this: `spot` did not run"


@pytest.mark.parametrize(
    ("found", "rewritten", "healed"),
    [(30, 30, True), (31, 30, False), (30, 29, False), (None, 30, False)],
)
@pytest.mark.parametrize("hole", ["let pass", "undecodable", "missing"])
def test_after_a_hole_a_table_is_known_when_all_was_written_again_and_a_scan_agrees(
    found: int | None, rewritten: int, hole: str, *, healed: bool
) -> None:
    truth, lost = np.zeros(30), set()

    def after(lived: Lived, wave: int) -> None:
        world = lived.tester
        assert isinstance(world, RecordedWorld)
        if wave == 9:
            log = world.updates["headgate.updates.sensors", 0]
            sequence = world._sequences["sensors", 0]
            if hole == "undecodable":
                lost.add((log[0].topic, len(log)))
                lived.write("sensors", lived.shown["sensors"], np.arange(30) < 4, None)
            else:
                world._sequences["sensors", 0] = sequence + 1
            if hole == "let pass":
                gap = Gap(VERSION, "tester", 1, sequence, "sensors", 1.0, 2.0, "overload")
                world.publish("sensors", gap)
        if wave == 14:
            lived.write("sensors", truth, np.arange(30) < rewritten, None)
            if found is not None:
                world.record(
                    DecisionKind.SCANNED, container="sensors", table="sensors", cells=found
                )

    lived = Lived(AllWaves(0, WAVES), SETTINGS, unchecked, RecordedWorld)
    lived.truth.reported[9:] = False  # what is not written again in one go is not for long
    for wave in range(1, WAVES + 1):
        if wave == 10:
            lived.truth.values["sensors"][9:] = lived.truth.values["sensors"][8]
        lived.pass_wave()
        after(lived, wave)
    lesson = lesson_of(lived, EVERYTHING, lost=frozenset(lost))

    noticed = hole == "let pass"  # otherwise it shows with the next message only
    before, after_it = range(1, 10 if noticed else 9), range(15 if noticed else 16, WAVES + 1)
    assert lesson.waves == tuple(after_it if healed else before)
    service = service_of(lived, Wanted(WAVES, 0), frozenset(lost))["map"]
    assert service.numbers.tolist() == [*before, *(after_it if healed else ())]
    if healed:
        uncounted = dict(zip(service.numbers.tolist(), service.uncounted.tolist(), strict=True))
        assert uncounted[before[-1]] < uncounted[after_it[0]], "no pair is known over the hole"


def test_a_gap_that_no_record_shows_makes_all_tables_unknown() -> None:
    def after(lived: Lived, wave: int) -> None:
        if wave == 9:
            lived.tester.handle(ObserverLost(lived.tester.now, "tester"))

    lesson = lesson_of(lived_through(after=after), EVERYTHING)

    assert lesson.waves == tuple(range(1, 10))
    assert "observer 'tester' is lost" in lesson.words


def test_waves_before_another_definition_are_left_out() -> None:
    lived = lived_through()
    recording = recording_of(lived.tester)
    since = recording.waves[11]

    lesson = lesson_of(lived, replace(EVERYTHING, since=since + 1))

    assert lesson.waves == tuple(range(13, WAVES + 1))
    assert {each.reason for each in lesson.left_out} == {"the dataflow was another then"}


def test_waves_that_were_never_recorded_are_named() -> None:
    lesson = lesson_of(lived_through(), Wanted(WAVES + 2, WAVES))

    assert lesson.waves == tuple(range(1, WAVES + 1))
    assert [(each.wave, each.reason) for each in lesson.left_out] == [
        (WAVES + 1, "no end of the wave was recorded"),
        (WAVES + 2, "no end of the wave was recorded"),
    ]


def test_cells_from_before_the_record_make_waves_unknown() -> None:
    lived = Lived(AllWaves(0, WAVES), SETTINGS, unchecked, RecordedWorld)
    world = lived.tester
    assert isinstance(world, RecordedWorld)
    world.record(DecisionKind.SCANNED, container="areas", table="areas", cells=2)
    for _ in range(WAVES):
        lived.pass_wave()

    lesson = lesson_of(lived, EVERYTHING)

    assert (lesson.waves, lesson.histories) == ((), {})
    assert "table `areas` held 2 cells of `areas` when it was scanned" in lesson.words


def test_older_versions_that_may_stand_are_no_values() -> None:
    lived = lived_through()
    world = lived.tester
    assert isinstance(world, RecordedWorld)
    log = world.updates["headgate.updates.sensors", 0]
    place = next(i for i, each in enumerate(log) if each.time > log[0].time + 5 * HOUR)
    message = log[place].message
    assert isinstance(message, UpdateBatch)
    stamped = replace(message, timestamps=(5,) * len(message.timestamps))
    log[place] = replace(log[place], message=stamped)

    lesson = lesson_of(lived, EVERYTHING)

    assert 1 <= len(lesson.waves) < WAVES
    assert {each.reason for each in lesson.left_out} == {"values of `sensors` are not known"}


@pytest.mark.parametrize("seed", range(3))
def test_waves_in_which_cells_had_expired_are_left_out(seed: int) -> None:
    lived = Lived(AllWaves(seed, WAVES), SETTINGS, unchecked, RecordedWorld)
    world = lived.tester
    assert isinstance(world, RecordedWorld)
    ttl = 5 * HOUR
    world.record(
        DecisionKind.SCANNED, container="sensors", table="sensors", ttls={"f": int(1000 * ttl)}
    )
    written = np.zeros(lived.truth.reported.shape[1])
    expired = []
    for wave in range(WAVES):
        written[lived.truth.reported[wave]] = world.now
        lived.pass_wave()
        if (written + ttl <= world.now).any():
            expired.append(wave + 1)

    lesson = lesson_of(lived, EVERYTHING)

    left_out = {each.wave: each.reason for each in lesson.left_out}
    assert expired
    assert {left_out[wave] for wave in expired if wave in left_out} == {
        "cells of `sensors` have expired, which no event says"
    }
    assert not set(expired) & set(lesson.waves)


@pytest.mark.parametrize("seed", range(3))
def test_values_of_writes_whose_outcome_nobody_knows_are_not_taught(seed: int) -> None:
    lived = lived_through(seed, Unsure)

    lesson = lesson_of(lived, EVERYTHING)

    assert 1 <= len(lesson.waves) < WAVES
    assert {each.reason for each in lesson.left_out} == {"values of `sensors` are not known"}
    for container in CONTAINERS:
        taught = lesson.histories[container].values
        expected = lived.truth.history(container).values[np.array(lesson.waves) - 1]
        np.testing.assert_array_equal(taught, expected)


@pytest.mark.parametrize("kind", ["plain", "early", "twice"])
def test_waves_of_service_in_which_an_output_was_made_are_those_of_a_synchronous_run(
    kind: str,
) -> None:
    """Steps are skipped, so that each output is made in waves of its own."""
    world = Hostile if kind == "twice" else RecordedWorld
    lived = Lived(AllWaves(4, 60), SETTINGS, unchecked, world)
    lived.use(lived_fitted(lived.truth, 0.0)[1])
    ran = [lived.pass_wave(early=kind == "early") for _ in range(WAVES)]
    assert any("draw" not in steps for steps in ran)

    found = service_of(lived, Wanted(WAVES, 0, 4))

    for output, writer in (("level", "index"), ("map", "draw")):
        known = found[output]
        made = [n for n, steps in enumerate(ran, 1) if writer in steps and n >= 4]
        assert known.numbers.tolist() == made
        places = np.array(made) - 1
        for container, taught in known.histories.items():
            expected = lived.truth.history(container)
            np.testing.assert_array_equal(taught.values, expected.values[places])
            np.testing.assert_array_equal(taught.elements, expected.elements[places])
            np.testing.assert_array_equal(taught.times, expected.times[places])
        counted = np.cumsum(lived.truth.history("sensors").updates[3:])[places - 3]
        since = np.diff(known.counted["sensors"])
        np.testing.assert_array_equal(since, np.diff(counted))
        assert not known.uncounted.any()
    assert found["level"].numbers.tolist() != found["map"].numbers.tolist()
