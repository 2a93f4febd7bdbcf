"""Framing: which rows of an output flow make one increment of it (paper: section 2.6).

The paper has each consumer frame what it reads, and emulates it in the stage before, as the keys
have to be known when increments are queued (section 4.4). Here they are said there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headgate.engine import FramingKey
from headgate.events import is_unicode
from headgate.incremental.stages.errors import StageError

Framing: TypeAlias = "str | Callable[[dict[str, object]], FramingKey]"
"""A column, or a function of a row; whole numbers, text, and columns of days are keys."""

_WIDEST = 1 << 63


def frames_of(
    stage: str, flow: str, rows: pa.Table, framing: Framing
) -> list[tuple[FramingKey, pa.Table]]:
    """Return rows by framing key, smallest first, in their order within each.

    Raises:
        StageError: a key is none, or numbers and text are keys of one flow.
    """
    if not len(rows):
        return []
    if isinstance(framing, str):
        keys = _column(stage, flow, rows, framing)
    else:
        keys = pa.array(_computed(stage, flow, rows, framing))
    encoded = keys.dictionary_encode()
    numbers = encoded.indices.to_numpy()
    found: list[FramingKey] = encoded.dictionary.to_pylist()
    order = sorted(range(len(found)), key=found.__getitem__)
    return [(found[number], rows.filter(pa.array(numbers == number))) for number in order]


def _column(stage: str, flow: str, rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name).combine_chunks()
    if column.null_count:
        row = rows.filter(pc.is_null(rows.column(name))).slice(0, 1).to_pylist()[0]
        raise _no_key(stage, flow, None, row)
    if pa.types.is_date(column.type):
        return pc.strftime(column, format="%Y-%m-%d")
    return column


def _computed(
    stage: str, flow: str, rows: pa.Table, framing: Callable[[dict[str, object]], FramingKey]
) -> list[FramingKey]:
    keys: list[FramingKey] = []
    for row in rows.to_pylist():
        key = framing(row)
        whole = isinstance(key, int) and not isinstance(key, bool) and -_WIDEST <= key < _WIDEST
        if not (whole or (isinstance(key, str) and is_unicode(key))):
            raise _no_key(stage, flow, key, row)
        keys.append(key)
    if len({isinstance(key, str) for key in keys}) > 1:
        message = (
            f"framing of flow `{flow}` of stage `{stage}` gave numbers and text in one run, such "
            f"as {keys[0]!r} of the first row; keys of a flow are compared, so give one of both"
        )
        raise StageError(message)
    return keys


def _no_key(stage: str, flow: str, key: object, row: dict[str, object]) -> StageError:
    message = (
        f"framing of flow `{flow}` of stage `{stage}`: {key!r} is no key, of the row {row!r:.200}; "
        "give a whole number of 64 bits, or Unicode text"
    )
    return StageError(message)


def check_framing(stage: str, flow: str, schema: pa.Schema, framing: Framing) -> None:
    """Raise unless a flow can be framed so.

    Raises:
        StageError: the column is not there, or of another type than keys are.
    """
    if not isinstance(framing, str):
        return
    if framing not in schema.names:
        message = (
            f"stage `{stage}` frames flow `{flow}` by `{framing}`, which is none of its columns "
            f"{', '.join(schema.names)}"
        )
        raise StageError(message)
    kind = schema.field(framing).type
    types = pa.types
    if not (
        (types.is_integer(kind) and kind != pa.uint64())
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_date(kind)
    ):
        message = (
            f"stage `{stage}` frames flow `{flow}` by `{framing}`, which is {kind}; keys are whole "
            "numbers of 64 bits, text or days; frame it by a function that makes one of them"
        )
        raise StageError(message)
