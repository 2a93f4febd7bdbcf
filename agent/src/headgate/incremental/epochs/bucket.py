"""One bucket's part of an epoch: its state and what came for its groups, translated.

It is the same in the driver and in a task of Spark's: pieces of sorted increments in, rows out,
piece by piece, so that neither has to be in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headgate.incremental.epochs.rewriting import rewritten
from headgate.incremental.epochs.side_by_side import side_by_side
from headgate.incremental.stages.fusing import unit_outputs
from headgate.incremental.stages.grouping import (
    GroupKeys,
    group_numbers,
    keys_of,
    with_groups,
)
from headgate.incremental.stages.specification import (
    GROUP,
    STATE,
    Groups,
    Outer,
    Route,
    StageSpec,
    StateFlow,
)
from headgate.incremental.stages.translating import translated
from headgate.incremental.state.keys import key_bytes, key_values
from headgate.incremental.state.readers import BucketReader
from headgate.incremental.state.rows import HASH, KEY, ORDER, Match, sort_rows, state_schema

GROUPS_AT_ONCE: Final = 50_000
"""That one call of a translation is given at most: some tens of megabytes of usual rows."""

Increments = Mapping[str, pa.Table]
"""Routed rows by input flow, sorted by hash, key and order; all flows are there."""


class Piece(Struct, frozen=True, eq=False):
    """What some groups of a bucket have become."""

    state: pa.Table | None
    """Rows to store, sorted; None where a stage has no state."""
    remote: pa.Table | None
    """Rows for groups that were not translated here."""
    outputs: Mapping[str, pa.Table]
    groups: int


def translate_bucket(
    stage: StageSpec,
    reader: BucketReader | None,
    pieces: Iterable[Increments],
    everywhere: Increments,
    at_once: int = GROUPS_AT_ONCE,
    whole: frozenset[str] = frozenset(),
) -> Iterator[Piece]:
    """Yield what becomes of a bucket's groups, sorted by hash and key.

    Args:
        stage: that translates them.
        reader: of the bucket's state; None where the stage has none.
        pieces: of the increments, whole groups each, rising.
        everywhere: by flow, units that are of all groups.
        at_once: groups that are translated by one call at most.
        whole: input flows of which everything came.

    Raises:
        TranslationFailed: see ``translated``.
        DamagedState: a file of the state is not what it was.
    """
    work: Iterable[tuple[Increments, pa.Table | None]]
    if reads_all_state(stage, whole):
        assert reader is not None  # noqa: S101 - a stage with a state has one
        schema, flows = stored_schema(stage), tuple(stage.inputs)
        work = side_by_side(schema, reader.everything(), flows, pieces)
    else:
        work = ((part, None) for piece in pieces for part in parted(piece, at_once))
    for increments, stored in work:
        yield _translate(stage, reader, increments, stored, everywhere, whole)


def translate_units(stage: StageSpec, increments: Mapping[str, pa.Table]) -> Piece:
    """Return what becomes of units each of which is translated by itself.

    Args:
        stage: that translates them; it has no state.
        increments: units by input flow; all flows are there.

    Raises:
        TranslationFailed: see ``unit_outputs``.
    """
    return Piece(None, None, unit_outputs(stage, increments), sum(map(len, increments.values())))


def reads_all_state(stage: StageSpec, whole: frozenset[str]) -> bool:
    """Return whether an epoch is of all groups of the state, not of those only that came.

    Args:
        stage: that is translated.
        whole: input flows of which everything came: what is gone concerns groups that did not come.
    """
    return stage.state is not None and (stage.state.outer is Outer.FULL or bool(whole))


def parted(increments: Increments, at_once: int) -> Iterator[Increments]:
    """Yield increments in parts of so many groups at most."""
    groups = keys_of(list(increments.values()))
    if len(groups) <= at_once:
        yield increments
        return
    numbers = {flow: group_numbers(rows, groups) for flow, rows in increments.items()}
    for first in range(0, len(groups), at_once):
        bounds = [first, first + at_once]
        part = {}
        for flow, rows in increments.items():
            begin, end = np.searchsorted(numbers[flow], bounds).tolist()
            part[flow] = rows.slice(begin, end - begin)
        yield part


def _translate(
    stage: StageSpec,
    reader: BucketReader | None,
    increments: Increments,
    stored: pa.Table | None,
    everywhere: Increments,
    whole: frozenset[str],
) -> Piece:
    tables = [*increments.values(), *(() if stored is None else (stored,))]
    groups = keys_of(tables)
    if not len(groups):
        return Piece(None, None, {}, 0)  # a translation is never asked about nothing
    flows = {flow: _grouped(rows, groups) for flow, rows in increments.items()}
    state = stage.state
    before: pa.Table | None = None
    if state is not None:
        if stored is None:
            before = found_state(stage, reader, groups, increments)
        else:
            before = stored.append_column(GROUP, pa.array(group_numbers(stored, groups)))
        flows[STATE] = declared(before, state)
    asked = Groups(_values(stage, groups, increments), flows, everywhere, whole)
    made = translated(stage, groups.keys, asked)
    if state is None or made.state is None or before is None:
        return Piece(None, None, made.outputs, len(groups))
    change = rewritten(stage, state, groups, made.state, before)
    return Piece(change.local, change.remote, made.outputs, len(groups))


def declared(stored: pa.Table, state: StateFlow) -> pa.Table:
    """Return rows of state with the columns that a stage declares, and the numbers of groups.

    A column that is never null in it may be null where something is deleted, and so is stored.
    """
    declared = [*state.columns, stored.schema.field(GROUP)]
    columns = [stored.column(field.name) for field in declared]
    return pa.Table.from_arrays(columns, schema=pa.schema(declared))


def _grouped(rows: pa.Table, groups: GroupKeys) -> pa.Table:
    return with_groups(rows, group_numbers(rows, groups))


def found_state(
    stage: StageSpec, reader: BucketReader | None, groups: GroupKeys, increments: Increments
) -> pa.Table:
    """Return what a stage's state has of groups that have come, with the numbers of these.

    Args:
        stage: that has a state.
        reader: of the state.
        groups: whose rows are wanted.
        increments: of these groups, whose orders say which rows, where rows are matched.
    """
    assert reader is not None  # noqa: S101 - a stage with a state has one
    assert stage.state is not None  # noqa: S101 - asked before
    if stage.state.match is Match.GROUP:
        found = reader.find(groups.hashes, groups.keys)
        rows = pa.Table.from_batches([found.rows])
        return rows.append_column(GROUP, pa.array(found.group))
    place = [HASH, KEY, ORDER]
    whole = _asked_whole(stage.state, groups, increments)
    # What has no order is of the group itself, and there for each that comes.
    of_groups = pa.table(
        {
            HASH: groups.hashes,
            KEY: groups.keys,
            ORDER: pa.array([NO_ORDER] * len(groups), pa.binary()),
        }
    )
    wanted = pa.concat_tables([of_groups, *(rows.select(place) for rows in increments.values())])
    wanted = wanted.group_by(place).aggregate([]).sort_by([(name, "ascending") for name in place])
    found = reader.find(
        wanted.column(HASH).to_numpy(),
        wanted.column(KEY).combine_chunks(),
        wanted.column(ORDER).combine_chunks(),
    )
    rows = pa.Table.from_batches([found.rows])
    if whole.any():
        kept = pa.array(~whole[group_numbers(rows, groups)])
        at = np.flatnonzero(whole)
        every = reader.find(groups.hashes[at], groups.keys.take(pa.array(at))).rows
        rows = sort_rows(pa.concat_tables([rows.filter(kept), pa.Table.from_batches([every])]))
    return rows.append_column(GROUP, pa.array(group_numbers(rows, groups)))


def _asked_whole(
    state: StateFlow, groups: GroupKeys, increments: Increments
) -> npt.NDArray[np.bool_]:
    """Return of which groups a unit asks for all rows, shape (n,)."""
    whole = np.zeros(len(groups), np.bool_)
    if state.whole_order is not None:
        order = pa.scalar(key_bytes(state.whole_order), pa.binary())
        for rows in increments.values():
            asking = rows.filter(pc.equal(rows.column(ORDER), order))
            whole[group_numbers(asking, groups)] = True
    return whole


NO_ORDER: Final = key_bytes(None)
"""The order of a row that is of its group itself."""


def _values(stage: StageSpec, groups: GroupKeys, increments: Increments) -> pa.Array:
    """Return keys as the one column has them that routes; canonical where there is none."""
    routes = {flow: each.route_by for flow, each in stage.inputs.items()}
    columns = {by for by in routes.values() if by is not Route.ALL}
    if stage.translate_tables is None or not all(isinstance(by, str) for by in columns):
        return groups.keys
    came = {flow: rows for flow, rows in increments.items() if isinstance(routes[flow], str)}
    kinds = {rows.column(routes[flow]).type for flow, rows in came.items()}
    if len(kinds) != 1 or pa.types.is_floating(kind := kinds.pop()):
        # 0.0 and -0.0 are one key, and so are numbers of several types.
        return pa.array(key_values(groups.keys))
    # Decoding takes longer than all else that is done with a key, and these are there decoded.
    chunks = [chunk for flow, rows in came.items() for chunk in rows.column(routes[flow]).chunks]
    numbers = np.concatenate([group_numbers(rows, groups) for rows in came.values()])
    places = np.full(len(groups), -1)
    places[numbers] = np.arange(len(numbers))
    missing = np.flatnonzero(places < 0)
    if len(missing):
        decoded = key_values(groups.keys.take(pa.array(missing)))
        places[missing] = len(numbers) + np.arange(len(missing))
        chunks.append(pa.array(decoded, kind))
    # In one piece: taking from several joins them first.
    return pa.concat_arrays(chunks or [pa.array([], kind)]).take(pa.array(places))


def stored_schema(stage: StageSpec) -> pa.Schema:
    """Return the columns of a stage's state as it is stored.

    Raises:
        ValueError: the stage has no state.
    """
    if stage.state is None:
        message = f"stage `{stage.name}` has no state"
        raise ValueError(message)
    return state_schema(stage.state.columns)
