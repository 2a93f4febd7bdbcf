"""All of a bucket's state beside what has come for it, in parts that fit into memory.

It is what an epoch of all groups reads (full outer joins, and increments that are everything there
is): either side may be far larger than the other, as in the first epoch of a stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from headgate.incremental.state.rows import HASH


def side_by_side(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    flows: Sequence[str],
    pieces: Iterable[Mapping[str, pa.Table]],
) -> Iterator[tuple[dict[str, pa.Table], pa.Table]]:
    """Yield increments and state by hash, rising; each hash is in one part.

    A part has no more than one batch and one piece, and the rows of a hash that goes on.

    Args:
        schema: of the state's rows.
        batches: of the state, by rising hash.
        flows: names of the input flows.
        pieces: of the increments, by rising hash: no two of them have one in common.
    """
    state, came = _State(schema, iter(batches)), _Came(flows, iter(pieces))
    while True:
        ends = [end for end in (state.end(), came.end()) if end is not None]
        last = min(ends, default=None)
        yield came.up_to(last), state.up_to(last)
        if last is None:
            return


class _State:
    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rows = schema.empty_table()
        self._ended = False

    def end(self) -> int | None:
        """Return up to which hash all rows are here; None where all of them are."""
        while not self._ended:
            hashes = self._rows.column(HASH).to_numpy()
            # The rows of the last hash may go on in the next batch.
            complete = int(np.searchsorted(hashes, hashes[-1])) if len(hashes) else 0
            if complete:
                return int(hashes[complete - 1])
            batch = next(self._batches, None)
            if batch is None:
                self._ended = True
            else:
                self._rows = pa.concat_tables([self._rows, pa.Table.from_batches([batch])])
        return None

    def up_to(self, last: int | None) -> pa.Table:
        """Return and forget the rows of hashes up to one; all where it is None."""
        end = _place(self._rows, last)
        found, self._rows = self._rows.slice(0, end), self._rows.slice(end)
        return found


class _Came:
    def __init__(self, flows: Sequence[str], pieces: Iterator[Mapping[str, pa.Table]]) -> None:
        self._flows = flows
        self._pieces = pieces
        self._rows: dict[str, pa.Table] = {}
        self._ended = False

    def end(self) -> int | None:
        """Return up to which hash all rows are here; None where all of them are."""
        while not self._ended:
            highest = [rows.column(HASH)[-1].as_py() for rows in self._rows.values() if len(rows)]
            if highest:
                return int(max(highest))
            piece = next(self._pieces, None)
            if piece is None:
                self._ended = True
            else:
                self._rows = {flow: piece[flow] for flow in self._flows}
        return None

    def up_to(self, last: int | None) -> dict[str, pa.Table]:
        """Return and forget the rows of hashes up to one; all where it is None."""
        found = {}
        for flow, rows in self._rows.items():
            end = _place(rows, last)
            found[flow], self._rows[flow] = rows.slice(0, end), rows.slice(end)
        return found


def _place(rows: pa.Table, last: int | None) -> int:
    if last is None:
        return len(rows)
    place = 0
    # Chunk by chunk: of a table that is larger than memory no column is ever there as a whole.
    for chunk in rows.column(HASH).chunks:
        found = int(np.searchsorted(chunk.to_numpy(), last, "right"))
        place += found
        if found < len(chunk):
            break
    return place
