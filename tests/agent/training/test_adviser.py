"""What learned triggers ask is answered by models that are kept, or by reasons."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Any

import pytest
from asked import KAFKA, SPEC
from kept import knowledge, pairs
from msgspec.structs import replace
from simulation.rows import MemoryRows

from headgate.agent.advisers.metric_process import MetricWorker
from headgate.agent.errors import Unreachable
from headgate.agent.metrics import AgentMetrics
from headgate.agent.supervision import Supervision
from headgate.agent.training.adviser import LearnedAdviser, TrainingReport
from headgate.agent.training.task import Task, Trained, pack
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
    Lost,
    Measure,
    Measured,
    Models,
    ModelsWanted,
    Train,
    decode_answer,
    encode_question,
    version_of_model,
)

WAIT = 60.0
QUESTION = Train(("level", "map"), 41, 40)


class Trains:
    """A trainer whose answers a test gives."""

    def __init__(self) -> None:
        self.asked: list[tuple[Task, Done]] = []
        self.forgotten: list[str] = []

    def train(self, task: Task, done: Done) -> None:
        self.asked.append((task, done))

    def forget(self, dataflow: str) -> None:
        self.forgotten.append(dataflow)


class Computes:
    """A process of metrics whose answers a test gives."""

    worker = MetricWorker("python", "metrics.log", 1.0, 2.0, ("here",))

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

    def ask(self, question: Train | ModelsWanted) -> None:
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
    assert stand.adviser.report == TrainingReport(("level", "map"), 40)


def test_models_and_reasons_are_answered_and_kept_with_their_pairs(stand: Stand) -> None:
    stand.ask(QUESTION)
    kept = tuple(map(pack, pairs()))
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


def test_a_dataflow_that_leaves_has_its_trainings_ended(stand: Stand) -> None:
    stand.ask(QUESTION)
    stand.adviser.close()

    assert stand.trains.forgotten == ["lived"]
    stand.trained(Trained({"level": b"model"}))
    assert stand.told.empty()
