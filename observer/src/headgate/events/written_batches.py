"""Batches of one request that puts and deletes cells, for testers and replays."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.events.codec import VERSION
from headgate.events.dated import SERVER_TIME
from headgate.events.updates import RequestPart, UpdateBatch, UpdateKind

WrittenCells = Sequence[tuple[bytes, bytes, bytes | None]]
"""Row, column (``family:qualifier``) and value of each cell; a value of None deletes the cell."""


def written_batch(
    table: str,
    request: RequestPart,
    cells: WrittenCells,
    *,
    observer: str,
    sequence: int = 0,
) -> UpdateBatch:
    """Return the batch that an observer would publish of a request, at the server's time.

    Args:
        table: the table of all cells.
        request: the request; it has as many cells.
        cells: what it puts and deletes.
        observer: the observer's name.
        sequence: the batch's number in its partition.
    """
    return UpdateBatch(
        version=VERSION,
        observer=observer,
        epoch=1,
        sequence=sequence,
        watermark=request.intent,
        table=table,
        requests=(request,),
        kinds=bytes(
            UpdateKind.DELETE_COLUMN if value is None else UpdateKind.PUT for _, _, value in cells
        ),
        rows=tuple(row for row, _, _ in cells),
        columns=tuple(column for _, column, _ in cells),
        timestamps=(SERVER_TIME,) * len(cells),
        values=tuple(value for _, _, value in cells),
    )
