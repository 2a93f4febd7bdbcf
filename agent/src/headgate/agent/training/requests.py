"""Trainings that people ask for, and what they are told of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from headgate.agent.errors import Refused
from headgate.agent.parts import Part
from headgate.agent.ports import Adviser
from headgate.agent.training.adviser import Done, LearnedAdviser, TrainingReport
from headgate.agent.training.task import Source
from headgate.agent.training.training import learned_by
from headgate.engine import Engine, SpecificationError
from headgate.flows import Dataflow
from headgate.learning import LEARNED, Learned, Train
from headgate.settings import shell_word


class TrainedFlow(Protocol):
    """A dataflow whose models are trained."""

    name: str
    dataflow: Dataflow
    engine: Engine
    dirty: bool
    """True once something is to be saved."""


class Trainings(Part):
    """The trainings of one dataflow.

    Args:
        flow: the dataflow.
        advisers: who answers what its triggers ask, by their kind; one of them trains.
        answers: returns where the answer to a trigger goes, by its action and kind.
        post: has a call made on the dataflow's turn, with the time.
        saved: what ``saved`` returned; empty where there was nothing.
    """

    def __init__(
        self,
        flow: TrainedFlow,
        advisers: Mapping[str, Adviser],
        answers: Callable[[str, str], Done],
        post: Callable[[Callable[[float], None]], None],
        saved: bytes,
    ) -> None:
        self._flow = flow
        self._answers = answers
        self._post = post
        adviser = advisers.get(LEARNED)
        self._adviser = adviser if isinstance(adviser, LearnedAdviser) else None
        if self._adviser is not None and saved:
            self._adviser.restore(saved)

    def saved(self) -> dict[str, object]:
        """Return fields of ``FlowProgress``."""
        return {"training": b"" if self._adviser is None else self._adviser.saved()}

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
        name, adviser = self._flow.name, self._adviser
        try:
            settings, graph = learned_by(self._flow.dataflow.spec)
        except SpecificationError as error:
            raise Refused(str(error)) from error
        if adviser is None:
            raise Refused(f"nobody trains models for {name} here")
        unknown = [output for output in outputs if output not in settings.outputs]
        if unknown:
            raise Refused(
                f"{name} bounds no output {', '.join(map(repr, unknown))}; its outputs are "
                f"{', '.join(map(repr, settings.outputs))}"
            )
        if not settled and source is Source.RECORDING:
            raise Refused(f"no wave of {name} has settled; end some with `headgate flow mark`")
        if adviser.is_training:
            raise Refused(f"a training of {name} is under way; wait until it has ended")
        chosen = tuple(outputs) or tuple(settings.outputs)
        writer = graph.writers[chosen[0]]
        answer = self._answers(writer, LEARNED)

        def trained(found: bytes | None, reason: str) -> None:
            if found is not None:
                answer(found, reason)
            else:
                self._post(lambda _: self._note_report())

        self._note_report()
        trigger = self._flow.engine.actions[writer].trigger
        since = trigger.first_of_world(chosen) if isinstance(trigger, Learned) else 1
        asked = Train(chosen, settled + 1, waves or settings.waves, since)
        if source is Source.KNOWLEDGE:
            adviser.train_on_knowledge(asked, trained)
        else:
            adviser.train(asked, trained)
        return self.training()

    def _note_report(self) -> None:
        """Have the report saved, whatever else does or does not change."""
        self._flow.dirty = True

    def training(self, number: int | None = None) -> TrainingReport:
        """Return a training, which may be under way: the last one, if no number is given.

        Raises:
            Refused: there was none, or it is not known any more.
        """
        adviser = self._adviser
        if number is not None and adviser is not None:
            report = adviser.report_of(number)
            if report is None:
                raise Refused(
                    f"training {number} of {self._flow.name} is not known any more; "
                    f"`headgate flow train {shell_word(self._flow.name)} --last` reports on the "
                    "last one"
                )
            return report
        if adviser is None or adviser.report is None:
            raise Refused(
                f"no training of {self._flow.name} was asked for since it was submitted; "
                f"`headgate flow train {shell_word(self._flow.name)}` does"
            )
        return adviser.report

    def models(self) -> frozenset[str]:
        """Return the versions of the models by which outputs are decided on."""
        return frozenset(
            version
            for action in self._flow.engine.actions.values()
            if isinstance(action.trigger, Learned)
            for version in action.trigger.models
        )
