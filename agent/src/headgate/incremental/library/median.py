"""The median, in the two forms of the paper (section 3.1, Figures 3 and 4).

The domain of the values is cut into buckets of one width, each a group of its own. How many values
each has says in which of them the median is, and where in it.

Figure 3: ``histogram`` -> ``locate`` -> ``value``, which is also given the changes of the values,
and has a second copy of them. Its two input flows are read together, an increment of each.

Figure 4: ``histogram_and_value`` -> ``locate`` -> back to the former, which has the only copy. It
reads increment i of the values only once the location after increment i - 1 is there, and then puts
out the median after i - 1.

The median of an even number of values is the lower one of the two in the middle, so that it is one
of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.incremental.library.rows import (
    CHANGES,
    WEIGHT,
    Numbers,
    checked,
    consolidated,
    negated,
    numbers_of,
    positive,
    rows_of,
    sums,
    weights_of,
    with_weight,
)
from headgate.incremental.stage import Stage
from headgate.incremental.stages.errors import StageError
from headgate.incremental.stages.grouping import starts
from headgate.incremental.stages.specification import (
    GROUP,
    STATE,
    Computed,
    Groups,
    InputFlow,
    StateFlow,
)

COUNTS: Final = "counts"
LOCATION: Final = "location"
MEDIAN: Final = "median"
_VALUES: Final = pa.schema({"value": pa.int64()})
_COUNTS: Final = pa.schema({"bucket": pa.int64(), "n": pa.int64()})
_LOCATION: Final = pa.schema({"bucket": pa.int64(), "offset": pa.int64(), "total": pa.int64()})
_MEDIAN: Final = pa.schema({"median": pa.int64(), "total": pa.int64()})


@checked
def histogram(
    width: int, *, source: str = "numbers", weight: str | None = WEIGHT, name: str = "histogram"
) -> Stage:
    """Return the first stage of Figure 3: the values of each bucket, and how many they are.

    Flows:
        numbers: ``value`` int64, and the weight; nulls do not count.
        counts: ``bucket`` int64, ``n`` int64: how many values each bucket has of which something
            came, whether that number has changed or not: another value may have taken a place.
        changes: ``value`` int64, ``weight``: what came, each value once.

    Args:
        width: of a bucket, in units of the values; what one bucket holds is read and written as a
            whole where one of its values comes.
        source: the input flow's name.
        weight: column that says how often a value is there; None: each is there once.
        name: of the stage.

    Raises:
        StageError: buckets have no width.
    """
    return Stage(
        name,
        inputs={source: InputFlow(_by_bucket(name, width))},
        outputs={COUNTS: _COUNTS, CHANGES: with_weight(_VALUES)},
        translate_tables=partial(_histogram, source=source, width=width, weight=weight),
        state=StateFlow(with_weight(_VALUES)),
    )


@checked
def locate(*, source: str = COUNTS, name: str = "locate") -> Stage:
    """Return the stage that finds in which bucket the median is (Figures 3 and 4: ``median``).

    Flows:
        counts: ``bucket`` int64, ``n`` int64: the new numbers of values of some buckets.
        location: ``bucket`` int64, ``offset`` int64, ``total`` int64: the bucket of the median, how
            many values in it are before the median, and how many values there are at all. One row,
            or none where no counts came. Without values bucket and offset are null.

    Args:
        source: the input flow's name.
        name: of the stage. All counts are one group.
    """
    return Stage(
        name,
        inputs={source: InputFlow(())},
        outputs={LOCATION: _LOCATION},
        translate_tables=partial(_locate, source=source),
        state=StateFlow(_COUNTS),
    )


@checked
def value(
    width: int, *, source: str = CHANGES, location: str = LOCATION, name: str = "value"
) -> Stage:
    """Return the last stage of Figure 3: the median, by its location.

    Flows:
        changes: ``value`` int64, ``weight``, as ``histogram`` puts them out.
        location: where the median is after these changes.
        median: ``median`` int64, ``total`` int64: one row for a location; null without values.

    Args:
        width: of a bucket, as in ``histogram``.
        source: the flow of changes.
        location: the flow of locations.
        name: of the stage.

    Raises:
        StageError: buckets have no width.
    """
    return Stage(
        name,
        inputs={
            source: InputFlow(_by_bucket(name, width)),
            location: InputFlow(("bucket",)),
        },
        outputs={MEDIAN: _MEDIAN},
        translate_tables=partial(_value, source=source, location=location),
        state=StateFlow(with_weight(_VALUES)),
    )


@checked
def histogram_and_value(
    width: int,
    *,
    source: str = "numbers",
    location: str = LOCATION,
    weight: str | None = WEIGHT,
    name: str = "histogram_and_value",
) -> Stage:
    """Return the first stage of Figure 4, which has the only copy of the values.

    Flows:
        numbers: ``value`` int64, and the weight; nulls do not count.
        location: where the median was before these numbers.
        counts: as those of ``histogram``.
        median: ``median`` int64, ``total`` int64: one row for a location, the median before these
            numbers; null without values.

    Args:
        width: of a bucket, see ``histogram``.
        source: the flow of values.
        location: the flow of locations, which leads back from ``locate``.
        weight: column that says how often a value is there; None: each is there once.
        name: of the stage.

    Raises:
        StageError: buckets have no width.
    """
    return Stage(
        name,
        inputs={
            source: InputFlow(_by_bucket(name, width)),
            location: InputFlow(("bucket",)),
        },
        outputs={COUNTS: _COUNTS, MEDIAN: _MEDIAN},
        translate_tables=partial(
            _histogram_and_value, source=source, location=location, width=width, weight=weight
        ),
        state=StateFlow(with_weight(_VALUES)),
    )


def _by_bucket(stage: str, width: int) -> Computed:
    if width < 1:
        message = f"stage `{stage}`: buckets of width {width} hold nothing; give one from 1 on"
        raise StageError(message)
    return Computed(partial(_key, width=width))


def _key(rows: pa.Table, *, width: int) -> Sequence[pa.Array]:
    return [_buckets(rows, width)]


def _buckets(rows: pa.Table, width: int) -> pa.Array:
    values = rows.column("value").cast(pa.int64())
    null = values.is_null().to_numpy()
    return pa.array(values.fill_null(0).to_numpy() // width, mask=null)


def _histogram(
    groups: Groups, *, source: str, width: int, weight: str | None
) -> dict[str, pa.Table]:
    came, before = _known(groups, source, weight)
    after = consolidated(before, came)
    changes = consolidated(came.drop_columns([GROUP]))
    return {STATE: after, COUNTS: _counts(came, after, groups.count, width), CHANGES: changes}


def _locate(groups: Groups, *, source: str) -> dict[str, pa.Table]:
    came = groups.flows[source].select([GROUP, *_COUNTS.names])
    stored = groups.flows[STATE].select(came.column_names)
    if groups.whole:
        stored = stored.slice(0, 0)
    buckets = np.concatenate([table.column("bucket").to_numpy() for table in (stored, came)])
    counts = np.concatenate([table.column("n").to_numpy() for table in (stored, came)])
    # The last number that came for a bucket is the one that holds.
    known, last = np.unique(buckets[::-1], return_index=True)
    numbers = counts[::-1][last]
    known, numbers = known[numbers > 0], numbers[numbers > 0]
    state = pa.table({"bucket": known, "n": numbers, GROUP: np.zeros(len(known), np.int64)})
    if not groups.count:
        return {STATE: state}
    total = int(numbers.sum())
    if not total:
        row = {"bucket": None, "offset": None, "total": 0}
    else:
        rank = (total - 1) // 2
        ends = np.cumsum(numbers)
        at = int(np.searchsorted(ends, rank, "right"))
        row = {
            "bucket": int(known[at]),
            "offset": rank - int(ends[at] - numbers[at]),
            "total": total,
        }
    return {STATE: state, LOCATION: pa.Table.from_pylist([row], _LOCATION)}


def _value(groups: Groups, *, source: str, location: str) -> dict[str, pa.Table]:
    came, before = _known(groups, source, WEIGHT)
    after = consolidated(before, came)
    return {STATE: after, MEDIAN: _found(groups, location, after)}


def _histogram_and_value(
    groups: Groups, *, source: str, location: str, width: int, weight: str | None
) -> dict[str, pa.Table]:
    came, before = _known(groups, source, weight)
    after = consolidated(before, came)
    # What was located is where the values were before these came.
    return {
        STATE: after,
        COUNTS: _counts(came, after, groups.count, width),
        MEDIAN: _found(groups, location, before),
    }


def _known(groups: Groups, source: str, weight: str | None) -> tuple[pa.Table, pa.Table]:
    """Return the values that came, and those that were there."""
    came = rows_of(groups, source, _VALUES, weight)
    came = came.filter(pc.is_valid(came.column("value")))
    before = groups.flows[STATE].select(came.column_names)
    if source in groups.whole:
        came = consolidated(came, negated(before))
    return came, before


def _counts(came: pa.Table, after: pa.Table, count: int, width: int) -> pa.Table:
    """Return how many values the buckets have of which something came."""
    there = positive(after)
    numbers = sums(numbers_of(there), weights_of(there), count)
    buckets = np.zeros(count, np.int64)
    touched = np.zeros(count, np.bool_)
    touched[numbers_of(came)] = True
    buckets[numbers_of(came)] = _buckets(came, width).to_numpy()
    return pa.table({"bucket": buckets[touched], "n": numbers[touched]})


def _found(groups: Groups, location: str, rows: pa.Table) -> pa.Table:
    """Return the value at each location."""
    asked = groups.flows[location]
    rows = positive(rows).sort_by([(GROUP, "ascending"), ("value", "ascending")])
    ends = np.cumsum(weights_of(rows))
    at = starts(numbers_of(rows), groups.count)
    begins = np.append(0, ends)[at]
    empty = asked.column("offset").is_null().to_numpy()
    offsets: Numbers = asked.column("offset").fill_null(0).to_numpy()
    numbers = numbers_of(asked)
    places = np.searchsorted(ends, begins[numbers] + offsets, "right")
    if (~empty & ((places < at[numbers]) | (places >= at[numbers + 1]))).any():
        message = (
            f"flow `{location}` names a place that its bucket does not have: it is of another "
            "increment than the values that are here"
        )
        raise ValueError(message)
    medians = rows.column("value").combine_chunks().take(pa.array(places, mask=empty))
    return pa.table({"median": medians, "total": asked.column("total")})
