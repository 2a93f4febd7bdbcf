"""From upserts and operations to differences: the last row of each key (paper: section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headgate.events import REST_OF_ROW, KeyForm
from headgate.incremental.library.rows import (
    CHANGES,
    Flags,
    Held,
    Numbers,
    changed,
    checked,
    key_columns,
    numbers_of,
    with_weight,
)
from headgate.incremental.stage import Stage
from headgate.incremental.stages.errors import StageError
from headgate.incremental.stages.specification import (
    GROUP,
    STATE,
    Groups,
    InputFlow,
    StateFlow,
    Types,
    schema_of,
)
from headgate.incremental.state.keys import key_column
from headgate.incremental.state.rows import Match

_ROW: Final = "row"
_COLUMN: Final = "column"
_CELL: Final = (_ROW, _COLUMN)


class Operation(StrEnum):
    """What becomes of a row of a relation (paper: section 3.3)."""

    INSERT = "insert"
    """It is there from now on, in place of another one of its key."""
    MODIFY = "modify"
    """The row of its key is now this one; where there is none, it is inserted."""
    DELETE = "delete"
    """The row of its key is gone; where there is none, nothing is done."""


@checked
def differences(
    source: str = "source",
    *,
    value: str | pa.DataType = "binary",
    order_by: str | None = None,
    name: str = "differences",
    keys: KeyForm | str = KeyForm.TEXT,
) -> Stage:
    """Return the stage that makes differences of a container's updates.

    Updates are upserts of cells, and may repeat. The last value of each cell, which is a row and a
    column, is the state. An increment looks up and writes the cells that came, and none of their
    rows' others, unless the row itself is gone: then all that the state has of it is gone.

    Flows:
        source: a container's increments: row string, column string, value, deleted bool. Where an
            increment is whole, cells that do not come in it are gone. A deleted unit with an empty
            column stands for all cells of its row that do not come with it.
        changes: row string, column string, value, weight: -1 with the old value of a cell, 1 with
            the new one; nothing of a cell whose value is the same, bit by bit. A deleted cell gives
            -1 only.

    Args:
        source: the flow's name, which is that of the container.
        value: type of the values.
        order_by: column by which the last of several updates of one cell in one increment is known,
            such as a timestamp; None: increments have a cell once, as those of containers do, or
            are small enough for the driver, which keeps their order.
        name: of the stage.
        keys: ``binary`` where the container has ``keys: binary``: then row and column are binary.

    Raises:
        StageError: ``keys`` is neither ``text`` nor ``binary``.
    """
    kind = _kind_of(name, keys)
    key = pa.schema([(column, kind) for column in _CELL])
    values = schema_of({"value": value})
    columns = pa.schema([*key, *values])
    translate = partial(_last, source=source, key=key, values=values, gone=_is_deleted_cell)
    by_row = Stage(
        name,
        # Rows of the state are looked up by the columns that come: it is these that order units.
        inputs={source: InputFlow(_ROW, order_by=_COLUMN)},
        outputs={CHANGES: with_weight(columns)},
        translate_tables=partial(
            _last_of_cells, source=source, key=key, values=values, order_by=order_by
        ),
        state=StateFlow(
            pa.schema([key.field(_COLUMN), *values]),
            order_by=_COLUMN,
            match=Match.ROW,
            whole_order=REST_OF_ROW.decode() if kind == pa.string() else REST_OF_ROW,
        ),
    )
    return _keyed(name, source, columns, key, order_by, translate, over_open=by_row)


def _kind_of(name: str, keys: KeyForm | str) -> pa.DataType:
    try:
        return pa.binary() if KeyForm(keys) is KeyForm.BINARY else pa.string()
    except ValueError as error:
        message = f"stage `{name}`: `keys` is {keys!r}; it is {' or '.join(KeyForm)}"
        raise StageError(message) from error


@checked
def relation(
    columns: Types,
    key: str | Sequence[str],
    *,
    source: str = "operations",
    order_by: str | None = None,
    name: str = "relation",
) -> Stage:
    """Return the stage that keeps a relation with a key, and puts out its differences.

    Its output is what views are maintained by, such as those of ``join`` and ``aggregate`` (paper:
    section 3.3, one flow of rows with markers of what becomes of them). The state is the relation.

    Flows:
        source: the columns, and ``operation``, one of ``insert``, ``modify`` and ``delete``; of a
            row to delete only the key counts. Where an increment is whole, rows whose keys do not
            come in it are gone.
        changes: the columns and ``weight``: -1 with the row that was of a key, 1 with that which
            now is.

    Args:
        columns: of the relation.
        key: the columns of which no two rows have the same values.
        source: the flow's name.
        order_by: column by which the last of several operations on one key in one increment is
            known; see ``differences``.
        name: of the stage.

    Raises:
        StageError: a key is no column, or all columns are of the key.
    """
    schema = schema_of(columns)
    keys = (key,) if isinstance(key, str) else tuple(key)
    unknown = [one for one in keys if one not in schema.names]
    if unknown or not keys:
        message = (
            f"stage `{name}`: its key {', '.join(unknown) or '()'} is none of the columns "
            f"{', '.join(schema.names)}"
        )
        raise StageError(message)
    if set(keys) == set(schema.names):
        message = (
            f"stage `{name}`: all of its columns are of the key, so that nothing of a row can be "
            "modified; say by `distinct` which rows there are, or give it another column"
        )
        raise StageError(message)
    key_schema = pa.schema([schema.field(one) for one in keys])
    values = pa.schema([field for field in schema if field.name not in keys])
    translate = partial(_last, source=source, key=key_schema, values=values, gone=_is_delete)
    return _keyed(name, source, schema, key_schema, order_by, translate)


def _keyed(
    name: str,
    source: str,
    columns: pa.Schema,
    key: pa.Schema,
    order_by: str | None,
    translate: Callable[[Groups], dict[str, pa.Table]],
    over_open: Stage | None = None,
) -> Stage:
    return Stage(
        name,
        inputs={source: InputFlow(tuple(key.names), order_by=order_by)},
        outputs={CHANGES: with_weight(columns)},
        translate_tables=translate,
        state=StateFlow(pa.schema([field for field in columns if field.name not in key.names])),
        over_open=over_open,
    )


def _last(
    groups: Groups,
    *,
    source: str,
    key: pa.Schema,
    values: pa.Schema,
    gone: Callable[[pa.Table], Flags],
) -> dict[str, pa.Table]:
    came, state = groups.flows[source], groups.flows[STATE]
    rows = came.select([GROUP, *values.names]).cast(
        pa.schema([pa.field(GROUP, pa.int64()), *values])
    )
    before = Held.last_of(state.select(rows.column_names), groups.count)
    last = Held.last_of(rows, groups.count)
    deleted = np.zeros(groups.count, np.bool_)
    # Of several the last one counts, as it does for the rows themselves.
    deleted[numbers_of(came)] = gone(came)
    if groups.whole:
        after = Held(last.rows, last.there & ~deleted)
    else:
        kept = before.where(before.there & ~last.there)
        new = last.where(last.there & ~deleted)
        after = Held.last_of(pa.concat_tables([kept, new]), groups.count)
    keys = key_columns(groups, key, [came])
    return {STATE: after.where(after.there), CHANGES: changed(keys, before, after)}


def _last_of_cells(
    groups: Groups, *, source: str, key: pa.Schema, values: pa.Schema, order_by: str | None
) -> dict[str, pa.Table]:
    """Return what becomes of rows, whose cells are told apart by their columns."""
    came, state = groups.flows[source], groups.flows[STATE]
    if order_by is not None and len(came):
        # Units come by column; what came last of a column is known by another one.
        orders = pa.table({"order": key_column([came.column(order_by)])})
        came = came.take(pc.sort_indices(orders, [("order", "ascending")]))
    came = came.select([GROUP, _COLUMN, *values.names, "deleted"]).cast(
        pa.schema(
            [
                pa.field(GROUP, pa.int64()),
                key.field(_COLUMN),
                *values,
                pa.field("deleted", pa.bool_()),
            ]
        )
    )
    state = state.select([GROUP, _COLUMN, *values.names])
    rest = pc.equal(
        came.column(_COLUMN), pa.scalar(REST_OF_ROW, pa.binary()).cast(key.field(_COLUMN).type)
    )
    gone = np.zeros(groups.count, np.bool_)
    gone[numbers_of(came.filter(rest))] = True
    came = came.filter(pc.invert(rest))
    cells = _Cells.of(state, came)
    before = Held.last_of(
        cells.numbered(state.drop_columns([_COLUMN]), cells.of_state), cells.count
    )
    last = Held.last_of(
        cells.numbered(came.select([GROUP, *values.names]), cells.of_came), cells.count
    )
    deleted = np.zeros(cells.count, np.bool_)
    deleted[cells.of_came] = _is_deleted(came)
    if groups.whole:
        after = Held(last.rows, last.there & ~deleted)
    else:
        kept = before.where(before.there & ~last.there & ~gone[cells.groups])
        after = Held.last_of(
            pa.concat_tables([kept, last.where(last.there & ~deleted)]), cells.count
        )
    rows = groups.keys.cast(key.field(_ROW).type).take(pa.array(cells.groups))
    places = pa.table([rows, cells.columns], schema=key)
    stored = after.where(after.there)
    at = numbers_of(stored)
    stored = stored.drop_columns([GROUP])
    stored = stored.append_column(_COLUMN, cells.columns.take(pa.array(at)))
    stored = stored.append_column(GROUP, pa.array(cells.groups[at]))
    return {STATE: stored, CHANGES: changed(places, before, after)}


class _Cells(Struct, frozen=True, eq=False):
    """The cells of some groups, each once: numbered by group and column."""

    groups: Numbers
    """The group of each cell, rising, shape (n,)."""
    columns: pa.Array
    """Its column, shape (n,)."""
    of_state: Numbers
    """The cell of each row of the state."""
    of_came: Numbers
    """The cell of each unit."""

    @staticmethod
    def of(state: pa.Table, came: pa.Table) -> _Cells:
        """Return the cells of state and units."""
        named = pa.chunked_array(
            [*state.column(_COLUMN).chunks, *came.column(_COLUMN).chunks], came.column(_COLUMN).type
        )
        names = named.combine_chunks().dictionary_encode()
        numbers = np.concatenate([numbers_of(state), numbers_of(came)])
        width = max(1, len(names.dictionary))
        places = numbers * width + names.indices.to_numpy().astype(np.int64)
        distinct, cells = np.unique(places, return_inverse=True)
        columns = names.dictionary.take(pa.array(distinct % width))
        return _Cells(distinct // width, columns, cells[: len(state)], cells[len(state) :])

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.groups)

    def numbered(self, rows: pa.Table, cells: Numbers) -> pa.Table:
        """Return rows with the numbers of cells instead of those of groups."""
        return rows.set_column(rows.column_names.index(GROUP), GROUP, pa.array(cells))


def _is_deleted_cell(rows: pa.Table) -> Flags:
    """Return which units are deleted cells.

    Raises:
        ValueError: one is a deleted row, whose cells nobody names.
    """
    flags = _is_deleted(rows)
    columns = rows.column(_COLUMN)
    if pc.any(pc.equal(columns, pa.scalar(REST_OF_ROW, pa.binary()).cast(columns.type))).as_py():
        message = (
            "a delete of a whole row came by a flow that is no container with undeclared columns; "
            "read the container itself"
        )
        raise ValueError(message)
    return flags


def _is_deleted(rows: pa.Table) -> Flags:
    flags: Flags = rows.column("deleted").to_numpy().astype(np.bool_)
    return flags


def _is_delete(rows: pa.Table) -> Flags:
    operations = rows.column("operation").cast(pa.string())
    known = pc.fill_null(pc.is_in(operations, pa.array(list(Operation))), False)  # noqa: FBT003
    if not known.to_numpy().all():
        wrong = operations.filter(pc.invert(known))[0].as_py()
        message = f"{wrong!r} is no operation; give {', '.join(Operation)}"
        raise ValueError(message)
    flags: Flags = pc.equal(operations, Operation.DELETE).to_numpy().astype(np.bool_)
    return flags
