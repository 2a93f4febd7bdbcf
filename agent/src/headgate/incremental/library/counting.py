"""Counts of keys, and the keys that there are (paper: section 1.1, count in-links)."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from headgate.incremental.library.rows import (
    CHANGES,
    WEIGHT,
    Flags,
    Numbers,
    checked,
    key_columns,
    numbers_of,
    rows_of,
    sums,
    weights_of,
    with_weight,
)
from headgate.incremental.stage import Stage
from headgate.incremental.stages.specification import (
    GROUP,
    STATE,
    Groups,
    InputFlow,
    StateFlow,
    Types,
    schema_of,
)

COUNTS: Final = "counts"
"""The output flow of counts."""
_STATE: Final = pa.schema({"n": pa.int64()})


@checked
def count(
    by: Types, *, source: str = "source", weight: str | None = WEIGHT, name: str = "count"
) -> Stage:
    """Return the stage that counts rows by key; its state is one number a key.

    Flows:
        source: the columns of the key, and the weight. Where an increment is whole, counts begin
            anew with it.
        counts: the columns of the key, and ``n`` int64: the new count of each key whose count has
            changed, 0 where nothing is left of it. To a container these are upserts.

    Args:
        by: columns of the key.
        source: the input flow's name.
        weight: column by which a row counts, such as that of differences; None: each counts as one.
        name: of the stage.
    """
    key = schema_of(by)
    return Stage(
        name,
        inputs={source: InputFlow(tuple(key.names))},
        outputs={COUNTS: pa.schema([*key, *_STATE])},
        translate_tables=partial(_count, source=source, key=key, weight=weight),
        state=StateFlow(_STATE),
    )


@checked
def distinct(
    by: Types, *, source: str = "source", weight: str | None = WEIGHT, name: str = "distinct"
) -> Stage:
    """Return the stage that says which keys there are; its state is one number a key.

    Flows:
        source: the columns of the key, and the weight. Where an increment is whole, keys that do
            not come in it are gone.
        changes: the columns of the key, and ``weight``: 1 where its rows have become more than
            none, -1 where none are left.

    Args:
        by: columns of the key.
        source: the input flow's name.
        weight: column of the weight; None: each row is one.
        name: of the stage.
    """
    key = schema_of(by)
    return Stage(
        name,
        inputs={source: InputFlow(tuple(key.names))},
        outputs={CHANGES: with_weight(key)},
        translate_tables=partial(_distinct, source=source, key=key, weight=weight),
        state=StateFlow(_STATE),
    )


def _count(
    groups: Groups, *, source: str, key: pa.Schema, weight: str | None
) -> dict[str, pa.Table]:
    came, before, after = _numbers(groups, source, key, weight)
    keys = _some(groups, key, came, before != after)
    counts = pa.table([*keys.columns, pa.array(after[before != after])], [*key.names, "n"])
    return {STATE: _kept(after), COUNTS: counts}


def _distinct(
    groups: Groups, *, source: str, key: pa.Schema, weight: str | None
) -> dict[str, pa.Table]:
    came, before, after = _numbers(groups, source, key, weight)
    change = (after > 0).astype(np.int64) - (before > 0)
    keys = _some(groups, key, came, change != 0)
    return {
        STATE: _kept(after),
        CHANGES: pa.table([*keys.columns, change[change != 0]], [*key.names, WEIGHT]),
    }


def _numbers(
    groups: Groups, source: str, key: pa.Schema, weight: str | None
) -> tuple[pa.Table, Numbers, Numbers]:
    """Return what came, and how many rows of each group were there and are now."""
    came, state = rows_of(groups, source, key, weight), groups.flows[STATE]
    before = np.zeros(groups.count, np.int64)
    before[numbers_of(state)] = state.column("n").to_numpy()
    added = sums(numbers_of(came), weights_of(came), groups.count)
    return came, before, added if groups.whole else before + added


def _some(groups: Groups, key: pa.Schema, came: pa.Table, flags: Flags) -> pa.Table:
    return key_columns(groups, key, [came]).filter(pa.array(flags))


def _kept(numbers: Numbers) -> pa.Table:
    there = np.flatnonzero(numbers)
    return pa.table({"n": numbers[there], GROUP: there})
