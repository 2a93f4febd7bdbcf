"""What a translation by streams is given of one flow: its rows of a group, however many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from headgate.incremental.stages.errors import StageError

_ROWS_AT_ONCE: Final = 1 << 10
"""Rows that are Python's at a time: a dictionary takes some ten times what a row does."""


class FlowStream(Iterator[pa.RecordBatch]):
    """The rows that one group has of one flow, as record batches sorted by order: read once.

    Each flow of a group is read by itself: several can be read in turn, and none has to be read to
    its end. All end with the group's translation.

    Args:
        place: the stage and the flow, for errors.
        schema: of the rows.
        batches: of the rows, each of some megabytes at most.
    """

    def __init__(self, place: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        self.schema = schema
        """Of the rows, of which there may be none."""
        self._place = place
        self._batches = iter(batches)
        self._closed = False

    def __next__(self) -> pa.RecordBatch:
        """Return the next rows.

        Raises:
            StageError: the translation of the group has ended.
        """
        if self._closed:
            message = (
                f"{self._place} was read after the translation of its group had ended; a stream "
                "is of one group: keep what is needed of its rows, not the stream"
            )
            raise StageError(message)
        return next(self._batches)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows that are left, as dictionaries."""
        for batch in self:
            for first in range(0, batch.num_rows, _ROWS_AT_ONCE):
                yield from batch.slice(first, _ROWS_AT_ONCE).to_pylist()

    def close(self) -> None:
        """End the stream: nothing of it is kept, and whoever reads on is told so."""
        self._closed = True
        self._batches = iter(())
