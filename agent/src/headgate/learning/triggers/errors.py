"""The error of an output at the end of a run: by headgate's own metrics, or asked of a user's.

An answer comes later, maybe after the next wave was decided on, or never. Until then what it is
about is kept, so that an agent that takes over asks again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from headgate.engine import MetricAnswer, MetricQuestion, Part, UserMetric
from headgate.learning.decider import Judged
from headgate.learning.impact import OutputMetric, error
from headgate.learning.triggers.metering import Meter, is_known, question_on
from headgate.learning.user_metrics import amount_in

KEPT_CELLS: Final = 65_536
"""Changed cells of a question that is saved, a megabyte: of more nobody knows ε after a restart."""
_UNANSWERED: Final = "its metric did not answer before the next run"
_FORGOTTEN: Final = "the agent ended while its metric computed it, and it is too large to be kept"


class MeasuredError(Struct, frozen=True):
    """ε of what was shown before a run."""

    value: float
    """Infinity where it is not known."""
    judged: Judged | None
    """What was predicted of it."""


class AskedError(Struct):
    """An error that a user's metric was asked for."""

    wave: int
    """Of the run that it is of."""
    judged: Judged | None
    """What was predicted instead of it; None where nothing was."""
    entry: str
    """The metric."""
    question: MetricQuestion | None
    """What it was asked; None where that is too large to be saved."""


class ErrorState(Struct):
    """What is saved of an output's error."""

    asked: AskedError | None = None
    """That is awaited."""
    failure: str = ""
    """Why the error of the last run is not known, where the metric failed."""
    waiting: MeasuredError | None = None
    """Answered before the model was at hand again by which it was predicted."""


class ErrorMeter:
    """Measures one output since its last run.

    Args:
        output: the container.
        metric: of the output.
    """

    def __init__(self, output: str, metric: OutputMetric) -> None:
        self.state = ErrorState()
        self._output = output
        self._metric = metric
        self._own = Meter()

    def load(self, state: ErrorState) -> None:
        """Go on from what was saved; what another metric was asked about is forgotten."""
        self.state = state
        if state.failure and not isinstance(self._metric, UserMetric):
            state.failure = ""
        if state.asked is not None and state.asked.entry != str(self._metric):
            state.asked = None

    def open_question(self) -> MetricQuestion | None:
        """Return what is still to be answered."""
        return None if self.state.asked is None else self.state.asked.question

    def lost(self) -> MeasuredError | None:
        """Return the error that nobody can compute any more after a restart, if there is one."""
        asked = self.state.asked
        if asked is None or asked.question is not None:
            return None
        return self._given_up(asked, _FORGOTTEN)

    def overdue(self) -> MeasuredError | None:
        """Return the error that was not computed until the output was made again."""
        asked = self.state.asked
        return None if asked is None else self._given_up(asked, _UNANSWERED)

    def _given_up(self, asked: AskedError, why: str) -> MeasuredError:
        self.state.asked, self.state.failure = None, why
        return MeasuredError(math.inf, asked.judged)

    def is_late(self, wave: int) -> bool:
        """Return whether it was asked for before the last wave, and is awaited still."""
        return self.state.asked is not None and wave - self.state.asked.wave > 1

    def measure(
        self, parts: Sequence[Part], wave: int, judged: Judged | None
    ) -> MeasuredError | MetricQuestion:
        """Return ε of what was shown before a run, or what a metric has to be asked for it.

        Args:
            parts: the output since the run before, table by table.
            wave: of which it is now.
            judged: what was predicted.
        """
        found: float | MetricQuestion = math.inf
        if is_known(parts):
            if isinstance(self._metric, UserMetric):
                found = question_on(parts, self._output, (float(wave),), self._metric)
            else:
                found = error(self._own.impact(parts), self._metric)
        if isinstance(found, MetricQuestion):
            kept = found if sum(map(len, found.parts)) <= KEPT_CELLS else None
            self.state.asked = AskedError(wave, judged, found.entry, kept)
            return found
        self.state.failure = ""
        return MeasuredError(found, judged)

    def forget(self) -> None:
        """Take note that the probe was reset."""
        self._own.forget()

    def take(self, answer: MetricAnswer) -> MeasuredError | None:
        """Return what an answer says; None where it is not about what is awaited."""
        asked = self.state.asked
        if asked is None or answer.version != (float(asked.wave),):
            return None
        found = amount_in(answer)
        self.state.asked, self.state.failure = None, found.failure
        return MeasuredError(found.value, asked.judged)

    def unpredicted(self) -> None:
        """Take note that another model decides: what is awaited says nothing of it."""
        self.state.waiting = None
        if self.state.asked is not None:
            self.state.asked.judged = None
