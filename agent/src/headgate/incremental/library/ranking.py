"""The first rows of each key (paper: section 2.4, top-k with k as a parameter flow)."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headgate.incremental.library.rows import (
    CHANGES,
    WEIGHT,
    Numbers,
    checked,
    consolidated,
    negated,
    numbers_of,
    positive,
    rows_of,
    weights_of,
    with_weight,
)
from headgate.incremental.stage import Stage
from headgate.incremental.stages.errors import StageError
from headgate.incremental.stages.specification import (
    GROUP,
    STATE,
    Groups,
    InputFlow,
    Outer,
    Route,
    StateFlow,
    Types,
    schema_of,
)

_K: Final = "k"


class _Ranking(Struct, frozen=True, eq=False):
    columns: pa.Schema
    score: str
    k: int
    source: str
    parameter: str | None
    weight: str | None


@checked
def top_k(
    by: str | tuple[str, ...],
    score: str,
    k: int,
    *,
    columns: Types,
    source: str = "source",
    parameter: str | None = None,
    outer: Outer = Outer.RIGHT,
    weight: str | None = WEIGHT,
    name: str = "top_k",
) -> Stage:
    """Return the stage that keeps the k rows of each key that have the highest scores.

    Of equal scores the row comes first that is lower in its other columns, from the first column
    on; NaN and then null come last. A row of weight n takes n of the k places. The state is all
    rows of a key, since one of the first may be deleted, and the k that was last used for it.

    With a parameter flow k may change (paper: section 2.4). An epoch uses the k that comes in it,
    the largest where several do. Where none comes, a key keeps the k that it had, and a new one has
    the argument ``k``: let the flow be read but not removed, as a table to look things up in
    (``runnable: {lookup: k}``), so that each epoch has it. A k that comes when there is no key
    waits, and counts with those of the first epoch that has one: the largest is used. A new k holds
    for a key when something of that key comes; with ``Outer.FULL`` it holds for all keys at once,
    and each epoch reads all of the state.

    Flows:
        source: columns, and the weight. Where an increment is whole, all other rows are gone.
        parameter: ``k`` int64, of all groups.
        changes: columns, and ``weight``: 1 for each place that a row has gained, -1 for each that
            it has lost.

    Args:
        by: columns of the key; ``()``: all rows are of one.
        score: column by which rows are sorted.
        k: used for keys for which none came.
        columns: of the flow.
        source: the input flow's name.
        parameter: the parameter flow's name; None: k is always the same.
        outer: whether a new k is used for keys of which nothing comes.
        weight: column of the weight; None: each row is one.
        name: of the stage.

    Raises:
        StageError: the score or the key is no column, or k is negative.
    """
    schema = schema_of(columns)
    keys = (by,) if isinstance(by, str) else by
    unknown = [one for one in (score, *keys) if one not in schema.names]
    if unknown:
        message = (
            f"stage `{name}`: {', '.join(unknown)} is none of its columns {', '.join(schema.names)}"
        )
        raise StageError(message)
    if k < 0:
        message = f"stage `{name}`: {k} rows cannot be kept; give k from 0 on"
        raise StageError(message)
    inputs = {source: InputFlow(keys)}
    if parameter is not None:
        inputs[parameter] = InputFlow(Route.ALL)
    spec = _Ranking(schema, score, k, source, parameter, weight)
    state = pa.schema([*with_weight(schema), pa.field(_K, pa.int64())])
    if len(set(state.names)) != len(state):
        message = f"stage `{name}`: a column cannot be named `{_K}`; rename it"
        raise StageError(message)
    return Stage(
        name,
        inputs=inputs,
        outputs={CHANGES: with_weight(schema)},
        translate_tables=partial(_rank, spec=spec),
        state=StateFlow(state, outer=outer),
    )


def _rank(groups: Groups, *, spec: _Ranking) -> dict[str, pa.Table]:
    stored = groups.flows[STATE]
    came = rows_of(groups, spec.source, spec.columns, spec.weight)
    before = stored.select(came.column_names)
    after = consolidated(came) if spec.source in groups.whole else consolidated(before, came)
    k_before = np.full(groups.count, spec.k)
    k_before[numbers_of(stored)] = stored.column(_K).to_numpy()
    new = _parameter(groups, spec.parameter)
    k_after = k_before if new is None else np.full(groups.count, new)
    first = _first(after, k_after, spec.score)
    was = _first(before, k_before, spec.score)
    state = after.append_column(_K, pa.array(k_after[numbers_of(after)]))
    changes = consolidated(first, negated(was)).drop_columns([GROUP])
    return {STATE: state, CHANGES: changes}


def _parameter(groups: Groups, flow: str | None) -> int | None:
    """Return the k of this epoch, if one has come."""
    if flow is None or not len(groups.everywhere[flow]):
        return None
    values = groups.everywhere[flow].column(_K).cast(pa.int64())
    if values.null_count or pc.min(values).as_py() < 0:
        message = f"flow `{flow}` has a {_K} that is null or below 0; give numbers from 0 on"
        raise ValueError(message)
    return int(pc.max(values).as_py())


def _first(rows: pa.Table, k: Numbers, score: str) -> pa.Table:
    """Return the first rows of each group, with the weights that have places."""
    rows = positive(rows)
    others = [one for one in rows.column_names if one not in (GROUP, WEIGHT, score)]
    keys = [(GROUP, "ascending"), (score, "descending"), *((one, "ascending") for one in others)]
    rows = rows.take(pc.sort_indices(rows, sort_keys=keys))
    numbers, weights = numbers_of(rows), weights_of(rows)
    before = np.cumsum(weights) - weights
    begins = np.flatnonzero(np.append(True, np.diff(numbers) != 0)[: len(numbers)])
    within = before - np.repeat(before[begins], np.diff(np.append(begins, len(numbers))))
    places = np.clip(k[numbers] - within, 0, weights)
    at = rows.column_names.index(WEIGHT)
    rows = rows.set_column(at, rows.schema.field(at), pa.array(places))
    return rows.filter(pa.array(places > 0))
