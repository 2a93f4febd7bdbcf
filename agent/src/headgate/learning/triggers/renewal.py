"""When a model that decides is fitted anew to what service shows, and when it is trained anew.

The first costs no run: outputs of runs are labels. The second takes synchronous waves, as training
does, and gives a new calibration; SmartFlux (section 3) has its training phase recur like that.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from headgate.learning.calibration import fewest_confident, fewest_waves
from headgate.learning.feedback import RELEARNING_WAVES

_SOONER: Final = 4
"""The first fit is after this part of the waves that are between two fits later."""


_LOOK_BACK: Final = 4
"""Times as many waves as a training takes, up to which one is tried again after a change."""


def wait_after_change(tried: int) -> int:
    """Return after how many waves from a change on a training is tried, each time twice as many.

    Args:
        tried: trainings since the change that gave no model.
    """
    return RELEARNING_WAVES << tried


class RenewalState(Struct):
    """What is saved of it, for an output."""

    trained: int = 0
    """The wave in which the model was trained that decides, as it is or fitted anew since."""
    refit: int = 0
    """The wave in which fitting anew was last over; 0 before the first."""
    asked: int = 0
    """The wave in which it was asked for last; 0 where it was not since."""
    refits: int = 0
    """How often the model was fitted anew since it was trained."""
    failure: str = ""
    """Why it was not, the last time; empty where it was."""
    training: int = 0
    """The first of the synchronous waves of a training by schedule; 0 where there are none."""
    awaited: bool = False
    """True while the requested refit is awaited."""


class Renewal(Struct, frozen=True):
    """The schedule of a dataflow, in waves."""

    refit: int
    """Between two fits to service, at most: a model that is new is fitted sooner; 0: never."""
    retrain: int
    """From a training to the next; 0: never."""
    waves: int
    """That a training takes."""
    horizon: int
    """After which what was asked for in vain is asked for again."""

    def wants_refit(self, state: RenewalState, begun: int, wave: int) -> bool:
        """Return whether a model is to be fitted anew now that a wave has ended.

        Args:
            state: of its output.
            begun: the wave from which on it decides.
            wave: the one that has ended.
        """
        if not self.refit or state.training:
            return False
        if state.awaited or (state.asked and wave - state.asked < self.horizon):
            return False
        # What is learned soon after training is learned of a world that training has not seen:
        # each fit has twice as many waves of service as the one before, until that is too long.
        last, trained = max(begun, state.refit), state.trained or begun
        return wave - last >= min(self.refit, max(self.refit / _SOONER, last - trained))

    def begin_training(self, state: RenewalState, begun: int, wave: int) -> None:
        """Begin with synchronous waves where a training is due, at the end of a wave.

        Args:
            state: of the output.
            begun: the wave from which on its model decides.
            wave: the one that has ended, and is the first of them.
        """
        trained = state.trained or begun
        if self.retrain and not state.training and wave - trained >= self.retrain:
            state.training = wave

    def tries_again(self, tried: int) -> bool:
        """Return whether a training may still find more waves after a change than before."""
        return wait_after_change(tried) <= _LOOK_BACK * self.waves

    def has_trained(self, state: RenewalState, wave: int) -> bool:
        """Return whether there were as many synchronous waves as a training takes."""
        return bool(state.training) and wave - state.training >= self.waves

    def words_of_few(self, confidence: float) -> str:
        """Return what is to be done where trainings have too few waves; empty where they do not."""
        needed = max(fewest_waves(self.horizon), fewest_confident(confidence))
        if self.waves >= needed:
            return ""
        return (
            f"; {self.waves} waves never give a model that keeps {confidence:.4g}, as that takes "
            f"{needed} without a violation: raise `waves` to {needed}"
        )

    def words_of(self, state: RenewalState) -> str:
        """Return what is to be said of the model; empty where there is nothing."""
        words = ""
        if state.refits:
            times = "once" if state.refits == 1 else f"{state.refits} times"
            words += f", fitted anew {times}"
        if state.refits and not state.failure:
            words += f", last in wave {state.refit}"
        if state.failure:
            words += f", not fitted anew in wave {state.refit}: {state.failure}"
        return words

    def training_words(self, state: RenewalState, wave: int) -> str:
        """Return how far the synchronous waves are."""
        done = min(wave - state.training + 1, self.waves)
        return f"{done} of {self.waves} waves to learn anew from"
