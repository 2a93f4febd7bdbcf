"""Bounds for a target: a search over replays, many in each pass through the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from headgate.replay.outcome import Replayed

Factors = Mapping[str, float]
"""What the limits of each action are multiplied by."""

_OCTAVES = range(-4, 8)
"""First all limits together, from a sixteenth to 128 times: beyond, nothing runs any more."""
_BETWEEN = 7
"""Factors tried within the octave in which the target lies."""
_MOVES = (0.5, 0.8, 1.25, 2.0)
"""Then each action alone, by these."""
_ROUNDS = 3
_GAIN = 0.002
"""A change of saving or error below two runs in a thousand is not worth another pass."""


class ErrorTarget(Struct, frozen=True):
    """Save as much as possible with a mean error of at most ``limit``, 0 to 1."""

    limit: float


class SavingTarget(Struct, frozen=True):
    """Err as little as possible with at least ``limit`` of the runs saved, 0 to 1."""

    limit: float


Target = ErrorTarget | SavingTarget


class Trial(Struct, frozen=True):
    """One set of factors and what its replay found."""

    factors: Factors
    replayed: Replayed
    saved: float
    """Of all recorded runs, 0 to 1."""
    error: float
    """The mean ε of the output that is farthest off, 0 to 1."""


class Tuned(Struct, frozen=True):
    """What a search found: the best trial, whether it meets the target, and the trade-off."""

    best: Trial
    met: bool
    curve: tuple[Trial, ...]
    """Trials than which none saves more with less error, by saving."""
    passes: int


Evaluate = Callable[[Sequence[Factors]], Sequence[Replayed]]
"""Replays all of these in one pass."""


def tune(
    evaluate: Evaluate, actions: Sequence[str], outputs: Sequence[str], target: Target
) -> Tuned:
    """Return the best bounds found for a target.

    Args:
        evaluate: replays.
        actions: whose limits may change.
        outputs: actions whose error counts.
        target: what is wanted.
    """
    return _Search(evaluate, actions, outputs, target).run()


class _Search:
    def __init__(
        self, evaluate: Evaluate, actions: Sequence[str], outputs: Sequence[str], target: Target
    ) -> None:
        self._evaluate = evaluate
        self._actions = actions
        self._outputs = outputs
        self._target = target
        self._trials: dict[tuple[float, ...], Trial] = {}
        self._passes = 0

    def run(self) -> Tuned:
        self._try([self._together(2.0**octave) for octave in _OCTAVES])
        self._narrow()
        for _ in range(_ROUNDS if len(self._actions) > 1 else 0):
            before = self._best()
            self._try([self._moved(before, a, f) for a in self._actions for f in _MOVES])
            best = self._best()
            if max(best.saved - before.saved, before.error - best.error) < _GAIN:
                break
        best = self._best()
        return Tuned(best, self._meets(best), self._curve(), self._passes)

    def _narrow(self) -> None:
        """Try factors between the last that meets an error and the next, or the like."""
        best = self._best().factors[self._actions[0]]
        other = best * 2 if isinstance(self._target, ErrorTarget) else best / 2
        low, high = sorted((best, other))
        step = (high / low) ** (1 / (_BETWEEN + 1))
        self._try([self._together(low * step**i) for i in range(1, _BETWEEN + 1)])

    def _together(self, factor: float) -> Factors:
        return dict.fromkeys(self._actions, factor)

    def _moved(self, trial: Trial, action: str, factor: float) -> Factors:
        return {**trial.factors, action: trial.factors[action] * factor}

    def _try(self, candidates: Sequence[Factors]) -> None:
        new = {self._key(c): c for c in candidates if self._key(c) not in self._trials}
        if not new:
            return
        self._passes += 1
        for (key, factors), replayed in zip(
            new.items(), self._evaluate(list(new.values())), strict=True
        ):
            error = max(replayed.step(name).error for name in self._outputs)
            self._trials[key] = Trial(factors, replayed, replayed.saved, error)

    def _key(self, factors: Factors) -> tuple[float, ...]:
        return tuple(round(factors[action], 9) for action in self._actions)

    def _meets(self, trial: Trial) -> bool:
        match self._target:
            case ErrorTarget(limit):
                return trial.error <= limit
            case SavingTarget(limit):
                return trial.saved >= limit

    def _best(self) -> Trial:
        """Return the best trial that meets the target, or the one that misses it least."""

        def worth(trial: Trial) -> tuple[bool, float, float]:
            more, less = trial.saved, -trial.error
            met = self._meets(trial)
            if isinstance(self._target, ErrorTarget) == met:
                return met, more, less
            return met, less, more

        return max(self._trials.values(), key=worth)

    def _curve(self) -> tuple[Trial, ...]:
        curve: list[Trial] = []
        for trial in sorted(self._trials.values(), key=lambda t: (-t.saved, t.error)):
            if not curve or trial.error < curve[-1].error:
                curve.append(trial)
        return tuple(reversed(curve))
