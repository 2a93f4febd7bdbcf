"""What trigger policies ask: carried to who works it out, and the answer back to the engine."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.agent.dataflow.context import RuntimeContext
from headgate.agent.dataflow.state import FlowState, RuntimePort
from headgate.agent.errors import Refused
from headgate.agent.parts import Part
from headgate.agent.state.saved_state import FlowProgress
from headgate.agent.training.adviser import TrainingReport
from headgate.agent.training.task import Source
from headgate.agent.training.training import learned_by
from headgate.engine import Consult, Consulted, SpecificationError
from headgate.learning import LEARNED, Learned, Train
from headgate.settings import shell_word


class Consultations(Part):
    """Carries questions and answers, and has models trained that people ask for."""

    def __init__(
        self,
        state: FlowState,
        port: RuntimePort,
        context: RuntimeContext,
        progress: FlowProgress,
    ) -> None:
        self._state = state
        self._port = port
        self._context = context
        if context.learning is not None and progress.training:
            context.learning.restore(progress.training)

    def saved(self) -> dict[str, object]:
        """Return fields of ``FlowProgress``."""
        learning = self._context.learning
        return {"training": b"" if learning is None else learning.saved()}

    def train(
        self,
        outputs: Sequence[str],
        waves: int | None,
        settled: int,
        source: Source = Source.RECORDING,
    ) -> TrainingReport:
        """Have models trained whatever the triggers ask; they decide as soon as they are there.

        Args:
            outputs: bounded ones; all, where none is named.
            waves: to be learned from; as many as the dataflow says where None.
            settled: the newest wave that may be among them.
            source: what is learned from; stored pairs need no wave to have settled.

        Raises:
            Refused: the dataflow has no learned triggers or no such output, no wave has settled, or
                a training is under way.
        """
        name, learning = self._state.name, self._context.learning
        try:
            settings, graph = learned_by(self._state.dataflow.spec)
        except SpecificationError as error:
            raise Refused(str(error)) from error
        if learning is None:
            raise Refused(f"nobody trains models for {name} here")
        unknown = [output for output in outputs if output not in settings.outputs]
        if unknown:
            raise Refused(
                f"{name} bounds no output {', '.join(map(repr, unknown))}; its outputs are "
                f"{', '.join(map(repr, settings.outputs))}"
            )
        if not settled and source is Source.RECORDING:
            raise Refused(f"no wave of {name} has settled; end some with `headgate flow mark`")
        if learning.is_training:
            raise Refused(f"a training of {name} is under way; wait until it has ended")
        chosen = tuple(outputs) or tuple(settings.outputs)
        writer = graph.writers[chosen[0]]

        def trained(found: bytes | None, reason: str) -> None:
            if found is not None:
                self._context.post(lambda now: self._answer(writer, LEARNED, found, reason, now))
            else:
                self._context.post(lambda _: self._note_report())

        self._note_report()
        trigger = self._state.engine.actions[writer].trigger
        since = trigger.first_of_world(chosen) if isinstance(trigger, Learned) else 1
        asked = Train(chosen, settled + 1, waves or settings.waves, since)
        if source is Source.KNOWLEDGE:
            learning.train_on_knowledge(asked, trained)
        else:
            learning.train(asked, trained)
        return self.training()

    def _note_report(self) -> None:
        """Have the report saved, whatever else does or does not change."""
        self._state.dirty = True

    def training(self, number: int | None = None) -> TrainingReport:
        """Return a training, which may be under way: the last one, if no number is given.

        Raises:
            Refused: there was none, or it is not known any more.
        """
        learning = self._context.learning
        if number is not None and learning is not None:
            report = learning.report_of(number)
            if report is None:
                raise Refused(
                    f"training {number} of {self._state.name} is not known any more; "
                    f"`headgate flow train {shell_word(self._state.name)} --last` reports on the "
                    "last one"
                )
            return report
        if learning is None or learning.report is None:
            raise Refused(
                f"no training of {self._state.name} was asked for since it was submitted; "
                f"`headgate flow train {shell_word(self._state.name)}` does"
            )
        return learning.report

    def models(self) -> frozenset[str]:
        """Return the versions of the models by which outputs are decided on."""
        return frozenset(
            version
            for action in self._state.engine.actions.values()
            if isinstance(action.trigger, Learned)
            for version in action.trigger.models
        )

    def ask(self, consult: Consult) -> None:
        """Have a question worked out; the engine hears of it in any case, later."""
        action, kind = consult.action, consult.kind

        def answer(found: bytes | None, reason: str) -> None:
            self._context.post(lambda now: self._answer(action, kind, found, reason, now))

        adviser = self._context.advisers.get(consult.kind)
        if adviser is None:
            answer(None, f"nobody answers what a trigger {consult.kind!r} asks")
            return
        try:
            adviser.answer(consult.question, answer)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the engine waits for an answer
            answer(None, f"{type(error).__name__}: {error}")

    def _answer(self, action: str, kind: str, found: bytes | None, reason: str, now: float) -> None:
        self._port.handle(Consulted(now, action, kind, found, reason))
        self._port.settle()
