"""Rows that wait on the disk: of groups that are larger than memory, until they are read.

What is written is read as mapped pages, which the kernel takes back when it needs room. A file has
no name from the beginning, so nothing is left of it, however its process ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from headgate.incremental.state.batches import PORTION_ROWS, portions
from headgate.incremental.state.errors import UnwrittenFile
from headgate.incremental.state.rows import HASH, KEY, ORDER, hash_array, sort_rows

_SPARK_FOLDERS: Final = "SPARK_LOCAL_DIRS"
"""Where Spark tells its workers which folders are for what spills."""
_FEWEST: Final = 64
"""Rows of a part that are merged at a time, however many parts there are."""

_Place = tuple[int, bytes, bytes]


def spill_folder() -> str:
    """Return the folder for what does not fit into memory: Spark's first, or that of the system."""
    return os.environ.get(_SPARK_FOLDERS, "").split(",")[0] or tempfile.gettempdir()


class Spill:
    """Batches of one schema in a file without a name.

    Args:
        schema: of the batches.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._folder = spill_folder()
        try:
            # Closed once it is mapped, or with the last that knows it.
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
            self._writer = ipc.new_stream(self._file, schema)
        except OSError as error:
            raise self._unwritten(error) from error

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch.

        Raises:
            UnwrittenFile: there is no room.
        """
        try:
            self._writer.write_batch(batch)
        except OSError as error:
            raise self._unwritten(error) from error

    def batches(self) -> list[pa.RecordBatch]:
        """End the writing, and return the batches as they were written, mapped.

        Raises:
            UnwrittenFile: there is no room.
        """
        try:
            with self._file as file:
                self._writer.close()
                file.flush()
                # The mapping stays as long as any of the batches does.
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise self._unwritten(error) from error
        return list(ipc.open_stream(pa.py_buffer(mapped)))

    def _unwritten(self, error: OSError) -> UnwrittenFile:
        message = (
            f"rows of groups that are larger than memory could not be written to {self._folder} "
            f"({error}): make room there, or name another folder by spark.local.dir or TMPDIR"
        )
        return UnwrittenFile(message)


def spilled(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return batches as a table that is on the disk.

    Raises:
        UnwrittenFile: there is no room.
    """
    spill = Spill(schema)
    for batch in batches:
        spill.write(batch)
    return pa.Table.from_batches(spill.batches(), schema)


def sorted_rows(parts: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Return the rows of sorted parts, sorted by hash, key and order, on the disk.

    Args:
        parts: each sorted; in memory is a portion of all of them together.
        schema: of the rows.

    Raises:
        UnwrittenFile: there is no room.
    """
    return spilled(schema, portions(_merged(parts)))


def _merged(parts: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    left = [part for part in parts if part.num_rows]
    while left:
        quota = max(PORTION_ROWS // len(left), _FEWEST)
        heads = [part.slice(0, quota) for part in left]
        # Up to the lowest of their ends all rows are among the heads.
        cut = min(_place(head, head.num_rows - 1) for head in heads)
        counts = [_up_to(head, cut) for head in heads]
        taken = [head.slice(0, count) for head, count in zip(heads, counts, strict=True) if count]
        yield from sort_rows(pa.Table.from_batches(taken)).to_batches()
        left = [
            part.slice(count)
            for part, count in zip(left, counts, strict=True)
            if count < part.num_rows
        ]


def _place(rows: pa.RecordBatch, at: int) -> _Place:
    hash_, key, order = (rows.column(name)[at].as_py() for name in (HASH, KEY, ORDER))
    return hash_, key, order


def _up_to(rows: pa.RecordBatch, cut: _Place) -> int:
    """Return how many of sorted rows are not after a place."""
    hashes = hash_array(rows)
    first = int(np.searchsorted(hashes, cut[0], "left"))
    end = int(np.searchsorted(hashes, cut[0], "right"))
    return bisect_right(range(end), cut, lo=first, key=lambda at: _place(rows, at))


class SpilledParts:
    """Sorted parts of several flows, on the disk until all of them are there.

    Args:
        schemas: of the rows, by flow.
    """

    def __init__(self, schemas: Mapping[str, pa.Schema]) -> None:
        self._schemas = schemas
        self._spills: dict[str, Spill] = {}

    def write(self, flow: str, part: pa.RecordBatch) -> None:
        """Add a part of a flow.

        Raises:
            UnwrittenFile: there is no room.
        """
        if flow not in self._spills:
            self._spills[flow] = Spill(self._schemas[flow])
        self._spills[flow].write(part)

    def tables(self) -> dict[str, pa.Table]:
        """Return all rows by flow, sorted, on the disk.

        Raises:
            UnwrittenFile: there is no room.
        """
        found = {flow: schema.empty_table() for flow, schema in self._schemas.items()}
        for flow, spill in self._spills.items():
            found[flow] = sorted_rows(spill.batches(), self._schemas[flow])
        return found
