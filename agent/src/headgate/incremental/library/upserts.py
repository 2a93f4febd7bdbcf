"""From upserts and operations to differences: the last row of each key (paper: section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.incremental.library.rows import (
    CHANGES,
    Flags,
    Held,
    changed,
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

_ROW: Final = ("row", "column")


class Operation(StrEnum):
    """What becomes of a row of a relation (paper: section 3.3)."""

    INSERT = "insert"
    """It is there from now on, in place of another one of its key."""
    MODIFY = "modify"
    """The row of its key is now this one; where there is none, it is inserted."""
    DELETE = "delete"
    """The row of its key is gone; where there is none, nothing is done."""


def differences(
    source: str = "source",
    *,
    value: str | pa.DataType = "binary",
    order_by: str | None = None,
    name: str = "differences",
) -> Stage:
    """Return the stage that makes differences of a container's updates.

    Updates are upserts of cells, and may repeat. The last value of each cell, which is a row and a
    column, is the state. Each cell is a group by itself: an increment looks up and writes the cells
    that came, and none of their rows' others.

    Flows:
        source: a container's increments: row string, column string, value, deleted bool. Where an
            increment is whole, cells that do not come in it are gone.
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
    """
    key = pa.schema([(column, pa.string()) for column in _ROW])
    values = schema_of({"value": value})
    translate = partial(_last, source=source, key=key, values=values, gone=_is_deleted)
    return _keyed(name, source, pa.schema([*key, *values]), key, order_by, translate)


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
) -> Stage:
    return Stage(
        name,
        inputs={source: InputFlow(tuple(key.names), order_by=order_by)},
        outputs={CHANGES: with_weight(columns)},
        translate_tables=translate,
        state=StateFlow(pa.schema([field for field in columns if field.name not in key.names])),
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
