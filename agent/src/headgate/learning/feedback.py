"""Feedback of a running dataflow on a model that decides: labels at the boundary, and audits.

The error of a skip is never seen. A run that was decided on shows what a skip would have left, free
of cost and only near the threshold; an audit shows it anywhere, without bias and for the price of
a run. The first follows the upper quantile of measured over predicted errors; the second only ever
tightens. Where both say that the world has changed, steps run synchronously for a while, and what
the predictions are off by is fitted anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct

from headgate.learning.audits import AuditedRate
from headgate.learning.predictor import FOLLOWED, WIDEST, Residuals, log_ratio

RELEARNING_WAVES: Final = 48
"""Synchronous waves after a change: two days of hours. Twice as many did no better."""

# Steps are in standard deviations of training's residuals; fitted on dataflows drawn at random.
_STEP = 0.15
_TIGHTENING = 0.25
"""By one violation that an audit has found."""
_CAUTION = 0.3
"""Tightening at least, after a change."""
_CAUTION_ANEW = 1.0
"""Tightening of a model that is fitted anew after a change. It begins without the shift that the
one before had come to, and its threshold is that of the world before. With 0.5 as many dataflows
fail to recover as with none."""
_LABELS = 8
"""Labels that are looked at for a jump."""
_JUMP = 4.5
"""Standard deviations of the number of those above the quantile: five of eight. Fitted: at four, 21
changes were found in 100 dataflows drawn at random that stay as they are, at five 3. Of those that
change 87 instead of 88 recover."""
_AUDITS = 6
"""Audits of which two violations are too many."""
_BAD_AUDITS = 2
_UNLIKE = 24
"""Runs in a row of which nothing could be predicted."""
_HARMLESS = math.exp(-WIDEST)
"""ε / bound up to which errors are alike."""
_FARTHEST = 3.0
"""Largest shift, in ln ε: a twentyfold error."""


class Choice(StrEnum):
    """What becomes of a step in a wave."""

    SKIP = "skip"
    RUN = "run"
    """Its skip is predicted to violate."""
    AUDIT = "audit"
    """It is not, and it runs to see."""
    SYNCHRONOUS = "synchronous"
    """A change is being learned."""


class Change(StrEnum):
    """What has shown that predictions are of another world."""

    QUANTILE = "measured errors have jumped over the predicted ones"
    AUDITS = "two of the last six audits found a violation"
    UNLIKE = f"none of the last {_UNLIKE} waves was like those that were learned from"


class Relearn(Struct, frozen=True):
    """A demand for synchronous waves (or the bounds of ``when``), and for a fit to them."""

    change: Change
    waves: int = RELEARNING_WAVES


class Label(Struct, frozen=True):
    """What a run has shown of the skip that it was instead of."""

    score: float
    """Predicted ln(ε / bound); infinity where its wave was unlike all of training, NaN where nobody
    knows what it was like."""
    ratio: float
    """Measured ε / bound; violated above 1, and where it is NaN."""

    @property
    def violated(self) -> bool:
        """Whether a skip would have left the output out of bounds."""
        return not self.ratio <= 1.0

    def residual(self) -> float:
        """Return measured minus predicted ln(ε / bound)."""
        return float(log_ratio(np.array(self.ratio), 1.0)) - self.score

    def above(self, residuals: Residuals) -> float:
        """Return by how much the residual is above training's quantile.

        An error so small that training tells it from no smaller one is never above it: of where
        all but nothing changes predictions are as low as they go, and where everything runs, as
        after a change, these are most labels. They would show one change after the other.
        """
        above = self.residual() - residuals.upper
        return min(above, 0.0) if self.ratio <= _HARMLESS else above


class Feedback(Struct, frozen=True):
    """What running has shown of one output's model since it was calibrated."""

    shift: float = 0.0
    """By which the quantile of residuals is above training's, in ln ε; never below 0, since a
    threshold that is looser than the calibrated one needs a new calibration."""
    tightening: float = 0.0
    """By audits, in ln ε; never falls."""
    labels: tuple[float, ...] = ()
    """Latest residuals above training's quantile, oldest first."""
    audits: tuple[bool, ...] = ()
    """Whether the latest found a violation, oldest first."""
    rate: AuditedRate = AuditedRate()
    synchronous: int = 0
    """Waves of relearning that are left."""
    learned: tuple[float, ...] = ()
    """Residuals above training's quantile in these waves."""
    changes: int = 0
    """That were found since the calibration."""
    unlike: int = 0
    """Latest runs in a row that were of no prediction, as their waves were unlike training's."""

    def threshold(self, calibrated: float) -> float:
        """Return λ as it applies now, at most the calibrated one."""
        return calibrated - self.shift - self.tightening

    def choice(self, calibrated: float, score: float, draw: float, audit: float) -> Choice:
        """Return what becomes of a step.

        Args:
            calibrated: λ of the model.
            score: predicted violation of a skip; NaN runs.
            draw: in [0, 1), of this dataflow and wave.
            audit: probability of an audit.
        """
        if self.synchronous:
            return Choice.SYNCHRONOUS
        if not score <= self.threshold(calibrated):
            return Choice.RUN
        return Choice.AUDIT if draw < audit else Choice.SKIP

    def after_skip(self, audit: float) -> Feedback:
        """Return the feedback after a wave that was skipped, and with this probability no audit."""
        return msgspec.structs.replace(self, rate=self.rate.unaudited(audit))

    def after_run(
        self, label: Label, residuals: Residuals, choice: Choice, audit: float
    ) -> tuple[Feedback, Relearn | None]:
        """Return the feedback after a run that was decided on, and whether the world has changed.

        Args:
            label: what a skip would have left.
            residuals: of the predictor in training.
            choice: why it ran: ``RUN`` or ``AUDIT``.
            audit: probability of an audit.
        """
        if choice is Choice.AUDIT:
            found = msgspec.structs.replace(
                self,
                rate=self.rate.audited(audit, violated=label.violated),
                audits=(*self.audits, label.violated)[-_AUDITS:],
                tightening=self.tightening + _TIGHTENING * residuals.spread * label.violated,
            )
        else:
            found = msgspec.structs.replace(self, rate=self.rate.unaudited(audit))
        above = label.above(residuals)
        unlike = self.unlike + 1 if label.score == math.inf else 0
        found = msgspec.structs.replace(found, unlike=unlike)
        if math.isfinite(above):
            step = _STEP * residuals.spread * ((above > self.shift) - (1.0 - FOLLOWED))
            found = msgspec.structs.replace(
                found,
                shift=min(max(self.shift + step, 0.0), _FARTHEST),
                labels=(*self.labels, above)[-_LABELS:],
            )
        change = found.change()
        if change is None:
            return found, None
        begun = msgspec.structs.replace(
            found,
            synchronous=RELEARNING_WAVES,
            learned=(),
            labels=(),
            audits=(),
            unlike=0,
            changes=self.changes + 1,
        )
        return begun, Relearn(change)

    def fitted_anew(self, spread: float) -> Feedback:
        """Return the feedback that a model begins with which is fitted anew, and not calibrated.

        What audits have tightened stays: only a calibration loosens a threshold. The audited rate
        goes on, too: it is of the output and not of one model.

        Args:
            spread: standard deviation of training's residuals.
        """
        caution = _CAUTION_ANEW * spread if self.changes else 0.0
        return Feedback(
            tightening=max(self.tightening, caution), changes=self.changes, rate=self.rate
        )

    def change(self) -> Change | None:
        """Return what shows that the world has changed, if anything does."""
        if sum(self.audits) >= _BAD_AUDITS:
            return Change.AUDITS
        if self.unlike >= _UNLIKE:
            return Change.UNLIKE
        expected = _LABELS * (1.0 - FOLLOWED)
        most = expected + _JUMP * math.sqrt(expected * FOLLOWED)
        above = sum(label > self.shift for label in self.labels)
        return Change.QUANTILE if len(self.labels) == _LABELS and above >= most else None

    def after_synchronous(self, labels: Sequence[Label], residuals: Residuals) -> Feedback:
        """Return the feedback after a wave of relearning; after the last, what was learned applies.

        Args:
            labels: of this wave against earlier ones of these waves.
            residuals: of the predictor in training.

        Raises:
            ValueError: nothing is being learned.
        """
        if not self.synchronous:
            message = "a synchronous wave belongs to a change that is being learned; there is none"
            raise ValueError(message)
        shown = (label.above(residuals) for label in labels)
        learned = (*self.learned, *(above for above in shown if math.isfinite(above)))
        left = self.synchronous - 1
        if left:
            return msgspec.structs.replace(self, synchronous=left, learned=learned)
        shift = float(np.quantile(learned, FOLLOWED)) if learned else _FARTHEST
        return msgspec.structs.replace(
            self,
            synchronous=0,
            learned=(),
            shift=min(max(shift, 0.0), _FARTHEST),
            tightening=max(self.tightening, _CAUTION * residuals.spread),
        )
