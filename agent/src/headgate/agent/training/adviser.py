"""What learned triggers ask: for models to be trained, and for those by which they decided."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, assert_never

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from headgate.agent.children.code_process import CodeWorker
from headgate.agent.configuration import KafkaOptions
from headgate.agent.errors import AgentError
from headgate.agent.metrics import DataflowMetrics
from headgate.agent.ports import ReadsRecord
from headgate.agent.state.cell_values import UnreadableCell, read_cell
from headgate.agent.supervision import Supervision, ThreadKind, describe
from headgate.agent.training.knowledge import Knowledge, ModelMissing
from headgate.agent.training.pairs import PairKey
from headgate.agent.training.stored import keys_of_models, stretch_of, wave_before
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
from headgate.agent.training.trainer import Done as TrainingEnded
from headgate.agent.training.training import demands_of
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
    Refit,
    Train,
    UnusableModel,
    decode_question,
    encode_answer,
    learned_actions,
)

log = structlog.get_logger("headgate.agent.training")

Done = Callable[[bytes | None, str], None]

_KEPT_REPORTS: Final = 16
"""Trainings that are remembered: who has begun one looks at it again within seconds."""
_ENDED: Final = "the agent that carried it out had ended; `headgate flow train` begins another"


@contextmanager
def _failing(fail: Callable[[str], None]) -> Iterator[None]:
    """Call ``fail`` with why the body failed, for whoever waits; what nobody foresaw is raised."""
    try:
        yield
    except (AgentError, UnusableModel) as error:
        fail(str(error))
    except Exception as error:
        fail(describe(error))
        raise


class Trains(Protocol):
    """Carries trainings out; see ``Trainer``."""

    def train(self, task: AnyTask, done: TrainingEnded) -> None:
        """Have a training carried out, and ``done`` called from another thread."""

    def forget(self, dataflow: str) -> None:
        """End the trainings of a dataflow, of which nobody hears any more."""


class Computes(Protocol):
    """Computes users' metrics of a dataflow; see ``MetricAdviser``."""

    worker: CodeWorker
    """How processes are started that compute them."""

    def answer(self, question: bytes, done: Done) -> None:
        """Hand answers to questions to ``done``, from another thread."""


class TrainingReport(Struct, frozen=True):
    """A training of a dataflow."""

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
    source: Source = Source.RECORDING
    """What was learned from."""
    first: int = 0
    """The oldest wave that was learned from; 0 where that is not known."""
    number: int = 0
    """Among the trainings since the dataflow was submitted, from 1; 0 from a version before."""


class LearnedAdviser(ReadsRecord):
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
        self._reports: dict[int, TrainingReport] = {}
        """Reports of the newest trainings, by number."""
        self._saved: tuple[TrainingReport, bytes] | None = None
        """As it was encoded last: checkpoints are many, and trainings few."""

    def use(self, roots: Sequence[str], spec: DataflowSpec) -> None:  # noqa: ARG002 -- the interface
        """Train for another definition from here on."""
        self._spec = spec

    def reads_record(self) -> bool:
        """Return whether the dataflow has learned triggers, which are trained on its record."""
        return bool(learned_actions(self._spec))

    def answer(self, question: bytes, done: Done) -> None:
        """See ``ports.Adviser``."""
        asked = decode_question(question)
        match asked:
            case Train():
                self.train(asked, done)
            case Refit():
                spec = self._spec
                self._soon(lambda: self._fit_anew(spec, asked, done))
            case Measure():
                self._measure(asked, done)
            case ModelsWanted():
                self._soon(lambda: self._find(asked, done))
            case _:
                assert_never(asked)

    def train(self, asked: Train, done: Done) -> None:
        """Have models trained, of the waves before one."""
        last, worker = asked.wave - 1, self._computes.worker
        task = Task(self._kafka, self._spec, asked.outputs, last, asked.waves, worker, asked.since)
        self._begin(task, self._begun(asked, Source.RECORDING), done)

    def train_on_knowledge(self, asked: Train, done: Done) -> None:
        """Have models trained of the newest pairs that are stored and fit."""
        report, spec = self._begun(asked, Source.KNOWLEDGE), self._spec
        self._soon(lambda: self._train_on_knowledge(spec, report, done))

    @property
    def report(self) -> TrainingReport | None:
        """The last training; None where there was none."""
        reports = dict(self._reports)
        return reports[max(reports)] if reports else None

    @property
    def is_training(self) -> bool:
        """True if a training is under way."""
        return any(report.seconds is None for report in tuple(self._reports.values()))

    def report_of(self, number: int) -> TrainingReport | None:
        """Return a training by its number; None where it is not known any more."""
        return self._reports.get(number)

    def _begun(self, asked: Train, source: Source) -> TrainingReport:
        number = max(self._reports, default=0) + 1
        return self._remember(
            TrainingReport(asked.outputs, asked.waves, source=source, number=number)
        )

    def _remember(self, report: TrainingReport) -> TrainingReport:
        known = {**self._reports, report.number: report}
        newest = sorted(known)[-_KEPT_REPORTS:]
        self._reports = {number: known[number] for number in newest}
        return report

    def _begin(self, task: AnyTask, report: TrainingReport, done: Done) -> None:
        def ended(trained: Trained | None, reason: str, seconds: float) -> None:
            now = replace(report, seconds=seconds)
            self._soon(lambda: self._take(now, trained, reason, done))

        self._trainer.train(task, ended)

    def _measure(self, asked: Measure, done: Done) -> None:
        def answered(found: bytes | None, reason: str) -> None:
            if found is None:
                answers = [MetricAnswer(q.bound, q.version, None, reason) for q in asked.questions]
            else:
                answers = decode_metric_answers(found).answers
            done(encode_answer(Measured(answers)), "")

        self._computes.answer(encode_metrics(MetricQuestions(asked.questions)), answered)

    def saved(self) -> bytes:
        """Return the report of the last training, for ``restore``; empty where there is none."""
        report = self.report
        if report is None:
            return b""
        if self._saved is None or self._saved[0] is not report:
            self._saved = report, msgspec.msgpack.encode(report)
        return self._saved[1]

    def restore(self, saved: bytes) -> None:
        """Go on with the report that another agent has saved; nobody ends what it had begun."""
        try:
            report = read_cell(saved, TrainingReport)
        except UnreadableCell as error:
            log.warning(
                "the report of the last training is left out",
                dataflow=self._spec.name,
                reason=f"it cannot be read ({error})",
            )
            return
        if report.seconds is None:
            report = replace(report, seconds=0.0, failure=_ENDED)
        self._remember(report)

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
        with _failing(lambda why: done(None, f"models could not be read: {why}")):
            found: dict[str, bytes | Lost] = {}
            for output, version in asked.models.items():
                try:
                    found[output] = self._knowledge.model(self._spec.name, output, version)
                except ModelMissing as error:
                    log.warning("no model", dataflow=self._spec.name, reason=str(error))
                    found[output] = Lost(str(error))
            done(encode_answer(Models(found)), "")

    def _train_on_knowledge(self, spec: DataflowSpec, report: TrainingReport, done: Done) -> None:
        def failed(why: str) -> None:
            self._fail(report, why)
            done(None, "")

        with _failing(failed):
            demands = demands_of(spec, report.outputs)
            known = self._knowledge.pair_keys(spec.name)
            keys = stretch_of(known, demands, report.asked, self._wave_before)
            pairs = tuple(map(pack_pairs, self._knowledge.pairs_of(keys)))
            self._begin(StoredTask(spec, report.outputs, report.asked, pairs), report, done)

    def _wave_before(self, key: PairKey) -> int:
        [pairs] = self._knowledge.pairs_of([key])
        return wave_before(pairs)

    def _fit_anew(self, spec: DataflowSpec, asked: Refit, done: Done) -> None:
        """Begin to fit models anew; a failure is of no model, so that nobody takes it for one."""

        def ended(trained: Trained | None, reason: str, seconds: float) -> None:
            self._soon(lambda: self._take_refitted(asked, trained, reason, seconds, done))

        with _failing(lambda why: self._tell_refitted(asked, {}, why, 0.0, done)):
            models = {
                output: self._knowledge.model(spec.name, output, version)
                for output, version in asked.models.items()
            }
            keys = keys_of_models(self._knowledge.pair_keys(spec.name), models)
            pairs = tuple(map(pack_pairs, self._knowledge.pairs_of(keys)))
            task = RefitTask(self._kafka, spec, models, pairs, asked.wave, asked.since)
            self._trainer.train(task, ended)

    def _take_refitted(
        self, asked: Refit, trained: Trained | None, reason: str, seconds: float, done: Done
    ) -> None:
        def failed(why: str) -> None:
            self._tell_refitted(asked, {}, why, seconds, done)

        if trained is None:
            failed(reason)
            return
        with _failing(lambda why: failed(f"models could not be kept: {why}")):
            for output, model in trained.models.items():
                self._knowledge.keep_model(self._spec.name, output, model)
            lost = {output: Lost(why) for output, why in trained.reasons.items()}
            self._tell_refitted(asked, {**lost, **trained.models}, reason, seconds, done)

    def _tell_refitted(
        self,
        asked: Refit,
        found: Mapping[str, bytes | Lost],
        reason: str,
        seconds: float,
        done: Done,
    ) -> None:
        outputs = {output: found.get(output, Lost(reason)) for output in asked.models}
        for output, each in outputs.items():
            fitted = isinstance(each, bytes)
            self._metrics.trainings.labels(output, "refitted" if fitted else "not refitted").inc()
            log.info(
                "fitted anew" if fitted else "not fitted anew",
                dataflow=self._spec.name,
                output=output,
                instead=asked.models[output],
                reason=each.reason if isinstance(each, Lost) else "",
                seconds=round(seconds, 1),
            )
        done(encode_answer(Models(outputs, asked.models)), "")

    def _fail(self, report: TrainingReport, words: str) -> None:
        self._note(replace(report, seconds=report.seconds or 0.0, failure=words))

    def _take(
        self, report: TrainingReport, trained: Trained | None, reason: str, done: Done
    ) -> None:
        def failed(why: str) -> None:
            self._fail(report, why)
            done(None, why)

        if trained is None:
            failed(reason)
            return
        with _failing(lambda why: failed(f"models could not be kept: {why}")):
            versions = {
                output: self._knowledge.keep_model(self._spec.name, output, model)
                for output, model in trained.models.items()
            }
            self._knowledge.keep_pairs(map(unpack, trained.pairs))
            self._note(
                replace(
                    report,
                    waves=trained.waves,
                    last=trained.last,
                    first=trained.first,
                    models=versions,
                    reasons=trained.reasons,
                    left_out=trained.left_out,
                    test=trained.report,
                    failures=trained.failures,
                )
            )
            lost = {output: Lost(why) for output, why in trained.reasons.items()}
            waves = (trained.first, trained.last) if trained.first else (0, 0)
            done(encode_answer(Models({**lost, **trained.models}, waves=waves)), "")

    def _note(self, report: TrainingReport) -> None:
        self._remember(report)
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
