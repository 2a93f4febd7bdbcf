"""When models are fitted anew to service in a running engine, and what becomes of the answers."""

from __future__ import annotations

import math

import pytest
from lived import WRITES, AllWaves, Lived
from lived_models import BOUNDS, HORIZON, WAVES, fitted, settings
from msgspec.structs import replace

from headgate.engine import Engine
from headgate.learning import (
    Feedback,
    LearnedSettings,
    Lost,
    Models,
    Refit,
    Train,
    decode_model,
    encode_answer,
    version_of_model,
)
from headgate.learning.triggers.output_state import OutputState
from headgate.learning.triggers.renewal import Renewal, RenewalState

EVERY = 8
"""Waves until the first fit, and the next of these worlds, whose models are there from wave 0."""
SCHEDULE = 4 * EVERY


def unchecked(_: Engine) -> None:
    """Look at nothing: the invariants take longer than the engine."""


@pytest.fixture(scope="module")
def truth() -> AllWaves:
    return AllWaves(1, WAVES)


@pytest.fixture(scope="module")
def models(truth: AllWaves) -> dict[str, bytes]:
    return fitted(truth, 0.0)[1]


@pytest.fixture(scope="module")
def others(truth: AllWaves) -> dict[str, bytes]:
    return fitted(truth, -0.1)[1]


def lived(truth: AllWaves, asked: LearnedSettings) -> Lived:
    return Lived(truth, asked, check=unchecked)


@pytest.fixture
def world(truth: AllWaves, models: dict[str, bytes]) -> Lived:
    made = lived(truth, replace(settings(), refit=SCHEDULE))
    made.use(models)
    return made


def state(world: Lived, output: str = "map") -> OutputState:
    step = next(step for step, container in WRITES.items() if container == output)
    return world.policy(step).state.outputs[output]


def asked(world: Lived, waves: int) -> list[tuple[int, dict[str, str]]]:
    """Return in which of the next waves fits are asked for, and of which models."""
    found = []
    for _ in range(waves):
        world.pass_wave()
        found += [(q.wave, q.models) for q in world.questions() if isinstance(q, Refit)]
    return found


def refitted(world: Lived, output: str, answer: bytes | Lost, instead: bytes) -> None:
    models = Models({output: answer}, {output: version_of_model(instead)})
    world.answer(output, encode_answer(models))


def test_each_model_is_fitted_anew_after_so_many_waves_and_asked_for_once(
    world: Lived, models: dict[str, bytes]
) -> None:
    found = asked(world, EVERY + HORIZON - 1)
    versions = {output: version_of_model(models[output]) for output in BOUNDS}
    assert {wave for wave, _ in found} == {EVERY}
    assert sorted(found, key=str) == sorted(((EVERY, {o: v}) for o, v in versions.items()), key=str)


def test_a_fit_that_takes_long_is_asked_for_once_and_again_after_a_restart(
    world: Lived, models: dict[str, bytes]
) -> None:
    found = asked(world, EVERY + 2 * HORIZON)
    assert {wave for wave, _ in found} == {EVERY}
    world.tester.restart()
    world.use(models)
    found = asked(world, 1)
    assert {wave for wave, _ in found} == {EVERY + 2 * HORIZON + 1}


def test_a_fitted_model_decides_at_once_and_the_next_is_counted_from_there(
    world: Lived, models: dict[str, bytes], others: dict[str, bytes]
) -> None:
    asked(world, EVERY + 2)
    before = state(world).decided
    refitted(world, "map", others["map"], models["map"])

    now = state(world)
    assert now.model == version_of_model(others["map"])
    assert (now.begun, now.renewal.refits, now.renewal.trained) == (EVERY + 2, 1, 0)
    assert now.decided is not before, "feedback is on one model"
    threshold = world.policy("draw").report().data["map"]["threshold"]
    assert threshold == pytest.approx(0.9048, abs=1e-3)
    refitted(world, "level", others["level"], models["level"])
    found = asked(world, EVERY)
    assert {wave for wave, _ in found} == {2 * EVERY + 2}
    refitted(world, "map", models["map"], others["map"])
    assert state(world).renewal.refits == 2
    words = world.policy("draw").report().words
    assert f"fitted anew 2 times, last in wave {2 * EVERY + 2}" in words


def test_a_model_that_is_fitted_anew_after_a_change_begins_with_caution(
    world: Lived, models: dict[str, bytes], others: dict[str, bytes]
) -> None:
    asked(world, EVERY)
    decided = state(world).decided
    decided.feedback = replace(decided.feedback, changes=1, shift=0.7, labels=(0.1,))
    refitted(world, "map", others["map"], models["map"])
    refitted(world, "level", others["level"], models["level"])

    def threshold(output: str) -> float:
        decider = world.policy(next(s for s, c in WRITES.items() if c == output))
        return float(str(decider.report().data[output]["threshold"]))

    known = decode_model(others["map"])
    spread = max(each.residuals.spread for each in known.containers.values())
    assert state(world).decided.feedback == Feedback(tightening=spread, changes=1)
    assert threshold("map") == pytest.approx(math.exp(known.threshold - spread))
    assert state(world, "level").decided.feedback == Feedback(), "of which no change was found"

    world.use({"map": models["map"]})
    assert state(world).decided.feedback == Feedback(), "a calibration is of the world of now"


@pytest.mark.parametrize("changes", [0, 1])
def test_a_model_that_is_fitted_anew_keeps_what_audits_have_tightened(
    world: Lived, models: dict[str, bytes], others: dict[str, bytes], changes: int
) -> None:
    """It is no calibration, and nothing else may loosen a threshold."""
    asked(world, EVERY)
    decided = state(world).decided
    decided.feedback = replace(decided.feedback, changes=changes, tightening=40.0)
    refitted(world, "map", others["map"], models["map"])
    assert state(world).decided.feedback == Feedback(tightening=40.0, changes=changes)
    world.use({"map": models["map"]})
    assert state(world).decided.feedback == Feedback()


def test_the_schedule_outlives_a_restart(
    world: Lived, models: dict[str, bytes], others: dict[str, bytes]
) -> None:
    asked(world, EVERY)
    for output in BOUNDS:
        refitted(world, output, others[output], models[output])
    asked(world, EVERY - 2)
    world.tester.restart()
    world.use(others)

    assert state(world).renewal.refits == 1
    assert asked(world, 1) == []
    assert {wave for wave, _ in asked(world, 1)} == {2 * EVERY}


@pytest.mark.parametrize("answer", ["of another model", "while it relearns", "while it trains"])
def test_a_fit_of_a_model_that_is_being_replaced_is_of_no_use(
    world: Lived, models: dict[str, bytes], others: dict[str, bytes], answer: str
) -> None:
    asked(world, EVERY)
    now = state(world)
    if answer == "of another model":
        world.use({"map": others["map"]})
    elif answer == "while it relearns":
        now.decided.feedback = replace(now.decided.feedback, synchronous=5)
    else:
        now.awaited = True
    decides, decided = now.model, now.decided
    refitted(world, "map", others["map"], models["map"])

    assert (state(world).model, state(world).decided) == (decides, decided)
    assert state(world).renewal.refits == 0
    assert asked(world, 4) == []


@pytest.mark.parametrize("answer", [Lost("no two waves are known"), b"no model at all"])
def test_a_fit_that_failed_leaves_the_model_and_says_why_until_one_succeeds(
    world: Lived, models: dict[str, bytes], others: dict[str, bytes], answer: bytes | Lost
) -> None:
    asked(world, EVERY)
    refitted(world, "map", answer, models["map"])
    refitted(world, "level", others["level"], models["level"])

    report = world.policy("draw").report()
    assert report is not None
    assert f"not fitted anew in wave {EVERY}: " in report.words
    assert state(world).model == version_of_model(models["map"])
    assert {wave for wave, _ in asked(world, EVERY)} == {2 * EVERY}
    refitted(world, "map", others["map"], models["map"])
    report = world.policy("draw").report()
    assert report is not None
    assert "not fitted" not in report.words


def test_never_is_never_and_nothing_is_fitted_without_a_model(
    truth: AllWaves, models: dict[str, bytes]
) -> None:
    never = lived(truth, replace(settings(), refit=0))
    never.use(models)
    assert asked(never, 3 * EVERY) == []
    bare = lived(truth, replace(settings(), refit=1))
    assert asked(bare, 4) == []


def test_a_schedule_is_a_function_of_what_is_saved() -> None:
    plan = Renewal(refit=40, retrain=0, waves=5, horizon=3)
    assert not plan.wants_refit(RenewalState(), 7, 16)
    assert plan.wants_refit(RenewalState(), 7, 17)
    assert not plan.wants_refit(RenewalState(asked=17), 7, 19)
    assert plan.wants_refit(RenewalState(asked=17), 7, 20)


def test_each_fit_has_twice_the_waves_of_service_of_the_one_before_until_the_interval() -> None:
    plan = Renewal(refit=40, retrain=0, waves=5, horizon=3)
    state, begun, fits = RenewalState(trained=7), 7, []
    for wave in range(8, 200):
        if plan.wants_refit(state, begun, wave):
            fits.append(wave)
            state.refit = begun = wave
    assert fits == [17, 27, 47, 87, 127, 167]
    assert Renewal(refit=2, retrain=0, waves=5, horizon=3).wants_refit(RenewalState(), 7, 8)


TRAINING, BETWEEN = 6, 10


@pytest.fixture
def trained(truth: AllWaves, models: dict[str, bytes]) -> Lived:
    """Return a world whose models are trained anew for 6 waves after every 10."""
    made = lived(truth, replace(settings(waves=TRAINING), refit=0, retrain=BETWEEN))
    made.use(models)
    return made


def lived_waves(world: Lived, waves: int) -> tuple[list[set[str]], list[Train]]:
    """Return which steps ran in the next waves, and what trainings were asked for."""
    ran = [world.pass_wave() for _ in range(waves)]
    return ran, [q for q in world.questions() if isinstance(q, Train)]


def test_by_schedule_every_step_runs_for_the_waves_of_a_training_which_is_asked_for(
    trained: Lived, others: dict[str, bytes]
) -> None:
    before, none = lived_waves(trained, BETWEEN - 1)
    synchronous, asked_for = lived_waves(trained, TRAINING)
    assert any(len(steps) < len(WRITES) for steps in before)
    assert all(steps == set(WRITES) for steps in synchronous)
    assert none == asked_for == []
    words = trained.policy("draw").report().words
    assert f"{TRAINING} of {TRAINING} waves to learn anew from" in words

    ran, asked_for = lived_waves(trained, 1)
    assert ran == [set(WRITES)]
    last = BETWEEN + TRAINING
    assert {output for q in asked_for for output in q.outputs} == set(BOUNDS)
    assert {(q.wave, q.waves) for q in asked_for} == {(last, TRAINING)}
    trained.use(others)
    assert state(trained).model == version_of_model(others["map"])
    after, _ = lived_waves(trained, BETWEEN - 1)
    assert any(len(steps) < len(WRITES) for steps in after)
    synchronous, _ = lived_waves(trained, 2)
    assert synchronous == [set(WRITES)] * 2


@pytest.mark.parametrize("answer", ["lost", "failed"])
def test_a_training_by_schedule_that_gives_no_model_leaves_the_one_that_decides(
    trained: Lived, models: dict[str, bytes], answer: str
) -> None:
    lived_waves(trained, BETWEEN + TRAINING)
    for output in BOUNDS:
        lost = encode_answer(Models({output: Lost("no threshold holds")}))
        trained.answer(output, lost if answer == "lost" else None, "Kafka is away")
    assert state(trained).model == version_of_model(models["map"])
    ran, asked_for = lived_waves(trained, BETWEEN - 1)
    assert any(len(steps) < len(WRITES) for steps in ran)
    assert asked_for == []
    ran, _ = lived_waves(trained, 3)
    assert ran == [set(WRITES)] * 3, "the next by schedule"


def test_a_training_by_schedule_outlives_a_restart_and_is_asked_for_again(
    trained: Lived, models: dict[str, bytes]
) -> None:
    lived_waves(trained, BETWEEN + 3)
    trained.tester.restart()
    trained.use(models)
    ran, asked_for = lived_waves(trained, TRAINING - 3)
    assert ran == [set(WRITES)] * (TRAINING - 3)
    assert {q.wave for q in asked_for} == {BETWEEN + TRAINING}
    trained.tester.restart()
    trained.use(models)
    ran, asked_for = lived_waves(trained, HORIZON)
    assert ran == [set(WRITES)] * HORIZON, "nobody has answered"
    assert {q.wave for q in asked_for} == {BETWEEN + TRAINING + HORIZON}


def test_models_that_are_being_trained_anew_are_not_fitted_anew(
    truth: AllWaves, models: dict[str, bytes]
) -> None:
    world = lived(
        truth, replace(settings(waves=TRAINING), refit=4 * (BETWEEN + 1), retrain=BETWEEN)
    )
    world.use(models)
    assert asked(world, BETWEEN + TRAINING) == []


def test_a_change_that_was_learned_is_trained_on_after_a_restart_too(
    world: Lived, models: dict[str, bytes]
) -> None:
    asked(world, 2)
    state(world).outdated = True
    world.tester.restart()
    world.use(models)
    assert state(world).outdated
    _, asked_for = lived_waves(world, 1)
    assert [q.outputs for q in asked_for] == [("map",)]
