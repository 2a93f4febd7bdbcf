"""Pairs of waves of a recorded dataflow: what a run at one would have been shown, and its error.

In training every step runs in every wave (SmartFlux, section 3), so the synchronous state of all
waves is known. Any wave may then stand for the last run before any other: a table of pairs holds
them all, up to an age, and every policy can be tried on it.

Where runs outlast waves, some waves end while a step still runs on an earlier one. These are in no
table: its waves are those in which every step ran, and the age of a pair counts these. How many
waves lie between the two, and which updates came in them, is known besides and is what models see.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from headgate.engine import MetricQuestion, UserMetric, limb_totals, limbs, rounded_totals
from headgate.learning.features import (
    FEATURES,
    LEVELS,
    WaveContexts,
    clocks_of,
    rows_of,
    with_own,
)
from headgate.learning.impact import (
    Changes,
    Counts,
    Impacts,
    OutputMetric,
    Values,
    bounded,
    errors_of,
    measure,
    version_of,
)
from headgate.learning.spacing import Spacing
from headgate.learning.user_metrics import question_about

Table = npt.NDArray[np.float64]
"""Values by wave and age, shape (T, H+1). Pairs that do not exist are NaN; age 0 is 0."""
FeatureTable = npt.NDArray[np.float32]
"""By wave, age and feature, shape (T, H+1, k); zeros where there is no such pair."""

_BLOCK: Final = 32_768
"""Values of a block, 256 KiB an array; four times as many are no faster, a quarter is slower."""
_LARGEST_VALUE: Final = 2.0**450
"""Up to which values are measured in blocks: squares of their distances have limbs."""


class ContainerHistory(Struct, frozen=True, eq=False):
    """The synchronous states of a container, wave by wave."""

    values: Values
    """x of every element that there ever was, 0 where it is not there; shape (T, elements)."""
    elements: Counts
    """n: how many are there, shape (T,)."""
    updates: Counts
    """Updates in each wave, shape (T,)."""
    times: Values
    """The waves' own times in Unix seconds, shape (T,)."""
    numbers: Counts | None = None
    """Numbers of the waves, rising, shape (T,); None where they follow one another."""
    counted: Counts | None = None
    """Updates up to and with each wave, those of waves between included, shape (T,); None where
    there are no waves between."""

    @property
    def waves(self) -> int:
        """How many waves there are."""
        return len(self.values)


class GivenImpact(Struct, frozen=True, eq=False):
    """ι of a container by a metric of the user's."""

    entry: str
    """The metric: it names the feature."""
    table: Table
    """By wave and age, finite."""


def spacing_of(history: ContainerHistory, horizon: int) -> Spacing:
    """Return which pairs of a history's waves are no farther apart than a horizon, in waves."""
    numbers = history.numbers
    return Spacing(np.arange(history.waves) if numbers is None else numbers, horizon)


class MeasuredPairs(Struct, frozen=True, eq=False):
    """How far a container has moved between any two of its waves that are not too far apart."""

    impacts: Impacts
    """Features by wave and age, shape (T, H+1); those of nothing where there is no such pair."""
    means: Values
    """Mean of the container's values by wave, shape (T,)."""
    updates: Counts
    """Updates in each wave, shape (T,)."""
    times: Values
    """The waves' own times in Unix seconds, shape (T,)."""
    levels: Values | None = None
    """Deciles by which crossings were counted, shape (9,); None where it is above no output."""
    given: Table | None = None
    """ε as a metric of the user's gave it, by wave and age up to the horizon, or up to 1 where
    changes accumulate; None where none was asked."""
    impact: GivenImpact | None = None
    """A further feature; None where the container has no metric of the user's."""
    counted: Counts | None = None
    """See ``ContainerHistory``."""
    spacing: Spacing | None = None
    """Pairs that there are; None where the waves follow one another."""

    @property
    def waves(self) -> int:
        """How many waves there are."""
        return len(self.times)

    @property
    def horizon(self) -> int:
        """H, the largest age."""
        return int(self.impacts.changed.shape[1]) - 1

    @property
    def spaced(self) -> Spacing:
        """Pairs that there are."""
        return self.spacing or Spacing(np.arange(self.waves), self.horizon)

    @property
    def deciles(self) -> Values:
        """The levels, shape (9,).

        Raises:
            ValueError: the container was measured without them.
        """
        if self.levels is None:
            message = "a container above an output is measured with its levels; give its deciles"
            raise ValueError(message)
        return self.levels

    def until(self, waves: int) -> MeasuredPairs:
        """Return the pairs of the first waves: what there would be if none had come after."""
        return replace(
            self,
            impacts=self.impacts.until(waves),
            means=self.means[:waves],
            updates=self.updates[:waves],
            times=self.times[:waves],
            counted=None if self.counted is None else self.counted[:waves],
            spacing=None if self.spacing is None else self.spacing.until(waves),
            given=None if self.given is None else self.given[:waves],
            impact=None
            if self.impact is None
            else replace(self.impact, table=self.impact.table[:waves]),
        )


def measured_pairs(
    history: ContainerHistory, horizon: int, levels: Values | None = None
) -> MeasuredPairs:
    """Return the impacts of all waves and ages of a container, of which errors and features come.

    Each is bit for bit what ``measure`` returns of the two waves.

    Args:
        history: of the container.
        horizon: how many waves the two of a pair are apart at most.
        levels: deciles of the container in training, shape (9,); None where it is above none.

    Raises:
        ValueError: parts of the history are of different numbers of waves.
    """
    lengths = {len(history.values), len(history.elements), len(history.updates), len(history.times)}
    lengths |= {len(part) for part in (history.numbers, history.counted) if part is not None}
    if len(lengths) != 1:
        message = f"a container's history has parts of {sorted(lengths)} waves; they must be equal"
        raise ValueError(message)
    known = bounded(history.values)
    large = np.abs(known).max(1, initial=0.0) > _LARGEST_VALUE
    known[large] = 0.0
    spacing = spacing_of(history, horizon)
    horizon = spacing.horizon
    found = Impacts.blank((history.waves, horizon + 1), 0 if levels is None else len(levels))
    rows = max(1, _BLOCK // max(1, known.shape[1]))
    states = _States(history, known, levels, rows)
    block = _Block(states, rows)
    for first in range(0, history.waves, rows):
        last = min(first + rows, history.waves)
        for age in range(1, min(last - 1, horizon) + 1):
            block.measure(slice(max(first, age), last), age, found)
    _measure_large(history, large, levels, found)
    sums = states.sums
    for wave in np.flatnonzero(large):
        sums[wave] = version_of(history.values[wave]).sum
    means = sums / np.maximum(1, history.elements)
    return MeasuredPairs(
        found,
        means,
        history.updates,
        history.times,
        levels,
        counted=history.counted,
        spacing=None if history.numbers is None else spacing,
    )


def _measure_large(
    history: ContainerHistory, large: npt.NDArray[np.bool_], levels: Values | None, into: Impacts
) -> None:
    """Measure pairs with a wave of values too large for blocks one by one."""
    horizon = into.changed.shape[1] - 1
    for wave in range(history.waves):
        for age in range(1, min(wave, horizon) + 1):
            if large[wave] or large[wave - age]:
                now, then = history.values[wave], history.values[wave - age]
                version = version_of(then, levels, int(history.elements[wave - age]))
                into.put(
                    (wave, age), measure(now, then, version, int(history.elements[wave]), levels)
                )


class _States:
    """What is known of each wave by itself.

    Args:
        history: of the container.
        known: its values without those that cannot be summed, shape (T, elements).
        levels: see ``measured_pairs``.
        rows: waves of a block.
    """

    def __init__(
        self, history: ContainerHistory, known: Values, levels: Values | None, rows: int
    ) -> None:
        blocks = [slice(first, first + rows) for first in range(0, len(known), rows)]
        self.values = history.values
        self.elements = history.elements
        self.known = known
        self.sizes = np.abs(known)
        numberless = np.isnan(history.values)
        self.numberless = numberless if numberless.any() else None
        self.of_both_signs = bool((known < 0.0).any() and (known > 0.0).any())
        self.terms = _joined([limb_totals(known[block]) for block in blocks])
        """Σx of each wave as few terms, shape (k, T)."""
        self.magnitude_terms = _joined([limb_totals(self.sizes[block]) for block in blocks])
        """Σ|x| of each wave as few terms, shape (k, T)."""
        self.sums = rounded_totals(self.terms)
        """Σx of each wave, rounded once, shape (T,)."""
        self.magnitudes = rounded_totals(self.magnitude_terms)
        """Σ|x| of each wave, rounded once, shape (T,)."""
        self.ranks: npt.NDArray[np.unsignedinteger] | None = None
        """How many levels each value is above, in the shape of the values."""
        if levels is not None:
            kind = np.min_scalar_type(len(levels))
            self.ranks = np.searchsorted(levels, known).astype(kind)
            above = [_above(self.ranks[block], len(levels)) for block in blocks]
            self.above = np.concatenate(above) if above else np.zeros((0, len(levels)), np.int64)
            """Elements above a level, by wave and level, missing ones as 0, shape (T, k)."""
            missing = (known.shape[1] - history.elements)[:, None]
            self.present_above = self.above - missing * (levels < 0.0)
            """The same of the elements that are present, shape (T, k)."""


class _Block:
    """Some waves measured against those of one age before them; its arrays are used again.

    Args:
        states: of all waves.
        rows: waves at most.
    """

    def __init__(self, states: _States, rows: int) -> None:
        shape = rows, states.known.shape[1]
        self._states = states
        self._moved, self._terms, self._gone, self._limb = (np.empty(shape) for _ in range(4))

    def measure(self, waves: slice, age: int, into: Impacts) -> None:
        """Fill in the impacts of these waves at an age."""
        states, at, then = self._states, (waves, age), slice(waves.start - age, waves.stop - age)
        count = waves.stop - waves.start
        moved, terms, gone, limb = (
            array[:count] for array in (self._moved, self._terms, self._gone, self._limb)
        )
        np.not_equal(states.values[waves], states.values[then], out=moved, casting="unsafe")
        into.changed[at] = moved.sum(1)
        into.elements[at] = states.elements[waves]
        if states.numberless is not None:
            into.unknown[at] = (states.numberless[waves] | states.numberless[then]).sum(1)

        np.subtract(states.known[waves], states.known[then], out=terms)
        np.multiply(terms, terms, out=gone)
        into.squares[at] = rounded_totals(_totals(gone, limb))
        into.largest[at] = np.abs(terms, out=limb).max(1, initial=0.0)
        signed, distances = [], []
        signs = np.copysign(1.0, terms, out=gone)
        for part in limbs(terms, limb):
            signed.append(part.sum(1))
            distances.append(np.vecdot(part, signs))
        into.signed[at] = rounded_totals(np.reshape(signed, (-1, count)))
        into.difference[at] = rounded_totals(np.reshape(distances, (-1, count)))

        self._larger(waves, then, terms)
        if into.changed[at].min() < terms.shape[1]:
            np.multiply(terms, moved, out=terms)
            np.multiply(states.sizes[then], moved, out=gone)
            gone_totals = _totals(gone, limb)
        else:
            gone_totals = states.magnitude_terms[:, then]
        added = _totals(terms, limb)
        # What has not moved is in both of two waves' sums and cancels out.
        version = states.magnitudes[None, then]
        into.changed_magnitude[at] = rounded_totals(added)
        into.magnitude[at] = np.maximum(0.0, rounded_totals(version, added, -gone_totals))
        magnitude, total = states.magnitude_terms, states.terms
        into.current[at] = np.maximum(
            0.0, rounded_totals(version, magnitude[:, waves], -magnitude[:, then])
        )
        into.sum[at] = rounded_totals(states.sums[None, then], total[:, waves], -total[:, then])

        if states.ranks is not None:
            above = states.above[waves], states.above[then]
            in_both = _above(np.minimum(states.ranks[waves], states.ranks[then]), len(above[0][0]))
            into.crossed[at] = above[0] + above[1] - 2 * in_both
            into.above[at] = states.present_above[waves]
            into.above_before[at] = states.present_above[then]

    def _larger(self, waves: slice, then: slice, into: Values) -> None:
        """Fill in max(|x|, |x′|), or |x| + |x′| where signs differ."""
        states = self._states
        np.maximum(states.sizes[waves], states.sizes[then], out=into)
        if states.of_both_signs:
            opposite = states.known[waves] * np.sign(states.known[then]) < 0.0
            np.add(states.sizes[waves], states.sizes[then], out=into, where=opposite)


def _totals(terms: Values, limb: Values) -> Values:
    """Return ``limb_totals`` of terms that are not needed afterwards, shape (k, r)."""
    return np.reshape([part.sum(1) for part in limbs(terms, limb)], (-1, len(terms)))


def _joined(blocks: list[Values]) -> Values:
    """Return terms of sums of successive waves, each (k, r) with its own k, as (k, T)."""
    most = max((len(block) for block in blocks), default=0)
    padded = [np.pad(block, ((0, most - len(block)), (0, 0))) for block in blocks]
    return np.concatenate(padded, axis=1) if padded else np.zeros((0, 0))


def _above(ranks: npt.NDArray[np.unsignedinteger], levels: int) -> Counts:
    """Return how many elements are above each level, by row, shape (r, k).

    Args:
        ranks: how many levels each element is above, shape (r, n).
        levels: k.
    """
    rows, kinds = len(ranks), levels + 1
    codes = ranks + kinds * np.arange(rows)[:, None]
    counts = np.bincount(codes.ravel(), minlength=rows * kinds).reshape(rows, kinds)
    above: Counts = counts[:, :0:-1].cumsum(1)[:, ::-1]
    return above


def errors(pairs: MeasuredPairs, metric: OutputMetric, changes: Changes = Changes.CANCEL) -> Table:
    """Return ε of an output for all waves and ages up to the horizon.

    Where changes accumulate it is the sum of ε from wave to wave since the earlier one, each added
    in its turn.

    Raises:
        ValueError: it is a user's metric, and nobody has asked it.
    """
    if not isinstance(metric, UserMetric):
        found = errors_of(pairs.impacts, metric)
    elif pairs.given is None:
        message = f"nobody has asked {metric} for the errors of this output"
        raise ValueError(message)
    else:
        found = pairs.given
    if changes is Changes.ACCUMULATE:
        found = _accumulated(found[:, 1], pairs.horizon)
    return np.where(pairs.spaced.there(pairs.horizon), found, np.nan)


def _accumulated(steps: Values, horizon: int) -> Table:
    """Return sums of errors from wave to wave, (T,), by wave and age, (T, H+1)."""
    found = np.zeros((len(steps), horizon + 1))
    for age in range(1, horizon + 1):
        found[age:, age] = found[age - 1 : -1, age - 1] + steps[age:]
    return found


def questions(
    history: ContainerHistory,
    horizon: int,
    output: str,
    metric: UserMetric,
    most: int | None = None,
) -> Iterator[tuple[int, int, float | MetricQuestion]]:
    """Yield wave, age and what a metric has to be asked for ε of each pair; see ``question_about``.

    Args:
        history: of the output.
        horizon: how many waves the two of a pair are apart at most.
        output: the container.
        metric: of the output.
        most: the largest age that is asked about; all of them by default.
    """
    spacing = spacing_of(history, horizon)
    there = spacing.there(min(spacing.horizon, horizon if most is None else most))
    for wave in range(history.waves):
        now, present = history.values[wave], int(history.elements[wave])
        for age in np.flatnonzero(there[wave, 1:]) + 1:
            then, moment = history.values[wave - age], (float(wave), float(age))
            yield wave, int(age), question_about(now, then, present, output, moment, metric)


def features(pairs: MeasuredPairs, shown: Values) -> FeatureTable:
    """Return what a model is shown of a container for all waves and ages up to the horizon.

    Each row is bit for bit what ``row_of`` returns of the pair.

    Args:
        pairs: of the container, with its levels.
        shown: means of the values of the output that is decided on, by wave; shape (T,).

    Raises:
        ValueError: the container was measured without levels, or in other waves than the output.
    """
    if len(pairs.deciles) != LEVELS:
        message = (
            f"a container has {LEVELS} deciles, not the {len(pairs.deciles)} it is measured by"
        )
        raise ValueError(message)
    if len(shown) != pairs.waves:
        message = f"an output of {len(shown)} waves is below a container of {pairs.waves}"
        raise ValueError(message)
    waves, ages = np.ogrid[: pairs.waves, : pairs.horizon + 1]
    then = np.maximum(0, waves - ages)
    counted = np.cumsum(pairs.updates) if pairs.counted is None else pairs.counted
    contexts = WaveContexts(
        clock=clocks_of(pairs.times)[:, None],
        age=pairs.spaced.apart(pairs.horizon),
        updates=counted[waves] - counted[then],
        last_updates=pairs.updates[:, None],
        shown=shown[then],
    )
    table = rows_of(pairs.impacts, contexts)
    if pairs.impact is not None:
        table = with_own(table, pairs.impact.table)
    table[~pairs.spaced.there(pairs.horizon)] = 0.0
    table[:, 0] = 0.0
    return table


def feature_names(pairs: MeasuredPairs) -> tuple[str, ...]:
    """Return the names of the columns of ``features``."""
    return FEATURES if pairs.impact is None else (*FEATURES, pairs.impact.entry)
