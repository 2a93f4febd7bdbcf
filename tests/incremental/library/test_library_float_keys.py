"""Floats as keys: 0.0 and -0.0 are one group, as are all NaNs, and what goes is what came."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from flows_of_rows import filed
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.incremental import Stage
from headgate.incremental.library import (
    Aggregate,
    Function,
    aggregate,
    count,
    distinct,
    relation,
)
from headgate.incremental.library.counting import COUNTS
from headgate.incremental.library.rows import CHANGES

COLUMNS = {"key": "float64", "n": "int64"}
SCHEMA = pa.schema([("key", pa.float64()), ("n", pa.int64()), ("weight", pa.int64())])
NANS = [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001, 0x7FF0000000000002]
BITS = [0, 1 << 63, *NANS, int(np.float64(1.5).view(np.uint64))]

Rows = list[tuple[int, int, int]]
"""Bits of the key, a value and a weight."""
epochs = st.lists(
    st.lists(
        st.tuples(st.sampled_from(BITS), st.integers(0, 2), st.sampled_from([1, 1, -1])), max_size=5
    ),
    max_size=5,
)


def increment(rows: Rows) -> pa.Table:
    keys = np.array([bits for bits, _, _ in rows], np.uint64).view(np.float64)
    columns = [pa.array(keys), *(pa.array([row[at] for row in rows], pa.int64()) for at in (1, 2))]
    return pa.table(columns, schema=SCHEMA)


def group(bits: int) -> int:
    """The bits of the group that a key is of."""
    number = struct.unpack("<d", struct.pack("<Q", bits))[0]
    if math.isnan(number):
        return NANS[0]
    return 0 if number == 0 else bits


def bits_of(number: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", number))[0])


def totals(there: Counter[tuple[int, int]]) -> Counter[tuple[int, ...]]:
    rows: Counter[int] = Counter()
    sums: Counter[int] = Counter()
    for (key, n), weight in there.items():
        rows[key] += weight
        sums[key] += weight * n
    return Counter({(key, sums[key]): 1 for key in rows if rows[key] > 0})


def keys(there: Counter[tuple[int, int]]) -> Counter[tuple[int, ...]]:
    return Counter({(key,): 1 for (key, *_) in totals(there)})


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (aggregate({"key": "float64"}, {"n": Aggregate(Function.SUM, "n", "int64")}), totals),
        (distinct({"key": "float64"}), keys),
    ],
)
@given(epochs=epochs)
@settings(max_examples=settings().max_examples // 8)
def test_what_is_retracted_is_what_was_announced_bit_by_bit(
    stage: Stage,
    expected: Callable[[Counter[tuple[int, int]]], Counter[tuple[int, ...]]],
    epochs: list[Rows],
    tmp_path_factory: Any,
) -> None:
    filed_stage = filed(stage, tmp_path_factory)
    there: Counter[tuple[int, int]] = Counter()
    found: Counter[tuple[int, ...]] = Counter()
    for rows in epochs:
        for bits, n, weight in rows:
            there[group(bits), n] += weight
        for key, *values, weight in map(
            dict.values, filed_stage.epoch({"source": increment(rows)})[CHANGES]
        ):
            found[bits_of(key), *values] += weight

        assert Counter({row: n for row, n in found.items() if n}) == expected(there)


def test_the_count_of_a_key_goes_to_the_row_that_has_it(tmp_path_factory: Any) -> None:
    """Counts are upserts: another spelling of the key would be another row."""
    stage = filed(count({"key": "float64"}), tmp_path_factory)

    spelled = [stage.epoch({"source": increment([(b, 0, 1)])})[COUNTS][0] for b in (0, 1 << 63)]

    assert [(bits_of(row["key"]), row["n"]) for row in spelled] == [(0, 1), (0, 2)]


@pytest.mark.parametrize("bits", [1 << 63, NANS[2]])
def test_a_row_of_a_relation_goes_under_the_key_that_it_came_by(
    bits: int, tmp_path_factory: Any
) -> None:
    stage = filed(relation(COLUMNS, "key", source="source"), tmp_path_factory)
    made: list[dict[str, Any]] = []
    for spelled, operation in ((bits, "insert"), (group(bits), "modify"), (bits, "delete")):
        rows = increment([(spelled, len(made), 1)]).append_column(
            "operation", pa.array([operation])
        )
        made += stage.epoch({"source": rows})[CHANGES]

    assert {bits_of(row["key"]) for row in made} == {group(bits)}
    assert [row["weight"] for row in made] == [1, -1, 1, -1]
