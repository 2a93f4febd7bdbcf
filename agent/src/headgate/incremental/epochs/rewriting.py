"""What has to be written of a state that a translation has returned: only what has changed."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headgate.incremental.stages.errors import TranslationFailed
from headgate.incremental.stages.grouping import GroupKeys, group_numbers, starts
from headgate.incremental.stages.routing import columns_key, keys_by, orders_of, with_keys
from headgate.incremental.stages.specification import GROUP, StageSpec, StateFlow
from headgate.incremental.state.rows import (
    DELETED,
    HASH,
    KEY,
    ORDER,
    Match,
    sort_rows,
    state_schema,
)

_AT: Final = "_at"

Flags = npt.NDArray[np.bool_]


class Rewritten(Struct, frozen=True, eq=False):
    """Rows of a state as they are stored."""

    local: pa.Table
    """Of groups that were translated, those that have changed, with tombstones of what is gone."""
    remote: pa.Table
    """Of other groups, which they are added to."""


def rewritten(
    stage: StageSpec, state: StateFlow, groups: GroupKeys, written: pa.Table, before: pa.Table
) -> Rewritten:
    """Return what a translation has changed of the state.

    Args:
        stage: whose it is.
        state: its loopback flow.
        groups: those that were translated.
        written: what it has returned, see ``Translated``.
        before: what the state had of these groups, as it is stored, with the column ``_group``.

    Raises:
        TranslationFailed: rows that are told apart by their order have one order in one group.
    """
    rows, remote = _with_places(stage, state, groups, written)
    return Rewritten(changed(stage, state.match, groups, rows, before), remote)


def changed(
    stage: StageSpec, match: Match, groups: GroupKeys, rows: pa.Table, before: pa.Table
) -> pa.Table:
    """Return what has to be stored that some groups have their new rows.

    Args:
        stage: whose they are.
        match: what of them is replaced.
        groups: whose rows these are.
        rows: as they are stored, sorted, with the column ``_group``.
        before: likewise, what the groups had.

    Raises:
        TranslationFailed: rows that are told apart by their order have one order in one group.
    """
    if match is Match.ROW:
        new = rows.drop_columns([GROUP])
        _check_distinct(stage, new)
        return changed_rows(new, before.drop_columns([GROUP]))
    return _by_group(groups, rows, before)


def _with_places(
    stage: StageSpec, state: StateFlow, groups: GroupKeys, written: pa.Table
) -> tuple[pa.Table, pa.Table]:
    place = "state"
    orders = orders_of(stage.name, place, state.order_by, written)
    if state.route_by is None:
        # Rows come by rising numbers of groups, whose keys and hashes are known and sorted.
        numbers = written.column(GROUP).to_numpy()
        keys = groups.keys.take(pa.array(numbers))
        known = ((HASH, pa.array(groups.hashes[numbers])), (KEY, keys), (ORDER, orders))
        local = written.drop_columns([GROUP])
        for name, column in known:
            local = local.append_column(name, column)
        local = as_stored(state, local)
        remote = local.slice(0, 0)
        local = local.append_column(GROUP, pa.array(numbers))
        return local if state.order_by is None else sort_rows(local), remote
    if isinstance(state.route_by, str | tuple):
        keys = columns_key(stage.name, place, state.route_by, written)
    else:
        keys = keys_by(stage.name, place, state.route_by, written)
    placed = as_stored(state, with_keys(written, keys, orders))
    numbers = group_numbers(placed, groups)
    here = numbers >= 0
    local = placed.append_column(GROUP, pa.array(numbers)).filter(pa.array(here))
    return sort_rows(local), sort_rows(placed.filter(pa.array(~here)))


def as_stored(state: StateFlow, rows: pa.Table) -> pa.Table:
    """Return rows with places as they are stored, where a column may be null that never is."""
    schema = state_schema(state.columns)
    rows = rows.append_column(DELETED, pa.array(np.zeros(len(rows), np.bool_)))
    return rows.select(schema.names).cast(schema)


def _by_group(groups: GroupKeys, rows: pa.Table, before: pa.Table) -> pa.Table:
    count = len(groups)
    now, then = (starts(table.column(GROUP).to_numpy(), count) for table in (rows, before))
    many, were = np.diff(now), np.diff(then)
    changed = many != were
    comparable = ~changed & (many > 0)
    if comparable.any():
        taken = _rows_of(rows, comparable)
        same = alike(taken, _rows_of(before, comparable))
        numbers = taken.column(GROUP).to_numpy()
        changed[numbers[~same]] = True
    gone = (many == 0) & (were > 0)
    kept = _rows_of(rows, changed).drop_columns([GROUP])
    if not gone.any():
        return kept
    places = then[:-1][gone]
    first = before.take(pa.array(places)).drop_columns([GROUP])
    return sort_rows(pa.concat_tables([kept, tombstones(first.select(kept.column_names))]))


def changed_rows(new: pa.Table, before: pa.Table) -> pa.Table:
    """Return which rows differ from those of their places before, and what is gone.

    Args:
        new: as they are stored, sorted; of each place one.
        before: likewise.
    """
    place = [HASH, KEY, ORDER]
    old = before.select(new.column_names)
    # Of a place that both have the two rows are neighbours, the old one first.
    both = pa.concat_tables([old, new]).append_column(_AT, pa.array(np.arange(len(old) + len(new))))
    both = both.sort_by([(name, "ascending") for name in (*place, _AT)])
    is_new = both.column(_AT).to_numpy() >= len(old)
    both = both.drop_columns([_AT])
    paired = np.zeros(len(both), np.bool_)
    if len(both) > 1:
        one, other = both.slice(0, len(both) - 1), both.slice(1)
        paired[1:] = alike(one.select(place), other.select(place))
    pairs = np.flatnonzero(paired)
    same = np.zeros(len(both), np.bool_)
    same[pairs] = alike(both.take(pa.array(pairs - 1)), both.take(pa.array(pairs)))
    replaced = np.zeros(len(both), np.bool_)
    replaced[pairs - 1] = True
    kept = both.filter(pa.array(is_new & ~same))
    gone = both.filter(pa.array(~is_new & ~replaced))
    return sort_rows(pa.concat_tables([kept, tombstones(gone)])) if len(gone) else kept


def _check_distinct(stage: StageSpec, rows: pa.Table) -> None:
    place = [HASH, KEY, ORDER]
    if len(rows) < 2:
        return
    again = alike(rows.slice(0, len(rows) - 1).select(place), rows.slice(1).select(place))
    if again.any():
        row = rows.drop_columns(place).slice(int(np.argmax(again)), 1).to_pylist()[0]
        reason = f"two rows of its state have one order in one group: {row!r:.200}"
        raise TranslationFailed(stage.name, "", reason)


def _rows_of(table: pa.Table, groups: Flags) -> pa.Table:
    """Return the rows of a table that are of some groups, by number."""
    if groups.all():
        return table
    return table.filter(pa.array(groups[table.column(GROUP).to_numpy()]))


def tombstones(rows: pa.Table) -> pa.Table:
    """Return rows that say of the same places that nothing is there."""
    columns = []
    for field in rows.schema:
        if field.name in (HASH, KEY, ORDER):
            columns.append(rows.column(field.name))
        elif field.name == DELETED:
            columns.append(pa.array(np.ones(len(rows), np.bool_)))
        else:
            columns.append(pa.nulls(len(rows), field.type))
    return pa.table(columns, schema=rows.schema)


def alike(one: pa.Table, other: pa.Table) -> Flags:
    """Return which rows of two tables of one length and schema are the same."""
    same = np.ones(len(one), np.bool_)
    for name in one.column_names:
        same &= _same(one.column(name), other.column(name))
    return same


def _same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> Flags:
    if pa.types.is_nested(one.type):
        # As text, by which -0.0 is not 0.0, and a value that is no number is itself.
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return np.fromiter((repr(a) == repr(b) for a, b in pairs), np.bool_, len(one))
    if pa.types.is_floating(one.type):
        one, other = (_bits(column) for column in (one, other))
    equal = pc.fill_null(pc.equal(one, other), False)  # noqa: FBT003 - as Arrow has it
    if one.null_count or other.null_count:
        equal = pc.or_(equal, pc.and_(pc.is_null(one), pc.is_null(other)))
    flags: Flags = equal.to_numpy().astype(np.bool_)
    return flags


def _bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return floats as integers of the same bits: what is stored has to be what was written."""
    kind = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[column.type.bit_width]
    return pa.chunked_array([chunk.view(kind) for chunk in column.chunks], kind)
