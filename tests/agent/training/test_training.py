"""One training: what it is asked for, what comes of it, and what is said where nothing does."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from asked import HORIZON, KAFKA, SETTINGS, SPEC, WAVES, task
from lived import READS, AllWaves, Lived, dataflow
from msgspec.structs import replace
from taught import RecordedWorld, record_of

from headgate.agent.children.code_process import CodeWorker
from headgate.agent.errors import Unreachable
from headgate.agent.training import program
from headgate.agent.training.program import Answer, Failed, answer_of
from headgate.agent.training.stored import rows_of
from headgate.agent.training.task import RefitTask, Task, Trained, unpack
from headgate.agent.training.training import learn, learn_from_service, learned_by, train
from headgate.engine import (
    Codec,
    CodecName,
    DecisionKind,
    Engine,
    SpecificationError,
    UserMetric,
)
from headgate.learning import (
    FEATURES,
    Changes,
    LearnedSettings,
    OutputSettings,
    decode_model,
    encode_model,
    features,
    measured_pairs,
)
from headgate.replay import NothingRecorded, RetentionPassed


def unchecked(_: Engine) -> None:
    """Look at nothing: the invariants take longer than the engine."""


@pytest.fixture(scope="module")
def lived() -> Lived:
    world = Lived(AllWaves(2, WAVES), SETTINGS, unchecked, RecordedWorld)
    for _ in range(WAVES):
        assert world.pass_wave() == set(READS)
    return world


def learned(lived: Lived, asked: Task) -> Trained:
    record = record_of(lived)
    return learn(asked, record.recording, record.events, record.partitions)


def test_outputs_get_models_or_reasons_and_a_report(lived: Lived) -> None:
    trained = learned(lived, task())

    assert set(trained.models) == {"map"}
    model = decode_model(trained.models["map"])
    assert (model.output, model.bound, model.horizon, model.waves) == ("map", 0.9, HORIZON, 30)
    assert (model.first_time, model.last_time) == (
        lived.truth.times[WAVES - 30],
        lived.truth.times[WAVES - 1],
    )
    assert set(trained.reasons) == {"level"}
    assert (trained.waves, trained.last, trained.left_out) == (30, WAVES, "")
    assert trained.report is not None
    assert {each.output for each in trained.report.outputs} == {"level", "map"}
    assert trained.reasons["level"] in {each.words for each in trained.report.outputs}
    assert trained.report.saved > 0


def test_pairs_are_of_the_waves_and_outputs_that_were_learned_from(lived: Lived) -> None:
    pairs = [unpack(each) for each in learned(lived, task(("map",))).pairs]

    assert {(each.key.output, each.key.container) for each in pairs} == {
        ("map", "sensors"),
        ("map", "areas"),
    }
    assert {each.key.wave for each in pairs} == set(range(WAVES - 28, WAVES + 1))
    truth = lived.truth.values["map"]
    last = next(each for each in pairs if each.key.wave == WAVES)
    larger = np.maximum(np.abs(truth[-1]), np.abs(truth[-2])).sum()
    expected = np.abs(truth[-1] - truth[-2]).sum() / larger
    assert last.errors[0] == pytest.approx(expected)


def test_models_are_fitted_anew_to_the_waves_after_their_training(lived: Lived) -> None:
    trained = learned(lived, replace(task(("map",), last=30), waves=30))
    record = record_of(lived)
    anew = learn_from_service(
        RefitTask(KAFKA, SPEC, trained.models, trained.pairs, WAVES),
        record.recording,
        record.events,
        record.partitions,
    )

    assert (anew.reasons, anew.waves, anew.last) == ({}, WAVES - 30, WAVES)
    old, new = decode_model(trained.models["map"]), decode_model(anew.models["map"])
    assert (new.threshold, new.waves, new.last_time) == (old.threshold, 30, old.last_time)
    truth = {c: lived.truth.history(c) for c in lived.truth.values}
    for container, each in new.containers.items():
        table = features(
            measured_pairs(truth[container], HORIZON, each.levels),
            measured_pairs(truth["map"], HORIZON).means,
        )
        shown = table[30:, 1]
        seen = shown[1:]  # the first has its pair in training
        assert (each.lowest <= seen.min(0)).all()
        assert (each.highest >= seen.max(0)).all()
        assert (each.levels == old.containers[container].levels).all()
    assert encode_model(new) != trained.models["map"]
    rows = rows_of([unpack(one) for one in trained.pairs], old)["sensors"].rows
    before, after = (
        np.count_nonzero(each.containers["sensors"].adjusted(rows) <= each.threshold)
        for each in (old, new)
    )
    assert before == after  # the map's step does not read the sensors


def test_without_two_waves_of_service_there_is_a_reason_and_no_model(lived: Lived) -> None:
    trained = learned(lived, task(("map",)))
    record = record_of(lived)
    anew = learn_from_service(
        RefitTask(KAFKA, SPEC, trained.models, trained.pairs, WAVES),
        record.recording,
        record.events,
        record.partitions,
    )
    assert anew.models == {}
    assert f"no two waves from wave {WAVES + 1} on are known" in anew.reasons["map"]


def test_what_is_made_of_input_without_numbers_is_as_good_as_input(lived: Lived) -> None:
    bounded = {"level": OutputSettings(0.9, confidence=0.8)}
    spec = dataflow(LearnedSettings(bounded, 0.0, WAVES, HORIZON))
    containers = tuple(
        replace(each, codec=Codec(CodecName.OPAQUE)) if each.id == "sensors" else each
        for each in spec.containers
    )
    asked = replace(task(("level",)), spec=replace(spec, containers=containers))
    trained = learned(lived, asked)

    assert set(trained.models) == {"level"}, trained.reasons
    assert set(decode_model(trained.models["level"]).containers) == {"areas", "peaks"}
    assert trained.report is not None
    assert {step for each in trained.report.steps for step in each.steps} == {"index"}


OWN = """
class Sum:
    def process_element(self, current, previous):
        return abs(current - previous)

    def aggregate(self, a, b):
        return a + b

    def compute(self, total, m, n):
        return total / n

class Rarely(Sum):
    def compute(self, total, m, n):
        if total > 3 * n:
            raise ValueError("too far")
        return total / n

class Never(Sum):
    def compute(self, total, m, n):
        return float("nan")
"""


PLACE = ("map", "areas")


def asked_of(directory: Path, *names: str, bound: float = 8.0) -> Task:
    """Return a task of outputs, ``map`` first, with metrics of the user's."""
    (directory / "own_errors.py").write_text(OWN)
    outputs = dict(zip(("map", "level"), names, strict=False))
    bounded = {
        output: OutputSettings(bound, UserMetric(f"own_errors:{name}"), 0.8)
        for output, name in outputs.items()
    }
    worker = CodeWorker(
        sys.executable, str(directory / "metrics.log"), 60.0, 60.0, (str(directory),)
    )
    spec = dataflow(LearnedSettings(bounded, 0.0, WAVES, HORIZON))
    return replace(task(tuple(outputs)), spec=spec, metrics=worker)


def test_errors_by_a_metric_of_the_users_are_learned(lived: Lived, tmp_path: Path) -> None:
    trained = learned(lived, asked_of(tmp_path, "Sum"))

    assert (set(trained.models), trained.reasons, trained.failures) == ({"map"}, {}, {})
    model = decode_model(trained.models["map"])
    assert (model.metric, model.bound) == (UserMetric("own_errors:Sum"), 8.0)
    truth = lived.truth.values["map"][WAVES - 30 :]
    for packed in trained.pairs:
        pairs = unpack(packed)
        wave = pairs.key.wave - (WAVES - 30) - 1
        for age, found in enumerate(pairs.errors, 1):
            expected = np.abs(truth[wave] - truth[wave - age]).mean()
            assert found == pytest.approx(expected, rel=1e-12)


def test_errors_that_accumulate_are_learned_from_pairs_of_neighbours(
    lived: Lived, tmp_path: Path
) -> None:
    asked = asked_of(tmp_path, "Rarely")
    settings, _ = learned_by(asked.spec)
    outputs = {
        name: replace(each, bound=30.0, changes=Changes.ACCUMULATE)
        for name, each in settings.outputs.items()
    }
    trained = learned(lived, replace(asked, spec=dataflow(replace(settings, outputs=outputs))))

    truth = lived.truth.values["map"][WAVES - 30 :]
    steps = np.abs(np.diff(truth, axis=0)).sum(1)
    failed, moved = np.count_nonzero(steps > 3 * truth.shape[1]), np.count_nonzero(steps)
    assert f"failed on {failed} of {moved} pairs of waves" in trained.failures["map"]
    known = np.where(steps > 3 * truth.shape[1], math.inf, steps / truth.shape[1])
    for packed in trained.pairs:
        pairs = unpack(packed)
        wave = pairs.key.wave - (WAVES - 30) - 1
        for age, found in enumerate(pairs.errors, 1):
            assert found == pytest.approx(known[wave - age : wave].sum(), rel=1e-12)


def test_what_a_training_is_asked_about_metrics_comes_to_its_process(tmp_path: Path) -> None:
    asked = asked_of(tmp_path, "Sum")
    settings, _ = learned_by(asked.spec)
    spec = dataflow(replace(settings, impacts={"sensors": "own_errors:Sum"}))
    asked = replace(asked, spec=spec)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(asked), type=Task) == asked
    answer = Answer(Trained(failures={"map": "it failed on 2 of 9"}))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(answer), type=Answer) == answer


def test_pairs_that_a_metric_fails_on_are_violations_and_it_is_said_how_many(
    lived: Lived, tmp_path: Path
) -> None:
    trained = learned(lived, asked_of(tmp_path, "Rarely", "Sum"))

    assert trained.failures.keys() == {"map"}
    words = trained.failures["map"]
    assert words.endswith("its error there is a violation")
    assert "raised ValueError: too far" in words
    failed, count = map(int, re.findall(r"failed on (\d+) of (\d+)", words)[0])
    pairs = [unpack(each) for each in trained.pairs]
    seen = [each.errors for each in pairs if (each.key.output, each.key.container) == PLACE]
    assert count > failed > 0
    assert sum(np.isinf(errors).sum() for errors in seen) == failed
    assert "map" in trained.models or words in trained.reasons["map"]


def test_an_output_whose_metric_fails_on_all_has_no_model_and_others_have(
    lived: Lived, tmp_path: Path
) -> None:
    both = learned(lived, asked_of(tmp_path, "Never", "Sum"))
    assert set(both.models) <= {"level"}
    assert set(both.reasons) >= {"map"}
    assert "`own_errors:Never` gave NaN" in both.reasons["map"]
    assert {unpack(each).key.output for each in both.pairs} == {"level"}

    alone = learned(lived, asked_of(tmp_path, "Never"))
    assert (alone.models, alone.waves, alone.report) == ({}, 30, None)
    assert alone.reasons == {"map": both.reasons["map"]}
    assert alone.failures.keys() == {"map"}


def test_impacts_by_metrics_of_the_users_are_features_of_the_containers_that_have_them(
    lived: Lived, tmp_path: Path
) -> None:
    asked = asked_of(tmp_path, "Sum")
    settings, _ = learned_by(asked.spec)
    impacts = {"sensors": "own_errors:Sum", "areas": "own_errors:Never"}
    spec = dataflow(replace(settings, impacts=impacts))
    trained = learned(lived, replace(asked, spec=spec))

    containers = decode_model(trained.models["map"]).containers
    assert {name: each.own for name, each in containers.items()} == {
        "sensors": "own_errors:Sum",
        "areas": "",
    }
    truth = lived.truth.values["sensors"][WAVES - 30 :]
    moved = [
        np.abs(truth[t] - truth[t - a]).mean()
        for t in range(1, 30)
        for a in range(1, min(t, 6) + 1)
    ]
    assert containers["sensors"].highest[-1] == pytest.approx(max(moved), rel=1e-6)
    assert "`own_errors:Never` gave NaN" in trained.failures["areas"]
    assert trained.failures["areas"].endswith("its impact is left out")
    assert all(unpack(each).features.shape[1] == len(FEATURES) for each in trained.pairs)


def test_without_a_place_for_metrics_it_is_refused(lived: Lived, tmp_path: Path) -> None:
    with pytest.raises(SpecificationError, match="nobody computes metrics of map here"):
        learned(lived, replace(asked_of(tmp_path, "Sum"), metrics=None))


def test_five_waves_are_too_few_and_the_missing_ones_are_counted(lived: Lived) -> None:
    trained = learned(lived, task(last=5))

    assert trained.models == {}
    words = (
        "5 waves are too few to train and test on; 19 more are missing: raise `waves` to 24 "
        "where it is less"
    )
    assert trained.reasons == {"level": words, "map": words}


def test_without_any_wave_nothing_comes_of_it_and_it_is_said_why() -> None:
    lived = Lived(AllWaves(2, WAVES), SETTINGS, unchecked, RecordedWorld)
    trained = learned(lived, task(last=3))

    words = "3 waves are left out, 3 for this: no end of the wave was recorded"
    assert trained == Trained(reasons={"level": words, "map": words}, left_out=words)


FILE = """
name: lived
containers: {a: t c:v, b: u c:v}
actions:
  feed: {input: a}
  one: {step: steps:one, reads: a, writes: b, when: {a: {sequence: %s}}}
"""
OTHER = FILE.replace("one:", "two:")


@pytest.mark.parametrize(
    ("sources", "left_out"),
    [
        ((FILE % 3, FILE % 5), 0),
        ((FILE % 3, OTHER % 3), 12),
        ((FILE % 3, OTHER % 3, OTHER % 9), 12),
        ((FILE % 3, "what is this?"), 12),
        ((FILE % 3, "what is this?", FILE % 3), 13),
    ],
)
def test_waves_of_other_steps_or_containers_are_left_out_not_those_of_other_bounds(
    sources: tuple[str, ...], left_out: int
) -> None:
    first, *others = sources
    lived = Lived(AllWaves(2, WAVES), SETTINGS, unchecked, RecordedWorld)
    world = lived.tester
    assert isinstance(world, RecordedWorld)
    world.lines[0] = world.lines[0].replace(b'"source":"x"', b'"source":""')
    world.lines[0] = world._line(kind=DecisionKind.SUBMITTED, source=first)
    for wave in range(1, WAVES + 1):
        lived.pass_wave()
        if wave >= 12 and others:
            world.record(DecisionKind.SPECIFICATION_CHANGED, source=others.pop(0))

    trained = learned(lived, task(waves=WAVES))

    assert trained.waves == WAVES - left_out
    assert ("the dataflow was another then" in trained.left_out) == bool(left_out)


def test_a_dataflow_without_learned_triggers_is_refused() -> None:
    bare = replace(SPEC, actions=tuple(replace(a, trigger=None) for a in SPEC.actions))
    with pytest.raises(SpecificationError, match="'lived' has no learned triggers; bound"):
        learned_by(bare)
    settings, graph = learned_by(SPEC)
    assert settings == SETTINGS
    assert {step.name for step in graph.steps} == set(READS)


class Kafka:
    """Recordings that cannot be had."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def open(self, dataflow: str):
        raise self._error


def test_what_kafka_has_deleted_is_a_reason_with_its_cure() -> None:
    gone = RetentionPassed("Kafka has deleted the beginning")
    trained = train(task(("map",)), Kafka(gone))  # type: ignore[arg-type]

    assert set(trained.reasons) == {"map"}
    assert trained.reasons["map"].startswith("Kafka has deleted the beginning; agents keep topics")
    assert "kafka.longest_retention_days" in trained.reasons["map"]
    missing = NothingRecorded("nothing was recorded")
    assert train(task(("map",)), Kafka(missing)).reasons == {  # type: ignore[arg-type]
        "map": "nothing was recorded"
    }


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unreachable("Kafka does not answer; start it"), "Kafka does not answer; start it"),
        (RuntimeError("what?"), "the training failed with RuntimeError: what?"),
    ],
)
def test_whatever_goes_wrong_in_the_process_is_an_answer_with_words(
    error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "Recordings", lambda _: Kafka(error))
    assert answer_of(task()) == Failed(reason)


def test_what_comes_of_a_training_is_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "Recordings", lambda _: Kafka(NothingRecorded("none")))
    answer = answer_of(task(("map",)))
    assert answer == Answer(Trained(reasons={"map": "none"}, left_out="none"))
