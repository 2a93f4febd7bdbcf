"""Models in a world that changes while they decide: its sensors switch to another unit."""

from __future__ import annotations

import msgspec
import pytest
from slow_runs import SlowWorld, Truth, models_of, settings_for, specification
from tests.seeds import seeds

from headgate.engine import Consulted
from headgate.learning import AuditedRate, Lost, Models, Refit, Train, encode_answer
from headgate.learning.triggers.output_state import OutputState

CHANGE, WAVES, HORIZON, BOUND = 60, 420, 8, 0.3
UNBOUND = 10.0
"""A threshold that everything passes which is like what was learned from."""


@pytest.fixture
def world() -> SlowWorld:
    return lived_until_the_change(3)


def lived_until_the_change(seed: int) -> SlowWorld:
    truth = Truth("one", seed, WAVES, CHANGE)
    settings = settings_for({"level": BOUND}, 0.2, HORIZON, waves=100)
    settings = msgspec.structs.replace(settings, refit=12)
    made = SlowWorld(truth, specification("one", settings, "changed"), lambda _: 0.3)
    made.live(3)
    made.use(_models(made))
    while made.wave < CHANGE:
        made.live(1)
        stand_still(made)
    return made


def stand_still(world: SlowWorld) -> None:
    """Have no audit be taken for a change: the threshold lets everything pass."""
    decided = state(world).decided
    decided.feedback = msgspec.structs.replace(
        decided.feedback, audits=(), labels=(), synchronous=0, changes=0
    )
    state(world).changed = 0
    state(world).outdated = False


def _models(world: SlowWorld, threshold: float = UNBOUND) -> dict[str, bytes]:
    limits = {"level": threshold}
    bounds = {"level": BOUND}
    return models_of(world.truth, "one", bounds, HORIZON, 50, limits, beyond=20.0)


def state(world: SlowWorld) -> OutputState:
    return world.policy("sum").state.outputs["level"]


def asked(world: SlowWorld, kind: type[Train | Refit]) -> list[Train | Refit]:
    return [question for question in world.questions() if isinstance(question, kind)]


def answer(world: SlowWorld, said: Models) -> None:
    world.tester.handle(Consulted(world.tester.now, "sum", "learned", encode_answer(said), ""))


def until_asked(world: SlowWorld, count: int) -> Train:
    """Live until so many trainings were asked for; return the last."""
    while len(asked(world, Train)) < count:
        assert world.wave < WAVES - 1
        world.live(1)
    found = asked(world, Train)[-1]
    assert isinstance(found, Train)
    return found


def test_no_training_reaches_back_over_a_change(world: SlowWorld) -> None:
    first = until_asked(world, 1)
    assert first.since > CHANGE
    assert first.wave - first.since >= 47, "the synchronous waves after it are over"
    before = state(world).decided.feedback
    assert before.shift > 0.0
    assert before.tightening > 0.0
    answer(world, Models({"level": Lost("48 waves are too few")}))
    assert state(world).decided.feedback == before, "shift and tightening stay"
    assert state(world).model
    again = until_asked(world, 2)
    assert again.since >= first.since
    assert again.wave - again.since > first.wave - first.since


@pytest.mark.parametrize("seed", seeds(3, 40))
def test_whatever_the_data_are_the_worlds_of_before_and_after_stay_apart(seed: int) -> None:
    """Fits and trainings of one world keep its measured rate; none reaches over the change."""
    world = lived_until_the_change(seed)
    rate = state(world).decided.feedback.rate
    for threshold, waves in ((6.0, (0, 0)), (7.0, (1, CHANGE - 20))):
        replaced = {} if any(waves) else {"level": state(world).model}
        answer(world, Models(dict(_models(world, threshold)), replaced, waves=waves))
        assert state(world).decided.feedback.rate == rate

    for _ in range(WAVES - CHANGE - 2):
        before = len(asked(world, Train))
        world.live(1)
        for question in asked(world, Train)[before:]:
            assert isinstance(question, Train)
            assert question.since > CHANGE
            answer(world, Models({"level": Lost(f"waves to {question.wave} are too few")}))
    assert asked(world, Train), "the change was found"


def test_a_model_of_before_the_change_is_refused_and_one_of_after_it_decides(
    world: SlowWorld,
) -> None:
    question = until_asked(world, 1)
    version, before = state(world).model, state(world).decided.feedback
    late = _models(world, 5.0)
    answer(world, Models(dict(late), waves=(question.since - 30, question.wave)))
    assert (state(world).model, state(world).decided.feedback) == (version, before)
    answer(world, Models(dict(late), waves=(question.since, question.wave)))
    assert state(world).model != version
    report = world.policy("sum").report()
    assert report is not None
    assert f"waves, {question.since} to {question.wave}" in report.words
    assert state(world).decided.feedback.rate == AuditedRate(), "a regime of its own"


def test_labels_of_service_are_of_the_world_of_now(world: SlowWorld) -> None:
    question = until_asked(world, 1)
    answer(world, Models({"level": Lost("too few")}))
    answer(world, Models({"level": Lost("no labels")}, {"level": state(world).model}))
    while not any(q.wave > question.wave for q in asked(world, Refit)):
        world.live(1)
    last = asked(world, Refit)[-1]
    assert isinstance(last, Refit)
    assert last.since["level"] >= question.since


def test_the_measured_rate_goes_on_over_fits_and_trainings_of_one_world(world: SlowWorld) -> None:
    rate = state(world).decided.feedback.rate
    assert rate.waves > 20
    version = state(world).model
    answer(world, Models(dict(_models(world, 6.0)), {"level": version}))
    assert state(world).model != version
    assert state(world).decided.feedback.rate == rate
    answer(world, Models(dict(_models(world, 7.0)), waves=(1, 40)))
    assert state(world).decided.feedback.rate == rate


def test_a_training_that_takes_long_is_not_asked_for_again(world: SlowWorld) -> None:
    until_asked(world, 1)
    world.live(4 * HORIZON)
    assert len(asked(world, Train)) == 1
    world.tester.restart()
    world.use(_models(world))
    world.live(1)
    assert len(asked(world, Train)) == 2, "who carried it out may have ended"


def test_a_report_says_how_changes_count_and_how_many_were_found(world: SlowWorld) -> None:
    until_asked(world, 1)
    report = world.policy("sum").report()
    assert report is not None
    data = report.data["level"]
    assert (data["changes"], data["changes_found"]) == ("cancel", 1)
