"""Learned triggers whose outputs' errors are measured by metrics of users, asked outside."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from functools import cache

import msgspec
import pytest
from lived import HOUR, READS, AllWaves, Lived, dataflow
from lived_models import BOUNDS, GRAPH, HORIZON, WAVES, fitted, settings
from msgspec.structs import replace

from headgate.engine import (
    Consulted,
    Engine,
    MetricAnswer,
    MetricQuestion,
    SpecificationError,
    UserMetric,
)
from headgate.learning import (
    Changes,
    Deciders,
    ErrorMetric,
    LearnedSettings,
    Measure,
    Measured,
    OutputSettings,
    Residuals,
    Thresholds,
    decode_model,
    encode_answer,
    learned,
    learned_actions,
    questions,
    stages,
)
from headgate.learning.triggers import errors as error_metering

OWN = UserMetric("metrics:Worst")
STEPS = {"index": "level", "draw": "map"}


def unchecked(_: Engine) -> None:
    """Look at nothing: the invariants take longer than the engine."""


def worst(question: MetricQuestion) -> MetricAnswer:
    """Return a sum in the order of the cells, each rounded: it shows in which order they came."""
    (part,) = question.parts
    assert isinstance(part.current, bytes)
    assert isinstance(part.previous, bytes)
    x, before = (struct.unpack(f"<{len(part)}d", c) for c in (part.current, part.previous))
    total = 0.0
    for now, then in zip(x, before, strict=True):
        total += abs(now - then) / (1.0 + abs(then))
    return MetricAnswer(question.bound, question.version, total / question.elements)


def failing(words: str) -> Callable[[MetricQuestion], MetricAnswer]:
    return lambda asked: MetricAnswer(asked.bound, asked.version, None, words)


def begun(waves: int = 90, models: bool = True) -> Lived:
    world = Lived(AllWaves(1, waves), settings(metric=OWN), unchecked)
    world.metrics = worst
    if models:
        world.use(known_models())
    return world


@cache
def known_models() -> Mapping[str, bytes]:
    return fitted(AllWaves(1, WAVES), 0.0, metric=OWN, computes=worst)[1]


def until_asked(world: Lived) -> MetricQuestion:
    """Have waves come until the metric is asked about the map; return the question."""
    before = len(world.measured)
    while True:
        world.pass_wave()
        for question in world.measured[before:]:
            if question.bound == "map":
                return question


def words(world: Lived, step: str) -> str:
    report = world.policy(step).report()
    assert report is not None
    return report.words


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["plain", "restarts"])
def test_an_engine_is_moved_by_a_users_metric_as_the_tables_of_training_are(
    seed: int, kind: str
) -> None:
    truth = AllWaves(seed, WAVES)
    tables, models = fitted(truth, 0.0, Residuals(0.02, 0.3), OWN, worst)
    decoded = {name: decode_model(data) for name, data in models.items()}
    deciders = Deciders("lived", tables, decoded, audit=0.3, first=1)
    expected = stages(GRAPH, tables, deciders, 0, WAVES)
    world = Lived(truth, settings(audit=0.3, metric=OWN), check=unchecked)
    world.metrics = worst
    world.use(models)

    def restart() -> None:
        world.tester.restart()
        world.use(models)

    for wave in range(WAVES):
        ran = world.pass_wave(between=restart if kind == "restarts" else lambda: None)
        assert ran == {step for step in READS if expected.ran[step][wave]}, wave
    rates = {name: one.state.feedback.rate for name, one in deciders.deciders.items()}
    assert sum(rate.audits for rate in rates.values()) > 3
    for step, name in STEPS.items():
        live = world.policy(step).state.outputs[name].decided.feedback
        assert (live.rate.audits, live.shift, live.tightening) == (
            rates[name].audits,
            deciders.deciders[name].state.feedback.shift,
            deciders.deciders[name].state.feedback.tightening,
        )


IMPACTS = {"sensors": "metrics:Moved", "areas": "metrics:Worst"}


@pytest.mark.parametrize("kind", ["plain", "early", "restarts"])
def test_an_engine_decides_by_users_impacts_as_the_tables_of_training_say(kind: str) -> None:
    """Where input of the next wave comes while they are asked, too."""
    truth = AllWaves(1, WAVES)
    tables, models = fitted(truth, 0.0, computes=worst, impacts=IMPACTS)
    expected = stages(GRAPH, tables, Thresholds(tables, dict.fromkeys(BOUNDS, 0.0)), 0, WAVES)
    world = Lived(truth, settings(impacts=IMPACTS), check=unchecked)
    world.metrics = worst
    world.use(models)

    def restart() -> None:
        world.tester.restart()
        world.use(models)

    between = restart if kind == "restarts" else lambda: None
    for wave in range(WAVES):
        ran = world.pass_wave(early=kind == "early", between=between)
        assert ran == {step for step in READS if expected.ran[step][wave]}, wave
    assert 0.1 < expected.saved < 0.9
    assert {question.entry for question in world.measured} == set(IMPACTS.values())
    for name, data in models.items():
        known = decode_model(data).containers
        assert {c: each.own for c, each in known.items() if each.own} == {
            c: entry for c, entry in IMPACTS.items() if c in GRAPH.above(name)
        }


def by_impacts() -> Lived:
    world = Lived(AllWaves(1, WAVES), settings(impacts=IMPACTS), unchecked)
    world.metrics = worst
    world.use(fitted(AllWaves(1, WAVES), 0.0, computes=worst, impacts=IMPACTS)[1])
    while len(world.pass_wave()) == len(READS):
        pass
    return world


def begin_wave(world: Lived) -> None:
    """Have a wave end whose impacts nobody has computed yet."""
    world.wave += 1
    world._feed(world.wave)
    world.tester.now += HOUR
    world.tester.wave("feed", number=world.wave + 1, time=float(world.truth.times[world.wave]))


def test_an_impact_that_fails_makes_steps_run_and_is_named_until_it_works() -> None:
    world = by_impacts()
    world.metrics = failing("`metrics:Moved` raised KeyError")
    for _ in range(3):
        ran = world.pass_wave()
        assert {"combine", "spot"} <= ran, "they read what nobody knows"
    assert "impacts were not known by `sensors since map`, `metrics:Moved` raised" in words(
        world, "draw"
    )
    assert "raised KeyError" in world.policy("draw").report().data["map"]["metric_failure"]
    launches = [d.words for d in world.tester.decisions() if "combine" in d.action]
    assert any("the impact of `sensors` is not known: `metrics" in said for said in launches)
    world.metrics = worst
    assert any(world.pass_wave() < set(READS) for _ in range(10))
    assert "not known" not in words(world, "draw")


def test_impacts_that_nobody_computes_make_steps_run() -> None:
    """As where the process cannot be asked at all."""
    world = by_impacts()
    before = len(world.tester.launches())
    begin_wave(world)
    assert world.tester.engine.actions["combine"].asking
    assert len(world.tester.launches()) == before
    for step in ("combine", "spot"):
        world.tester.handle(Consulted(world.tester.now, step, "learned", None, "it is away"))
    assert {launch.action for launch in world.tester.launches()[before:]} >= {"combine", "spot"}
    assert "it is away" in words(world, "draw")


def test_what_explains_a_step_asks_nobody() -> None:
    world = by_impacts()
    begin_wave(world)
    asked = len(world.tester.instructions)
    result = world.tester.engine.explain(world.tester.now)
    assert "the impact of `sensors` is not known: it is not computed yet" in str(result)
    assert len(world.tester.instructions) == asked


@pytest.mark.parametrize("others", [{}, {"sensors": "metrics:Other"}])
def test_a_model_that_was_learned_with_another_impact_does_not_decide(
    others: dict[str, str],
) -> None:
    models = fitted(AllWaves(1, WAVES), 0.0, computes=worst, impacts={"sensors": "metrics:Moved"})
    world = Lived(AllWaves(1, 5), settings(impacts=others), unchecked)
    world.use({"map": models[1]["map"]})
    assert "learned with impacts by other metrics than those of now" in words(world, "draw")


def test_a_container_above_no_output_has_no_impact() -> None:
    spec = dataflow(settings(impacts={"level": "metrics:Moved"}))
    with pytest.raises(SpecificationError, match="impacts of 'level': no output is predicted from"):
        learned(spec, learned_actions(spec))


def test_at_the_end_of_a_run_the_metric_is_asked_what_training_asks_of_the_two_waves() -> None:
    world = begun()
    asked = {
        (output, wave, age): question
        for output in BOUNDS
        for wave, age, question in questions(world.truth.history(output), HORIZON, output, OWN)
    }
    ages = set()
    made = dict.fromkeys(BOUNDS, 0)
    for wave in range(60):
        before = len(world.measured)
        ran = world.pass_wave()
        new = {question.bound: question for question in world.measured[before:]}
        for step, output in STEPS.items():
            if step in ran and wave:
                age = wave - made[output]
                expected = asked.get((output, wave, age), 0.0)
                found = new.pop(output, 0.0)
                if age <= HORIZON and expected != found:
                    assert isinstance(found, MetricQuestion)
                    assert isinstance(expected, MetricQuestion)
                    assert (found.parts, found.elements) == (expected.parts, expected.elements)
                    ages.add(age)
            if step in ran:
                made[output] = wave
        assert not new
    assert len(ages) > 2, "runs after several skips are among them"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (failing("`metrics:Worst` raised KeyError: 'x'"), "raised KeyError: 'x'"),
        (lambda q: MetricAnswer(q.bound, q.version, math.nan), "gave nan, and has to give 0"),
        (lambda q: MetricAnswer(q.bound, q.version, -1.0), "gave -1, and has to give 0 or more"),
    ],
)
def test_a_metric_that_fails_is_named_and_its_output_made_in_every_wave_until_it_works(
    answer: Callable[[MetricQuestion], MetricAnswer], said: str
) -> None:
    world = begun()
    for _ in range(20):
        world.pass_wave()
    world.metrics = answer
    while len(world.pass_wave()) < len(READS):
        pass  # until both outputs were made, and their errors asked for
    for _ in range(5):
        assert world.pass_wave() == set(READS)
    for step, output in STEPS.items():
        assert f"its error by `metrics:Worst` is not known: {said}"[:40] in words(world, step)
        assert said in words(world, step)
        assert said in world.policy(step).report().data[output]["metric_failure"]
    world.metrics = worst
    assert world.pass_wave() == set(READS)
    assert said not in words(world, "index") + words(world, "draw")
    assert any(world.pass_wave() < set(READS) for _ in range(10))


def test_what_it_fails_on_counts_as_a_violation_where_a_skip_was_audited() -> None:
    known, failed = (
        Lived(AllWaves(1, WAVES), settings(audit=0.9, metric=OWN), unchecked) for _ in range(2)
    )
    for world in (known, failed):
        world.use(known_models())
        world.metrics = worst
    audited = known.policy("draw").state.outputs["map"]
    while audited.decided.audit is None or not 0.0 < audited.decided.audit.ratio <= 1.0:
        known.pass_wave()
    while failed.wave < known.wave:
        if failed.wave == known.wave - 1:
            failed.metrics = failing("it is broken")
        failed.pass_wave()
    without = failed.policy("draw").state.outputs["map"].decided
    assert without.audit is not None
    assert (without.audit.wave, without.audit.ratio) == (audited.decided.audit.wave, math.inf)
    before, after = audited.decided.feedback, without.feedback
    assert after.rate.audits == before.rate.audits
    assert after.rate.violations == before.rate.violations + 1
    assert after.tightening > before.tightening


def test_before_there_is_a_model_a_broken_metric_is_named_too() -> None:
    world = begun(models=False)
    world.metrics = failing("module `metrics` has no class `Worst`")
    world.pass_wave()
    assert world.measured == [], "nothing was shown before"
    for _ in range(3):
        assert world.pass_wave() == set(READS)
    assert "made in every wave: 4 of 336 waves to learn from; its error by" in words(world, "draw")
    assert "module `metrics` has no class `Worst`" in words(world, "draw")


def test_an_answer_that_does_not_come_makes_the_output_run_and_the_next_run_gives_it_up() -> None:
    world = begun()
    for _ in range(20):
        world.pass_wave()
    world.metrics = lambda _: None
    while len(world.pass_wave()) < len(READS):
        pass
    world.pass_wave()  # decided on without it: it may come yet
    assert world.pass_wave() == set(READS)
    assert "did not answer before the next run" in words(world, "draw")
    world.metrics = worst
    world.pass_wave()
    assert "not known" not in words(world, "draw")


def test_an_answer_to_an_older_question_is_not_taken() -> None:
    world = begun(models=False)
    world.pass_wave()
    world.metrics = lambda _: None
    old = until_asked(world)
    until_asked(world)
    state = world.policy("draw").state.outputs["map"].error
    awaited = state.asked
    assert awaited is not None
    world.answer("map", encode_answer(Measured([failing("late")(replace(old, bound="map"))])))
    world.answer("map", encode_answer(Measured([failing("other")(replace(old, bound="level"))])))
    assert state.asked is awaited
    assert "late" not in words(world, "draw")


def test_an_agent_that_takes_over_asks_again_and_learns_the_same() -> None:
    """The answer of an audit is lost with the agent that waited for it."""
    plain, taken = begun(), begun()
    until_asked(plain)
    while taken.wave < plain.wave:
        taken.metrics = worst if taken.wave < plain.wave - 1 else lambda _: None
        before = len(taken.measured)
        taken.pass_wave()
    asked = {question.bound: question for question in taken.measured[before:]}
    assert asked
    taken.questions()
    taken.tester.restart()
    again = [q for each in taken.questions() if isinstance(each, Measure) for q in each.questions]
    assert {question.bound: question for question in again} == asked
    for question in again:  # before the models are at hand again
        taken.answer(question.bound, encode_answer(Measured([worst(question)])))
    taken.use(known_models())
    taken.metrics = worst
    for step, output in STEPS.items():
        assert (
            taken.policy(step).state.outputs[output].decided.feedback
            == plain.policy(step).state.outputs[output].decided.feedback
        )
    assert plain.pass_wave() == taken.pass_wave()


def test_a_question_too_large_to_keep_is_unknown_after_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(error_metering, "KEPT_CELLS", 0)
    world = begun(models=False)
    world.pass_wave()
    world.metrics = lambda _: None
    until_asked(world)
    world.questions()
    world.tester.restart()
    assert not [q for q in world.questions() if isinstance(q, Measure)]
    assert "the agent ended while its metric computed it" in words(world, "draw")


@pytest.mark.parametrize(
    ("bounded", "other"),
    [
        (OutputSettings(0.1, UserMetric("metrics:Other")), ""),
        (OutputSettings(0.1, ErrorMetric.RMSE), ""),
        (OutputSettings(0.2, OWN), ""),
        (OutputSettings(0.1, OWN, changes=Changes.ACCUMULATE), ", where changes cancel"),
    ],
)
def test_a_model_that_was_learned_for_another_error_does_not_decide(
    bounded: OutputSettings, other: str
) -> None:
    outputs = {"map": bounded}
    world = Lived(AllWaves(1, 5), LearnedSettings(outputs, 0.0, 3, HORIZON), unchecked)
    world.use({"map": known_models()["map"]})
    said = f"learned for an error of 0.1 by `metrics:Worst`{other}, which is another now"
    assert said in words(world, "draw")
    assert world.policy("draw")._flow.outputs["map"].model is None


def test_what_was_saved_before_errors_could_be_asked_for_is_read() -> None:
    world = begun(models=False)
    for _ in range(3):
        world.pass_wave()
    policy = world.policy("draw")
    plain = msgspec.msgpack.decode(policy.save())
    assert plain["outputs"]["map"].pop("error")
    policy.load(msgspec.msgpack.encode(plain))
    assert policy.state.outputs["map"].error.asked is None
    assert world.pass_wave() == set(READS)
