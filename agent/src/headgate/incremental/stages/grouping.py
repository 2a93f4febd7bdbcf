"""Groups of routed rows, and what of the state belongs to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headgate.incremental.stages.specification import GROUP
from headgate.incremental.state.rows import HASH, KEY, ORDER

Numbers = npt.NDArray[np.int64]


class GroupKeys(Struct, frozen=True, eq=False):
    """Distinct keys, sorted by hash and key."""

    hashes: Numbers
    """Shape (n,)."""
    keys: pa.Array
    """Canonical, binary, shape (n,)."""

    def __len__(self) -> int:
        return len(self.hashes)


def keys_of(tables: Sequence[pa.Table]) -> GroupKeys:
    """Return the distinct keys of tables that are sorted by hash and key."""
    firsts = [table.filter(pa.array(_begins(table))) for table in tables]
    # Without what their schemas say of nulls, in which those of increments and of state differ.
    places = [[table.column(HASH), table.column(KEY)] for table in firsts]
    found = pa.concat_tables([pa.table(place, [HASH, KEY]) for place in places])
    if len(tables) > 1:
        found = found.sort_by([(HASH, "ascending"), (KEY, "ascending")])
        found = found.filter(pa.array(_begins(found)))
    return GroupKeys(found.column(HASH).to_numpy(), _whole(found.column(KEY), pa.binary()))


class FirstRows(Struct, frozen=True, eq=False):
    """The first row of each key in a table that is sorted by hash and key."""

    rows: pa.Table
    """Their hashes and keys, shape (n,)."""
    places: Numbers
    """Where they are in the table, and its length, shape (n + 1,)."""


def first_rows(table: pa.Table) -> FirstRows:
    """Return the first row of each key, found batch by batch: the table may be on the disk."""
    table = table.select([HASH, KEY])
    found, places, at = [], [], 0
    last: pa.Table | None = None
    for batch in table.to_batches():
        rows = pa.Table.from_batches([batch])
        begins = _begins(rows)
        if last is not None and len(rows):
            begins[0] = _begins(pa.concat_tables([last, rows.slice(0, 1)]).combine_chunks())[1]
        places.append(np.flatnonzero(begins) + at)
        found.append(rows.filter(pa.array(begins)))
        at += len(rows)
        last = rows.slice(len(rows) - 1) if len(rows) else last
    whole = pa.concat_tables(found) if found else table
    return FirstRows(whole, np.concatenate([*places, np.array([at])]).astype(np.int64))


def group_numbers(table: pa.Table, groups: GroupKeys) -> Numbers:
    """Return of each row of a table, which has hashes and keys, the number of its group.

    -1 where it is of none of them.
    """
    hashes = table.column(HASH).to_numpy()
    if not len(groups) or not len(hashes):
        return np.full(len(hashes), -1, np.int64)
    numbers = np.searchsorted(groups.hashes, hashes)
    numbers[numbers == len(groups)] = len(groups) - 1
    keys = _whole(table.column(KEY), pa.binary())
    same = _equal(groups.keys.take(pa.array(numbers)), keys)
    found = np.where(same & (groups.hashes[numbers] == hashes), numbers, -1)
    # Few keys have a hash that another has; each is looked for among those.
    doubtful = np.flatnonzero(~same & (groups.hashes[numbers] == hashes))
    for at in doubtful.tolist():
        end = int(np.searchsorted(groups.hashes, hashes[at], "right"))
        for number in range(int(numbers[at]), end):
            if groups.keys[number].as_py() == keys[at].as_py():
                found[at] = number
    return found.astype(np.int64)


def with_groups(table: pa.Table, numbers: Numbers) -> pa.Table:
    """Return a table's own columns, and of each row the number of its group."""
    own = table.drop_columns([name for name in (HASH, KEY, ORDER) if name in table.column_names])
    return own.append_column(GROUP, pa.array(numbers))


def starts(numbers: Numbers, count: int) -> Numbers:
    """Return where each of so many groups begins in rising numbers, and the end, shape (n + 1,)."""
    return np.searchsorted(numbers, np.arange(count + 1)).astype(np.int64)


def units(increments: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
    """Return increments of which each unit is a group, numbered through all flows."""
    first, found = 0, {}
    for flow, rows in increments.items():
        found[flow] = with_groups(rows, np.arange(first, first + rows.num_rows))
        first += rows.num_rows
    return found


def _begins(table: pa.Table) -> npt.NDArray[np.bool_]:
    """Return which rows are the first of a key."""
    hashes = table.column(HASH).to_numpy()
    first = np.ones(len(hashes), np.bool_)
    if len(hashes) > 1:
        keys = _whole(table.column(KEY), pa.binary())
        first[1:] = (hashes[1:] != hashes[:-1]) | ~_equal(
            keys.slice(1), keys.slice(0, len(keys) - 1)
        )
    return first


def _equal(one: pa.Array, other: pa.Array) -> npt.NDArray[np.bool_]:
    same: npt.NDArray[np.bool_] = (
        pc.equal(one, other).to_numpy(zero_copy_only=False).astype(np.bool_)
    )
    return same


def _whole(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks() if column.num_chunks else pa.array([], kind)
