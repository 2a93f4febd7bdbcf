"""A call of a stage's translation: what it is given, and what its answer is taken for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

from headgate.incremental.stages.errors import TranslationFailed
from headgate.incremental.stages.grouping import starts
from headgate.incremental.stages.specification import GROUP, STATE, Adu, Groups, StageSpec
from headgate.incremental.state.keys import key_value, key_values

_KEY: Final = 200
"""Characters of a key in messages: one may have a megabyte."""


class Translated(Struct, frozen=True, eq=False):
    """What a translation has returned."""

    state: pa.Table | None
    """With the column ``_group``, rising, unless the state is routed; None where a stage has no
    state."""
    outputs: Mapping[str, pa.Table]
    """By output flow; all of them."""


def translated(stage: StageSpec, keys: pa.Array, groups: Groups) -> Translated:
    """Return what a stage makes of groups.

    Args:
        stage: to call.
        keys: canonical, of the groups, shape (n,).
        groups: what it is given.

    Raises:
        TranslationFailed: it raised, or returned what is not of its flows.
    """
    if stage.translate_tables is not None:
        return _by_tables(stage, keys, groups)
    return _by_groups(stage, keys, groups)


def _several(keys: pa.Array) -> str:
    """Return which groups were translated at once, of which one may be to blame."""
    if not len(keys) or keys[0].as_py() is None:
        return f"one of {len(keys)} groups"
    if len(keys) == 1:
        return f"group {_shown(key_value(keys[0].as_py()))}"
    first, last = (_shown(key_value(keys[at].as_py())) for at in (0, len(keys) - 1))
    return f"one of {len(keys)} groups, in the order of their hashes from {first} to {last}"


def _shown(key: object) -> str:
    """Return a key as people write it, if it is not too long for a message."""
    return f"{key!r:.{_KEY}}"


def _by_tables(stage: StageSpec, keys: pa.Array, groups: Groups) -> Translated:
    assert stage.translate_tables is not None  # noqa: S101 - asked before
    try:
        made = stage.translate_tables(groups)
    except Exception as error:
        reason = f"{_several(keys)}: {type(error).__name__}: {error}"
        raise TranslationFailed(stage.name, "", reason) from error
    _check_flows(stage, "", made)
    outputs = {
        flow: _as(stage, flow, made[flow], schema) if flow in made else schema.empty_table()
        for flow, schema in stage.outputs.items()
    }
    if stage.state is None:
        return Translated(None, outputs)
    columns = stage.state.columns
    if stage.state.route_by is None:
        columns = columns.append(pa.field(GROUP, pa.int64()))
    state = _as(stage, STATE, made[STATE], columns) if STATE in made else columns.empty_table()
    if stage.state.route_by is None:
        state = _by_number(stage, state, groups.count)
    return Translated(state, outputs)


def _by_number(stage: StageSpec, state: pa.Table, count: int) -> pa.Table:
    numbers = state.column(GROUP).to_numpy()
    if len(numbers) and (
        state.column(GROUP).null_count or not 0 <= numbers.min() <= numbers.max() < count
    ):
        reason = f"`{STATE}` has rows of groups that are none of the {count} it was given"
        raise TranslationFailed(stage.name, "", reason)
    if (np.diff(numbers) < 0).any():
        return state.take(pa.array(np.argsort(numbers, kind="stable")))
    return state


def _as(stage: StageSpec, flow: str, table: pa.Table, schema: pa.Schema) -> pa.Table:
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowException, KeyError, AttributeError) as error:
        reason = f"flow `{flow}` has to be {_words(schema)}, and is not: {error}"
        raise TranslationFailed(stage.name, "", reason) from error


def _by_groups(stage: StageSpec, keys: pa.Array, groups: Groups) -> Translated:
    assert stage.translate is not None  # noqa: S101 - one of both is there
    names = (*stage.inputs, *((STATE,) if stage.state is not None else ()))
    everywhere = {flow: table.to_pylist() for flow, table in groups.everywhere.items()}
    rows = {flow: groups.flows[flow].drop_columns([GROUP]).to_pylist() for flow in names}
    begins = {
        flow: starts(groups.flows[flow].column(GROUP).to_numpy(), groups.count).tolist()
        for flow in names
    }
    parts = [(flow, everywhere.get(flow, []), rows[flow], begins[flow]) for flow in names]
    made: dict[str, list[Adu]] = {flow: [] for flow in (*stage.outputs, STATE)}
    known = _flows(stage)
    ends: dict[str, list[int]] = {flow: [] for flow in made}
    decoded = [None] * len(keys) if keys.null_count else key_values(keys)
    for number, key_now in enumerate(decoded):
        given = {
            flow: [*of_all, *own[begin[number] : begin[number + 1]]]
            for flow, of_all, own, begin in parts
        }
        try:
            answer = stage.translate(key_now, given)
            if type(answer) is not dict or not answer.keys() <= known:  # nearly never
                _check_flows(stage, _shown(key_now), answer)
            for flow, found in answer.items():
                made[flow].extend(found)
        except TranslationFailed:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise TranslationFailed(stage.name, _shown(key_now), reason) from error
        for flow, found in made.items():
            ends[flow].append(len(found))

    def table(flow: str, schema: pa.Schema) -> pa.Table:
        return _table(stage, flow, made[flow], schema, _Whose(keys, ends[flow]))

    outputs = {flow: table(flow, schema) for flow, schema in stage.outputs.items()}
    if stage.state is None:
        return Translated(None, outputs)
    state = table(STATE, stage.state.columns)
    if stage.state.route_by is None:
        ended = np.array([0, *ends[STATE]], np.int64)
        numbers = np.repeat(np.arange(groups.count), ended[1:] - ended[:-1])
        state = state.append_column(GROUP, pa.array(numbers))
    return Translated(state, outputs)


def _check_flows(stage: StageSpec, key: str, answer: object) -> None:
    if not isinstance(answer, Mapping):
        reason = f"it returned {type(answer).__name__}, where a mapping of flows to rows is wanted"
        raise TranslationFailed(stage.name, key, reason)
    known = _flows(stage)
    for flow in answer:
        if flow not in known:
            names = ", ".join(f"`{name}`" for name in sorted(known)) or "none"
            reason = f"it returned rows of flow {flow!r}; its flows are {names}"
            raise TranslationFailed(stage.name, key, reason)


def _flows(stage: StageSpec) -> set[str]:
    """Return which flows a stage may write to."""
    return {*stage.outputs, *((STATE,) if stage.state is not None else ())}


class _Whose(Struct, frozen=True, eq=False):
    """Of which group a row is that a translation has returned."""

    keys: pa.Array
    ends: Sequence[int]
    """By group, how many rows there were after it."""

    def group(self, row: int) -> str:
        key = self.keys[bisect_right(self.ends, row)].as_py()
        return _shown(None if key is None else key_value(key))


def _table(
    stage: StageSpec, flow: str, rows: Sequence[Any], schema: pa.Schema, whose: _Whose
) -> pa.Table:
    names = set(schema.names)
    try:
        for number, row in enumerate(rows):
            if not row.keys() <= names:
                extra = ", ".join(sorted(map(str, row.keys() - names)))
                reason = f"flow `{flow}` has no column {extra}; it is {_words(schema)}"
                raise TranslationFailed(
                    stage.name, whose.group(number), f"{reason}; got {row!r:.200}"
                )
        return pa.Table.from_pylist(rows, schema)
    except (pa.ArrowException, AttributeError, TypeError, OverflowError) as error:
        number = _first_wrong(rows, schema)
        reason = f"flow `{flow}` has to be {_words(schema)}, and is not: {error}"
        raise TranslationFailed(
            stage.name, whose.group(number), f"{reason}; got {rows[number]!r:.200}"
        ) from error


def _first_wrong(rows: Sequence[Any], schema: pa.Schema) -> int:
    """Return the first row of which no table of the schema can be made."""
    for number, row in enumerate(rows):
        try:
            pa.Table.from_pylist([dict(row.items())], schema)
        except (pa.ArrowException, AttributeError, TypeError, ValueError, OverflowError):
            return number
    return len(rows) - 1


def _words(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
