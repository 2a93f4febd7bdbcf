"""Lessons of a recording in which runs outlast waves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from asked import KAFKA
from slow_runs import SHAPES, SlowWorld, Truth, graph_of_shape, settings_for, specification
from taught import RecordedWorld, record_of

from headgate.agent.training.stored import output_pairs_of, stretch_of, wave_before
from headgate.agent.training.task import Task, unpack
from headgate.agent.training.teacher import Lesson, Wanted, teach
from headgate.agent.training.training import demands_of, learn
from headgate.learning import decode_model, features, levels_of, measured_pairs

HORIZON = 8

Lasts = Callable[[str], float]


def lived(
    shape: str, lasts: Lasts, waves: int = 60, bound: float = 0.3, seed: int = 2
) -> SlowWorld:
    """Return a recorded world in which every step ran as often as it could."""
    truth = Truth(shape, 2, waves)
    settings = settings_for(dict.fromkeys(truth.outputs, bound), 0.0, HORIZON, confidence=0.6)
    spec = specification(shape, settings, f"taught {shape}")
    world = SlowWorld(truth, spec, lasts, early=True, world=RecordedWorld)
    world.live(waves)
    world.finish()
    return world


def lesson_of(world: SlowWorld, shape: str, reach: int = HORIZON) -> Lesson:
    record = record_of(world)
    wanted = Wanted(world.wave, world.wave, reach=reach)
    graph = graph_of_shape(shape)
    spec, outputs = world.tester.spec, world.truth.outputs
    return teach(record.recording, record.events, record.partitions, spec, graph, outputs, wanted)


def lasting(seed: int, shape: str) -> Lasts:
    """Return how long runs last: of most steps alike, from a tenth of a wave to five."""
    random = np.random.default_rng(seed)
    typical = {s: float(np.exp(random.uniform(np.log(0.1), np.log(5.0)))) for s in SHAPES[shape]}
    return lambda step: min(5.0, typical[step] * random.uniform(0.8, 1.25))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in (2, 3, 4))])
def test_waves_that_end_while_a_run_is_under_way_break_no_stretch(shape: str, seed: int) -> None:
    world = lived(shape, lasting(seed, shape))
    lesson = lesson_of(world, shape, reach=0)
    ran = [{made.wave for made in world.runs if made.step == step} for step in SHAPES[shape]]
    whole = sorted(wave for wave in set.intersection(*ran) if wave <= world.wave)
    assert lesson.waves == tuple(whole)
    assert len(lesson.waves) > world.wave / 12
    places = np.array(lesson.waves) - 1
    for container, taught in lesson.histories.items():
        expected = world.truth.history(container, world.wave)
        there = ~np.isnan(world.truth.values[container][places]).all(0)
        columns = expected.values[places][:, there].T.tolist()
        assert sorted(taught.values.T.tolist()) == sorted(columns)
        np.testing.assert_array_equal(taught.elements, expected.elements[places])
        np.testing.assert_array_equal(taught.updates, expected.updates[places])
        np.testing.assert_array_equal(taught.numbers, lesson.waves)
        counted = np.cumsum(expected.updates)[places]
        assert taught.counted is not None
        np.testing.assert_array_equal(np.diff(taught.counted), np.diff(counted))


def test_pairs_of_a_stretch_know_how_many_waves_and_updates_lie_between() -> None:
    """The table of all waves, of a world in which no run takes time, has the same rows."""
    world = lived("chain", lambda step: 1.5 if step == "combine" else 0.2)
    lesson = lesson_of(world, "chain")
    assert 0.6 < len(lesson.waves) / world.wave < 0.7
    levels = levels_of(lesson.histories["sensors"].values)
    taught = measured_pairs(lesson.histories["sensors"], HORIZON, levels)
    shown = measured_pairs(lesson.histories["level"], HORIZON)
    found = features(taught, shown.means)
    all_waves = world.truth.history("sensors", world.wave)
    dense = features(
        measured_pairs(all_waves, HORIZON, levels),
        measured_pairs(world.truth.history("level", world.wave), HORIZON).means,
    )
    numbers = lesson.waves
    pairs = [
        (place, age)
        for place in range(len(numbers))
        for age in range(1, place + 1)
        if numbers[place] - numbers[place - age] <= HORIZON
    ]
    assert max(age for _, age in pairs) == taught.horizon
    for place, age in pairs:
        now, then = numbers[place], numbers[place - age]
        assert found[place, age].tobytes() == dense[now - 1, now - then].tobytes()
    assert not found[len(numbers) - 1, len(numbers) - pairs[-1][0] + taught.horizon :].any()


def test_a_wave_in_which_a_step_rested_breaks_a_stretch_though_runs_are_slow() -> None:
    world = lived("chain", lambda step: 1.5 if step == "combine" else 0.2)
    whole = lesson_of(world, "chain").waves
    tester = world.tester
    assert isinstance(tester, RecordedWorld)
    rested = b'"action":"top"'
    launches = [i for i, line in enumerate(tester.lines) if rested in line]
    for place in reversed(launches[len(launches) // 2 : len(launches) // 2 + 8]):
        del tester.lines[place]
    lesson = lesson_of(world, "chain")
    assert set(lesson.waves) < set(whole)
    first = whole.index(lesson.waves[0])
    assert lesson.waves == whole[first : first + len(lesson.waves)]
    assert "`top` did not run" in lesson.words


def test_runs_that_outlast_the_horizon_teach_nothing_and_it_is_said() -> None:
    world = lived("one", lambda _: 4.9)
    lesson = lesson_of(world, "one", reach=3)
    assert len(lesson.waves) <= 2, "but for the last runs, as then no wave comes any more"
    assert "runs take longer than `horizon`, which is 3 waves: raise it" in lesson.words


@pytest.mark.parametrize(
    ("shape", "lasts"),
    [
        ("chain", lambda step: 1.5 if step == "combine" else 0.2),
        ("one", lambda _: 2.6),
        pytest.param("long chain", lambda _: 1.7, marks=pytest.mark.soak),
    ],
)
def test_a_model_is_trained_though_runs_outlast_waves(shape: str, lasts: Lasts) -> None:
    world = lived(shape, lasts, waves=240, bound=0.6)
    record = record_of(world)
    spec = world.tester.spec
    task = Task(KAFKA, spec, ("level",), world.wave, world.wave)
    trained = learn(task, record.recording, record.events, record.partitions)
    assert set(trained.models) == {"level"}, trained.reasons
    assert decode_model(trained.models["level"]).horizon == HORIZON, "in waves, as service counts"
    assert trained.report is not None
    assert trained.waves == trained.report.waves < world.wave

    pairs = [unpack(each) for each in trained.pairs]
    before = {one.key: wave_before(one) for one in pairs}
    demands = demands_of(spec, ("level",))
    kept = stretch_of(list(before), demands, world.wave, before.__getitem__)
    assert len(kept) == len(pairs), "what was stored is one stretch, too"
    halved = [key for key in before if not 100 <= key.wave < 120]
    after = stretch_of(halved, demands, world.wave, before.__getitem__)
    assert {key.wave < 100 for key in after} == {False}, "no pair is known over the hole"
    again = output_pairs_of(pairs, HORIZON)
    assert again.shape[0] == trained.waves
    assert again.spaced.numbers.tolist()[1:] == sorted({one.key.wave for one in pairs})
