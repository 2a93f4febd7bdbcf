"""One bounded output while its dataflow runs: its model, and what is expected of it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headgate.engine import (
    Inputs,
    MetricAnswer,
    MetricQuestion,
    Moment,
    PolicyReport,
)
from headgate.learning.decider import Decider, DeciderState, Judged
from headgate.learning.features import Row
from headgate.learning.feedback import Change, Choice
from headgate.learning.impact import Changes
from headgate.learning.predictor import Influence, Model
from headgate.learning.triggers.above import ContainersAbove
from headgate.learning.triggers.bases import Start
from headgate.learning.triggers.consultation import Lost
from headgate.learning.triggers.errors import ErrorMeter, MeasuredError
from headgate.learning.triggers.metering import mean_of
from headgate.learning.triggers.output_state import OutputState
from headgate.learning.triggers.renewal import Renewal, wait_after_change
from headgate.learning.triggers.reports import (
    MAIN_FEATURES,
    audit_report,
    prediction_report,
    ratio_of,
)
from headgate.learning.triggers.settings import OutputSettings
from headgate.learning.triggers.wishes import Found, MadeLate, Seen, Wish, unwanted, wanted


class BoundedOutput:
    """Says when an output has to be made.

    Args:
        dataflow: its name, by which audits are drawn.
        name: of the container.
        settings: how far it may be from what it would be.
        audit: the share of skips that run all the same.
        renewal: when models are learned, and anew.
        above: the containers from which it is predicted.
    """

    def __init__(
        self,
        dataflow: str,
        name: str,
        settings: OutputSettings,
        audit: float,
        renewal: Renewal,
        above: ContainersAbove,
    ) -> None:
        self.name = name
        self.settings = settings
        self.above = above
        self._error = ErrorMeter(name, settings.metric)
        self.load(OutputState())
        self.model: Model | None = None
        self._dataflow = dataflow
        self._audit = audit
        self._renewal = renewal
        self._waves = renewal.waves
        self._horizon = renewal.horizon
        self._decider: Decider | None = None
        self._row: Row | None = None
        """Of what was judged last; not saved, so that none is known after a restart."""
        self._influences: tuple[Row, tuple[Influence, ...]] | None = None
        """Those of a row, found when somebody asked."""

    # -- probes

    @property
    def error_probe(self) -> str:
        """The probe that measures the output since its last run."""
        return f"error of {self.name}"

    def load(self, state: OutputState) -> None:
        """Go on from what was saved."""
        self.state = state
        self.above.elements, self.above.unbased = state.elements, state.unbased
        self._error.load(state.error)

    # -- models

    def why_not(self, model: Model) -> str:
        """Return why a model is of another error or other impacts; empty where it may decide."""
        bounded = self.settings
        learned = f"the model was learned for an error of {model.bound:g} by `{model.metric.value}`"
        if (model.metric, model.bound) != (bounded.metric, bounded.bound):
            return f"{learned}, which is another now"
        if model.changes is not bounded.changes:
            return f"{learned}, where changes {model.changes.value}, which is another now"
        if not self.above.knows(model):
            return "the model was learned with impacts by other metrics than those of now"
        return ""

    def use(
        self, data: bytes, model: Model, wave: int, decided: DeciderState | None = None
    ) -> None:
        """Have a model decide from the next evaluation on, in a wave; feedback is on one model.

        Args:
            data: its bytes.
            model: what they are.
            wave: the one that has ended.
            decided: from where it goes on if it is another than before; from nothing by default.
        """
        state, version = self.state, version_of_model(data)
        # One that decided before a restart ends nothing that was going on then.
        found = self.model is None and state.model == version
        if state.model != version:
            state.decided = decided or self._first_state(model)
            state.begun = wave
            state.making = None
            self._error.unpredicted()
            state.renewal.trained, state.renewal.refits, state.renewal.failure = wave, 0, ""
        state.model = version
        if not found:
            state.outdated = False
            state.awaited = False
            state.asked = state.tried = 0
            state.renewal.training = 0
            state.words = ""
        self.model = model
        self._row = None
        self.above.use(model)
        self._decider = Decider(self._dataflow, self._audit, model, state.decided)
        waiting, state.error.waiting = state.error.waiting, None
        self._learn(waiting)

    def _first_state(self, model: Model) -> DeciderState:
        """Return the state of a trained model; what audits have measured goes on in one world."""
        before, state = self.model, self.state
        alike = before is not None and (before.metric, before.bound) == (model.metric, model.bound)
        same_world = not state.decided.feedback.changes and state.begun > state.changed
        return state.decided.trained_anew() if alike and same_world else DeciderState()

    def end_training(self) -> None:
        """Go on by the model that decides where a training was asked for in vain."""
        state, renewal = self.state, self.state.renewal
        state.awaited = False
        if state.outdated:
            state.tried += 1
            state.outdated = self._renewal.tries_again(state.tried)
        if renewal.training and state.asked:
            renewal.training, renewal.trained, state.asked = 0, state.asked, 0

    def lose(self, reason: str) -> None:
        """Go on as before without the model that was asked for, or with none."""
        self.state.words = reason
        self.end_training()
        if self.model is None:
            self.state.model = ""
            self._error.unpredicted()

    def use_refitted(self, fitted: tuple[bytes, Model] | Lost, instead: str, wave: int) -> None:
        """Have a model decide that was fitted anew, or go on without.

        Where another model decides by now, or one is being trained, it is of no use.

        Args:
            fitted: its bytes and what they are, or why there is none.
            instead: the version that it was made of.
            wave: the one that has ended.
        """
        state, renewal = self.state, self.state.renewal
        renewal.refit, renewal.asked, renewal.awaited = wave, 0, False
        if state.model != instead or self._is_learning:
            return
        if isinstance(fitted, Lost):
            renewal.failure = fitted.reason
            return
        trained, refits = renewal.trained or state.begun, renewal.refits
        self.use(*fitted, wave, state.decided.fitted_anew(fitted[1]))
        renewal.trained, renewal.refits, renewal.failure = trained, refits + 1, ""

    @property
    def _is_learning(self) -> bool:
        """Whether synchronous waves are learned from, so that another model comes or may come."""
        state = self.state
        return bool(state.decided.feedback.synchronous or state.renewal.training or state.awaited)

    def wants_refit(self, wave: int) -> bool:
        """Return whether the model is to be fitted anew, now that a wave has ended."""
        if self.model is None or self._is_learning:
            return False
        return self._renewal.wants_refit(self.state.renewal, self.state.begun, wave)

    def wants_model(self, wave: int) -> bool:
        """Return whether a model is to be asked for, now that a wave has ended."""
        state = self.state
        if state.awaited or (state.asked and wave - state.asked < self._horizon):
            return False
        if self.model is None:
            return bool(state.since) and wave - max(state.since, state.changed) >= self._waves
        if not self._is_learning and not state.outdated:
            self._renewal.begin_training(state.renewal, state.begun, wave)
        changed = not state.changed or wave - state.changed >= wait_after_change(state.tried)
        return (state.outdated and changed) or self._renewal.has_trained(state.renewal, wave)

    def ask(self, wave: int) -> None:
        """Take note that a model is asked for."""
        self.state.asked, self.state.awaited = wave, True

    def ask_refit(self, wave: int) -> None:
        """Take note that the model is asked to be fitted anew."""
        self.state.renewal.asked, self.state.renewal.awaited = wave, True

    def begun(self) -> None:
        """Take note that who was asked may have ended."""
        self.state.awaited = self.state.renewal.awaited = False

    # -- what it wants

    def wish(self, seen: Seen, inputs: Inputs) -> Wish:
        """Return whether it has to be made, as seen from containers that are of one wave.

        Nothing changes until a step is judged by the wish: see ``judge``.

        Args:
            seen: from where.
            inputs: the state of the inputs of the step that reads them.
        """
        found = self._unpredicted(seen)
        return found if isinstance(found, Wish) else self._predicted(*found, seen, inputs)

    def judge(self, wish: Wish, wave: int) -> None:
        """Go by a wish in the wave that it is of."""
        if wish.found is not None and self._decider is not None:
            self._decider.take(wish.found.judgement)
            self._row = wish.found.row
        if wish.wanted:
            self.state.due = wave
        elif self.state.due == wave:
            self.state.due = 0

    def _unpredicted(self, seen: Seen) -> Wish | tuple[Model, Decider]:
        """Return whether it has to be made whatever is predicted; else who predicts it."""
        state, wave, version = self.state, seen.wave, seen.version
        age = wave.number - version
        if version == 0:
            return wanted(f"`{self.name}` was never made")
        if age <= 0:
            return unwanted(f"`{self.name}` is of this wave")
        if state.lost:
            return wanted(f"the last run that was to make `{self.name}` was given up")
        if state.error.failure:
            return wanted(f"`{self.name}` is made in every wave: {self._failure_words()}")
        if self._error.is_late(wave.number):
            return wanted(f"the error of `{self.name}` in an earlier wave is still computed")
        if self.model is None or self._decider is None:
            return wanted(f"`{self.name}` is made in every wave: {self.phase(wave.number)}")
        if state.renewal.training:
            words = self._renewal.training_words(state.renewal, wave.number)
            return wanted(f"`{self.name}` is made in every wave: {words}")
        if seen.at_work:
            return unwanted(f"a run that makes `{self.name}` is under way")
        if self._decider.is_audited(wave.number) and (
            not seen.certain
            or self._decider.has_looked(wave.number, self._known(self.model, seen.containers))
        ):
            return wanted(f"`{self.name}` is audited in this wave", audited=True)
        if age > self._horizon:
            return wanted(f"`{self.name}` is {age} waves old, and no model looks farther")
        judged = state.decided.judged
        if judged is not None and judged.wave > wave.number:
            return unwanted(f"`{self.name}` was decided on in wave {judged.wave}")
        return self.model, self._decider

    @staticmethod
    def _known(model: Model, containers: Sequence[str]) -> list[str]:
        return [container for container in containers if container in model.containers]

    def impact_questions(self, seen: Seen, inputs: Inputs) -> Iterator[MetricQuestion]:
        """Yield what users' metrics have to be asked before ``wish`` can be; see there."""
        found = self._unpredicted(seen)
        if isinstance(found, Wish):
            return
        known = self._known(found[0], seen.containers)
        yield from self.above.questions(known, inputs, seen.wave, seen.version, self.state.shown)

    def phase(self, wave: int) -> str:
        """Return in words what there is instead of a model."""
        raised = self._renewal.words_of_few(self.settings.confidence)
        if self.state.words:
            return f"{self.state.words}{raised}"
        done = wave - self.state.since + 1 if self.state.since else 0
        return f"{min(done, self._waves)} of {self._waves} waves to learn from{raised}"

    def _predicted(self, model: Model, decider: Decider, seen: Seen, inputs: Inputs) -> Wish:
        wave, version = seen.wave, seen.version
        age = wave.number - version
        known = self._known(model, seen.containers)
        if not known:
            return wanted(f"nothing in front of `{self.name}` is known to its model")
        rows = self.above.rows(known, inputs, wave, version, self.state.shown)
        scores = {c: math.nan if row is None else model.score(c, row) for c, row in rows.items()}
        judgement = decider.judgement(wave.number, version, scores, certain=seen.certain)
        judged = judgement.judged
        container, choice = judged.container, judged.choice
        adjustment = model.containers[container].adjustment
        predicted = ratio_of(judged.score - adjustment)
        threshold = ratio_of(decider.threshold - adjustment)
        row = rows[container]
        found = Found(judgement, row)
        data: dict[str, float | str | None] = {
            "output": self.name,
            "container": container,
            "predicted": None if math.isnan(predicted) else predicted,
            "threshold": threshold,
            "model": self.state.model,
            "age": float(age),
            "choice": choice.value,
        }
        if choice is Choice.SYNCHRONOUS:
            left = self.state.decided.feedback.synchronous
            words = f"`{self.name}` is learned anew: {left} more waves"
        elif row is None:
            why = self.above.unknown(container, wave, version)
            words = f"the impact of `{container}` is not known: {why}"
        elif judged.score == math.inf:
            words = f"`{container}` is unlike all that `{self.name}` was learned from"
        else:
            words = (
                f"predicted from `{container}`, a skip leaves `{self.name}` at {predicted:.2g} of "
                f"its bound; more than {threshold:.2g} runs"
            )
            audited = choice is Choice.AUDIT
            words += ", and this wave is audited" if audited else ""
            return Wish(choice is not Choice.SKIP, words, data, audited, found)
        return Wish(wanted=True, words=words, data=data, found=found)

    # -- what it hears

    def launched(self, inputs: Moment, wave: int, start: Callable[[str], Start]) -> None:
        """Take note that a run is about to make it of a wave; see ``ContainersAbove.launched``."""
        self.above.launched(inputs, start)
        self.state.making = None if self._decider is None else self._decider.judged_in(wave)

    def committed(self, inputs: Moment, wave: int) -> MetricQuestion | None:
        """Take what it is now, and how far that is from what was shown before.

        Returns what a user's metric has to be asked for that; ``measured`` takes the answer.

        Args:
            inputs: of the step that writes it.
            wave: of which it is.
        """
        state, parts = self.state, inputs.probe(self.error_probe)
        self._learn(self._error.overdue())
        found: MeasuredError | MetricQuestion | None = None
        if state.since:  # else nothing was shown before
            judged = state.making
            if judged is None and self._decider is not None:
                judged = self._decider.judged_in(wave)
            found = self._error.measure(parts, wave, judged)
        state.making = None
        inputs.reset(self.error_probe)
        self._error.forget()
        state.shown = mean_of(parts)
        state.lost = False
        state.since = state.since or wave
        if isinstance(found, MetricQuestion):
            return found
        self._learn(found)
        return None

    def measured(self, answer: MetricAnswer) -> None:
        """Take what a user's metric has said of the last run, or of a container above."""
        if answer.bound == self.name:
            self._learn(self._error.take(answer))
        else:
            self.above.take(answer)

    def unanswered(self, reason: str) -> None:
        """Take note that nobody says what a container above has changed."""
        self.above.give_up(reason)

    def resumed(self) -> MetricQuestion | None:
        """Return what a user's metric has to be asked again, now that the engine goes on."""
        self._learn(self._error.lost())
        return self._error.open_question()

    def _learn(self, measured: MeasuredError | None) -> None:
        """Take the error of a run, and what it says of the model that decides."""
        state = self.state
        if measured is None or measured.judged is None:
            return
        if self._decider is None:
            state.error.waiting = measured
            return
        relearning = state.decided.feedback.synchronous
        changed = self._decider.shown(measured.judged, measured.value / self.settings.bound)
        if changed is not None:
            state.words = changed.value
            if changed is not Change.UNLIKE or not state.outdated:
                # Else the world that the model does not know is still the same.
                state.changed, state.tried = measured.judged.wave, 0
        if relearning and not state.decided.feedback.synchronous:
            state.outdated = True

    def wave_over(self, wave: int, flow: MadeLate) -> None:
        """Take note that a wave is over."""
        judged = self.state.decided.judged
        if self._decider is not None and judged is not None:
            late = judged.choice is not Choice.SKIP and flow.is_made_late(self.name, judged.wave)
            self._decider.wave_over(wave, flow.version(self.name), made_late=late)

    def failed(self) -> None:
        """Take note that a run was given up that was to make it."""
        self.state.lost = True
        self.state.making = None

    def report(self, wave: int) -> PolicyReport:
        """Return how it is decided on."""
        state, model = self.state, self.model
        predicted = self.prediction(wave)
        data: dict[str, Any] = {
            "bound": self.settings.bound,
            "metric": self.settings.metric.value,
            "changes": self.settings.changes.value,
            "confidence": self.settings.confidence,
            **predicted.data,
        }
        if model is None:
            return PolicyReport(predicted.words, data)
        decided, feedback = state.decided, state.decided.feedback
        audited = audit_report(feedback.rate, decided.audit, self.settings.confidence)
        data |= {
            "model_age": wave - state.begun,
            "trained_on": model.waves,
            "trained_from": state.waves[0],
            "trained_to": state.waves[1],
            "changed": state.changed,
            "calibration": model.calibration,
            "refits": state.renewal.refits,
            "synchronous": feedback.synchronous,
            "changes_found": feedback.changes,
            **audited.data,
        }
        words = f"{predicted.words}; {audited.words}"
        if self.settings.changes is Changes.ACCUMULATE:
            words += "; of changes that undo each other audits see nothing"
        if state.renewal.training:
            words += f"; made in every wave: {self._renewal.training_words(state.renewal, wave)}"
        if feedback.synchronous:
            words += f"; made in {feedback.synchronous} more waves, for {state.words}"
        return PolicyReport(words, data)

    def prediction(self, wave: int) -> PolicyReport:
        """Return what was predicted of it last and by which model, without what audits found."""
        state, model = self.state, self.model
        impacts = self.above.failures
        failure = "; ".join(filter(None, (state.error.failure, impacts)))
        data: dict[str, Any] = {"model": state.model, "metric_failure": failure}
        failed = f"; {self._failure_words()}" if state.error.failure else ""
        if impacts:
            failed += f"; impacts were not known by {impacts}"
        if model is None:
            return PolicyReport(f"made in every wave: {self.phase(wave)}{failed}", data)
        judged, threshold = state.decided.judged, state.decided.feedback.threshold(model.threshold)
        known = None if judged is None else model.containers.get(judged.container)
        adjustment = 0.0 if known is None else known.adjustment
        data["threshold"] = ratio_of(threshold - adjustment)
        words = f"decided by model {state.model} of {model.waves} waves"
        if any(state.waves):
            words += ", {} to {}".format(*state.waves)
        words += f"{self._renewal.words_of(state.renewal)}{failed}"
        if judged is not None:
            influences = self._main_features(model, judged)
            seen = prediction_report(judged, threshold, influences, adjustment)
            data |= seen.data
            words += f"; {seen.words}"
        return PolicyReport(words, data)

    def _failure_words(self) -> str:
        metric = self.settings.metric.value
        return f"its error by `{metric}` is not known: {self.state.error.failure}"

    def _main_features(self, model: Model, judged: Judged) -> tuple[Influence, ...]:
        row, known = self._row, model.containers.get(judged.container)
        if row is None or known is None:
            return ()
        if self._influences is None or self._influences[0] is not row:
            self._influences = row, known.influences(row, MAIN_FEATURES)
        return self._influences[1]


def version_of_model(data: bytes) -> str:
    """Return what a model is called: a digest of its bytes, 16 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()[:16]
