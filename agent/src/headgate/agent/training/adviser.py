"""What learned triggers ask: for models to be trained, and for those by which they decided."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog
from msgspec import Struct

from headgate.agent.advisers.metric_process import MetricWorker
from headgate.agent.configuration import KafkaOptions
from headgate.agent.errors import AgentError
from headgate.agent.metrics import DataflowMetrics
from headgate.agent.supervision import Supervision, ThreadKind, describe
from headgate.agent.training.knowledge import Knowledge, ModelMissing
from headgate.agent.training.task import Task, Trained, unpack
from headgate.agent.training.trainer import Done as TrainingEnded
from headgate.engine import (
    DataflowSpec,
    MetricAnswer,
    MetricQuestions,
    decode_metric_answers,
    encode_metrics,
)
from headgate.learning import (
    FitReport,
    Lost,
    Measure,
    Measured,
    Models,
    ModelsWanted,
    Train,
    decode_question,
    encode_answer,
)

log = structlog.get_logger("headgate.agent.training")

Done = Callable[[bytes | None, str], None]


class Trains(Protocol):
    """Carries trainings out; see ``Trainer``."""

    def train(self, task: Task, done: TrainingEnded) -> None:
        """Have a training carried out, and ``done`` called from another thread."""

    def forget(self, dataflow: str) -> None:
        """End the trainings of a dataflow, of which nobody hears any more."""


class Computes(Protocol):
    """Computes users' metrics of a dataflow; see ``MetricAdviser``."""

    worker: MetricWorker
    """How processes are started that compute them."""

    def answer(self, question: bytes, done: Done) -> None:
        """Hand answers to questions to ``done``, from another thread."""


class TrainingReport(Struct, frozen=True):
    """The last training of a dataflow."""

    outputs: tuple[str, ...]
    asked: int
    """Waves that were asked for."""
    waves: int = 0
    """Waves that were learned from."""
    last: int = 0
    """The newest of them."""
    seconds: float | None = None
    """That it took; None while it goes on."""
    models: dict[str, str] = {}
    """By output, what its model is called."""
    reasons: dict[str, str] = {}
    """By output, why there is no model."""
    left_out: str = ""
    """How many waves were left out and why."""
    failure: str = ""
    """Why the training gave nothing at all."""
    test: FitReport | None = None
    """The test phase."""
    failures: dict[str, str] = {}
    """By output or container with a user's metric, what that failed on."""


class LearnedAdviser:
    """Answers what the learned triggers of a dataflow ask.

    Args:
        spec: the dataflow.
        kafka: where it is recorded.
        trainer: of the agent.
        knowledge: where models are kept.
        computes: users' metrics of the dataflow.
        metrics: of the dataflow.
        supervision: owns its thread.
    """

    def __init__(
        self,
        spec: DataflowSpec,
        kafka: KafkaOptions,
        trainer: Trains,
        knowledge: Knowledge,
        computes: Computes,
        metrics: DataflowMetrics,
        supervision: Supervision,
    ) -> None:
        self._spec = spec
        self._kafka = kafka
        self._trainer = trainer
        self._knowledge = knowledge
        self._computes = computes
        self._metrics = metrics
        self._supervision = supervision
        self._waiting: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        """Most dataflows have no learned triggers, and need none."""
        self.report: TrainingReport | None = None
        """Of the last training here; None where there was none."""

    def use(self, roots: Sequence[str], spec: DataflowSpec) -> None:  # noqa: ARG002 -- the interface
        """Train for another definition from here on."""
        self._spec = spec

    def answer(self, question: bytes, done: Done) -> None:
        """See ``ports.Adviser``."""
        asked = decode_question(question)
        if isinstance(asked, Train):
            self.train(asked, done)
        elif isinstance(asked, Measure):
            self._measure(asked, done)
        else:
            self._soon(lambda: self._find(asked, done))

    def train(self, asked: Train, done: Done) -> None:
        """Have models trained, of the waves before one."""
        last, worker = asked.wave - 1, self._computes.worker
        task = Task(self._kafka, self._spec, asked.outputs, last, asked.waves, worker)
        self.report = TrainingReport(asked.outputs, asked.waves)

        def ended(trained: Trained | None, reason: str, seconds: float) -> None:
            self._soon(lambda: self._take(task, trained, reason, seconds, done))

        self._trainer.train(task, ended)

    def _measure(self, asked: Measure, done: Done) -> None:
        def answered(found: bytes | None, reason: str) -> None:
            if found is None:
                answers = [MetricAnswer(q.bound, q.version, None, reason) for q in asked.questions]
            else:
                answers = decode_metric_answers(found).answers
            done(encode_answer(Measured(answers)), "")

        self._computes.answer(encode_metrics(MetricQuestions(asked.questions)), answered)

    def close(self) -> None:
        """Answer nothing any more."""
        self._trainer.forget(self._spec.name)
        with self._changed:
            self._closing.set()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    # -- in its thread

    def _soon(self, work: Callable[[], None]) -> None:
        with self._changed:
            self._waiting.append(work)
            self._changed.notify_all()
            if self._thread is None and not self._closing.is_set():
                self._thread = self._supervision.thread(
                    ThreadKind.MODELS, f"models-{self._spec.name}", self._work, self._closing
                )
                self._thread.start()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing.is_set() or bool(self._waiting))
                if self._closing.is_set():
                    return
                work = self._waiting.popleft()
            work()

    def _find(self, asked: ModelsWanted, done: Done) -> None:
        found: dict[str, bytes | Lost] = {}
        try:
            for output, version in asked.models.items():
                try:
                    found[output] = self._knowledge.model(self._spec.name, output, version)
                except ModelMissing as error:
                    log.warning("no model", dataflow=self._spec.name, reason=str(error))
                    found[output] = Lost(str(error))
        except Exception as error:  # whatever it is, the trigger waits for an answer
            done(None, f"models could not be read: {describe(error)}")
            if not isinstance(error, AgentError):
                raise
            return
        done(encode_answer(Models(found)), "")

    def _take(
        self, task: Task, trained: Trained | None, reason: str, seconds: float, done: Done
    ) -> None:
        name = self._spec.name
        if trained is None:
            self._note(TrainingReport(task.outputs, task.waves, seconds=seconds, failure=reason))
            done(None, reason)
            return
        try:
            versions = {
                output: self._knowledge.keep_model(name, output, model)
                for output, model in trained.models.items()
            }
            self._knowledge.keep_pairs(map(unpack, trained.pairs))
        except Exception as error:  # whatever it is, the trigger waits for an answer
            words = f"models could not be kept: {describe(error)}"
            self._note(TrainingReport(task.outputs, task.waves, seconds=seconds, failure=words))
            done(None, words)
            if not isinstance(error, AgentError):
                raise
            return
        self._note(
            TrainingReport(
                task.outputs,
                task.waves,
                trained.waves,
                trained.last,
                seconds,
                versions,
                trained.reasons,
                trained.left_out,
                "",
                trained.report,
                trained.failures,
            )
        )
        lost = {output: Lost(why) for output, why in trained.reasons.items()}
        done(encode_answer(Models({**lost, **trained.models})), "")

    def _note(self, report: TrainingReport) -> None:
        self.report = report
        for output in report.outputs:
            outcome = "failed" if report.failure else "model" if output in report.models else "none"
            self._metrics.trainings.labels(output, outcome).inc()
        self._metrics.training_seconds.observe(report.seconds or 0.0)
        log.info(
            "trained",
            dataflow=self._spec.name,
            models=report.models,
            reasons=report.failure or report.reasons,
            waves=report.waves,
            left_out=report.left_out,
            seconds=round(report.seconds or 0.0, 1),
        )
