"""From an increment to rows with the canonical keys of their groups (paper: section 2.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from msgspec import Struct

from headgate.incremental.stages.errors import StageError, TranslationFailed
from headgate.incremental.stages.specification import (
    Adu,
    Computed,
    InputFlow,
    Keys,
    OrderBy,
    Route,
    RouteBy,
)
from headgate.incremental.state.errors import UnusableKey
from headgate.incremental.state.hashing import hashes
from headgate.incremental.state.keys import Key, key_bytes, key_column
from headgate.incremental.state.rows import HASH, KEY, ORDER


class RoutedRows(Struct, frozen=True, eq=False):
    """The units of an increment, each once for every group to which it goes."""

    rows: pa.Table
    """With hash, key and order, in the order in which they came."""
    everywhere: pa.Table
    """Those that go to all groups, without these columns."""


def routed(stage: str, name: str, flow: InputFlow, increment: pa.Table) -> RoutedRows:
    """Return an increment's units by group.

    Args:
        stage: its name, for errors.
        name: of the flow.
        flow: how it is routed and ordered.
        increment: its units.

    Raises:
        StageError: a column by which units are routed or ordered is not there.
        TranslationFailed: a function that routes or orders raised, or gave what is no key.
    """
    place = f"input flow `{name}`"
    hidden = [column for column in increment.column_names if column in (HASH, KEY, ORDER)]
    if hidden:
        message = f"stage `{stage}`, {place}: {hidden[0]} is headgate's own; rename the column"
        raise StageError(message)
    rows, keys, everywhere = _keys(stage, place, flow.route_by, increment)
    orders = orders_of(stage, place, flow.order_by, rows)
    return RoutedRows(with_keys(rows, keys, orders), everywhere)


def with_keys(rows: pa.Table, keys: pa.Array, orders: pa.Array) -> pa.Table:
    """Return rows with the canonical keys and orders of each, and the hashes of the keys."""
    for name, column in ((HASH, pa.array(hashes(keys))), (KEY, keys), (ORDER, orders)):
        rows = rows.append_column(name, column)
    return rows


def _keys(
    stage: str, place: str, route_by: RouteBy, increment: pa.Table
) -> tuple[pa.Table, pa.Array, pa.Table]:
    nothing = increment.slice(0, 0)
    match route_by:
        case Route.NONE:
            return nothing, pa.array([], pa.binary()), nothing
        case Route.ALL:
            return nothing, pa.array([], pa.binary()), increment
        case Route.EACH:
            message = (
                f"stage `{stage}`, {place}: it has a group for each unit, so nothing routes it"
            )
            raise StageError(message)
        case str() | tuple():
            return increment, columns_key(stage, place, route_by, increment), nothing
        case Computed():
            return increment, _computed_key(stage, place, route_by, increment), nothing
    return _by_function(stage, place, route_by, increment)


def columns_key(stage: str, place: str, columns: str | tuple[str, ...], rows: pa.Table) -> pa.Array:
    """Return the canonical keys of rows that columns make.

    Raises:
        StageError: there is no such column, or a value of it is no key.
    """
    names = (columns,) if isinstance(columns, str) else columns
    missing = [name for name in names if name not in rows.column_names]
    if missing:
        message = (
            f"stage `{stage}`, {place}: there is no column {', '.join(missing)}; it has "
            f"{', '.join(rows.column_names) or 'none'}"
        )
        raise StageError(message)
    if not names:
        return pa.repeat(pa.scalar(key_bytes(()), pa.binary()), rows.num_rows)
    try:
        return key_column([rows.column(name) for name in names])
    except UnusableKey as error:
        message = f"stage `{stage}`, {place}: {error}"
        raise StageError(message) from error


def _computed_key(stage: str, place: str, route_by: Computed, rows: pa.Table) -> pa.Array:
    try:
        keys = key_column(route_by.columns(rows))
    except Exception as error:
        reason = f"{place}: {type(error).__name__}: {error}"
        raise TranslationFailed(stage, "", reason) from error
    if len(keys) != rows.num_rows:
        reason = f"{place}: {len(keys)} keys were computed of {rows.num_rows} units"
        raise TranslationFailed(stage, "", reason)
    return keys


def orders_of(stage: str, place: str, order_by: OrderBy, rows: pa.Table) -> pa.Array:
    """Return the canonical orders of rows; empty bytes where they have none.

    Raises:
        StageError: there is no such column.
        TranslationFailed: a function raised, or gave what is no key.
    """
    if order_by is None:
        return pa.repeat(pa.scalar(b"", pa.binary()), rows.num_rows)
    if isinstance(order_by, str | tuple):
        return columns_key(stage, place, order_by, rows)
    return keys_by(stage, place, order_by, rows)


def keys_by(stage: str, place: str, function: Callable[[Adu], Key], rows: pa.Table) -> pa.Array:
    """Return the canonical keys that a function gives of rows.

    Raises:
        TranslationFailed: it raised, or gave what is no key.
    """
    found = []
    for row in rows.to_pylist():
        key = _asked(stage, place, function, row)
        found.append(_bytes(stage, place, key, row))
    return pa.array(found, pa.binary())


def _by_function(
    stage: str, place: str, function: Callable[[Adu], Key | Keys | Route], increment: pa.Table
) -> tuple[pa.Table, pa.Array, pa.Table]:
    at: list[int] = []
    keys: list[bytes] = []
    everywhere: list[int] = []
    for number, row in enumerate(increment.to_pylist()):
        key = _asked(stage, place, function, row)
        match key:
            case Route.NONE:
                continue
            case Route.ALL:
                everywhere.append(number)
            case Route.EACH:
                message = "a group for each unit is of a whole flow, not of one unit"
                raise TranslationFailed(stage, "", f"{place}: {message}; got it for {row!r:.200}")
            case Keys(keys=several):
                # A set: a unit is in a group once, however often it names the group.
                distinct = dict.fromkeys(_bytes(stage, place, one, row) for one in several)
                at.extend([number] * len(distinct))
                keys.extend(distinct)
            case _:
                at.append(number)
                keys.append(_bytes(stage, place, key, row))
    taken = increment.take(pa.array(at, pa.int64()))
    return taken, pa.array(keys, pa.binary()), increment.take(pa.array(everywhere, pa.int64()))


def _asked(stage: str, place: str, function: Callable[[Adu], object], row: Adu) -> Any:
    try:
        return function(row)
    except Exception as error:
        reason = f"{place}: {type(error).__name__}: {error}; for {row!r:.200}"
        raise TranslationFailed(stage, "", reason) from error


def _bytes(stage: str, place: str, key: Any, row: Adu) -> bytes:
    try:
        return key_bytes(key)
    except UnusableKey as error:
        raise TranslationFailed(stage, "", f"{place}: {error}; for {row!r:.200}") from error
