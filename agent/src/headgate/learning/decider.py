"""What is decided on one output from predicted violations, and what its runs show of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

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

    def fitted_anew(self, model: Model) -> DeciderState:
        """Return the state from which a model goes on that is fitted anew, and not calibrated."""
        spread = max(known.residuals.spread for known in model.containers.values())
        return DeciderState(self.feedback.fitted_anew(spread))


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

    def judge(self, wave: int, version: int, scores: Mapping[str, float]) -> Judged:
        """Return what becomes of the output, as seen from containers that are of this wave.

        Args:
            wave: its number.
            version: the wave in which the output was made last.
            scores: predicted violations, by container; there is one at least.
        """
        looks = self.state.looks.looked(version, wave, scores, self._persistence)
        self.state.looks = looks
        seen = {name: looks.looks[name].score for name in scores}
        container = max(seen, key=lambda each: (not seen[each] < math.inf, seen[each]))
        score, spread = seen[container], self._residuals[container].spread
        probability = self._audit
        if score <= self.threshold:
            probability = audit_probability(self._audit, (self.threshold - score) / spread)
        draw = audit_draw(self._dataflow, wave)
        choice = self.state.feedback.choice(self._calibrated, score, draw, probability)
        carried = looks.looks[container].carried
        self.state.judged = Judged(wave, score, container, choice, probability, carried)
        return self.state.judged

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

    def wave_over(self, wave: int, version: int) -> None:
        """Take note that a wave is over, at the end of which the output was of ``version``."""
        judged = self.state.judged
        if judged is not None and judged.wave == wave and version < wave:
            probability = self._probability(judged)
            self.state.feedback = self.state.feedback.after_skip(probability)

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

    def wants(self, output: str, containers: Sequence[str], wave: int, age: int) -> bool:
        """See ``StagePolicy``."""
        decider = self.deciders.get(output)
        if decider is None or decider.is_audited(self._first + wave):
            return True
        scores, now = self._outputs[output].scores, self._first + wave
        found = {c: float(scores[c][wave, age]) for c in containers if c in scores}
        return not found or decider.judge(now, now - age, found).choice is not Choice.SKIP

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
