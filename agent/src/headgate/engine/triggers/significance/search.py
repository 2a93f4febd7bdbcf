"""The search for the limit at which a step's output changes as much as matters (Fluχ, Figure 4).

From the least limit on it is doubled until the output changes by more than the target, and then
converges to it. Afterwards the output is watched, and the search opens again when it has left.
"""

from __future__ import annotations

import math
from enum import StrEnum

from msgspec import Struct, field

from headgate.engine.spec.conditions import Dimension
from headgate.engine.triggers.significance.measurements import (
    LEAST,
    Measurement,
    deviation,
    exponent,
    mean_run,
    measurement,
    spread,
)
from headgate.engine.triggers.significance.shifts import Shifts

_FEWEST = 2
"""Runs without which nothing is found: one alone says nothing of its chance."""
_ENOUGH = 5
"""Runs that are enough however much they differ."""
_AVERAGED = 8
"""Runs over which an output change is averaged."""
_KEPT = 16
"""Runs kept: enough to see how the output follows the input."""
_WAVES_KEPT = 24
"""Waves whose numbers of updates are remembered."""
_CLOSE = 2.0
"""Ratio of amounts up to which a run is evidence for another limit than its own."""
_MARGIN = 0.5
"""Share of the tolerance within which a search ends: the rest is left for what comes after."""
_UNSTABLE = 0.5
"""Relative standard deviation of the output change above which updates do not predict it."""
_BRIEF = 3
"""Finds in a row that did not last after which updates are taken not to predict the output."""
_LASTING = 4
"""A find lasts when it holds for so many times the patience."""
_ERRORS = 3.0
"""Standard errors by which an average may be off by chance."""
_HELD = 2
"""Runs in a row that time launched before the limit was reached: time is the tighter bound."""
_HALVINGS = 40
"""Of an interval: more than a number has digits."""
_BUDGET = 3.0
"""Waves that a search may take, as a multiple of log₂ of the range that it covers."""
OUT_OF_REACH = "the target cannot be reached, for even the least limit lets the output change more"
"""What is said of a search that rests above its target."""
MOST_UPDATES = 100
"""Updates of each element up to which a limit is sought: the range is from 1 to all of them."""


class SearchPhase(StrEnum):
    """Where the search for a step's limit is."""

    WAITING = "waiting"
    """Its successors are searched for first: they set its target."""
    DOUBLING = "doubling"
    CONVERGING = "converging"
    FOUND = "found"


class Taken(Struct, frozen=True):
    """What the run under way has consumed: number of updates, and change of the input."""

    updates: float
    input: float


class SearchState(Struct):
    """What is remembered of one step's search."""

    phase: SearchPhase = SearchPhase.WAITING
    dimension: Dimension = Dimension.SEQUENCE
    limit: float = 1.0
    target: float | None = None
    expected: float | None = None
    """The output change at which the search ended: what it is watched for."""
    expected_input: float | None = None
    """The change of the input that it came from, or less where it is above the target."""
    measurements: list[Measurement] = []
    low: float | None = None
    """The largest limit of this search at which the output changed too little."""
    high: float | None = None
    """The smallest one at which it changed too much."""
    received: int = 0
    """Updates of the input that ever came, as of the last wave."""
    arrived: list[float] = []
    """Updates of each of the last waves."""
    waves: int = 0
    """Since the search opened, or since it was found."""
    watched: int = 0
    """Runs measured since the limit was found."""
    outside: int = 0
    """Of these, how many in a row were out of tolerance, and of what is chance."""
    evidence: int = 0
    """What these say together: each 1, or more where the output is out by more."""
    shifts: Shifts = field(default_factory=Shifts)
    """What the runs since the limit was found, and those that it rests on, say of a change."""
    held: int = 0
    """Runs in a row that time launched before the limit was reached."""
    brief: int = 0
    """Finds in a row that did not last."""
    opened: int = 0
    """How often the search was opened."""
    taken: Taken | None = None
    baseline: bool = False
    """Whether a run before this one is there to compare its output with."""
    settled: bool = False
    """Whether it was there at the end of the last wave."""


class Search:
    """The search for one step; all that it knows comes by calls.

    Args:
        tolerance: share of the target by which the output change may miss it.
        patience: runs out of tolerance after which the search opens again.
    """

    def __init__(self, tolerance: float, patience: int) -> None:
        self.tolerance = tolerance
        self.patience = patience
        self.state = SearchState()

    @property
    def found(self) -> bool:
        """Whether the limit is found and holds."""
        return self.state.phase is SearchPhase.FOUND

    @property
    def out_of_reach(self) -> bool:
        """Whether the search rests though even the least limit changes more than the target."""
        state = self.state
        if not self.found or state.target is None or state.expected is None:
            return False
        near = 1 + _MARGIN * self.tolerance
        return state.limit <= self._least and state.expected > near * state.target

    @property
    def limits(self) -> dict[Dimension, float]:
        """The limits of the step's bound; infinite where the other vector is searched for."""
        other = {Dimension.SEQUENCE: Dimension.VALUE, Dimension.VALUE: Dimension.SEQUENCE}
        return {
            self.state.dimension: self.state.limit,
            other[self.state.dimension]: math.inf,
        }

    @property
    def change(self) -> float | None:
        """The output change at the current limit, from the last runs; None before any."""
        amount = self._amount(self.state.limit)
        runs = self._comparable(amount)
        if not runs:
            return None
        # Runs under other limits count too, once they are brought to the amount of this one.
        steepness = exponent(self.state.measurements)
        return math.fsum(m.change * (amount / m.amount) ** steepness for m in runs) / len(runs)

    @property
    def input_change(self) -> float | None:
        """The change of the input at which the search ended: what its predecessors search for.

        It stays while they do: runs of theirs that are longer make the input change by more at a
        time, which is no reason for still longer ones. None while the search is open.
        """
        state = self.state
        if not self.found or state.expected_input is not None:
            return state.expected_input
        return self._allowed_input()  # found by a version that did not keep it

    def _allowed_input(self) -> float | None:
        """Return the change of the input that the target allows; None before any run."""
        change, taken_in, target = self.change, self._input_change(), self.state.target
        if change is None or taken_in is None or target is None or change <= target:
            return taken_in
        # Where even the least limit lets the output change by more, predecessors must do with less.
        return taken_in * target / change

    def _input_change(self) -> float | None:
        amount = self._amount(self.state.limit)
        runs = self._comparable(amount)
        if not runs:
            return None
        return math.fsum(m.input * amount / m.amount for m in runs) / len(runs)

    def _comparable(self, amount: float) -> list[Measurement]:
        """Return the last runs that consumed about this amount; the last one in any case."""
        runs = self.state.measurements
        close = [m for m in runs if 1 / _CLOSE <= m.amount / amount <= _CLOSE]
        return close[-_AVERAGED:] or runs[-1:]

    def _sure(self) -> bool:
        """Return whether the runs at hand show the output change within the tolerance."""
        runs = len(self._comparable(self._amount(self.state.limit)))
        if runs < _FEWEST:
            return False
        return runs >= _ENOUGH or self._error() <= _MARGIN * self.tolerance

    def _error(self) -> float:
        """Return the relative standard error of the output change."""
        runs = len(self._comparable(self._amount(self.state.limit)))
        return spread(self.state.measurements) / math.sqrt(max(1, runs))

    def _amount(self, limit: float) -> float:
        """Return what runs consume on average under a limit: more, for updates come in waves."""
        state = self.state
        if state.dimension is Dimension.SEQUENCE and sum(state.arrived) > 0:
            return mean_run(state.arrived, limit)
        runs = state.measurements[-_AVERAGED:]
        return limit + math.fsum(max(0.0, m.amount - m.limit) for m in runs) / max(1, len(runs))

    def open(self, target: float) -> str | None:
        """Search for this output change; say so unless it is searched for (or found) already."""
        state = self.state
        if state.target is not None and abs(target - state.target) <= self.tolerance * state.target:
            return None
        first = state.target is None
        resting = self.out_of_reach
        state.target = target
        if resting and self.out_of_reach:
            state.expected_input = self._allowed_input()
            return f"search rests at {self.words_of_limit}, {OUT_OF_REACH}: {_percent(target)} now"
        return self._reopen("opened" if first else "opened again: what matters is another")

    def _reopen(self, why: str) -> str:
        state = self.state
        state.opened += 1
        state.phase = SearchPhase.DOUBLING
        state.low = state.high = state.expected = state.expected_input = None
        state.waves = state.held = 0
        return f"search {why}; target {_percent(state.target)}, {self.words_of_limit}"

    def launched(self, taken: Taken) -> None:
        """Take note of what a run has consumed."""
        self.state.taken = taken

    def failed(self) -> None:
        """Take note that the run came to nothing."""
        self.state.taken = None

    def finished(self, change: float) -> str | None:
        """Take the output change of the run that has committed; say what came of it.

        A first run has nothing to compare its output with.
        """
        state = self.state
        taken, state.taken = state.taken, None
        if taken is None:
            return None
        before, state.baseline = state.baseline, True
        amount = taken.updates if state.dimension is Dimension.SEQUENCE else taken.input
        if not before or not amount > 0 or not (math.isfinite(amount) and math.isfinite(change)):
            return None
        run = measurement(amount, state.limit, change, taken.input)
        amount, change = run.amount, run.change
        state.measurements.append(run)
        del state.measurements[:-_KEPT]
        match state.phase:
            case SearchPhase.DOUBLING:
                return self._double(amount, change)
            case SearchPhase.CONVERGING:
                return self._converge(amount)
            case SearchPhase.FOUND:
                return self._watch()
        return None

    def wave(self, received: int, elements: int) -> str | None:
        """Take note that a wave has ended; say what came of it.

        Args:
            received: updates of the step's input that ever came.
            elements: of the input, now.
        """
        state = self.state
        came, state.received = max(0.0, received - state.received), received
        if state.settled:
            state.arrived.append(came)
            del state.arrived[:-_WAVES_KEPT]
        # What came up to the first run is the table as it was found, and no wave like others.
        state.settled = state.baseline
        if state.phase is SearchPhase.WAITING or state.target is None:
            return None
        state.waves += 1
        if state.phase is SearchPhase.FOUND:
            return None
        most = MOST_UPDATES * max(1, elements)
        budget = _BUDGET * math.log2(most)
        if state.waves <= budget or not state.measurements:
            return None
        if state.dimension is Dimension.SEQUENCE and spread(state.measurements) > _UNSTABLE:
            return self._turn_to_value("the number of updates does not predict the output")
        # Where runs are far apart and much alike, it is only slow.
        return self._find("as near as it comes") if state.waves > 2 * budget else None

    def _double(self, amount: float, change: float) -> str | None:
        state = self.state
        assert state.target is not None  # noqa: S101 -- an open search has one
        if abs(change - state.target) > self.tolerance * state.target:
            if change > state.target:
                state.phase = SearchPhase.CONVERGING
                return self._converge(amount)
            if self._held_by_time(amount):
                return self._find("time comes before it")
            if amount >= state.limit:
                state.low = state.limit
                self._move(2 * max(state.limit, amount))
                return self._said("doubled", change)
            return None
        state.phase = SearchPhase.CONVERGING
        return self._converge(amount)

    def _converge(self, amount: float) -> str | None:
        state, change = self.state, self.change
        assert state.target is not None  # noqa: S101 -- an open search has one
        assert change is not None  # noqa: S101 -- a run was just measured
        near = abs(change - state.target) <= _MARGIN * self.tolerance * state.target
        if near:
            return self._find("found") if self._sure() else None
        if change > state.target:
            if state.limit <= self._least:
                return self._find("even the least changes more") if self._sure() else None
            state.high = state.limit
            if state.low is not None and state.low >= state.high:
                state.low = None
        else:
            if self._held_by_time(amount):
                return self._find("time comes before it")
            state.low = state.limit
            if state.high is not None and state.high <= state.low:
                state.high = None
        if state.low and state.high and state.high / state.low <= 1 + self.tolerance / 2:
            jump = self._amount(state.high) > (1 + self.tolerance) * self._amount(state.low)
            if jump and self._error() <= _MARGIN * self.tolerance:
                # Updates come in waves: nothing lies between one and two of them.
                state.limit = state.low
                return self._find("as near as it comes")
            # One of the two was chance.
            state.low = state.high = None
        before = state.limit
        self._move(self._proposal(change, state.target))
        return self._said("moved", change) if state.limit != before else None

    def _proposal(self, change: float, target: float) -> float:
        """Return the limit at which the output should change by the target."""
        state = self.state
        steepness = exponent(state.measurements)
        ratio = min(2.0, max(0.5, (target / max(change, LEAST)) ** (1 / steepness)))
        proposed = self._limit_for(self._amount(state.limit) * ratio)
        low, high = state.low or self._least, state.high or math.inf
        if not low < proposed < high:
            proposed = math.sqrt(low * high) if math.isfinite(high) else 2 * low
        return proposed

    def _limit_for(self, amount: float) -> float:
        """Return the limit under which runs consume this amount on average."""
        low, high = self._least, max(self._least, amount)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self._amount(middle) < amount:
                low = middle
            else:
                high = middle
        if self.state.dimension is Dimension.VALUE:
            return high
        # Waves make steps of it: on which side of this one is it nearer?
        sides = (max(1.0, math.floor(high)), float(math.ceil(high)))
        return min(sides, key=lambda limit: abs(self._amount(limit) - amount))

    def _held_by_time(self, amount: float) -> bool:
        state = self.state
        state.held = state.held + 1 if amount < state.limit * (1 - LEAST) else 0
        return state.held >= _HELD

    @property
    def _least(self) -> float:
        return 1.0 if self.state.dimension is Dimension.SEQUENCE else LEAST

    def _move(self, limit: float) -> None:
        state = self.state
        whole = state.dimension is Dimension.SEQUENCE
        state.limit = float(max(1, round(limit))) if whole else limit

    def _find(self, how: str) -> str:
        taken = self.state.waves
        self._begin_watch()
        return (
            f"search ended after {taken} waves, {how}: {self.words_of_limit}, at which the output "
            f"changes by {_percent(self.state.expected)} (target {_percent(self.state.target)})"
        )

    def _begin_watch(self) -> None:
        state = self.state
        state.phase = SearchPhase.FOUND
        state.expected, state.expected_input = self.change, self._allowed_input()
        state.waves = state.watched = state.outside = state.evidence = 0
        # Runs under other limits consume less by chance, or more: they say nothing of this one's.
        state.shifts = Shifts([m.change for m in state.measurements if m.limit == state.limit])

    def _watch(self) -> str | None:
        """Compare the runs since the search ended, all under one limit, with what it ended at."""
        state = self.state
        assert state.target is not None  # noqa: S101 -- a search that has ended has one
        state.watched += 1
        latest = state.measurements[-1].change
        shifted = state.shifts.note(latest, state.target, self.tolerance, self.patience)
        shifted = shifted or self._left()
        if not shifted:
            return None
        # Runs from before the trend changed are of no use for what comes now.
        before, state.measurements = state.measurements[:-shifted], state.measurements[-shifted:]
        changes = [m.change for m in state.measurements]
        change = math.fsum(changes) / len(changes)
        words = (
            f"in {len(changes)} runs the output has changed by {_percent(change)} instead of "
            f"{_percent(state.expected)}"
        )
        if self.out_of_reach and change > state.target:
            # What its predecessors are to search for is another now; here nothing is to be found.
            self._begin_watch()
            return f"search rests at {self.words_of_limit}, {OUT_OF_REACH}: {words}"
        words = f"opened again: {words}"
        state.brief = state.brief + 1 if state.watched < _LASTING * self.patience else 0
        unstable = state.brief >= _BRIEF and spread([*before, *state.measurements]) > _UNSTABLE
        if state.dimension is Dimension.SEQUENCE and unstable:
            return self._turn_to_value(words)
        return self._reopen(words)

    def _left(self) -> int:
        """Return for how many runs their average has been off by more than chance explains.

        0 where it is not, or not for long enough.
        """
        state = self.state
        assert state.target is not None  # noqa: S101 -- a search that has ended has one
        changes = [m.change for m in state.measurements[-min(state.watched, _KEPT) :]]
        if len(changes) < _FEWEST:
            return 0
        latest = changes[-_AVERAGED:]
        change = math.fsum(latest) / len(latest)
        expected = state.target if state.expected is None or self.out_of_reach else state.expected
        chance = deviation(changes) / math.sqrt(len(latest))
        allowed = self.tolerance * max(state.target, expected) + _ERRORS * chance
        if abs(change - expected) <= allowed or (self.out_of_reach and change > state.target):
            state.outside = state.evidence = 0
            return 0
        state.outside += 1
        # What is out by several times as much need not be looked at for so long, but twice.
        state.evidence += min((self.patience + 1) // 2, int(abs(change - expected) / allowed))
        return state.outside if state.evidence >= self.patience else 0

    def _turn_to_value(self, why: str) -> str:
        state = self.state
        inputs = [m.input for m in state.measurements if m.input > 0]
        state.dimension = Dimension.VALUE
        state.limit = min(inputs) / 2 if inputs else LEAST
        state.measurements.clear()
        return self._reopen(f"goes on with the divergence of values, for {why}")

    @property
    def words_of_limit(self) -> str:
        """The limit for people."""
        if self.state.dimension is Dimension.SEQUENCE:
            return f"σ {self.state.limit:g} updates"
        return f"ν {_percent(self.state.limit)}"

    def _said(self, what: str, change: float) -> str:
        return (
            f"search {what}: {self.words_of_limit}, for the output changed by {_percent(change)} "
            f"(target {_percent(self.state.target)})"
        )

    def words(self) -> str:
        """Return the state of the search for people."""
        state, change = self.state, self.change
        if state.target is None:
            return "its successors are searched for first"
        measured = "not measured yet" if change is None else _percent(change)
        words = (
            f"{state.phase}, {self.words_of_limit}: output change {measured}, "
            f"target {_percent(state.target)}, {state.waves} waves"
        )
        if self.out_of_reach:
            words += f"; {OUT_OF_REACH}"
        return words


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.3g} %"
