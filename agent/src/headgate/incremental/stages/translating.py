"""A call of a stage's translation: what it is given, and what its answer is taken for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

from headgate.incremental.stages.errors import StageError, TranslationFailed
from headgate.incremental.stages.fitting import NOT_MADE, Misfit, fitted, made_of
from headgate.incremental.stages.grouping import starts
from headgate.incremental.stages.specification import GROUP, STATE, Adu, Groups, StageSpec
from headgate.incremental.stages.streams import FlowStream
from headgate.incremental.state.errors import StateError, UnwrittenFile
from headgate.incremental.state.keys import Key, key_value, key_values

_KEY: Final = 200
"""Characters of a key in messages: one may have a megabyte."""
_ENOUGH_ROWS: Final = 1 << 12
"""Rows, or batches, that a translation by streams yields of a flow before they go on."""
_ENOUGH_BYTES: Final = 1 << 20
"""Likewise, of batches: less would be written in too many steps."""
_END: Final = object()
"""Of what a translation yields."""


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
    """Return which groups were translated at once, of which one may be to blame; ends with `: `.

    Nothing of a unit that is alone: who has called for it names it.
    """
    if not len(keys) or keys[0].as_py() is None:
        return f"one of {len(keys)} units: " if len(keys) > 1 else ""
    if len(keys) == 1:
        return f"group {_shown(key_value(keys[0].as_py()))}: "
    first, last = (_shown(key_value(keys[at].as_py())) for at in (0, len(keys) - 1))
    return f"one of {len(keys)} groups, in the order of their hashes from {first} to {last}: "


def shown_key(key: bytes) -> str:
    """Return a canonical key as people write it, if it is not too long for a message."""
    return _shown(key_value(key))


def _shown(key: object) -> str:
    """Return a key as people write it, if it is not too long for a message."""
    return f"{key!r:.{_KEY}}"


def _by_tables(stage: StageSpec, keys: pa.Array, groups: Groups) -> Translated:
    assert stage.translate_tables is not None  # noqa: S101 - asked before
    try:
        made = stage.translate_tables(groups)
    except Exception as error:
        reason = f"{_several(keys)}{type(error).__name__}: {error}"
        raise TranslationFailed(stage.name, "", reason) from error
    _check_flows(stage, made, partial(TranslationFailed, stage.name, ""))
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


def _as(stage: StageSpec, flow: str, table: pa.Table, schema: pa.Schema, key: str = "") -> pa.Table:
    try:
        return fitted(table, schema)
    except (Misfit, pa.ArrowException, KeyError, AttributeError, TypeError) as error:
        reason = f"flow `{flow}` has to be {_words(schema)}, and is not: {error}"
        if isinstance(error, Misfit):
            [row] = table.slice(error.row, 1).to_pylist()
            reason += f"; in row {error.row}, {row!r:.200}"
        raise TranslationFailed(stage.name, key, reason) from error


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
    whose = _Whose(stage.name, keys, [(own, begin) for _, _, own, begin in parts])
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
                _check_flows(stage, answer, partial(whose.failed, number))
            for flow, found in answer.items():
                made[flow].extend(found)
        except TranslationFailed:
            raise
        except Exception as error:
            raise whose.failed(number, f"{type(error).__name__}: {error}") from error
        for flow, found in made.items():
            ends[flow].append(len(found))

    def table(flow: str, schema: pa.Schema) -> pa.Table:
        return _table(flow, made[flow], schema, partial(whose.failed_row, ends[flow]))

    outputs = {flow: table(flow, schema) for flow, schema in stage.outputs.items()}
    if stage.state is None:
        return Translated(None, outputs)
    state = table(STATE, stage.state.columns)
    if stage.state.route_by is None:
        ended = np.array([0, *ends[STATE]], np.int64)
        numbers = np.repeat(np.arange(groups.count), ended[1:] - ended[:-1])
        state = state.append_column(GROUP, pa.array(numbers))
    return Translated(state, outputs)


def _check_flows(
    stage: StageSpec, answer: object, failed: Callable[[str], TranslationFailed]
) -> None:
    if not isinstance(answer, Mapping):
        reason = f"it returned {type(answer).__name__}, where a mapping of flows to rows is wanted"
        raise failed(reason)
    known = _flows(stage)
    for flow in answer:
        if flow not in known:
            names = ", ".join(f"`{name}`" for name in sorted(known)) or "none"
            raise failed(f"it returned rows of flow {flow!r}; its flows are {names}")


def _flows(stage: StageSpec) -> set[str]:
    """Return which flows a stage may write to."""
    return {*stage.outputs, *((STATE,) if stage.state is not None else ())}


def streamed(
    stage: StageSpec, key: bytes, flows: Mapping[str, FlowStream]
) -> Iterator[tuple[str, pa.Table]]:
    """Yield by flow what a stage makes of one group, while it is made, some rows at a time.

    The streams are closed when this ends, in whatever way.

    Args:
        stage: to call.
        key: canonical, of the group.
        flows: what it is given.

    Raises:
        TranslationFailed: it raised, or yielded what is not of its flows.
        DamagedState: a file of the state is not what it was.
    """
    said = shown_key(key)
    schemas = dict(stage.outputs)
    if stage.state is not None:
        schemas[STATE] = stage.state.columns
    waiting = {flow: _Yielded(stage, flow, schema, said) for flow, schema in schemas.items()}
    try:
        with closing(_pairs(stage, said, key_value(key), flows)) as pairs:
            for flow, rows in pairs:
                if waiting[flow].add(rows):
                    yield flow, waiting[flow].taken()
        for flow, each in waiting.items():
            if each:
                yield flow, each.taken()
    finally:
        for stream in flows.values():
            stream.close()


def _pairs(
    stage: StageSpec, said: str, key: Key, flows: Mapping[str, FlowStream]
) -> Generator[tuple[str, pa.Table | Adu]]:
    """Yield what a translation yields, once it is known to be of its flows."""
    assert stage.translate_stream is not None  # noqa: S101 - asked before
    known = _flows(stage)
    with _blamed(stage, said):
        answer = stage.translate_stream(key, flows)
    if not isinstance(answer, Iterable):
        reason = f"it returned {type(answer).__name__}, where a generator of pairs is wanted"
        raise TranslationFailed(stage.name, said, reason)
    with ExitStack() as ending:
        if isinstance(answer, Generator):
            ending.enter_context(closing(answer))
        made = iter(answer)
        while True:
            with _blamed(stage, said):
                pair = next(made, _END)
            match pair:
                case _ if pair is _END:
                    return
                case (flow, pa.RecordBatch() as rows) if flow in known:
                    yield flow, pa.Table.from_batches([rows])
                case (flow, (pa.Table() | dict()) as rows) if flow in known:
                    yield flow, rows
                case _:
                    names = ", ".join(f"`{name}`" for name in sorted(known)) or "none"
                    reason = (
                        f"it yielded {pair!r:.200}, where the name of a flow ({names}) and a row, "
                        "a record batch or a table of it are wanted"
                    )
                    raise TranslationFailed(stage.name, said, reason)


@contextmanager
def _blamed(stage: StageSpec, said: str) -> Iterator[None]:
    """Have a translation's own errors name its group; what it was given may fail by itself."""
    try:
        yield
    except (TranslationFailed, StageError, StateError, UnwrittenFile):
        raise
    except Exception as error:
        raise TranslationFailed(stage.name, said, f"{type(error).__name__}: {error}") from error


class _Yielded:
    """Rows of one flow that a translation has yielded, until they are enough to be written.

    Args:
        stage: whose translation it is.
        flow: that they are of.
        schema: of the flow.
        said: the key of the group, for errors.
    """

    def __init__(self, stage: StageSpec, flow: str, schema: pa.Schema, said: str) -> None:
        self._stage = stage
        self._flow = flow
        self._schema = schema
        self._said = said
        self._tables: list[pa.Table] = []
        self._rows: list[Adu] = []
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._tables or self._rows)

    def add(self, rows: pa.Table | Adu) -> bool:
        """Add rows, and return whether it is time to take all of them."""
        if isinstance(rows, dict):
            self._rows.append(rows)
            return len(self._rows) >= _ENOUGH_ROWS
        self._end_rows()
        self._keep(_as(self._stage, self._flow, rows, self._schema, self._said))
        return self._size >= _ENOUGH_BYTES or len(self._tables) >= _ENOUGH_ROWS

    def taken(self) -> pa.Table:
        """Return and forget the rows."""
        self._end_rows()
        found = pa.concat_tables(self._tables)
        self._tables, self._size = [], 0
        return found

    def _end_rows(self) -> None:
        if self._rows:
            self._keep(_table(self._flow, self._rows, self._schema, self._failed))
            self._rows = []

    def _failed(self, _row: int, reason: str) -> TranslationFailed:
        return TranslationFailed(self._stage.name, self._said, reason)

    def _keep(self, table: pa.Table) -> None:
        self._tables.append(table)
        self._size += table.nbytes


class _Whose(Struct, frozen=True, eq=False):
    """Whom errors name: a group or, where each unit is one by itself, the unit."""

    stage: str
    keys: pa.Array
    """Of the groups."""
    flows: Sequence[tuple[Sequence[Adu], Sequence[int]]]
    """The rows of each flow, and by group where its own begin."""

    def failed(self, group: int, reason: str) -> TranslationFailed:
        """Return the error of a group, by number."""
        key = self.keys[group].as_py()
        if key is not None:
            return TranslationFailed(self.stage, shown_key(key), reason)
        [unit] = [row for rows, at in self.flows for row in rows[at[group] : at[group + 1]]]
        return TranslationFailed(self.stage, "", f"{unit_words(unit)}: {reason}")

    def failed_row(self, ends: Sequence[int], row: int, reason: str) -> TranslationFailed:
        """Return the error of the group that has returned a row.

        Args:
            ends: by group, how many rows of the flow there were after it.
            row: its place among all of them.
            reason: what is wrong.
        """
        return self.failed(bisect_right(ends, row), reason)


def unit_words(unit: Adu) -> str:
    """Return a unit as people write it, if it is not too long for a message."""
    return f"unit {unit!r:.{_KEY}}"


def _table(
    flow: str,
    rows: Sequence[Any],
    schema: pa.Schema,
    failed: Callable[[int, str], TranslationFailed],
) -> pa.Table:
    names = set(schema.names)
    try:
        for number, row in enumerate(rows):
            if not row.keys() <= names:
                extra = ", ".join(sorted(map(str, row.keys() - names)))
                reason = f"flow `{flow}` has no column {extra}; it is {_words(schema)}"
                raise failed(number, f"{reason}; got {row!r:.200}")
        columns = []
        column = ""
        for field in schema:
            column = field.name
            columns.append(made_of([row.get(column) for row in rows], field.type))
        column = ""
        return pa.Table.from_arrays(columns, schema=schema)
    except NOT_MADE as error:
        number = error.row if isinstance(error, Misfit) else _first_wrong(rows, schema)
        where = f", in column `{column}`" if column else ""
        reason = f"flow `{flow}` has to be {_words(schema)}, and is not: {error}{where}"
        raise failed(number, f"{reason}; got {rows[number]!r:.200}") from error


def _first_wrong(rows: Sequence[Any], schema: pa.Schema) -> int:
    """Return the first row of which no table of the schema can be made."""
    for number, row in enumerate(rows):
        try:
            pa.Table.from_pylist([dict(row.items())], schema)
        except NOT_MADE:
            return number
    return len(rows) - 1


def _words(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
