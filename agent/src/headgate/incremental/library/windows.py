"""Windows over frames, as flows of differences (paper: section 2.6).

A frame is a number that each row has, such as the day of a timestamp, and by which increments are
framed. A window puts out rows that come into it with the weight 1, and those that leave it with -1:
any stage of the library that follows it is of the window.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headgate.incremental.library.rows import (
    CHANGES,
    WEIGHT,
    checked,
    consolidated,
    negated,
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
    Outer,
    Route,
    StateFlow,
    Types,
    schema_of,
)

FRAME: Final = "frame"
"""The column of rows and of parameters that has the number of a frame, int64."""


class _Window(Struct, frozen=True, eq=False):
    columns: pa.Schema
    source: str
    parameter: str
    frames: int
    """That the window begins before the frame after the parameter's."""
    weight: str | None


@checked
def sliding(
    columns: Types,
    by: str | tuple[str, ...],
    frames: int,
    *,
    source: str = "source",
    newest: str = "newest",
    weight: str | None = None,
    name: str = "sliding",
) -> Stage:
    """Return the stage of a window over the newest frames; its state is their rows.

    Each epoch reads the window, since rows leave it of which nothing comes, and writes what
    changes.

    Flows:
        source: columns, ``frame``, and the weight where rows are also deleted. Rows that are older
            than the window are dropped. Where an increment is whole, all other rows are gone.
        newest: ``frame``: the number of the newest frame, the highest where several come; of all
            groups. Where none comes nothing leaves the window.
        changes: columns, ``frame``, ``weight``.

    Args:
        columns: of the rows, without the frame.
        by: columns by which the state is spread; nothing that is put out depends on it.
        frames: how many the window has.
        source: the flow of rows.
        newest: the flow of the parameter.
        weight: column of the weight; None: each row is an insertion.
        name: of the stage.

    Raises:
        StageError: the window has no frame, or a column is named ``frame``.
    """
    if frames < 1:
        message = f"stage `{name}`: a window of {frames} frames has no rows; give one at least"
        raise StageError(message)
    return _window(name, by, _Window(schema_of(columns), source, newest, frames, weight))


@checked
def hopping(
    columns: Types,
    by: str | tuple[str, ...],
    *,
    source: str = "source",
    newest: str = "newest",
    weight: str | None = None,
    name: str = "hopping",
) -> Stage:
    """Return the stage of a window that is the newest frame, and hops to the next.

    It is ``sliding`` over one frame, with the same flows and arguments.

    Raises:
        StageError: a column is named ``frame``.
    """
    return sliding(columns, by, 1, source=source, newest=newest, weight=weight, name=name)


@checked
def landmark(
    columns: Types,
    by: str | tuple[str, ...],
    *,
    source: str = "source",
    landmark: str = "landmark",
    weight: str | None = None,
    name: str = "landmark",
) -> Stage:
    """Return the stage of a window over all frames from a landmark on; its state is their rows.

    Each epoch reads the window, see ``sliding``. Where the landmark never moves the window is the
    flow itself, and needs no stage.

    Flows:
        source: as that of ``sliding``.
        landmark: ``frame``: the first one of the window from now on.
        changes: columns, ``frame``, ``weight``.

    Args:
        columns: of the rows, without the frame.
        by: columns by which the state is spread.
        source: the flow of rows.
        landmark: the flow of the parameter.
        weight: column of the weight; None: each row is an insertion.
        name: of the stage.

    Raises:
        StageError: a column is named ``frame``.
    """
    return _window(name, by, _Window(schema_of(columns), source, landmark, 1, weight))


def _window(name: str, by: str | tuple[str, ...], spec: _Window) -> Stage:
    if FRAME in spec.columns.names:
        message = f"stage `{name}`: `{FRAME}` is there by itself; leave it out of the columns"
        raise StageError(message)
    rows = with_weight(spec.columns.append(pa.field(FRAME, pa.int64())))
    return Stage(
        name,
        inputs={
            spec.source: InputFlow((by,) if isinstance(by, str) else by),
            spec.parameter: InputFlow(Route.ALL),
        },
        outputs={CHANGES: rows},
        translate_tables=partial(_slide, spec=spec),
        state=StateFlow(rows, outer=Outer.FULL),
    )


def _slide(groups: Groups, *, spec: _Window) -> dict[str, pa.Table]:
    columns = spec.columns.append(pa.field(FRAME, pa.int64()))
    came = rows_of(groups, spec.source, columns, spec.weight)
    before = groups.flows[STATE].select(came.column_names)
    after = consolidated(came) if spec.source in groups.whole else consolidated(before, came)
    frames = groups.everywhere[spec.parameter].column(FRAME).cast(pa.int64())
    if frames.null_count < len(frames):
        first = pc.max(frames).as_py() - spec.frames + 1
        after = after.filter(pc.greater_equal(after.column(FRAME), first))
    changes = consolidated(after, negated(before)).drop_columns([GROUP])
    return {STATE: after, CHANGES: changes.select([*columns.names, WEIGHT])}
