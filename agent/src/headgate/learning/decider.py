"""What is decided on one output from predicted violations, and what its runs show of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from headgate.learning.audits import audit_draw, audit_probability
from headgate.learning.feedback import Change, Choice, Feedback, Label
from headgate.learning.looks import Looks
from headgate.learning.predictor import Model
from headgate.learning.simulation import Bounded


class Judged(Struct, frozen=True):
    """What was last found of an output in a wave."""

    wave: int
    score: float
    """Predicted violation of a skip; infinity where the container is unlike all that was learned
    from, NaN where its impact is not known."""
    container: str
    """From which."""
    choice: Choice
    probability: float | None = None
    """Of an audit, of a skip in this wave; None where a version before decided, which audited all
    skips alike."""
    carried: float = 0.0
    """Part of the score that was seen from nearer in waves before."""
    drawn: float = 0.0
    """The probability with which the looks of this wave audit a skip, together."""


class Judgement(Struct, frozen=True):
    """What a decider finds of an output in a wave, and the looks by which it does."""

    judged: Judged
    looks: Looks


class Audit(Struct, frozen=True):
    """What a run has shown that was made to see."""

    wave: int
    ratio: float
    """ε / bound of what a skip would have left; NaN or infinity where it is not known."""


class DeciderState(Struct):
    """What is saved of a decider."""

    feedback: Feedback = Feedback()
    judged: Judged | None = None
    audit: Audit | None = None
    """The last."""
    looks: Looks = Looks()
    settled: int = -1
    """The last wave that was judged and counted, or was dropped."""

    def fitted_anew(self, model: Model) -> DeciderState:
        """Return the state from which a model goes on that is fitted anew, and not calibrated."""
        spread = max(known.residuals.spread for known in model.containers.values())
        return DeciderState(self.feedback.fitted_anew(spread), settled=self.settled)

    def trained_anew(self) -> DeciderState:
        """Return the state from which a model goes on that was trained on waves of one world."""
        return DeciderState(Feedback(rate=self.feedback.rate), settled=self.settled)


class Decider:
    """Decides by one model whether an output is made in a wave.

    Args:
        dataflow: its name, by which audits are drawn.
        audit: share of the skips that run all the same.
        model: of the output.
        state: from where it goes on.
    """

    def __init__(
        self,
        dataflow: str,
        audit: float,
        model: Model,
        state: DeciderState,
    ) -> None:
        self.state = state
        self._dataflow = dataflow
        self._audit = audit
        self._calibrated = model.threshold
        self._residuals = {name: known.residuals for name, known in model.containers.items()}
        self._persistence = model.persistence

    @property
    def threshold(self) -> float:
        """λ as it applies now."""
        return self.state.feedback.threshold(self._calibrated)

    def is_audited(self, wave: int) -> bool:
        """Return whether the output was to be skipped in a wave, and is made to see."""
        judged = self.state.judged
        return judged is not None and judged.wave == wave and judged.choice is Choice.AUDIT

    def has_looked(self, wave: int, containers: Iterable[str]) -> bool:
        """Return whether the output was judged in a wave from all of these containers."""
        looks = self.state.looks
        return looks.wave == wave and looks.looks.keys() >= set(containers)

    def judge(
        self, wave: int, version: int, scores: Mapping[str, float], *, certain: bool = True
    ) -> Judged:
        """Decide what becomes of the output, and return it; see ``judgement``."""
        found = self.judgement(wave, version, scores, certain=certain)
        self.take(found)
        return found.judged

    def take(self, found: Judgement) -> None:
        """Take a judgement for what was decided."""
        self.state.judged, self.state.looks = found.judged, found.looks

    def judgement(
        self, wave: int, version: int, scores: Mapping[str, float], *, certain: bool = True
    ) -> Judgement:
        """Return what becomes of the output, as seen from containers that are of this wave.

        Nothing changes until it is taken.

        All looks of a wave share one draw. So a skip is audited with the largest probability of
        those looks that are taken whatever is drawn; the others draw nothing.

        Args:
            wave: its number.
            version: the wave in which the output was made last.
            scores: predicted violations, by container; there is one at least.
            certain: whether the containers are of this wave without any audit in it.
        """
        before = self.judged_in(wave)
        looks = self.state.looks.looked(version, wave, scores, self._persistence)
        seen = {name: looks.looks[name].score for name in scores}
        container = max(seen, key=lambda each: (not seen[each] < math.inf, seen[each]))
        score, spread = seen[container], self._residuals[container].spread
        drawn = 0.0 if before is None else before.drawn
        probability = self._audit
        if score <= self.threshold:
            if certain or before is None:
                below = (self.threshold - score) / spread
                drawn = max(drawn, audit_probability(self._audit, below))
            probability = drawn
        draw = audit_draw(self._dataflow, wave)
        choice = self.state.feedback.choice(self._calibrated, score, draw, probability)
        carried = looks.looks[container].carried
        judged = Judged(wave, score, container, choice, probability, carried, drawn)
        return Judgement(judged, looks)

    def made(self, wave: int, ratio: float) -> Change | None:
        """Take what a run has shown; return what says that the world has changed, if it does.

        Args:
            wave: of which the output is now.
            ratio: ε / bound of what was shown before.
        """
        judged = self.judged_in(wave)
        return None if judged is None else self.shown(judged, ratio)

    def judged_in(self, wave: int) -> Judged | None:
        """Return what was found in a wave; None where nobody has predicted anything in it."""
        judged = self.state.judged
        return None if judged is None or judged.wave != wave else judged

    def shown(self, judged: Judged, ratio: float) -> Change | None:
        """Take what the run of a wave has shown, maybe after later waves were decided on.

        Args:
            judged: what was found in that wave.
            ratio: see ``made``.
        """
        state, wave = self.state, judged.wave
        state.settled = max(state.settled, wave)
        residuals = self._residuals[judged.container]
        label = Label(judged.score, ratio)
        if (judged.choice is Choice.SYNCHRONOUS) != bool(state.feedback.synchronous):
            return None  # the relearning that it is of is over, or began after it
        if judged.choice is Choice.SYNCHRONOUS:
            state.feedback = state.feedback.after_synchronous((label,), residuals)
            return None
        # One that another output has made run shows as much as one that was decided on.
        why = Choice.AUDIT if judged.choice is Choice.AUDIT else Choice.RUN
        if why is Choice.AUDIT:
            state.audit = Audit(wave, ratio)
        probability = self._probability(judged)
        state.feedback, changed = state.feedback.after_run(label, residuals, why, probability)
        return None if changed is None else changed.change

    def wave_over(self, wave: int, version: int, *, made_late: bool = False) -> None:
        """Count a skip once its wave is over.

        A wave in which the output was to be made counts when its run has committed, however late;
        one whose run never came counts as nothing.

        Args:
            wave: that is over.
            version: the wave that the output is of at its end.
            made_late: whether what was decided on last is still being made, so that it waits.
        """
        state, judged = self.state, self.state.judged
        if made_late or judged is None or not state.settled < judged.wave <= wave:
            return
        state.settled = judged.wave
        if version < judged.wave and judged.choice is Choice.SKIP:
            state.feedback = state.feedback.after_skip(self._probability(judged))

    def _probability(self, judged: Judged) -> float:
        return self._audit if judged.probability is None else judged.probability


class Deciders:
    """Decides on all outputs of a dataflow whose waves are known: a ``StagePolicy``.

    Args:
        dataflow: its name, by which audits are drawn.
        outputs: by container; an output without a model is made in every wave.
        models: by output.
        audit: share of the skips that run all the same.
        first: the number of the wave 0 of the tables.
    """

    def __init__(
        self,
        dataflow: str,
        outputs: Mapping[str, Bounded],
        models: Mapping[str, Model],
        audit: float,
        first: int = 0,
    ) -> None:
        self._dataflow = dataflow
        self._audit = audit
        self._outputs = outputs
        self._first = first
        self.deciders = {
            output: Decider(dataflow, audit, model, DeciderState())
            for output, model in models.items()
        }

    def fitted_anew(self, model: Model) -> None:
        """Go on by a model that was fitted anew."""
        state = self.deciders[model.output].state.fitted_anew(model)
        self.deciders[model.output] = Decider(self._dataflow, self._audit, model, state)

    def wants(
        self, output: str, containers: Sequence[str], wave: int, age: int, *, certain: bool = True
    ) -> bool:
        """See ``StagePolicy``."""
        decider, now = self.deciders.get(output), self._first + wave
        scores = self._outputs[output].scores
        found = {c: float(scores[c][wave, age]) for c in containers if c in scores}
        if decider is None or not found:
            return True
        if decider.is_audited(now) and (not certain or decider.has_looked(now, found)):
            return True
        judged = decider.judge(now, now - age, found, certain=certain)
        return judged.choice is not Choice.SKIP

    def is_audited(self, output: str, wave: int) -> bool:
        """See ``StagePolicy``."""
        decider = self.deciders.get(output)
        return decider is not None and decider.is_audited(self._first + wave)

    def made(self, output: str, wave: int, age: int) -> None:
        """See ``StagePolicy``."""
        bounded, decider = self._outputs[output], self.deciders.get(output)
        if decider is not None:
            known = age < bounded.errors.shape[1]
            ratio = float(bounded.errors[wave, age]) / bounded.bound if known else math.inf
            decider.made(self._first + wave, ratio)

    def wave_over(self, output: str, wave: int, age: int) -> None:
        """See ``StagePolicy``."""
        decider = self.deciders.get(output)
        if decider is not None:
            decider.wave_over(self._first + wave, self._first + wave - age)
