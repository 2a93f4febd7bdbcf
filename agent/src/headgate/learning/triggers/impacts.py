"""Impacts by metrics of users while a wave is decided on: asked for, and what they are shown with.

An answer comes after the wave's other features were measured, and more may have arrived meanwhile.
So these are kept with the question: a row is of one moment, as in training.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from headgate.engine import MetricAnswer, MetricQuestion
from headgate.learning.features import Row, with_own
from headgate.learning.user_metrics import amount_in

Moment = tuple[float, ...]
"""The wave that is decided on, and that in which the output was made last."""


class _Shown(Struct):
    moment: Moment
    row: Row
    """Without the metric's own."""
    question: MetricQuestion | None
    """That is still to be answered."""
    amount: float | None = None
    """ι by the metric; None while it is awaited, and where it is not known."""
    failure: str = ""


class UserImpacts:
    """Impacts of the containers above one output, by the probes that measure them."""

    def __init__(self) -> None:
        self._shown: dict[str, _Shown] = {}

    def question(
        self, probe: str, moment: Moment, row: Row, asked: float | MetricQuestion
    ) -> MetricQuestion | None:
        """Return what is still to be asked at a moment; None where all is known or has failed.

        Args:
            probe: of the container, by which the question is named.
            moment: that is decided on.
            row: the features of now; those of the first time that the moment is named are kept.
            asked: what the metric has to be asked for its own, likewise.
        """
        shown = self._shown.get(probe)
        if shown is None or shown.moment != moment:
            if isinstance(asked, MetricQuestion):
                shown = _Shown(moment, row, asked)
            else:
                shown = _Shown(moment, row, None, asked)
            self._shown[probe] = shown
        return shown.question

    def row(self, probe: str, moment: Moment) -> Row | None:
        """Return the features with the metric's own; None where that is not known."""
        shown = self._shown.get(probe)
        if shown is None or shown.moment != moment or shown.amount is None:
            return None
        return with_own(shown.row, np.array(shown.amount))

    def take(self, answer: MetricAnswer) -> None:
        """Take an answer, unless it is of another moment."""
        shown = self._shown.get(answer.bound)
        if shown is None or shown.question is None or shown.moment != answer.version:
            return
        found = amount_in(answer)
        shown.question, shown.failure = None, found.failure
        shown.amount = None if found.failure else found.value

    def give_up(self, reason: str) -> None:
        """Take what is still to be answered for unknown."""
        for shown in self._shown.values():
            if shown.question is not None:
                shown.question, shown.failure = None, reason

    @property
    def failures(self) -> str:
        """By which probes impacts were not known when they were asked for last, and why."""
        failed = (f"`{probe}`, {s.failure}" for probe, s in self._shown.items() if s.failure)
        return "; ".join(failed)

    def failure(self, probe: str, moment: Moment) -> str:
        """Return why an impact is not known at a moment."""
        shown = self._shown.get(probe)
        known = shown is not None and shown.moment == moment
        return (shown.failure if known and shown is not None else "") or "it is not computed yet"
