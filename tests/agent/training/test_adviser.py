"""What learned triggers ask is answered by models that are kept, or by reasons."""

from __future__ import annotations

import queue
import re
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from asked import KAFKA, SPEC
from fitted_models import model
from kept import knowledge, pairs
from lived import dataflow
from msgspec.structs import replace
from simulation.rows import MemoryRows

from headgate.agent.children.code_process import CodeWorker
from headgate.agent.errors import Unreachable
from headgate.agent.metrics import AgentMetrics
from headgate.agent.supervision import Supervision
from headgate.agent.training.adviser import LearnedAdviser, TrainingReport
from headgate.agent.training.task import (
    AnyTask,
    RefitTask,
    Source,
    StoredTask,
    Task,
    Trained,
    pack_pairs,
    unpack,
)
from headgate.agent.training.trainer import Done
from headgate.engine import (
    ChangedValues,
    MetricAnswer,
    MetricAnswers,
    MetricQuestion,
    decode_metric_questions,
    encode_metrics,
)
from headgate.learning import (
    ErrorMetric,
    LearnedSettings,
    Lost,
    Measure,
    Measured,
    Model,
    Models,
    ModelsWanted,
    OutputSettings,
    Refit,
    Train,
    decode_answer,
    encode_model,
    encode_question,
    version_of_model,
)

WAIT = 60.0
QUESTION = Train(("level", "map"), 41, 40)


class Trains:
    """A trainer whose answers a test gives."""

    def __init__(self) -> None:
        self.asked: list[tuple[AnyTask, Done]] = []
        self.forgotten: list[str] = []

    def train(self, task: AnyTask, done: Done) -> None:
        self.asked.append((task, done))

    def forget(self, dataflow: str) -> None:
        self.forgotten.append(dataflow)


class Computes:
    """A process of metrics whose answers a test gives."""

    worker = CodeWorker("python", "metrics.log", 1.0, 2.0, ("here",))

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, Any]] = []

    def answer(self, question: bytes, done: Any) -> None:
        self.asked.append((question, done))


class Stand:
    def __init__(self) -> None:
        self.trains = Trains()
        self.computes = Computes()
        self.rows = MemoryRows()
        self.metrics = AgentMetrics()
        self.failures: list[Any] = []
        self.told: queue.Queue[Any] = queue.Queue()
        self.adviser = self.another()

    def another(self) -> LearnedAdviser:
        supervision = Supervision(self.failures.append, lambda _: 0.0)
        known = knowledge(self.rows)
        flow = self.metrics.of("lived")
        return LearnedAdviser(SPEC, KAFKA, self.trains, known, self.computes, flow, supervision)

    def ask(self, question: Train | Refit | ModelsWanted) -> None:
        self.adviser.answer(encode_question(question), lambda *said: self.told.put(said))

    def heard(self) -> tuple[dict[str, bytes | Lost] | None, str]:
        answer, reason = self.told.get(timeout=WAIT)
        if answer is None:
            return None, reason
        found = decode_answer(answer)
        assert isinstance(found, Models)
        return found.outputs, reason

    def trained(self, trained: Trained | None, reason: str = "") -> None:
        self.trains.asked[-1][1](trained, reason, 2.5)

    def counted(self, output: str, outcome: str) -> float:
        return self.metrics.trainings.labels("lived", output, outcome)._value.get()


def test_a_training_is_carried_out_on_waves_after_the_last_change(stand: Stand) -> None:
    stand.ask(Train(("level", "map"), 41, 40, since=17))
    [(task, _)] = stand.trains.asked
    assert isinstance(task, Task)
    assert (task.since, task.last) == (17, 40)
    stand.trained(
        Trained(reasons={"level": "too few", "map": "too few"}, waves=24, last=40, first=17)
    )
    stand.heard()
    assert stand.adviser.report is not None
    assert (stand.adviser.report.first, stand.adviser.report.last) == (17, 40)


@pytest.fixture
def stand() -> Iterator[Stand]:
    made = Stand()
    yield made
    made.adviser.close()


def test_waves_before_the_one_that_ended_are_learned_from(stand: Stand) -> None:
    other = replace(SPEC, name="lived", adjustment=None)
    stand.adviser.use((), other)
    stand.ask(QUESTION)

    [(task, _)] = stand.trains.asked
    assert task == Task(KAFKA, other, ("level", "map"), 40, 40, Computes.worker)
    assert stand.adviser.report == TrainingReport(("level", "map"), 40, number=1)


def test_each_training_has_a_report_of_its_own(stand: Stand) -> None:
    """Whoever has one begun hears of that one, though a trigger has begun another since."""
    stand.ask(Train(("level",), 41, 131))
    own = stand.adviser.report
    stand.ask(Train(("map",), 42, 40))
    assert own is not None
    (_, first), (_, second) = stand.trains.asked
    second(Trained({}, {"map": "too few"}, 40, 41), "", 1.0)
    stand.heard()
    assert stand.adviser.report_of(own.number) == own, "it is under way still"
    assert stand.adviser.is_training
    first(Trained({}, {"level": "no threshold holds"}, 131, 40), "", 2.5)
    stand.heard()
    found, last = stand.adviser.report_of(own.number), stand.adviser.report
    assert found is not None
    assert last is not None
    assert (found.outputs, found.waves, found.seconds) == (("level",), 131, 2.5)
    assert (last.outputs, last.waves, last.number) == (("map",), 40, own.number + 1)
    assert not stand.adviser.is_training
    other = stand.another()
    other.restore(stand.adviser.saved())
    assert other.report == last
    assert other.report_of(own.number) is None, "an agent that takes over knows the last one"


def test_models_and_reasons_are_answered_and_kept_with_their_pairs(stand: Stand) -> None:
    stand.ask(QUESTION)
    kept = tuple(map(pack_pairs, pairs()))
    stand.trained(Trained({"level": b"model"}, {"map": "too few"}, 30, 40, "10 out", None, kept))

    assert stand.heard() == ({"level": b"model", "map": Lost("too few")}, "")
    version = version_of_model(b"model")
    assert knowledge(stand.rows).model("lived", "level", version) == b"model"
    assert len(list(knowledge(stand.rows).pairs("lived"))) == len(kept)
    report = stand.adviser.report
    assert report is not None
    assert (report.models, report.reasons, report.waves) == (
        {"level": version},
        {"map": "too few"},
        30,
    )
    assert (report.seconds, report.left_out, report.last) == (2.5, "10 out", 40)
    assert (stand.counted("level", "model"), stand.counted("map", "none")) == (1, 1)


def test_stored_pairs_are_handed_to_a_training_of_their_own(stand: Stand) -> None:
    spec = dataflow(LearnedSettings({"map": OutputSettings(0.9, ErrorMetric.RMSE)}, 0.0, 40, 4))
    stand.adviser.use((), spec)
    knowledge(stand.rows).keep_pairs(pairs())

    stand.adviser.train_on_knowledge(Train(("map",), 1, 6), lambda *said: stand.told.put(said))

    while not stand.trains.asked:
        time.sleep(0.005)
    [(task, _)] = stand.trains.asked
    assert isinstance(task, StoredTask)
    assert (task.spec, task.outputs, task.waves) == (spec, ("map",), 6)
    found = [unpack(each).key for each in task.pairs]
    assert {key.wave for key in found} == set(range(105, 110))
    assert {(key.output, key.container) for key in found} == {("map", "sensors"), ("map", "areas")}
    stand.trained(Trained({"map": b"model"}, {}, 6, 109))
    assert stand.heard() == ({"map": b"model"}, "")
    report = stand.adviser.report
    assert report is not None
    assert (report.source, report.waves, report.seconds) == (Source.KNOWLEDGE, 6, 2.5)


def test_stored_pairs_that_do_not_fit_are_a_reason(stand: Stand) -> None:
    stand.adviser.train_on_knowledge(QUESTION, lambda *said: stand.told.put(said))
    assert stand.heard() == (None, "")
    report = stand.adviser.report
    assert report is not None
    assert "no pairs of `level` are kept" in report.failure
    assert "knowledge --import" in report.failure
    assert stand.trains.asked == []


def fit_anew(stand: Stand) -> RefitTask:
    """Have the map's model fitted anew, and return what is asked of the trainer."""
    model = encode_model(modelled())
    knowledge(stand.rows).keep_pairs(pairs())
    stand.ask(Refit({"map": knowledge(stand.rows).keep_model("lived", "map", model)}, 50))
    while not stand.trains.asked:
        time.sleep(0.005)
    [(task, _)] = stand.trains.asked
    assert isinstance(task, RefitTask)
    assert task.models == {"map": model}
    return task


def modelled() -> Model:
    """Return a model of the map whose training has the stored pairs."""
    levels = {one.key.container: one.basis.levels for one in pairs() if one.basis is not None}
    known = model()
    one = known.containers["areas"]
    containers = {
        name: replace(
            one, levels=np.array(levels[name]), forest=replace(one.forest, labels=("map",))
        )
        for name in ("sensors", "areas")
    }
    return replace(known, output="map", metric=ErrorMetric.RMSE, containers=containers)


def test_a_model_is_fitted_anew_with_the_pairs_of_its_training(stand: Stand) -> None:
    task = fit_anew(stand)
    found = [unpack(each).key for each in task.pairs]
    assert (task.last, task.kafka, task.spec) == (50, KAFKA, SPEC)
    assert sorted(found) == sorted(one.key for one in pairs() if one.key.output == "map")

    stand.trained(Trained({"map": b"anew"}))

    assert stand.heard() == ({"map": b"anew"}, "")
    assert knowledge(stand.rows).model("lived", "map", version_of_model(b"anew")) == b"anew"
    assert stand.counted("map", "refitted") == 1
    assert stand.adviser.report is None, "it is no training"


@pytest.mark.parametrize("how", ["no process", "no label", "no model", "no HBase"])
def test_a_fit_that_comes_to_nothing_is_of_no_model_and_says_why(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "no model":
        stand.ask(Refit({"map": "0" * 16}, 50))
    else:
        fit_anew(stand)
        if how == "no HBase":
            monkeypatch.setattr(stand.rows, "put", away)
        stand.trained(
            None if how == "no process" else Trained({}, {"map": "no two waves"})
            if how == "no label" else Trained({"map": b"anew"}),
            "it ended with status 1" if how == "no process" else "",
        )  # fmt: skip
    found, _ = stand.heard()
    assert found is not None
    lost = found["map"]
    assert isinstance(lost, Lost)
    words = {
        "no process": "it ended with status 1",
        "no label": "no two waves",
        "no model": "is not in the knowledge table",
        "no HBase": "models could not be kept: .*away",
    }
    assert re.search(words[how], lost.reason)
    assert stand.counted("map", "not refitted") == 1


def away(*_: Any, **__: Any) -> None:
    raise Unreachable("HBase is away")


def test_a_training_that_failed_is_a_reason(stand: Stand) -> None:
    stand.ask(QUESTION)
    stand.trained(None, "no Kafka")

    assert stand.heard() == (None, "no Kafka")
    assert stand.adviser.report is not None
    assert stand.adviser.report.failure == "no Kafka"
    assert stand.counted("level", "failed") == 1


def test_models_are_found_again_by_another_agent(stand: Stand) -> None:
    stand.ask(QUESTION)
    stand.trained(Trained({"level": b"model"}, {"map": "too few"}))
    stand.heard()
    stand.adviser.close()
    stand.adviser = stand.another()

    stand.ask(ModelsWanted({"level": version_of_model(b"model")}))
    assert stand.heard() == ({"level": b"model"}, "")


def test_a_model_that_is_not_there_is_lost_with_the_cure_and_others_are_found(
    stand: Stand,
) -> None:
    version = knowledge(stand.rows).keep_model("lived", "map", b"one")
    stand.ask(ModelsWanted({"level": "0" * 16, "map": version}))

    found, _ = stand.heard()
    assert found is not None
    assert found["map"] == b"one"
    lost = found["level"]
    assert isinstance(lost, Lost)
    assert "headgate flow train lived" in lost.reason


@pytest.mark.parametrize("error", [Unreachable("HBase is away"), TypeError("what?")])
@pytest.mark.parametrize("asked", ["train", "models"])
def test_a_table_that_cannot_be_used_is_a_reason(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, error: Exception, asked: str
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(stand.rows, "get", away)
    monkeypatch.setattr(stand.rows, "put", away)
    if asked == "train":
        stand.ask(QUESTION)
        stand.trained(Trained({"level": b"model"}))
    else:
        stand.ask(ModelsWanted({"level": "0" * 16}))

    answer, reason = stand.heard()
    assert answer is None
    assert str(error) in reason
    monkeypatch.undo()
    stand.ask(ModelsWanted({"level": "0" * 16}))
    assert stand.heard()[0] is not None, "it goes on"
    assert bool(stand.failures) == isinstance(error, TypeError)


ASKED = Measure([MetricQuestion("map", (7.0,), "m:C", [ChangedValues(b"", b"")], 3)])


def test_errors_are_asked_of_the_process_of_the_dataflows_metrics(stand: Stand) -> None:
    stand.adviser.answer(encode_question(ASKED), lambda *said: stand.told.put(said))
    [(question, done)] = stand.computes.asked
    assert decode_metric_questions(question).questions == ASKED.questions
    answers = [MetricAnswer("map", (7.0,), 0.5)]
    done(encode_metrics(MetricAnswers(answers)), "")
    answer, reason = stand.told.get(timeout=WAIT)
    assert (decode_answer(answer), reason) == (Measured(answers), "")


def test_where_metrics_could_not_be_asked_each_error_is_unknown_for_the_reason(
    stand: Stand,
) -> None:
    stand.adviser.answer(encode_question(ASKED), lambda *said: stand.told.put(said))
    stand.computes.asked[0][1](None, "it could not be asked")
    answer, _ = stand.told.get(timeout=WAIT)
    failed = MetricAnswer("map", (7.0,), None, "it could not be asked")
    assert decode_answer(answer) == Measured([failed])


def test_what_metrics_failed_on_is_in_the_report(stand: Stand) -> None:
    stand.ask(QUESTION)
    stand.trained(Trained({"level": b"model"}, failures={"level": "it failed on 2 of 9"}))
    stand.heard()
    assert stand.adviser.report is not None
    assert stand.adviser.report.failures == {"level": "it failed on 2 of 9"}


def test_a_report_goes_on_with_another_agent(stand: Stand) -> None:
    assert stand.adviser.saved() == b""
    stand.ask(QUESTION)
    under_way = stand.adviser.saved()
    stand.trained(Trained({"level": b"model"}, {"map": "too few"}, 30, 40))
    stand.heard()
    report, ended = stand.adviser.report, stand.adviser.saved()
    assert ended is stand.adviser.saved(), "it is encoded once"

    stand.adviser.close()
    stand.adviser = stand.another()
    stand.adviser.restore(ended)
    assert stand.adviser.report == report
    stand.adviser.restore(under_way)
    assert stand.adviser.report is not None
    assert "had ended; `headgate flow train` begins another" in stand.adviser.report.failure
    assert stand.adviser.report.seconds is not None, "it keeps nobody from training"


@pytest.mark.parametrize("damaged", [b"?", b"\xc1", b"\x81\xa1a"])
def test_a_report_that_is_none_is_left_out(stand: Stand, damaged: bytes) -> None:
    stand.adviser.restore(damaged)
    assert stand.adviser.report is None


def test_a_dataflow_that_leaves_has_its_trainings_ended(stand: Stand) -> None:
    stand.ask(QUESTION)
    stand.adviser.close()

    assert stand.trains.forgotten == ["lived"]
    stand.trained(Trained({"level": b"model"}))
    assert stand.told.empty()
