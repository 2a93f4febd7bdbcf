"""Weighted rows as upserts of a container: what others of the library make, in a table."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headgate.incremental.library.rows import (
    WEIGHT,
    Flags,
    Held,
    by_group,
    checked,
    consolidated,
    identical,
    key_columns,
    numbers_of,
    positive,
    rows_of,
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
from headgate.incremental.state.keys import key_value

UPSERTS: Final = "upserts"
"""The output flow of upserts, unless it is named as the container."""
_ROW: Final = "row"


class _Upserts(Struct, frozen=True, eq=False):
    columns: pa.Schema
    by: tuple[str, ...]
    separator: str
    source: str
    out: str
    weight: str | None

    @property
    def key(self) -> pa.Schema:
        """The columns of the key."""
        return pa.schema([self.columns.field(name) for name in self.by])

    @property
    def values(self) -> pa.Schema:
        """The columns that are written."""
        return pa.schema([field for field in self.columns if field.name not in self.by])


@checked
def to_container(
    by: str | tuple[str, ...],
    columns: Types,
    *,
    separator: str = "/",
    source: str = "source",
    out: str = UPSERTS,
    weight: str | None = WEIGHT,
    name: str = "to_container",
) -> Stage:
    """Return the stage that keeps a container as weighted rows are: one of its rows for each key.

    Stages of the library say what has come (weight 1) and what has gone (-1). Of each key one row
    may be there after an epoch; the last one is written, and where there is none any more its cells
    are deleted. Choose columns that tell rows apart: with ``top_k`` the key of the rows, and not
    that of the group alone. The state is the row of each key.

    Flows:
        source: columns, and the weight. Where an increment is whole, keys that do not come in it
            are gone.
        upserts: ``row``, and the columns that are not of the key, of each key whose row is another:
            null in all of these where nothing is left of it. Written to a container a null deletes
            the cell.

    Args:
        by: columns of the key, which make the container's row: that of one column as it is (text of
            a key, bytes, or a whole number), of several the texts in a row.
        columns: of the flow: the key's, and one at least that is written.
        separator: stands between the texts of several columns; none of them but the last may have
            it, or two keys could be one row.
        source: the input flow's name.
        out: the output flow's name, such as that of the container.
        weight: column of the weight; None: each row is one.
        name: of the stage.

    Raises:
        StageError: the key is no column, or of a type that no row has; nothing is left to write; or
            ``separator`` is empty and the key has several columns.
    """
    keys = (by,) if isinstance(by, str) else tuple(by)
    spec = _Upserts(schema_of(columns), keys, separator, source, out, weight)
    _check(name, spec)
    row = pa.field(_ROW, spec.key.field(0).type if len(keys) == 1 else pa.string())
    return Stage(
        name,
        inputs={source: InputFlow(keys)},
        outputs={out: pa.schema([row, *spec.values])},
        translate_tables=partial(_upserted, spec=spec),
        state=StateFlow(with_weight(spec.values)),
    )


def _check(name: str, spec: _Upserts) -> None:
    unknown = [one for one in spec.by if one not in spec.columns.names]
    if unknown or not spec.by:
        told = ", ".join(unknown) or "nothing"
        message = (
            f"stage `{name}`: {told} is none of its columns {', '.join(spec.columns.names)}; name "
            "those that make the row"
        )
        raise StageError(message)
    if not spec.values.names:
        message = f"stage `{name}`: all its columns are of the row; give one that is written"
        raise StageError(message)
    if _ROW in spec.values.names:
        message = f"stage `{name}`: `{_ROW}` is the row's key in a container; rename the column"
        raise StageError(message)
    several = len(spec.by) > 1
    for field in spec.key:
        kind = field.type
        texts = pa.types.is_string(kind) or pa.types.is_integer(kind)
        if not texts and (several or not pa.types.is_binary(kind)):
            possible = "text or whole numbers" if several else "text, bytes or whole numbers"
            message = (
                f"stage `{name}`: column `{field.name}` of the row is {kind}; rows are made of "
                f"{possible}: cast it before"
            )
            raise StageError(message)
    if several and not spec.separator:
        message = f"stage `{name}`: `separator` is empty, so that two keys could be one row"
        raise StageError(message)


def _upserted(groups: Groups, *, spec: _Upserts) -> dict[str, pa.Table]:
    values = spec.values
    all_came = rows_of(groups, spec.source, spec.columns, spec.weight)
    came = all_came.select([GROUP, *values.names, WEIGHT])
    before = groups.flows[STATE].select(came.column_names)
    after = consolidated(came) if spec.source in groups.whole else consolidated(before, came)
    was, now = (_held(groups, spec, rows) for rows in (before, after))
    same = was.there & now.there & identical(was.rows, now.rows)
    differs = (was.there | now.there) & ~same
    at = pa.array(np.flatnonzero(differs))
    keys = key_columns(groups, spec.key, [all_came]).take(at)
    # Nothing is taken of groups of which nothing is left: their values are null.
    places = pa.array(np.flatnonzero(differs), mask=~now.there[differs])
    written = now.rows.select(values.names).take(places)
    rows = pa.table([_rows(keys, spec), *written.columns], [_ROW, *values.names])
    return {STATE: by_group(after), spec.out: rows}


def _held(groups: Groups, spec: _Upserts, rows: pa.Table) -> Held:
    """Return the row of each group that is there, of which there may be one."""
    there = positive(rows)
    counts = np.zeros(groups.count, np.int64)
    np.add.at(counts, numbers_of(there), 1)
    if (counts > 1).any():
        number = int(np.flatnonzero(counts > 1)[0])
        key = key_value(groups.keys[number].as_py())
        message = (
            f"flow `{spec.source}` has {counts[number]} rows of the key {key!r}, and a container "
            f"one: add columns to `by` ({', '.join(spec.by)}) that tell them apart"
        )
        raise ValueError(message)
    return Held.last_of(by_group(there), groups.count)


def _rows(keys: pa.Table, spec: _Upserts) -> Any:
    """Return the keys of the container's rows."""
    columns = [column.combine_chunks() for column in keys.columns]
    for name, column in zip(spec.by, columns, strict=True):
        if column.null_count:
            message = f"flow `{spec.source}`: `{name}` is null, and a container has no such row"
            raise ValueError(message)
    if len(columns) == 1:
        return columns[0]
    texts = [column.cast(pa.string()) for column in columns]
    for name, column in zip(spec.by[:-1], texts[:-1], strict=True):
        wrong: Flags = pc.match_substring(column, spec.separator).to_numpy(zero_copy_only=False)
        if wrong.any():
            value = column[int(np.flatnonzero(wrong)[0])].as_py()
            message = (
                f"flow `{spec.source}`: `{name}` is {value!r}, which has the separator "
                f"{spec.separator!r}: two keys could be one row; choose another `separator`"
            )
            raise ValueError(message)
    return pc.binary_join_element_wise(*texts, spec.separator)
