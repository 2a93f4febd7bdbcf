"""What a replay makes: update batches, parts of recorded ones, and increments of stages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from headgate.engine import ActionFlows, Produced
from headgate.events import RequestPart, UpdateBatch, written_batch
from headgate.replay.tables import UNKNOWN, Cell, Value


def written(
    table: str, request: RequestPart, observer: str, cells: Sequence[tuple[Cell, Value]]
) -> UpdateBatch:
    """Return what a request has written, as one batch.

    Args:
        table: of all cells.
        request: of as many cells.
        observer: who publishes it.
        cells: with what they hold now: None where they are gone, ``UNKNOWN`` where nobody knows.
    """
    shown = [(row, column, value) for (_, row, column), value in cells]
    batch = written_batch(table, request, shown, observer=observer)
    known = tuple(None if value is UNKNOWN else value for value in batch.values)
    return msgspec.structs.replace(batch, values=known)


def only(batch: UpdateBatch, kept: Iterable[bool]) -> UpdateBatch:
    """Return the batch with only the requests that are kept."""
    requests: list[RequestPart] = []
    cells: list[int] = []
    position = 0
    for request, keep in zip(batch.requests, kept, strict=True):
        if keep:
            requests.append(request)
            cells.extend(range(position, position + request.cells))
        position += request.cells
    return msgspec.structs.replace(
        batch,
        requests=tuple(requests),
        kinds=bytes(batch.kinds[i] for i in cells),
        rows=tuple(batch.rows[i] for i in cells),
        columns=tuple(batch.columns[i] for i in cells),
        timestamps=tuple(batch.timestamps[i] for i in cells),
        values=tuple(batch.values[i] for i in cells),
    )


def imagined_increments(stage: ActionFlows, run: str) -> tuple[Produced, ...]:
    """Return an increment for each output flow of a stage, as a run of it would make them.

    What is in them nobody has computed, and so their rows are not counted; with a framing of its
    own a stage may have made several, or none.
    """
    return tuple(Produced(flow, f"{run}#{flow}", None, 0) for flow in stage.outputs)
