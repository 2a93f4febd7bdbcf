"""``headgate flow explain`` of steps with learned triggers, as text and as JSON."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import msgspec
import pytest
from answering import Agent
from lived import AllWaves, Lived
from lived_models import BOUNDS, TRAINED, WAVES, fitted, settings

from headgate.engine import Engine
from headgate.learning import AuditedRate, Choice, Residuals
from headgate.learning.decider import Audit, Judged
from headgate.learning.triggers.reports import audit_report, prediction_report

STEPS = ("combine", "spot", "index", "draw")


def unchecked(_: Engine) -> None:
    """Look at nothing: the invariants take longer than the engine."""


@pytest.fixture(scope="module")
def world() -> Lived:
    """A dataflow that models have decided on for some waves, with audits."""
    truth = AllWaves(0, WAVES)
    _, models = fitted(truth, 0.0, Residuals(0.02, 0.3))
    lived = Lived(truth, settings(audit=0.3), check=unchecked)
    lived.use(models)
    for _ in range(TRAINED):
        lived.pass_wave()
    return lived


@pytest.fixture
def explained(agent: Agent, world: Lived) -> tuple[str, dict[str, dict[str, Any]]]:
    """The text, and by step what is in the JSON document."""
    agent.answers = msgspec.to_builtins(world.tester.engine.explain(world.tester.now))
    document = json.loads(agent.run("explain", "lived", "--json"))
    actions = {action["action"]: action for action in document["actions"]}
    return re.sub(r"\s+", " ", agent.run("explain", "lived")), actions


def test_each_step_shows_what_was_predicted_last_and_by_which_model(
    explained: tuple[str, dict[str, dict[str, Any]]], world: Lived
) -> None:
    text, actions = explained
    for step, outputs in {
        "combine": ("level", "map"), "spot": ("level",), "index": ("level",), "draw": ("map",),
    }.items():  # fmt: skip
        data = actions[step]["policy"]["data"]
        assert tuple(data) == outputs
        for output in outputs:
            writer = world.policy("index" if output == "level" else "draw")
            state, said = writer.state.outputs[output], data[output]
            judged = state.decided.judged
            assert judged is not None
            assert said["model"] == state.model
            assert said["predicted"] == pytest.approx(math.exp(judged.score))
            assert said["threshold"] == pytest.approx(math.exp(state.decided.feedback.threshold(0)))
            assert (said["predicted_from"], said["predicted_in"], said["choice"]) == (
                judged.container,
                judged.wave,
                judged.choice,
            )
            words = actions[step]["policy"]["words"]
            assert f"`{output}`: decided by model {state.model} of {TRAINED} waves" in words
            assert (
                f"in wave {judged.wave} a skip was predicted from `{judged.container}` to leave it "
                f"at {said['predicted']:.2g} of its bound, mostly for `"
            ) in words
            assert f"; more than {said['threshold']:.2g} runs, so it was a " in words
            assert re.sub(r"\s+", " ", words) in text


def test_three_features_are_named_with_their_ranges_in_training(
    explained: tuple[str, dict[str, dict[str, Any]]],
) -> None:
    text, actions = explained
    features = actions["draw"]["policy"]["data"]["map"]["features"]
    strengths = [abs(one["contribution"]) for one in features]
    assert len(features) == 3
    assert strengths == sorted(strengths, reverse=True)
    assert strengths[-1] > 0.0
    for one in features:
        assert one["lowest"] <= one["highest"]
        assert (
            f"`{one['feature']}` {one['value']:.3g} (in training {one['lowest']:.3g} to "
            f"{one['highest']:.3g})"
        ) in text


def test_the_step_that_writes_an_output_shows_its_audits_and_the_confidence_measured(
    explained: tuple[str, dict[str, dict[str, Any]]], world: Lived
) -> None:
    text, actions = explained
    for step, output in (("index", "level"), ("draw", "map")):
        said = actions[step]["policy"]["data"][output]
        decided = world.policy(step).state.outputs[output].decided
        rate, last = decided.feedback.rate, decided.audit
        assert last is not None
        assert (said["audits"], said["last_audit"]) == (rate.audits, last.wave)
        assert said["last_audit_error"] == last.ratio
        assert said["bound"] == BOUNDS[output]
        assert said["measured_confidence"] == pytest.approx(1.0 - rate.rate)
        assert said["confidence_from"] <= said["measured_confidence"] <= said["confidence_to"]
        assert f"the last audit, in wave {last.wave}, found {last.ratio:.2g} of its bound" in text
        assert f"measured confidence {said['measured_confidence']:.4g}, between" in text
    assert "last_audit" not in actions["combine"]["policy"]["data"]["level"]


def test_an_explanation_changes_nothing_that_is_explained(world: Lived) -> None:
    engine, now = world.tester.engine, world.tester.now
    before = [world.policy(step).save() for step in STEPS]
    first = engine.explain(now)

    assert engine.explain(now) == first
    assert [world.policy(step).save() for step in STEPS] == before


def test_an_explanation_while_a_step_runs_changes_nothing_either() -> None:
    """The next one is looked at then from what is not of this wave yet, or not all of it."""
    truth = AllWaves(0, WAVES)
    _, models = fitted(truth, 0.0, Residuals(0.02, 0.3))
    lived = Lived(truth, settings(), check=unchecked)
    lived.use(models)

    def explain() -> None:
        before = [lived.policy(step).save() for step in STEPS]
        lived.tester.engine.explain(lived.tester.now)
        assert [lived.policy(step).save() for step in STEPS] == before

    for _ in range(30):
        lived.pass_wave(between=explain)


def test_before_a_model_decides_the_waves_that_are_missing_are_shown(agent: Agent) -> None:
    lived = Lived(AllWaves(1, 20), settings(waves=80), check=unchecked)
    for _ in range(4):
        lived.pass_wave()
    agent.answers = msgspec.to_builtins(lived.tester.engine.explain(lived.tester.now))

    lines = agent.run("explain", "lived").splitlines()
    assert lines.count("  `map`: made in every wave: 4 of 80 waves to learn from.") == 2


def test_after_a_restart_the_prediction_is_known_and_its_features_are_not() -> None:
    truth = AllWaves(0, WAVES)
    _, models = fitted(truth, 0.0, Residuals(0.02, 0.3))
    lived = Lived(truth, settings(), check=unchecked)
    lived.use(models)
    for _ in range(30):
        lived.pass_wave()
    before = lived.policy("draw").report().data["map"]
    lived.tester.restart()
    lived.use(models)
    after = lived.policy("draw").report().data["map"]

    assert len(before["features"]) == 3
    assert after == {**before, "features": []}


def test_what_was_seen_from_nearer_is_told_from_what_the_wave_says() -> None:
    judged = Judged(7, math.log(0.6), "areas", Choice.SKIP, 0.05, math.log(0.75))
    report = prediction_report(judged, math.log(0.9), ())
    assert report.data["predicted"] == pytest.approx(0.6)
    assert report.data["carried"] == pytest.approx(0.75)
    assert report.words == (
        "in wave 7 a skip was predicted from `areas` to leave it at 0.6 of its bound, 0.75 times "
        "what this wave alone says, as it was seen from nearer in a wave before; more than 0.9 "
        "runs, so it was a skip"
    )


def test_what_is_unlike_training_is_no_number_in_json() -> None:
    report = prediction_report(Judged(7, math.inf, "areas", Choice.RUN), 0.0, ())

    assert report.data["predicted"] is None
    assert report.words == (
        "in wave 7 nothing was predicted, as `areas` is not known; so it was a run"
    )


@pytest.mark.parametrize(
    ("rate", "last", "words"),
    [
        (AuditedRate(), None, "no audit has measured its confidence yet; 0.95 is asked for"),
        (
            AuditedRate(100, 1, 0, 0.0, 0.05),
            Audit(9, math.nan),
            (
                "the last audit, in wave 9, found an error that is not known; 1 audit found 0 "
                "violations: measured confidence 1, between"
            ),
        ),
        (
            AuditedRate(10, 4, 2, 40.0, 0.05),
            Audit(9, 1.5),
            (
                "the last audit, in wave 9, found 1.5 of its bound; 4 audits found 2 violations: "
                "measured confidence 0, between 0 and"
            ),
        ),
    ],
)
def test_a_confidence_is_a_share_whatever_few_audits_found(
    rate: AuditedRate, last: Audit | None, words: str
) -> None:
    report = audit_report(rate, last, 0.95)

    assert report.words.startswith(words)
    assert 0.0 <= report.data["confidence_from"] <= report.data["confidence_to"] <= 1.0
    assert report.data["last_audit_error"] in (None, 1.5)
