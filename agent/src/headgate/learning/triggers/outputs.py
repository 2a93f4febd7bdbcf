"""One bounded output while its dataflow runs: its model, and what is expected of it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from headgate.engine import Inputs, Moment, PolicyReport, Wave
from headgate.learning.decider import Decider, DeciderState, Judged
from headgate.learning.features import Row, WaveContext, row_of
from headgate.learning.feedback import Choice
from headgate.learning.impact import error
from headgate.learning.predictor import Influence, Model
from headgate.learning.triggers.consultation import Lost
from headgate.learning.triggers.metering import Meter, is_known, mean_of, updates_of
from headgate.learning.triggers.renewal import Renewal, RenewalState
from headgate.learning.triggers.reports import (
    MAIN_FEATURES,
    audit_report,
    prediction_report,
    ratio_of,
)
from headgate.learning.triggers.settings import OutputSettings


class OutputState(Struct):
    """What is saved of an output."""

    model: str = ""
    """Which one decides; none where empty."""
    begun: int = 0
    """The wave from which on it does."""
    shown: float = 0.0
    """Mean of the output's values."""
    since: int = 0
    """The wave from which on all runs have been synchronous."""
    outdated: bool = False
    """Whether a change was learned of, so that the model is to be fitted anew."""
    asked: int = 0
    """The wave in which a model was asked for; 0 where none is awaited."""
    lost: bool = False
    """Whether a run was given up: then nobody knows what the output is of."""
    words: str = ""
    """Why there is no model yet."""
    renewal: RenewalState = msgspec.field(default_factory=RenewalState)
    decided: DeciderState = msgspec.field(default_factory=DeciderState)
    """By the model that decides."""


class Wish(Struct, frozen=True):
    """Whether an output wants to be made, and why."""

    wanted: bool
    words: str
    data: dict[str, float | str | None] = {}


def _wanted(words: str, data: Mapping[str, float | str | None] | None = None) -> Wish:
    return Wish(wanted=True, words=words, data=dict(data or {}))


def _unwanted(words: str) -> Wish:
    return Wish(wanted=False, words=words)


class BoundedOutput:
    """Says when an output has to be made.

    Args:
        dataflow: its name, by which audits are drawn.
        name: of the container.
        settings: how far it may be from what it would be.
        audit: the share of skips that run all the same.
        renewal: when models are learned, and anew.
        above: the containers from which it is predicted.
        sources: containers that no step writes, with their updates in the last wave; it is kept up
            by whoever hears of waves.
    """

    def __init__(
        self,
        dataflow: str,
        name: str,
        settings: OutputSettings,
        audit: float,
        renewal: Renewal,
        above: Sequence[str],
        sources: Mapping[str, int],
    ) -> None:
        self.name = name
        self.settings = settings
        self.above = tuple(above)
        self.state = OutputState()
        self.model: Model | None = None
        self._dataflow = dataflow
        self._audit = audit
        self._renewal = renewal
        self._waves = renewal.waves
        self._horizon = renewal.horizon
        self._sources = sources
        self._decider: Decider | None = None
        self._error = Meter()
        self._meters: dict[str, Meter] = {}
        self._row: Row | None = None
        """Of what was judged last; not saved, so that none is known after a restart."""
        self._influences: tuple[Row, tuple[Influence, ...]] | None = None
        """Those of a row, found when somebody asked."""

    # -- probes

    @property
    def error_probe(self) -> str:
        """The probe that measures the output since its last run."""
        return f"error of {self.name}"

    def probe(self, container: str) -> str:
        """Return the probe that measures a container since the output's last run."""
        return f"{container} since {self.name}"

    # -- models

    def use(self, data: bytes, model: Model, wave: int) -> None:
        """Have a model decide from the next evaluation on, in a wave; feedback is on one model."""
        state, version = self.state, version_of_model(data)
        # One that decided before a restart ends nothing that was going on then.
        found = self.model is None and state.model == version
        if state.model != version:
            state.decided = DeciderState()
            state.begun = wave
            state.renewal.trained, state.renewal.refits, state.renewal.failure = wave, 0, ""
        state.model = version
        if not found:
            state.outdated = False
            state.asked = 0
            state.renewal.training = 0
            state.words = ""
        self.model = model
        self._row = None
        self._meters = {name: Meter(known.levels) for name, known in model.containers.items()}
        self._decider = Decider(self._dataflow, self.name, self._audit, model, state.decided)

    def end_training(self) -> None:
        """Go on by the model that decides where a training by schedule was asked for in vain."""
        state, renewal = self.state, self.state.renewal
        if renewal.training and state.asked:
            renewal.training, renewal.trained, state.asked = 0, state.asked, 0

    def lose(self, reason: str) -> None:
        """Go on as before without the model that was asked for, or with none."""
        self.state.words = reason
        self.end_training()
        if self.model is None:
            self.state.model = ""

    def use_refitted(self, fitted: tuple[bytes, Model] | Lost, instead: str, wave: int) -> None:
        """Have a model decide that was fitted anew, or go on without.

        Where another model decides by now, or one is being trained, it is of no use.

        Args:
            fitted: its bytes and what they are, or why there is none.
            instead: the version that it was made of.
            wave: the one that has ended.
        """
        state, renewal = self.state, self.state.renewal
        renewal.refit, renewal.asked = wave, 0
        if state.model != instead or self._is_learning:
            return
        if isinstance(fitted, Lost):
            renewal.failure = fitted.reason
            return
        trained, refits = renewal.trained or state.begun, renewal.refits
        self.use(*fitted, wave)
        renewal.trained, renewal.refits, renewal.failure = trained, refits + 1, ""

    @property
    def _is_learning(self) -> bool:
        """Whether synchronous waves are learned from, so that another model comes or may come."""
        state = self.state
        synchronous = state.decided.feedback.synchronous or state.renewal.training
        return state.outdated or bool(synchronous or state.asked)

    def wants_refit(self, wave: int) -> bool:
        """Return whether the model is to be fitted anew, now that a wave has ended."""
        if self.model is None or self._is_learning:
            return False
        return self._renewal.wants_refit(self.state.renewal, self.state.begun, wave)

    def wants_model(self, wave: int) -> bool:
        """Return whether a model is to be asked for, now that a wave has ended."""
        state = self.state
        if state.asked and wave - state.asked < self._horizon:
            return False
        if self.model is None:
            return bool(state.since) and wave - state.since >= self._waves
        if not self._is_learning:
            self._renewal.begin_training(state.renewal, state.begun, wave)
        return state.outdated or self._renewal.has_trained(state.renewal, wave)

    # -- what it wants

    def wish(self, containers: Sequence[str], inputs: Inputs, wave: Wave, version: int) -> Wish:
        """Return whether it has to be made, as seen from containers that are of this wave.

        Args:
            containers: those that a step reads and that are fresh.
            inputs: the state of that step's inputs.
            wave: the one that has ended.
            version: the wave in which the output was made last; 0 where it never was.
        """
        state, age = self.state, wave.number - version
        if version == 0:
            return _wanted(f"`{self.name}` was never made")
        if age <= 0:
            return _unwanted(f"`{self.name}` is of this wave")
        if state.lost:
            return _wanted(f"the last run that was to make `{self.name}` was given up")
        if self.model is None or self._decider is None:
            return _wanted(f"`{self.name}` is made in every wave: {self.phase(wave.number)}")
        if state.renewal.training:
            words = self._renewal.training_words(state.renewal, wave.number)
            return _wanted(f"`{self.name}` is made in every wave: {words}")
        if self._decider.is_audited(wave.number):
            return _wanted(f"`{self.name}` is audited in this wave")
        if age > self._horizon:
            return _wanted(f"`{self.name}` is {age} waves old, and no model looks farther")
        return self._predicted(self.model, self._decider, containers, inputs, wave, age)

    def phase(self, wave: int) -> str:
        """Return in words what there is instead of a model."""
        if self.state.words:
            return self.state.words
        done = wave - self.state.since + 1 if self.state.since else 0
        return f"{min(done, self._waves)} of {self._waves} waves to learn from"

    def _predicted(
        self,
        model: Model,
        decider: Decider,
        containers: Sequence[str],
        inputs: Inputs,
        wave: Wave,
        age: int,
    ) -> Wish:
        known = [c for c in containers if c in model.containers]
        if not known:
            return _wanted(f"nothing in front of `{self.name}` is known to its model")
        rows = {c: self._row_of(c, inputs, wave, age) for c in known}
        scores = {c: math.inf if row is None else model.score(c, row) for c, row in rows.items()}
        judged = decider.judge(wave.number, scores)
        container, score, choice = judged.container, judged.score, judged.choice
        self._row = rows[container]
        data: dict[str, float | str | None] = {
            "output": self.name,
            "container": container,
            "predicted": ratio_of(score),
            "threshold": ratio_of(decider.threshold),
            "model": self.state.model,
            "age": float(age),
            "choice": choice.value,
        }
        if choice is Choice.SYNCHRONOUS:
            left = self.state.decided.feedback.synchronous
            return _wanted(f"`{self.name}` is learned anew: {left} more waves", data)
        if score == math.inf:
            return _wanted(f"`{container}` is unlike all that `{self.name}` was learned from", data)
        seen = f"predicted from `{container}`, a skip leaves `{self.name}` at"
        words = (
            f"{seen} {ratio_of(score):.2g} of its bound; "
            f"more than {ratio_of(decider.threshold):.2g} runs"
        )
        if choice is Choice.AUDIT:
            return _wanted(f"{words}, and this wave is audited", data)
        return Wish(choice is Choice.RUN, words, data)

    def _row_of(self, container: str, inputs: Inputs, wave: Wave, age: int) -> Row | None:
        """Return the features of a container; None where its values are not known."""
        parts = inputs.probe(self.probe(container))
        if not is_known(parts):
            return None
        measured = self._meters[container].impact(parts)
        if measured.unknown:
            return None
        counted = container in self._sources
        context = WaveContext(
            time=wave.time,
            age=age,
            updates=updates_of(parts) if counted else 0,
            last_updates=self._sources[container] if counted else 0,
            shown=self.state.shown,
        )
        return row_of(measured, context)

    @property
    def judgement(self) -> tuple[Judged | None, Row | None]:
        """What was predicted last, and the features that it was predicted from."""
        return self.state.decided.judged, self._row

    @judgement.setter
    def judgement(self, judgement: tuple[Judged | None, Row | None]) -> None:
        self.state.decided.judged, self._row = judgement

    # -- what it hears

    def launched(self, inputs: Moment) -> None:
        """Take note that a run is about to make it of what was there when the wave ended."""
        for container in self.above:
            since = wave_probe(container) if container in self._sources else None
            inputs.reset(self.probe(container), since)
            if container in self._meters:
                self._meters[container].forget()

    def committed(self, inputs: Moment, wave: int) -> None:
        """Take what it is now, and how far that is from what was shown before.

        Args:
            inputs: of the step that writes it.
            wave: of which it is.
        """
        state, parts = self.state, inputs.probe(self.error_probe)
        known = is_known(parts)
        measured = error(self._error.impact(parts), self.settings.metric) if known else math.inf
        inputs.reset(self.error_probe)
        self._error.forget()
        state.shown = mean_of(parts)
        state.lost = False
        state.since = state.since or wave
        if self._decider is None:
            return
        relearning = state.decided.feedback.synchronous
        changed = self._decider.made(wave, measured / self.settings.bound)
        if changed is not None:
            state.words = changed.value
        if relearning and not state.decided.feedback.synchronous:
            state.outdated = True

    def wave_over(self, wave: int, version: int) -> None:
        """Take note that a wave is over, at the end of which the output was of ``version``."""
        if self._decider is not None:
            self._decider.wave_over(wave, version)

    def failed(self) -> None:
        """Take note that a run was given up that was to make it."""
        self.state.lost = True

    def report(self, wave: int) -> PolicyReport:
        """Return how it is decided on."""
        state, model = self.state, self.model
        predicted = self.prediction(wave)
        data: dict[str, Any] = {
            "bound": self.settings.bound,
            "metric": self.settings.metric.value,
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
            "calibration": model.calibration,
            "refits": state.renewal.refits,
            "synchronous": feedback.synchronous,
            "changes": feedback.changes,
            **audited.data,
        }
        words = f"{predicted.words}; {audited.words}"
        if state.renewal.training:
            words += f"; made in every wave: {self._renewal.training_words(state.renewal, wave)}"
        if feedback.synchronous:
            words += f"; made in {feedback.synchronous} more waves, for {state.words}"
        return PolicyReport(words, data)

    def prediction(self, wave: int) -> PolicyReport:
        """Return what was predicted of it last and by which model, without what audits found."""
        state, model = self.state, self.model
        data: dict[str, Any] = {"model": state.model}
        if model is None:
            return PolicyReport(f"made in every wave: {self.phase(wave)}", data)
        threshold = state.decided.feedback.threshold(model.threshold)
        data["threshold"] = ratio_of(threshold)
        words = f"decided by model {state.model} of {model.waves} waves"
        words += self._renewal.words_of(state.renewal)
        judged = state.decided.judged
        if judged is not None:
            seen = prediction_report(judged, threshold, self._main_features(model, judged))
            data |= seen.data
            words += f"; {seen.words}"
        return PolicyReport(words, data)

    def _main_features(self, model: Model, judged: Judged) -> tuple[Influence, ...]:
        row, known = self._row, model.containers.get(judged.container)
        if row is None or known is None:
            return ()
        if self._influences is None or self._influences[0] is not row:
            self._influences = row, known.influences(row, MAIN_FEATURES)
        return self._influences[1]


def wave_probe(container: str) -> str:
    """Return the probe that measures a source since the last wave ended."""
    return f"{container} since the wave"


def version_of_model(data: bytes) -> str:
    """Return what a model is called: a digest of its bytes, 16 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()[:16]
