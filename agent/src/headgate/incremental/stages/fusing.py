"""Stages by unit, alone and as parts of others (paper: sections 2.2 and 4.4.1, figure 7).

Such a stage needs no groups: fused with a neighbour its units are translated where they are, in the
same pass, before they are routed or before what was made of them is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from headgate.incremental.stages.errors import TranslationFailed
from headgate.incremental.stages.grouping import units
from headgate.incremental.stages.specification import Adu, Fused, Groups, StageSpec
from headgate.incremental.stages.translating import translated, unit_words


def entering(stage: StageSpec, flow: str, came: pa.Table) -> pa.Table:
    """Return the units of an input flow as they are routed.

    Args:
        stage: whose flow it is.
        flow: its name.
        came: what has come of it.

    Raises:
        TranslationFailed: a stage that is fused with the flow raised, or returned what is not of
            its flows; names that one and the unit.
    """
    return _passed(stage, f"before input flow `{flow}`", stage.before.get(flow, ()), came)


def entering_columns(stage: StageSpec, flow: str, came: pa.Schema) -> pa.Schema:
    """Return the columns of an input flow as they are routed, of those that come."""
    return stage.before[flow][-1].columns if stage.before.get(flow) else came


def leaving(stage: StageSpec, flow: str, made: pa.Table) -> pa.Table:
    """Return the rows of an output flow as others read them.

    Args:
        stage: whose flow it is.
        flow: its name.
        made: what its translation has made of it.

    Raises:
        TranslationFailed: see ``entering``.
    """
    return _passed(stage, f"after output flow `{flow}`", stage.after.get(flow, ()), made)


def _passed(stage: StageSpec, place: str, through: Sequence[Fused], rows: pa.Table) -> pa.Table:
    for fused in through:
        own = fused.stage
        [source] = own.inputs
        try:
            rows = leaving(own, fused.flow, unit_outputs(own, {source: rows})[fused.flow])
        except TranslationFailed as error:
            raise TranslationFailed(stage.name, "", f"{place}: {error}") from error
    return rows


def unit_outputs(stage: StageSpec, increments: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
    """Return, by output flow, what a stage makes of units each of which is translated by itself.

    Args:
        stage: that translates them; it has no state.
        increments: units by input flow, as they come; all flows are there.

    Raises:
        TranslationFailed: see ``translated``; names the unit.
    """
    entered = {flow: entering(stage, flow, rows) for flow, rows in increments.items()}
    try:
        return _translated(stage, entered)
    except TranslationFailed as error:
        found = None if stage.translate_tables is None else _one_that_fails(stage, entered)
        if found is None:
            raise
        unit, reason = found
        raise TranslationFailed(stage.name, "", f"{unit_words(unit)}: {reason}") from error


def _translated(stage: StageSpec, increments: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
    count = sum(map(len, increments.values()))
    if not count:  # a translation is never asked about nothing
        return {flow: columns.empty_table() for flow, columns in stage.outputs.items()}
    keys = pa.nulls(count, pa.binary())
    nobody = {flow: rows.slice(0, 0) for flow, rows in increments.items()}
    return translated(stage, keys, Groups(keys, units(increments), nobody)).outputs


def _one_that_fails(stage: StageSpec, increments: Mapping[str, pa.Table]) -> tuple[Adu, str] | None:
    """Return a unit of which a translation by tables fails, and why, found by halves.

    None where it fails of no unit by itself.
    """
    nothing = {flow: rows.slice(0, 0) for flow, rows in increments.items()}

    def reason(flow: str, rows: pa.Table) -> str | None:
        try:
            _translated(stage, {**nothing, flow: rows})
        except TranslationFailed as error:
            return error.reason
        return None

    for flow, rows in increments.items():
        why = reason(flow, rows)
        while why is not None and len(rows) > 1:
            half = len(rows) // 2
            for part in (rows.slice(0, half), rows.slice(half)):
                if (why := reason(flow, part)) is not None:
                    rows = part
                    break
        if why is not None:
            return rows.to_pylist()[0], why
    return None
